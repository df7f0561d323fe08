// Package audit proves the books. It reads one moment of a store, row by row,
// and works out anew what every balance, expiry and history must be; what does
// not come out the same it names.
//
// It shares no query and no rule with the code that wrote the rows, because a
// proof that leans on what it proves is none. It writes nothing, repairs
// nothing, and never asks for the time.
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

// generation is the youngest schema this audit can read: a store that demands
// more of a binary than this is refused, not half understood.
const generation = 2

// maxViolations bounds what is kept of a store that is broken all over. The
// rest is counted.
const maxViolations = 100_000

// Time is compared with a little patience where the product cannot do better.
const (
	// clockSlackMS is what the clocks of two nodes may differ by, both at work.
	clockSlackMS = 2_000
	// queueSlackMS is how long a fact may wait between the moment it carries and
	// its commit, as seen from another fact that overtook it.
	queueSlackMS = 10_000
)

// Violation is one thing that does not agree.
type Violation struct {
	// Invariant is the id of what was broken, one of Invariants.
	Invariant string `json:"invariant"`
	// Subject is where: an operator, an operation, a subscriber, a key.
	Subject string `json:"subject"`
	// Detail is what was found there and what was expected.
	Detail string `json:"detail"`
}

func (v Violation) String() string { return v.Invariant + " " + v.Subject + ": " + v.Detail }

// Report is what an audit found.
type Report struct {
	OK     bool   `json:"ok"`
	Counts Counts `json:"counts"`
	// ActionsHead is the hash of the last act of staff, in hex. Kept somewhere
	// else it also tells when acts were cut off at the end, which the chain
	// alone cannot.
	ActionsHead string `json:"acts_head"`
	// Head is the end of the chains of staff actions and of digests.
	Head Head `json:"head"`
	// Compared is how many exported heads the store was compared with.
	Compared int `json:"heads_compared,omitempty"`
	// Skipped is what could not be proved, and why.
	Skipped    []string    `json:"skipped"`
	Violations []Violation `json:"violations"`
	// LeftOut is how many further violations were found and not kept.
	LeftOut int64 `json:"violations_left_out,omitempty"`
}

// Settings is what an audit cannot read from the rows. Its zero value knows
// nothing, and takes the widest a service can be set to.
type Settings struct {
	// LongestWait is the longest that an operation in review, or an add-on that
	// is missing, waits to be looked at again.
	LongestWait time.Duration
	// Rest is called every few rows, for an audit that is to leave others room. Nil
	// reads on and on.
	Rest func(context.Context)
	// Keys verify MACs; nil where the master key is not at hand, for the reason NoKeys.
	Keys   *Keys
	NoKeys string
	// Heads were exported earlier, and must still be in the store.
	Heads []Head
}

// Run audits one moment of a store whose service's settings are not known.
func Run(ctx context.Context, snapshot Snapshot, now time.Time, progress func(what string, rows int64)) (Report, error) {
	return Settings{}.Run(ctx, snapshot, now, progress)
}

// Run audits one moment of a store. The time is that moment's: it tells an
// operation that is stuck from one that is under way. The progress, which may
// be nil, is told now and then what is being read and how many rows there were.
//
// An error means that the audit could not be done; what is wrong with the books
// is in the report.
func (s Settings) Run(ctx context.Context, snapshot Snapshot, now time.Time, progress func(what string, rows int64)) (Report, error) {
	a := &auditor{
		ctx: ctx, snapshot: snapshot, now: now.UnixMilli(), progress: progress, rest: s.Rest,
		longestWait:  cmp.Or(s.LongestWait, longestWaitThereIs).Milliseconds(),
		plans:        map[string][]planVersion{},
		descriptions: map[string]string{},
		operators:    map[int64]*operator{},
		histories:    map[string]*history{},
		keys:         map[int64]bool{},
		activations:  map[string]string{},
	}
	a.report.Violations, a.report.Skipped = []Violation{}, []string{}
	a.macKeys, a.noMACKeys = s.Keys, s.NoKeys
	a.keepHeads(s.Heads)
	if err := a.checkSchema(); err != nil {
		return Report{}, err
	}
	for _, pass := range []func(){
		a.readPlans, a.readMasterKeys, a.readActs, a.readDigests, a.readOperators, a.readKeys, a.readWhitelists, a.readLogins, a.closeHistories,
		a.readProposals, a.readAmounts, a.readPeriods, a.readOperations, a.closePeriods, a.readClosings, a.readWallets, a.readReferences, a.readSubscribers, a.readIdempotencyKeys, a.readMobiles,
		a.readNonces, a.readRateCounters,
	} {
		pass()
		if a.err != nil {
			return Report{}, a.err
		}
	}
	a.report.OK = len(a.report.Violations) == 0
	return a.report, nil
}

// auditor is one audit under way. What it keeps between passes is bounded by
// the number of operators, keys, logins, plan versions and open operations; the
// many rows pass by in order.
type auditor struct {
	ctx      context.Context
	snapshot Snapshot
	now      int64
	progress func(string, int64)
	rest     func(context.Context)
	// longestWait is until when at the latest a check must be due, from now.
	longestWait int64

	cursors int
	rows    int64

	report Report
	err    error

	plans map[string][]planVersion
	// descriptions are the plans' own: their history does not keep them.
	descriptions map[string]string
	operators    map[int64]*operator
	histories    map[string]*history
	keys         map[int64]bool
	// activations are the open ones, by mobile.
	activations map[string]string
	// periods are the months whose commission was closed.
	periods map[monthOf]*period
	// access is who acted on logins; lost is when their people may have lost the right to
	// make proposals.
	access map[accessAct]string
	lost   map[string]bool
	// migrations are those that the store has had. One that no node of this release has
	// opened yet may lack some.
	migrations map[int64]bool
	// macKeys are nil where MACs are not verified; noMACKeys says why there are none.
	macKeys   *Keys
	noMACKeys string
	// Exported heads that have not been met yet, by their numbers.
	actionHeads, digestHeads map[int64][]Head
	message                  message
}

// operator is what the passes know of one operator.
type operator struct {
	known   bool // it has a row
	deleted bool
	rates   map[int64]bool // every commission rate an act of staff ever gave it
	// limits are its requests a minute, in the order that acts of staff set them.
	limits []limit
	// What its operations say, in paise.
	charged, held int64
	// Subscribers brought in from elsewhere: as acts of staff say, and found.
	imports, imported int64
}

// fail stops the audit; the first reason counts.
func (a *auditor) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

// found writes a violation down.
func (a *auditor) found(invariant, subject, format string, args ...any) {
	if len(a.report.Violations) >= maxViolations {
		a.report.LeftOut++
		return
	}
	a.report.Violations = append(a.report.Violations, Violation{invariant, oneLine(subject), oneLine(fmt.Sprintf(format, args...))})
}

// oneLine keeps whatever stands in a damaged row from breaking the report, or a
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

// The migrations that brought what an audit reads where it is there.
var (
	broughtLogins    = migration{sqlite: 5, postgres: 3}
	broughtProposals = migration{sqlite: 8, postgres: 6}   // with closed months and the origin of acts
	broughtPeople    = migration{sqlite: 20, postgres: 15} // whether an operator's people need a second factor
	broughtSubjects  = migration{sqlite: 17, postgres: 12}
	broughtGrants    = migration{sqlite: 18, postgres: 13}
	broughtPasskeys  = migration{sqlite: 24, postgres: 19}
	broughtAmounts   = migration{sqlite: 19, postgres: 14}
	broughtIntegrity = migration{sqlite: 22, postgres: 17}
)

// has reports whether the store has had a migration.
func (a *auditor) has(m migration) bool {
	if _, is := a.snapshot.(postgres); is {
		return a.migrations[m.postgres]
	}
	return a.migrations[m.sqlite]
}

// checkSchema refuses what is not a store, and a store from the future. It is
// also the first read, which is what fixes the moment in SQLite.
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
