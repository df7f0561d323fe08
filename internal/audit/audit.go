// Package audit proves the books. It reads one snapshot of a store, row by row, recomputes
// what every balance, expiry and history must be, and reports every difference.
//
// It shares no query and no rule with the code that wrote the rows: otherwise a mistake in
// that code would pass the audit, too. It writes nothing, repairs nothing, and takes the
// time as a parameter.
//
// Rows of tables that belong together are read side by side, in the order of an index.
// Memory is bounded by the number of operators, keys, logins, plan versions and open
// operations, and does not grow with the number of settled ones.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// generation is the newest schema that this audit can read. A store that needs a newer
// binary is refused.
const generation = 3

// maxViolations bounds the violations that are listed. The rest is counted.
const maxViolations = 100_000

// Tolerances when timestamps are compared.
const (
	// clockSlackMS is how far the clocks of two nodes may differ.
	clockSlackMS = 2_000
	// queueSlackMS is how long a write may wait between its timestamp and its commit, so
	// that another one can overtake it.
	queueSlackMS = 10_000
)

// Violation is one violated invariant.
type Violation struct {
	// Invariant is the id, one of Invariants.
	Invariant string `json:"invariant"`
	// Subject is where: an operator, an operation, a subscriber, a key.
	Subject string `json:"subject"`
	// Detail is what was found and what was expected.
	Detail string `json:"detail"`
}

func (v Violation) String() string { return v.Invariant + " " + v.Subject + ": " + v.Detail }

// Report is the result of an audit.
type Report struct {
	OK     bool   `json:"ok"`
	Counts Counts `json:"counts"`
	// ActionsHead is the hash of the last staff action, in hex. Stored elsewhere, it also
	// shows when the end of the chain was removed, which the chain alone cannot.
	ActionsHead string `json:"acts_head"`
	// Head is the end of the chains of staff actions and of digests.
	Head Head `json:"head"`
	// Compared is how many exported heads the store was compared with.
	Compared int `json:"heads_compared,omitempty"`
	// Skipped is what could not be checked, and why.
	Skipped    []string    `json:"skipped"`
	Violations []Violation `json:"violations"`
	// LeftOut is how many further violations were found and not listed.
	LeftOut int64 `json:"violations_left_out,omitempty"`
}

// Settings is what an audit cannot read from the rows. Its zero value assumes the widest
// settings of a service.
type Settings struct {
	// LongestWait is the longest time between two checks of an operation in review, or of a
	// missing add-on.
	LongestWait time.Duration
	// Rest is called every few rows, for an audit that must not slow others down; may be
	// nil.
	Rest func(context.Context)
	// Keys verify MACs; nil if the master key is not available, for the reason NoKeys.
	Keys   *Keys
	NoKeys string
	// Heads were exported earlier, and must still be in the store.
	Heads []Head
}

// Run audits a snapshot of a store with unknown settings.
func Run(ctx context.Context, snapshot Snapshot, now time.Time, progress func(what string, rows int64)) (Report, error) {
	return Settings{}.Run(ctx, snapshot, now, progress)
}

// Run audits a snapshot of a store. now is the time of the snapshot: it tells a stuck
// operation from one that is under way. progress, which may be nil, receives the table that
// is being read and the number of rows so far.
//
// An error means that the audit could not be done; violations are in the report.
func (s Settings) Run(ctx context.Context, snapshot Snapshot, now time.Time, progress func(what string, rows int64)) (Report, error) {
	a := &auditor{
		ctx: ctx, snapshot: snapshot, now: now.UnixMilli(), progress: progress, rest: s.Rest,
		longestWait:  cmp.Or(s.LongestWait, defaultLongestWait).Milliseconds(),
		plans:        map[string][]planVersion{},
		descriptions: map[string]string{},
		operators:    map[int64]*operator{},
		histories:    map[string]*history{},
		keys:         map[int64]bool{},
		activations:  map[string]string{},
	}
	a.report.Violations, a.report.Skipped = []Violation{}, []string{}
	a.macKeys, a.noMACKeys = s.Keys, s.NoKeys
	a.indexHeads(s.Heads)
	if err := a.checkSchema(); err != nil {
		return Report{}, err
	}
	for _, step := range []func(){
		a.readPlans, a.readMasterKeys, a.readStaffActions, a.readDigests, a.readRemovals, a.readOperators, a.readKeys, a.readWhitelists, a.readLogins, a.closeHistories,
		a.readProposals, a.readAmounts, a.readPeriods, a.readOperations, a.closePeriods, a.readClosings, a.readWallets, a.readReferences, a.readAnnouncements, a.readSubscribers, a.readIdempotencyKeys, a.readMobiles,
		a.readNonces, a.readRateCounters,
	} {
		step()
		if a.err != nil {
			return Report{}, a.err
		}
	}
	a.report.OK = len(a.report.Violations) == 0
	return a.report, nil
}

// auditor is the state of one audit. What it stores between steps is bounded by the number
// of operators, keys, logins, plan versions and open operations; other rows are streamed.
type auditor struct {
	ctx      context.Context
	snapshot Snapshot
	now      int64
	progress func(string, int64)
	rest     func(context.Context)
	// longestWait is Settings.LongestWait in milliseconds.
	longestWait int64

	cursors int
	rows    int64

	report Report
	err    error

	plans map[string][]planVersion
	// descriptions are those of the plans, which their history does not have.
	descriptions map[string]string
	operators    map[int64]*operator
	histories    map[string]*history
	keys         map[int64]bool
	// activations are the open ones, by mobile.
	activations map[string]string
	// periods are the months whose commission was closed.
	periods map[monthOf]*period
	// access has the actors of changes of logins; lost is when their people may have lost
	// the right to make proposals.
	access map[accessAction]string
	lost   map[string]bool
	// migrations are those that were applied to the store. A store that no node of this
	// release has opened yet may lack some.
	migrations map[int64]bool
	// macKeys are nil where MACs are not verified; noMACKeys says why there are none.
	macKeys   *Keys
	noMACKeys string
	// Exported heads that have not been found yet, by their numbers.
	actionHeads, digestHeads map[int64][]Head
	message                  message
}

// operator is what the steps have found about one operator.
type operator struct {
	known   bool // it has a row
	deleted bool
	rates   map[int64]bool // every commission rate that a staff action set
	// limits are its requests a minute, in the order that staff actions set them.
	limits []limit
	// What its operations say, in paise.
	charged, held int64
	// Imported subscribers: by staff actions, and as found.
	imports, imported int64
}

// fail stops the audit with an error; the first one is returned.
func (a *auditor) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

// found records a violation.
func (a *auditor) found(invariant, subject, format string, args ...any) {
	if len(a.report.Violations) >= maxViolations {
		a.report.LeftOut++
		return
	}
	a.report.Violations = append(a.report.Violations, Violation{invariant, oneLine(subject), oneLine(fmt.Sprintf(format, args...))})
}

// oneLine replaces control characters, so that a damaged row cannot break the report or a
// terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// migration is the number of a migration in each store's own series.
type migration struct{ sqlite, postgres int64 }

// The migrations that added what an audit reads only where it exists.
var (
	migrationLogins    = migration{sqlite: 5, postgres: 3}
	migrationProposals = migration{sqlite: 8, postgres: 6}   // with closed months and the origin of staff actions
	migrationPeople    = migration{sqlite: 20, postgres: 15} // whether an operator's people need a second factor
	migrationSubjects  = migration{sqlite: 17, postgres: 12}
	migrationGrants    = migration{sqlite: 18, postgres: 13}
	migrationPasskeys  = migration{sqlite: 24, postgres: 19}
	migrationAmounts   = migration{sqlite: 19, postgres: 14}
	migrationIntegrity = migration{sqlite: 22, postgres: 17}
	migrationAdopted   = migration{sqlite: 26, postgres: 21}
	migrationRetention = migration{sqlite: 29, postgres: 24}
	migrationDataKeys  = migration{sqlite: 28, postgres: 23}
	migrationReceipts  = migration{sqlite: 30, postgres: 25} // with operators' addresses and GSTINs
	migrationReversals = migration{sqlite: 33, postgres: 28}
)

// has reports whether a migration was applied to the store.
func (a *auditor) has(m migration) bool {
	if _, is := a.snapshot.(postgres); is {
		return a.migrations[m.postgres]
	}
	return a.migrations[m.sqlite]
}

// checkSchema refuses what is not a store, and a store of a newer release. It is also the
// first read, which fixes the snapshot in SQLite.
func (a *auditor) checkSchema() error {
	rows, err := a.snapshot.QueryContext(a.ctx, `SELECT migration, oldest_generation FROM schema_tolerance`)
	if err != nil {
		return fmt.Errorf("no store of Coax is there, or a damaged one: %w", err)
	}
	defer rows.Close()
	var oldest int64
	a.migrations = map[int64]bool{}
	for err == nil && rows.Next() {
		var number, tolerates int64
		err = rows.Scan(&number, &tolerates)
		a.migrations[number] = true
		oldest = max(oldest, tolerates)
	}
	switch err = errors.Join(err, rows.Err()); {
	case err != nil:
		return fmt.Errorf("no store of Coax is there, or a damaged one: %w", err)
	case len(a.migrations) == 0:
		return errors.New("the store's schema does not say which release it is for: its first migration has not finished")
	case oldest > generation:
		return fmt.Errorf("the store was migrated by a newer release and needs a binary of generation %d or later (this one is %d): "+
			"audit it with the newer release", oldest, generation)
	}
	return nil
}
