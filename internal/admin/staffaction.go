package admin

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/coaxhq/coax/internal/subscription"
)

// StaffAction says who does what, why and when. It becomes an AuditEntry.
type StaffAction struct {
	// Actor is the channel and the person, such as cli:asha.
	Actor  string
	Action string
	Reason string
	At     time.Time
	// Origin is the client's address; empty for the command line.
	Origin string

	// Voucher makes the action idempotent: a store refuses a second action under it.
	// Empty where the action cannot be submitted twice by mistake. The reason ends with
	// VoucherNote, so that the audit log and the books show the voucher.
	Voucher string

	// OperatorScope is the only operator that the actor, one of its owners, may change; zero
	// for staff. With a scope, a store refuses the action unless that operator is active
	// and owns what is changed.
	OperatorScope int64

	// refusal is why the actor may not do it; nil if they may.
	refusal error
	// limits apply to what the actor does without approval; nil if there are none.
	limits *Limits
	// stale: the actor has to step up before an action that needs it.
	stale bool
}

// Permitted refuses an action that the actor has no right to, or has to step up for. A
// store calls it when it writes the audit entry, the last step of every change: a refusal
// rolls the change back, and no change can bypass the check.
func (a StaffAction) Permitted() error {
	return a.CheckStepUp(StepUpFor(Action(a.Action)) == StepUpAlways)
}

// Covers reports whether the action may change what belongs to an operator; 0 stands for
// what belongs to no operator.
func (a StaffAction) Covers(operatorID int64) bool {
	return a.OperatorScope == 0 || a.OperatorScope == operatorID
}

// VoucherLength is how many characters a voucher has. Stores rely on it to find the
// note at the end of a reason.
const VoucherLength = 12

// VoucherNote is the end of a reason that names a voucher; empty without one.
func VoucherNote(voucher string) string {
	if voucher == "" {
		return ""
	}
	return "(voucher " + voucher + ")"
}

// VoucherNote is the note for the action's voucher; empty without one.
func (a StaffAction) VoucherNote() string { return VoucherNote(a.Voucher) }

// withVoucherNote appends the action's VoucherNote to a reason.
func (a StaffAction) withVoucherNote(reason string) string {
	return strings.TrimSpace(reason + " " + a.VoucherNote())
}

// RefuseVoucher refuses an action that was done already.
func RefuseVoucher(voucher string) *Refusal {
	return Refuse("it was already done under voucher %s: check the ledger before it is done again", voucher)
}

// DoneAlready reports whether an error is a RefuseVoucher.
func DoneAlready(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && refusal.Form == RefuseVoucher("").Form
}

// AuditEntry is a staff action as it was recorded, with what it changed.
type AuditEntry struct {
	ID int64
	StaffAction
	// OperatorID is zero for actions that concern no single operator.
	OperatorID int64
	// Subject is what was changed, such as plan FAMILY-1.
	Subject string
	// Before and After are JSON; Before is empty for something new.
	Before string
	After  string
	// Hash chains the entry to the one before it, so that a row that was changed or
	// removed later shows.
	Hash []byte
}

// ChainHash returns the entry's hash, given the hash of the entry before it; nil for
// the first. Every field is preceded by its length, so that no two different entries
// have the same bytes. The origin is included only where there is one: entries from
// before origins were recorded keep their hash.
func (a AuditEntry) ChainHash(previous []byte) []byte {
	sum := sha256.New()
	write := func(field []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(field)))
		sum.Write(size[:])
		sum.Write(field)
	}
	write(previous)
	fields := []string{
		a.Actor, a.Action, a.Reason, fmt.Sprint(a.At.UnixMilli()), fmt.Sprint(a.OperatorID), a.Subject, a.Before, a.After,
	}
	if a.Origin != "" {
		fields = append(fields, a.Origin)
	}
	for _, field := range fields {
		write([]byte(field))
	}
	return sum.Sum(nil)
}

// AuditQuery selects audit entries; a zero field selects all.
type AuditQuery struct {
	OperatorID int64
	Actor      string
	Action     string
	// Search is a part of the subject, ignoring case.
	Search string
	// From and Before bound when it was done.
	From, Before time.Time
	// Below and Above are exclusive bounds of the entries' ids.
	Below, Above int64
	// Limit is how many are listed.
	Limit int
	// ScanLimit is how many entries are scanned where no index answers the query; zero
	// is defaultScanLimit.
	ScanLimit int
}

// AuditPage is a page of audit entries, newest first.
type AuditPage struct {
	Entries []AuditEntry
	// SearchedTo is the id of the last entry scanned, where the page ends because of
	// ScanLimit; zero otherwise.
	SearchedTo int64
}

// defaultScanLimit is the default of AuditQuery.ScanLimit.
const defaultScanLimit = 10_000

// needsScan reports whether entries have to be checked one by one. An operator's are
// found by an index.
func (q AuditQuery) needsScan() bool {
	return q.OperatorID == 0 && (q.Actor != "" || q.Action != "" || q.Search != "" || !q.From.IsZero() || !q.Before.IsZero())
}

// UpperID is the exclusive upper bound of the ids, for a store.
func (q AuditQuery) UpperID() int64 {
	if q.Below == 0 {
		return math.MaxInt64
	}
	return q.Below
}

// Refusal says why an action was not done, with a reason a person can act on.
type Refusal struct {
	// Reason is the whole sentence, on one line.
	Reason string
	// Form and Args are the reason's format and arguments, for translation. An argument
	// that is a Term or another Refusal is translated, too; pages show the name of an Actor
	// or OperatorID.
	Form string
	Args []any
}

// Term is a translatable word within a refusal, such as the name of a field; never user
// input.
type Term string

// Actor is an actor within a refusal, such as web:asha.
type Actor string

// String returns the username.
func (a Actor) String() string { return Person(string(a)) }

// OperatorID is an operator within a refusal.
type OperatorID int64

func (id OperatorID) String() string { return strconv.FormatInt(int64(id), 10) }

// Moment is a time within a refusal.
type Moment time.Time

func (m Moment) String() string {
	return time.Time(m).In(subscription.IST).Format("2006-01-02 15:04:05 -07:00")
}

// Refuse returns a refusal. Control characters of the arguments are replaced, because the
// reason may go to a terminal.
func Refuse(format string, args ...any) *Refusal {
	return &Refusal{Form: format, Args: args, Reason: strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, fmt.Sprintf(format, args...))}
}

func (r *Refusal) Error() string { return r.Reason }
