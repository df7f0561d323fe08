package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// FoundPayment is an announced payment, or a top-up that nobody announced.
type FoundPayment struct {
	OperatorID int64
	Reference  string
	Amount     money.Amount
	State      AnnouncementState
	// Day is when it was paid; of a top-up that nobody announced, when it was credited.
	Day time.Time
	// Announcement and Code are those of an announced payment; zero for others. Answer is why
	// it was rejected.
	Announcement int64
	Code         string
	Answer       string
}

// shortestReference is the length of the shortest reference that is looked for.
const shortestReference = 4

// FindPayments finds the payments of an operator by the bank's reference or our code.
func (p *Payments) FindPayments(ctx context.Context, operatorID int64, text string, limit int) ([]FoundPayment, error) {
	return findPayments(ctx, p.store, operatorID, text, limit, p.now())
}

// FindPayments finds the payments of all operators by the bank's reference or our code.
func (s *Service) FindPayments(ctx context.Context, text string, limit int) ([]FoundPayment, error) {
	return findPayments(ctx, s.store, 0, text, limit, s.now())
}

func findPayments(ctx context.Context, store AnnouncementStore, operatorID int64, text string, limit int, now time.Time) (found []FoundPayment, err error) {
	reference := NormaliseReference(text)
	if len([]rune(reference)) < shortestReference {
		return nil, nil
	}
	letters := strings.ToUpper(reference)
	announced, err := store.AnnouncementsNamed(ctx, operatorID, letters, reference, limit)
	if err != nil {
		return nil, fmt.Errorf("find the announced payment %q: %w", text, err)
	}
	credits, err := store.CreditsNamed(ctx, operatorID, reference, limit)
	if err != nil {
		return nil, fmt.Errorf("find the top-up %q: %w", text, err)
	}
	for _, a := range asOf(announced, now) {
		found = append(found, FoundPayment{
			OperatorID: a.OperatorID, Reference: a.Reference, Amount: a.Amount, State: a.State, Day: a.PaidOn, Announcement: a.ID, Code: a.Code, Answer: a.Answer,
		})
		if a.State == Credited {
			// Its top-up is the same payment.
			credits = slices.DeleteFunc(credits, func(c Credit) bool {
				key := NormaliseReference(c.Reference)
				return c.OperatorID == a.OperatorID && (key == NormaliseReference(a.Reference) || key == NormaliseReference(a.BankReference))
			})
			found[len(found)-1].Amount = a.Credited
		}
	}
	for _, c := range credits {
		found = append(found, FoundPayment{OperatorID: c.OperatorID, Reference: c.Reference, Amount: c.Amount, State: Credited, Day: c.At})
	}
	return found[:min(len(found), limit)], nil
}

// maxNamed bounds the words of a line that are looked for.
const maxNamed = 20

// CreditedInLine finds the credited payments whose code or reference stands in a bank line's
// narration: the line may be the same payment, which was credited before the line was uploaded.
func (s *Service) CreditedInLine(ctx context.Context, line BankLine) (found []FoundPayment, err error) {
	looked := map[string]bool{}
	for _, word := range lineWords(line.Narration) {
		digits := strings.Trim(word, "0123456789") == ""
		if looked[word] || len(looked) == maxNamed || !ValidPaymentCode(strings.ToUpper(word)) && !(digits && len(word) == 12) {
			continue
		}
		looked[word] = true
		payments, err := s.FindPayments(ctx, word, 1)
		if err != nil {
			return nil, err
		}
		for _, p := range payments {
			if p.State == Credited && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found, nil
}
