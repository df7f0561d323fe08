package admin

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// StaffAction is who does what, why and when.
type StaffAction struct {
	// Actor is the person and the door they came through, such as cli:asha.
	Actor  string
	Action string
	Reason string
	At     time.Time
	// Origin is the address that the person acted from; empty for whoever sits at
	// the machine itself.
	Origin string

	// Voucher names one act, which is done once however often it is asked for; empty
	// where nobody could ask twice by mistake. The reason ends with VoucherNote, so
	// that log and books carry it, and a store refuses a second act under it.
	Voucher string

	// Within is the only operator that the actor may act on, who is one of its owners;
	// zero for staff. A store refuses such an act unless that operator is active and
	// what is changed is its own.
	Within int64

	// barred is why the actor may not do it; nil if they may.
	barred error
	// limits are what the actor may not go beyond alone; nil if there are none.
	limits *Limits
	// stale: the actor's password was given too long ago for what needs a step-up.
	stale bool
}

// Permitted refuses an act that its actor has no right to, or has to step up for. A
// store asks when it writes the act down, which every change ends with: whatever was
// changed is taken back then, and no way to a change leads past it.
func (a StaffAction) Permitted() error {
	return a.CheckStepUp(StepUpFor(Action(a.Action)) == StepUpAlways)
}

// Covers reports whether the act may change what belongs to an operator; 0 is what
// belongs to none.
func (a StaffAction) Covers(operatorID int64) bool { return a.Within == 0 || a.Within == operatorID }

// VoucherLength is how many characters a voucher has. Stores find it by how much of a
// reason its note takes.
const VoucherLength = 12

// VoucherNote is how a reason ends that names a voucher; empty without one.
func VoucherNote(voucher string) string {
	if voucher == "" {
		return ""
	}
	return "(voucher " + voucher + ")"
}

// VoucherNote is how the act's reason names its voucher; empty without one.
func (a StaffAction) VoucherNote() string { return VoucherNote(a.Voucher) }

// noted is a reason that names the act's voucher, too.
func (a StaffAction) noted(reason string) string {
	return strings.TrimSpace(reason + " " + a.VoucherNote())
}

// RefuseVoucher refuses an act that was done already.
func RefuseVoucher(voucher string) *Refusal {
	return Refuse("it was done already, under voucher %s: look into the books before it is done again", voucher)
}

// DoneAlready reports whether an error is the refusal of an act that was done under
// the same voucher.
func DoneAlready(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && refusal.Form == RefuseVoucher("").Form
}

// AuditEntry is an act as it was written down, with what it changed.
type AuditEntry struct {
	ID int64
	StaffAction
	// OperatorID is zero for acts that concern no single operator.
	OperatorID int64
	// Subject is what was acted on, such as plan FAMILY-1.
	Subject string
	// Before and After are JSON; Before is empty where nothing was there.
	Before string
	After  string
	// Hash chains the act to the one before it, so that a row that was
	// changed or taken out later shows.
	Hash []byte
}

// ChainHash is the hash of this act after the act whose hash is given; nil for
// the first. Every field is preceded by its length, so that no two different
// acts can run together into the same bytes. The origin is part of it where there
// is one: acts without have the hash that they had before there were any.
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

// AuditQuery picks acts; a zero field picks all.
type AuditQuery struct {
	OperatorID int64
	Actor      string
	Action     string
	// Search is part of what was acted on, in capitals or not.
	Search string
	// From and Before bound when it was done.
	From, Before time.Time
	// Below and Above are the numbers of acts; those that came before the one and
	// after the other are picked.
	Below, Above int64
	// Most is how many are listed.
	Most int
	// LookedAt is how many acts a service looks at for that, where only few may fit;
	// zero is as many as nobody minds to wait for.
	LookedAt int
}

// AuditPage is some of what staff did, newest first.
type AuditPage struct {
	Entries []AuditEntry
	// SearchedTo is the number of the last act that was looked at, where the page ends
	// because of that and not because it is full; zero otherwise.
	SearchedTo int64
}

// actsLookedAt is the usual AuditQuery.LookedAt.
const actsLookedAt = 10_000

// passedByFew reports whether the acts have to be looked at one by one. An operator's
// are found by the operator.
func (q AuditQuery) passedByFew() bool {
	return q.OperatorID == 0 && (q.Actor != "" || q.Action != "" || q.Search != "" || !q.From.IsZero() || !q.Before.IsZero())
}

// Top is the number that picked acts are below, for a store.
func (q AuditQuery) Top() int64 {
	if q.Below == 0 {
		return math.MaxInt64
	}
	return q.Below
}

// Refusal is an act that was not done, with a reason a person can act on.
type Refusal struct {
	// Reason is the whole sentence, on one line.
	Reason string
	// Form and Args are the reason taken apart, for whoever says it in another
	// language. An argument that is a Term or another Refusal is said there, too.
	Form string
	Args []any
}

// Term is a word of ours within a refusal, such as the name of a field, and nothing
// that somebody typed.
type Term string

// Refuse returns a refusal, on one line whatever was typed: it goes to a terminal.
func Refuse(format string, args ...any) *Refusal {
	return &Refusal{Form: format, Args: args, Reason: strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, fmt.Sprintf(format, args...))}
}

func (r *Refusal) Error() string { return r.Reason }
