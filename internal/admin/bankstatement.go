package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// BankStatement is an uploaded statement of the MSO's bank account.
type BankStatement struct {
	ID       int64
	FileName string
	Actor    string
	At       time.Time
	// Credits counts its stored lines. Left out were Known lines that were uploaded before,
	// Debits, and Skipped lines that are no transaction or older than LinesKept.
	Credits, Known, Debits, Skipped int
	// Columns are the columns that were read, as JSON.
	Columns string
}

// BankLine is a credit of a bank statement.
type BankLine struct {
	Statement int64
	Number    int
	PaidOn    time.Time
	Amount    money.Amount
	Narration string
	// Reference is the bank's reference of the payment, or, if none was found, one that is
	// made up from the line and is the same whenever it is uploaded.
	Reference string
	// Key identifies the line, whichever statement it is in.
	Key string

	// Announcement is the announcement that the line matches; its ID is 0 if there is none.
	Announcement Announcement
	// CreditedTo is the operator that a top-up of the line's payment was credited to, under
	// Reference or the announcement's; 0 if there is none. The others are the top-up's amount,
	// reference and time.
	CreditedTo    int64
	CreditedAs    money.Amount
	CreditedUnder string
	CreditedAt    time.Time
	// Proposal is the open proposal of a top-up of Reference, made at ProposedAt; 0 if there
	// is none.
	Proposal   int64
	ProposedAt time.Time
}

// LineKind is what a line needs.
type LineKind string

// The kinds of lines.
const (
	// ExactLine has an announcement of the same amount, DifferentLine one of another amount.
	ExactLine     LineKind = "exact"
	DifferentLine LineKind = "differs"
	// WaitingLine is a line whose top-up waits for a second person.
	WaitingLine LineKind = "approval"
	// DoneLine is credited, with or without an announcement.
	DoneLine LineKind = "credited"
	// UnmatchedLine has no announcement.
	UnmatchedLine LineKind = "unmatched"
)

// Kind returns what the line needs at a moment.
func (l BankLine) Kind(now time.Time) LineKind {
	switch a := l.Announcement.AsOf(now); {
	case l.CreditedTo != 0 || a.State == Credited:
		return DoneLine
	case a.State == Waiting || l.Proposal != 0 && now.Before(l.ProposedAt.Add(ProposalLifetime)):
		return WaitingLine
	case !a.Open():
		return UnmatchedLine
	case a.Amount == l.Amount:
		return ExactLine
	}
	return DifferentLine
}

const (
	// LinesKept is how long bank lines without an announcement are kept, and how old a line of
	// a statement may be.
	LinesKept = 400 * 24 * time.Hour
	// maxNarration is how many characters of a narration are kept.
	maxNarration = 200
	maxFileName  = 100
	// generatedReferencePrefix begins the reference of a line that has none of the bank's.
	generatedReferencePrefix = "BANK-"
)

// StatementStore keeps bank statements.
type StatementStore interface {
	AnnouncementStore
	// ImportStatement stores a statement with the lines that were not uploaded before, and its
	// columns for the next statement with the same header. If all were uploaded before,
	// nothing is stored, and the statement that has the first of them is returned with known
	// set. Lines without an announcement from before a day are removed.
	ImportStatement(ctx context.Context, action StaffAction, statement BankStatement, header string, lines []BankLine, removeBefore time.Time) (stored BankStatement, known bool, err error)
	// BankStatements lists the latest statements, newest first.
	BankStatements(ctx context.Context, limit int) ([]BankStatement, error)
	BankStatement(ctx context.Context, id int64) (BankStatement, error)
	// BankLines reads the lines of a statement.
	BankLines(ctx context.Context, statement int64) ([]BankLine, error)
	// LinesOfAnnouncement reads the lines that match an announcement.
	LinesOfAnnouncement(ctx context.Context, announcement int64) ([]BankLine, error)
	// BankColumns reads the columns that were chosen for a header, as JSON; empty if none were.
	BankColumns(ctx context.Context, header string) (string, error)
}

// ParsedStatement is a bank statement as a file has it.
type ParsedStatement struct {
	FileName string
	// Header identifies the header line, Columns are the columns that were read, as JSON.
	Header, Columns string
	Lines           []BankLine // with day, amount, narration and reference; the rest is filled in
	Debits, Skipped int
}

// ImportStatement stores the credits of a statement and compares them with the open
// announcements. Nothing is credited. Of a statement that was uploaded before, known is set.
func (s *Service) ImportStatement(ctx context.Context, parsed ParsedStatement) (stored BankStatement, known bool, err error) {
	now := s.now()
	oldest := now.Add(-LinesKept)
	statement := BankStatement{
		FileName: shortenText(strings.TrimSpace(parsed.FileName), maxFileName), Actor: s.actor, At: now,
		Debits: parsed.Debits, Skipped: parsed.Skipped, Columns: parsed.Columns,
	}
	if err := checkText("file's name", statement.FileName, 1, maxFileName); err != nil {
		return statement, false, err
	}
	var lines []BankLine
	seen := map[string]int{}
	for _, line := range parsed.Lines {
		if line.PaidOn.Before(oldest) {
			statement.Skipped++
			continue
		}
		if line.PaidOn.After(now) {
			return statement, false, Refuse("a line is of %s, which is still to come: is the date's column right?", line.PaidOn.Format(time.DateOnly))
		}
		line.Narration = shortenText(line.Narration, maxNarration)
		line.Key = lineKey(line, seen)
		if line.Reference == "" {
			line.Reference = generatedReferencePrefix + strings.ToUpper(line.Key[:12])
		}
		line.Number = len(lines) + 1
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return statement, false, Refuse("the file has no credit of the last %d days: nothing came in, or the amount's column is wrong", int(LinesKept.Hours()/24))
	}
	stored, known, err = s.store.ImportStatement(ctx, s.newAction(StatementImport), statement, parsed.Header, lines, oldest)
	if err != nil {
		return stored, known, err
	}
	open, err := s.store.Announcements(ctx, AnnouncementFilter{Open: true, Limit: maxMatched})
	if err != nil {
		return stored, known, err
	}
	return stored, known, matchPayments(ctx, s.store, open)
}

// lineKey hashes a line. Lines of a file that are the same are numbered.
func lineKey(line BankLine, seen map[string]int) string {
	text := fmt.Sprintf("%s\n%d\n%s\n%s", line.PaidOn.Format(time.DateOnly), line.Amount.Paise(), NormaliseReference(line.Reference), NormaliseReference(line.Narration))
	seen[text]++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d", text, seen[text]))
	return hex.EncodeToString(sum[:])
}

// shortenText cuts a text to so many characters.
func shortenText(text string, most int) string {
	if letters := []rune(text); len(letters) > most {
		return strings.TrimSpace(string(letters[:most]))
	}
	return text
}

// BankColumns returns the columns that were chosen for a header line, as JSON.
func (s *Service) BankColumns(ctx context.Context, header string) (string, error) {
	return s.store.BankColumns(ctx, header)
}

// BankStatements lists the latest statements, newest first.
func (s *Service) BankStatements(ctx context.Context, limit int) ([]BankStatement, error) {
	return s.store.BankStatements(ctx, limit)
}

// BankStatement reads a statement and its lines.
func (s *Service) BankStatement(ctx context.Context, id int64) (BankStatement, []BankLine, error) {
	statement, err := s.store.BankStatement(ctx, id)
	if err != nil {
		return statement, nil, err
	}
	lines, err := s.store.BankLines(ctx, id)
	return statement, lines, err
}

// LinesOfAnnouncement reads the bank lines that match an announcement.
func (s *Service) LinesOfAnnouncement(ctx context.Context, id int64) ([]BankLine, error) {
	return s.store.LinesOfAnnouncement(ctx, id)
}

// Announcements lists announcements, newest first.
func (s *Service) Announcements(ctx context.Context, filter AnnouncementFilter) ([]Announcement, error) {
	all, err := s.store.Announcements(ctx, filter)
	return asOf(all, s.now()), err
}

// Announcement returns one announcement.
func (s *Service) Announcement(ctx context.Context, id int64) (Announcement, error) {
	a, err := s.store.Announcement(ctx, id)
	return a.AsOf(s.now()), err
}

// OpenAnnouncements counts the open announcements and adds them up.
func (s *Service) OpenAnnouncements(ctx context.Context) (count int, sum money.Amount, err error) {
	return s.store.OpenAnnouncements(ctx, 0)
}

// RejectAnnouncement rejects an announcement, for a reason that the operator sees.
func (s *Service) RejectAnnouncement(ctx context.Context, id int64, reason string) (Announcement, error) {
	action, err := s.newReasonedAction(PaymentReject, reason)
	if err != nil {
		return Announcement{}, err
	}
	return s.store.CloseAnnouncement(ctx, action, id, Rejected)
}

// LineResult is what became of a line that was to be credited.
type LineResult struct {
	Line BankLine
	ActionResult
	// Refusal is why it was not; nil if it was credited or proposed.
	Refusal *Refusal
}

// CheckShown refuses a line that was shown with another announcement than it has.
func (l BankLine) CheckShown(announcement int64) error {
	switch l.Announcement.ID {
	case announcement:
		return nil
	case 0:
		return Refuse("it has no announced payment any more: look at the statement again")
	}
	return Refuse("it is of announced payment %s, and not of the one that was shown: look at the statement again", l.Announcement.Code)
}

// CreditLines tops up wallets with the lines of a statement that match an open announcement:
// each with what the bank received, under the bank's reference, as SubmitTopUp does. wanted has
// the announcement with which each line was shown. A line that is refused does not keep the
// others from being credited. What is credited, or waits for approval, is left alone.
func (s *Service) CreditLines(ctx context.Context, statement int64, wanted map[int]int64) (results []LineResult, err error) {
	lines, err := s.store.BankLines(ctx, statement)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		announcement, chosen := wanted[line.Number]
		if kind := line.Kind(s.now()); !chosen || kind == DoneLine || kind == WaitingLine {
			continue
		}
		a := line.Announcement
		result := LineResult{Line: line}
		if err = line.CheckShown(announcement); err == nil {
			result.ActionResult, err = s.SubmitTopUp(ctx, TopUp{OperatorID: a.OperatorID, Amount: line.Amount, Reference: a.TopUpReference()})
		}
		if err != nil && !errors.As(err, &result.Refusal) {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}
