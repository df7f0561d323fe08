package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// The actions of an operator's own people on announced payments. They need no role: the
// panel's routes say who of an operator may do them.
const (
	PaymentAnnounce = "payment announce"
	PaymentWithdraw = "payment withdraw"
)

// Method is how a payment was made.
type Method string

// The methods of payments.
const (
	MethodUPI   Method = "upi"
	MethodIMPS  Method = "imps"
	MethodNEFT  Method = "neft"
	MethodRTGS  Method = "rtgs"
	MethodOther Method = "other"
)

// Methods lists all methods.
var Methods = []Method{MethodUPI, MethodIMPS, MethodNEFT, MethodRTGS, MethodOther}

// Name is the method in English.
func (m Method) Name() string {
	return string(map[Method]Term{
		MethodUPI: Term("UPI"), MethodIMPS: Term("IMPS"), MethodNEFT: Term("NEFT"), MethodRTGS: Term("RTGS"), MethodOther: Term("Cash deposit or cheque"),
	}[m])
}

// AnnouncementState is the state of an announced payment.
type AnnouncementState string

// Announced and Matched are open, the others final. Waiting is no stored state: it is an open
// announcement whose top-up is proposed and waits for a second person.
const (
	Announced AnnouncementState = "announced"
	Matched   AnnouncementState = "matched"
	Waiting   AnnouncementState = "approval"
	Credited  AnnouncementState = "credited"
	Rejected  AnnouncementState = "rejected"
	Withdrawn AnnouncementState = "withdrawn"
)

// Announcement is a payment that an operator says to have made to the MSO's bank account. It
// moves no money. A top-up of the operator under its reference, or that of its bank line, closes
// it as credited.
type Announcement struct {
	ID         int64
	OperatorID int64
	// Code is our reference, which the UPI QR code has.
	Code   string
	Amount money.Amount
	Method Method
	// Reference is the bank's reference as the operator typed it. BankReference is that of the
	// bank's line; empty if there is none.
	Reference, BankReference string
	// PaidOn is the day of the payment, its midnight in IST.
	PaidOn time.Time
	Note   string
	Actor  string
	At     time.Time

	State AnnouncementState
	// DecidedBy and DecidedAt are who closed it, and when; Answer is why it was rejected.
	DecidedBy string
	DecidedAt time.Time
	Answer    string
	// Credited is the amount of the top-up that closed it, which may differ from Amount.
	Credited money.Amount
	// Proposal is the open proposal of its top-up, made at ProposedAt; 0 if there is none.
	Proposal   int64
	ProposedAt time.Time
}

// Open reports whether the announcement is not decided yet.
func (a Announcement) Open() bool { return a.State == Announced || a.State == Matched }

// AsOf returns the announcement as of a moment: while its top-up waits for a second person, it
// is Waiting.
func (a Announcement) AsOf(now time.Time) Announcement {
	if a.Open() && a.Proposal != 0 && now.Before(a.ProposedAt.Add(ProposalLifetime)) {
		a.State = Waiting
	}
	return a
}

// TopUpReference is what its top-up is made under: the bank's reference where there is one.
func (a Announcement) TopUpReference() string {
	if a.BankReference == "" || strings.HasPrefix(a.BankReference, generatedReferencePrefix) {
		return a.Reference
	}
	return a.BankReference
}

// Subject is the audit log's subject.
func (a Announcement) Subject() string { return "payment announcement " + a.Code }

// AnnouncementStateOf describes an announcement for the audit log.
func AnnouncementStateOf(a Announcement) map[string]any {
	return map[string]any{"status": a.State, "amount": a.Amount, "reference": a.Reference, "paid_on": a.PaidOn.Format(time.DateOnly)}
}

// AnnouncementFilter selects announcements; a zero field selects all.
type AnnouncementFilter struct {
	OperatorID int64
	// Open leaves out what is decided.
	Open bool
	// Before is the id of the last one of the page before.
	Before int64
	// Limit is how many are listed at most.
	Limit int
}

// Bounds of announcements.
const (
	// maxOpenAnnouncements bounds the open announcements of an operator.
	maxOpenAnnouncements = 50
	// paidWithin is how old an announced payment may be.
	paidWithin = 180 * 24 * time.Hour
	maxNote    = 200
)

// AnnouncementStore keeps announced payments.
type AnnouncementStore interface {
	// Announce stores an announcement, of at most limit open ones of the operator. If an open
	// one of the same operator has the same reference and amount it is returned instead. A
	// reference that another one has, or that was credited, is refused.
	Announce(ctx context.Context, action StaffAction, a Announcement, limit int) (stored Announcement, known bool, err error)
	// CloseAnnouncement rejects or withdraws an open announcement whose top-up is not proposed.
	CloseAnnouncement(ctx context.Context, action StaffAction, id int64, as AnnouncementState) (Announcement, error)
	Announcement(ctx context.Context, id int64) (Announcement, error)
	// Announcements lists announcements, newest first.
	Announcements(ctx context.Context, filter AnnouncementFilter) ([]Announcement, error)
	// AnnouncementsNamed finds the announcements of an operator, or of all if it is 0, with a code
	// or a normalised reference, their own or that of their bank line; the latest first.
	AnnouncementsNamed(ctx context.Context, operatorID int64, code, reference string, limit int) ([]Announcement, error)
	// CreditsNamed finds the top-ups of an operator, or of all if it is 0, with a normalised
	// reference.
	CreditsNamed(ctx context.Context, operatorID int64, reference string, limit int) ([]Credit, error)
	// OpenAnnouncements counts the open announcements of an operator, or of all if it is 0,
	// and adds them up.
	OpenAnnouncements(ctx context.Context, operatorID int64) (count int, sum money.Amount, err error)
	// UnmatchedLines lists the newest bank lines without an announcement.
	UnmatchedLines(ctx context.Context, limit int) ([]BankLine, error)
	// MatchLines records which lines are of which open announcements. A line with a reference
	// of another announcement, or of its line, is left alone.
	MatchLines(ctx context.Context, matches []Match) error
}

// BankDetails are the MSO's bank account and UPI id, to which operators pay.
type BankDetails struct {
	AccountName, AccountNumber, IFSC, Bank string
	UPIID, PayeeName                       string
}

// HasAccount reports whether the details of an account are there.
func (b BankDetails) HasAccount() bool { return b.AccountNumber != "" }

// Given reports whether there is any way to pay.
func (b BankDetails) Given() bool { return b.HasAccount() || b.UPIID != "" }

// Payments has what an operator's own people do about payments to the MSO.
type Payments struct {
	store AnnouncementStore
	now   func() time.Time
	// Bank is where operators pay to.
	Bank BankDetails
}

// NewPayments returns a Payments.
func NewPayments(store AnnouncementStore, bank BankDetails, now func() time.Time) *Payments {
	return &Payments{store: store, now: now, Bank: bank}
}

// Payer is who of an operator's people acts, and from where.
type Payer struct {
	OperatorID int64
	Actor      string
	Origin     string
}

func (p Payer) action(name string, at time.Time) StaffAction {
	return StaffAction{Actor: p.Actor, Action: name, At: at, Origin: p.Origin, OperatorScope: p.OperatorID}
}

// NewAnnouncement is what an operator announces.
type NewAnnouncement struct {
	// Code is that of the QR code; without one, or with an unfit one, a new one is made up.
	Code      string
	Amount    money.Amount
	Method    Method
	Reference string
	PaidOn    time.Time
	Note      string
}

// Announce records a payment that the payer's operator has made. Announced again, it is
// returned with known set.
func (p *Payments) Announce(ctx context.Context, by Payer, wanted NewAnnouncement) (made Announcement, known bool, err error) {
	now := p.now()
	if !p.Bank.Given() {
		return made, false, Refuse("payments cannot be announced here: the MSO has not given its bank details")
	}
	reference, err := CheckPaymentReference(wanted.Method, wanted.Reference)
	if err != nil {
		return made, false, err
	}
	note := strings.TrimSpace(wanted.Note)
	if err := checkText("note", note, 0, maxNote); err != nil {
		return made, false, err
	}
	switch {
	case !wanted.Amount.IsPositive():
		return made, false, Refuse("a payment of %s is not money coming in: give an amount above zero", wanted.Amount)
	case wanted.PaidOn.After(now):
		return made, false, Refuse("the payment was made on %s, which is still to come: give the day on which it was made", wanted.PaidOn.Format(time.DateOnly))
	case wanted.PaidOn.Before(now.Add(-paidWithin)):
		return made, false, Refuse("the payment was made on %s, which is more than %d days ago: ask the MSO to credit it", wanted.PaidOn.Format(time.DateOnly), int(paidWithin.Hours()/24))
	}
	announcement := Announcement{
		OperatorID: by.OperatorID, Code: wanted.Code, Amount: wanted.Amount, Method: wanted.Method, Reference: reference,
		PaidOn: wanted.PaidOn, Note: note, Actor: by.Actor, At: now, State: Announced,
	}
	if !ValidPaymentCode(announcement.Code) {
		announcement.Code = NewPaymentCode()
	}
	made, known, err = p.store.Announce(ctx, by.action(PaymentAnnounce, now), announcement, maxOpenAnnouncements)
	if errors.Is(err, ErrCodeTaken) { // the form of an earlier payment was filled in again
		announcement.Code = NewPaymentCode()
		made, known, err = p.store.Announce(ctx, by.action(PaymentAnnounce, now), announcement, maxOpenAnnouncements)
	}
	if err != nil || known {
		return made, known, err
	}
	// The bank's line may be there already.
	if err := matchPayments(ctx, p.store, []Announcement{made}); err != nil {
		return made, false, err
	}
	made, err = p.store.Announcement(ctx, made.ID)
	return made, false, err
}

// Withdraw takes an announcement of the payer's operator back.
func (p *Payments) Withdraw(ctx context.Context, by Payer, id int64) (Announcement, error) {
	if _, err := p.Announcement(ctx, by.OperatorID, id); err != nil {
		return Announcement{}, err
	}
	return p.store.CloseAnnouncement(ctx, by.action(PaymentWithdraw, p.now()), id, Withdrawn)
}

// Announcement returns an announcement of an operator. Any other is refused as if there were
// none.
func (p *Payments) Announcement(ctx context.Context, operatorID, id int64) (Announcement, error) {
	a, err := p.store.Announcement(ctx, id)
	if err == nil && a.OperatorID != operatorID {
		return Announcement{}, RefuseNoAnnouncement(id)
	}
	return a.AsOf(p.now()), err
}

// Announcements lists the announcements of an operator, newest first.
func (p *Payments) Announcements(ctx context.Context, operatorID, before int64, limit int) ([]Announcement, error) {
	all, err := p.store.Announcements(ctx, AnnouncementFilter{OperatorID: operatorID, Before: before, Limit: limit})
	return asOf(all, p.now()), err
}

// Announced counts an operator's open announcements, and adds them up.
func (p *Payments) Announced(ctx context.Context, operatorID int64) (count int, sum money.Amount, err error) {
	return p.store.OpenAnnouncements(ctx, operatorID)
}

func asOf(all []Announcement, now time.Time) []Announcement {
	for i := range all {
		all[i] = all[i].AsOf(now)
	}
	return all
}

// RefuseNoAnnouncement refuses an announcement that does not exist.
func RefuseNoAnnouncement(id int64) *Refusal { return Refuse("there is no announced payment %d", id) }

// RefuseAnnounced refuses to announce a reference that is announced already, by whichever
// operator; that one is not named, because operators read this.
func RefuseAnnounced(reference string) *Refusal {
	return Refuse("reference %s is announced already: look it up in the list, or ask the MSO", reference)
}

// RefuseCredited refuses to announce a reference that was credited.
func RefuseCredited(reference string) *Refusal {
	return Refuse("a payment with reference %s was credited already: look at the statement, or ask the MSO", reference)
}

// RefuseDecided refuses to close an announcement that is not open.
func RefuseDecided(a Announcement) *Refusal {
	if a.State == Waiting {
		return Refuse("the top-up of announced payment %s waits for a second approval: it has to be decided first", a.Code)
	}
	return Refuse("payment %s has already been processed", a.Code)
}

// ErrCodeTaken refuses an announcement with the code of another one.
var ErrCodeTaken = errors.New("the code is another announced payment's")

// codePrefix begins every code, so that people recognise it in a bank's narration.
const codePrefix = "CXP"

// codeLetters has no letters and digits that are mistaken for others.
const codeLetters = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"

// codeLength is the length of a code after its prefix: some 900 million codes.
const codeLength = 6

// NewPaymentCode makes up a code for an announcement.
func NewPaymentCode() string {
	code := []byte(codePrefix)
	for len(code) < len(codePrefix)+codeLength {
		var random [1]byte
		_, _ = rand.Read(random[:]) // never fails
		// The highest values are left out: each letter is equally likely.
		if i := int(random[0]); i < 256/len(codeLetters)*len(codeLetters) {
			code = append(code, codeLetters[i%len(codeLetters)])
		}
	}
	return string(code)
}

// ValidPaymentCode reports whether a code has the form of NewPaymentCode.
func ValidPaymentCode(code string) bool {
	letters, ok := strings.CutPrefix(code, codePrefix)
	return ok && len(letters) == codeLength && strings.Trim(letters, codeLetters) == ""
}

// PaymentDay parses a day of a form, 2026-11-19, as its midnight in IST.
func PaymentDay(text string) (time.Time, error) {
	return time.ParseInLocation(time.DateOnly, text, subscription.IST)
}

// CheckPaymentReference returns a bank's reference as it is kept, or refuses one that a
// payment of that method does not have.
func CheckPaymentReference(method Method, text string) (string, error) {
	reference := strings.TrimSpace(text)
	if err := checkText("reference", reference, 1, 60); err != nil {
		return "", err
	}
	letters := strings.ToUpper(NormaliseReference(reference))
	digits := strings.Trim(letters, "0123456789") == ""
	plain := strings.Trim(letters, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	switch method {
	case MethodUPI, MethodIMPS:
		if len(letters) != 12 || !digits {
			return "", Refuse("enter a valid UTR: UPI and IMPS have 12 digits, such as 526123456789")
		}
	case MethodNEFT, MethodRTGS:
		if len(letters) < 16 || len(letters) > 22 || !plain || digits && len(letters) != 16 {
			return "", Refuse("enter a valid UTR: NEFT and RTGS have 16 or 22 letters and digits, such as SBIN526123456789")
		}
	case MethodOther:
		if n := len([]rune(letters)); n < 4 || n > 40 {
			return "", Refuse("enter a valid reference: the 4 to 40 letters and digits on the slip or cheque, such as 004512")
		}
		return reference, nil
	default:
		return "", Refuse("method %q is not known: give upi, imps, neft, rtgs or other", string(method))
	}
	return letters, nil
}
