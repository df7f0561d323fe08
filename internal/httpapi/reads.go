package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Wallets reads an operator's wallet.
type Wallets interface {
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
}

// Plans lists the plans that can be bought now.
type Plans interface {
	Plans(ctx context.Context) ([]subscription.Plan, error)
}

// unavailable turns a failed read into SERVICE_UNAVAILABLE: nothing was changed, so the
// caller may retry. A fault is returned as it is.
func unavailable(cause error) error {
	var refusal *fault.Error
	if errors.As(cause, &refusal) {
		return cause
	}
	return fault.New(fault.ServiceUnavailable, "The service is temporarily unavailable. Retry with backoff.").Because(cause)
}

const walletNote = "The wallet can only be read through the API; top-ups are made outside it."

type balanceData struct {
	LCOID         int64        `json:"lco_id"`
	WalletBalance money.Amount `json:"wallet_balance"`
	Currency      string       `json:"currency"`
	LowBalance    bool         `json:"low_balance"`
	AsOf          string       `json:"as_of"`
	Note          string       `json:"note"`
}

func (d balanceData) appendJSON(out []byte) []byte {
	o := openObject(out)
	o.number("lco_id", d.LCOID)
	o.amount("wallet_balance", d.WalletBalance)
	o.text("currency", d.Currency)
	o.flag("low_balance", d.LowBalance)
	o.text("as_of", d.AsOf)
	o.text("note", d.Note)
	return o.close()
}

func (a *API) balance(ctx context.Context, r Request) (Result, error) {
	operator := r.Caller.Operator.ID
	wallet, err := a.wallets.Wallet(ctx, operator)
	if err != nil {
		return Result{}, unavailable(fmt.Errorf("read the wallet of operator %d: %w", operator, err))
	}
	return Result{
		Message: "The wallet holds " + wallet.Balance.String() + " " + money.Currency + ".",
		Data: balanceData{
			LCOID:         operator,
			WalletBalance: wallet.Balance,
			Currency:      money.Currency,
			LowBalance:    wallet.Low(),
			// RFC 3339 is ISO 8601 to the second; the zone is fixed, so this
			// always ends in +05:30.
			AsOf: r.Now.In(subscription.IST).Format(time.RFC3339),
			Note: walletNote,
		},
	}, nil
}

type plansData struct {
	Provider string     `json:"provider"`
	Currency string     `json:"currency"`
	Plans    []planData `json:"plans"`
}

type planData struct {
	ID          string                `json:"id"`
	Name        string                `json:"name"`
	Description string                `json:"description"`
	Price       money.Amount          `json:"price"`
	Duration    int                   `json:"duration"`
	Type        subscription.PlanType `json:"type"`
}

func (d plansData) appendJSON(out []byte) []byte {
	o := openObject(out)
	o.text("provider", d.Provider)
	o.text("currency", d.Currency)
	o.objects("plans", len(d.Plans), func(i int, one *object) {
		plan := d.Plans[i]
		one.text("id", plan.ID)
		one.text("name", plan.Name)
		one.text("description", plan.Description)
		one.amount("price", plan.Price)
		one.number("duration", int64(plan.Duration))
		one.text("type", string(plan.Type))
	})
	return o.close()
}

func (a *API) plans(ctx context.Context, _ Request) (Result, error) {
	listed, err := a.catalogue.Plans(ctx)
	if err != nil {
		return Result{}, unavailable(fmt.Errorf("list the plans: %w", err))
	}
	plans := make([]planData, len(listed)) // never null in JSON
	for i, plan := range listed {
		plans[i] = planData{
			ID:          plan.ID,
			Name:        plan.Name,
			Description: plan.Description,
			Price:       plan.Price,
			Duration:    plan.Months,
			Type:        plan.Type,
		}
	}
	// Sorted, so that clients can compare one list with the next.
	slices.SortFunc(plans, func(x, y planData) int { return cmp.Compare(x.ID, y.ID) })

	message := fmt.Sprintf("%d plans are available.", len(plans))
	if len(plans) == 1 {
		message = "1 plan is available."
	}
	return Result{
		Message: message,
		Data:    plansData{Provider: a.providerName, Currency: money.Currency, Plans: plans},
	}, nil
}
