package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// closingGrace is how long after its end a month can first be closed. Nodes' clocks
// differ a little, and a closed month must not earn any more.
const closingGrace = 10 * time.Minute

// Month is a calendar month in Indian time.
type Month struct {
	Year  int
	Month time.Month
}

// MonthOf returns the month of a moment.
func MonthOf(t time.Time) Month {
	t = t.In(subscription.IST)
	return Month{t.Year(), t.Month()}
}

// ParseMonth reads a month such as 2027-03.
func ParseMonth(text string) (Month, error) {
	t, err := time.ParseInLocation("2006-01", text, subscription.IST)
	if err != nil {
		return Month{}, Refuse("%q is not a month: write it as 2027-03", text)
	}
	return MonthOf(t), nil
}

func (m Month) String() string { return fmt.Sprintf("%04d-%02d", m.Year, int(m.Month)) }

// Begins is the month's first moment.
func (m Month) Begins() time.Time {
	return time.Date(m.Year, m.Month, 1, 0, 0, 0, 0, subscription.IST).UTC()
}

// Ends is the first moment after the month.
func (m Month) Ends() time.Time {
	return time.Date(m.Year, m.Month+1, 1, 0, 0, 0, 0, subscription.IST).UTC()
}

// ClosedPeriod is a month of one operator whose commission is final. A commission belongs
// to the month in which its operation succeeded.
type ClosedPeriod struct {
	OperatorID int64
	Month      Month
	// Operations is how many earned a commission, Reversals how many took one back, Amount the sum.
	Operations int64
	Reversals  int64
	Amount     money.Amount
	ClosedBy   string
	ClosedAt   time.Time
}

// ClosePeriod freezes the commission of a month that is over: of one operator or, if
// operatorID is zero, of all that are not closed yet. It cannot be undone.
func (s *Service) ClosePeriod(ctx context.Context, month Month, operatorID int64) ([]ClosedPeriod, error) {
	action := s.newAction(CommissionClose)
	if opens := month.Ends().Add(closingGrace); action.At.Before(opens) {
		return nil, Refuse("%s can be closed from %s on, when it is over", month, opens.In(subscription.IST).Format("2006-01-02 15:04"))
	}
	return s.store.ClosePeriod(ctx, action, month, operatorID)
}

// ClosedPeriods lists closed months, the latest first; of one operator, or of all if
// operatorID is zero.
func (s *Service) ClosedPeriods(ctx context.Context, operatorID int64) ([]ClosedPeriod, error) {
	return s.store.ClosedPeriods(ctx, operatorID)
}

// openNamed is how many open operations a refusal lists.
const openNamed = 10

// RefuseOpenOperations refuses to close a month because of operations that are still open
// and may yet earn a commission in it.
func RefuseOpenOperations(month Month, transactions []string) *Refusal {
	if n := len(transactions); n > openNamed {
		return Refuse("%s cannot be closed while operations from before its end are open: %s and %d more; wait until they are settled, or settle them",
			month, strings.Join(transactions[:openNamed], ", "), n-openNamed)
	}
	return Refuse("%s cannot be closed while operations from before its end are open: %s; wait until they are settled, or settle them",
		month, strings.Join(transactions, ", "))
}

// RefuseOpenReversals refuses to close a month because of reversals without an outcome.
func RefuseOpenReversals(month Month, references []string) *Refusal {
	if n := len(references); n > openNamed {
		return Refuse("%s cannot be closed while reversals from before its end have no outcome: %s and %d more; wait until the provider has answered, or settle them",
			month, strings.Join(references[:openNamed], ", "), n-openNamed)
	}
	return Refuse("%s cannot be closed while reversals from before its end have no outcome: %s; wait until the provider has answered, or settle them",
		month, strings.Join(references, ", "))
}

// RefuseClosed refuses to close a month that is closed, or in which the operator had no
// account.
func RefuseClosed(month Month, operatorID int64) *Refusal {
	if operatorID == 0 {
		return Refuse("%s is closed for every operator there was", month)
	}
	return Refuse("%s of operator %s is closed already, or over before its account was opened", month, OperatorID(operatorID))
}

// PeriodSubject is a closed month's subject in the audit log.
func PeriodSubject(p ClosedPeriod) string {
	return fmt.Sprintf("commission %s of lco %d", p.Month, p.OperatorID)
}
