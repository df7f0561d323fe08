package httpapi

import (
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// addonFailed is the only warning: the main plan is active, its add-on is not, and the
// service follows it up.
const addonFailed = "COMBO_SECONDARY_FAILED"

// operationData is an operation in the contract's form. The first response, a replay
// and a look-up all have it; only the password is sent once.
type operationData struct {
	TransactionID       string            `json:"transaction_id"`
	IdempotencyKey      string            `json:"idempotency_key"`
	Operation           operation.Kind    `json:"operation"`
	Status              operation.State   `json:"status"`
	Channel             operation.Channel `json:"channel"`
	Customer            customerData      `json:"customer"`
	Provider            string            `json:"provider"`
	ProviderTransaction *string           `json:"provider_transaction_id"`
	Plan                boughtPlanData    `json:"plan"`
	Amount              money.Amount      `json:"amount"`
	Currency            string            `json:"currency"`
	Expiry              expiryData        `json:"expiry"`
	Wallet              walletData        `json:"wallet"`
	Warnings            []string          `json:"warnings"`
	CreatedAt           string            `json:"created_at"`
	CompletedAt         *string           `json:"completed_at"`
	// These two are set only if the operation failed.
	ProviderMessage *string `json:"provider_message,omitempty"`
	Reason          *string `json:"reason,omitempty"`
}

type customerData struct {
	SubscriberID string `json:"subscriber_id"`
	Name         string `json:"name"`
	Mobile       string `json:"mobile"`
	Password     string `json:"password,omitempty"`
}

type boughtPlanData struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Months int    `json:"duration_months"`
}

type expiryData struct {
	Previous  *string `json:"previous"`
	New       *string `json:"new"`
	StartDate *string `json:"start_date"`
}

type walletData struct {
	Before   money.Amount `json:"before"`
	After    money.Amount `json:"after"`
	Charged  money.Amount `json:"charged"`
	Refunded bool         `json:"refunded"`
	Held     bool         `json:"held"`
}

type transactionData struct {
	operationData
	ResultCode    fault.Code `json:"result_code"`
	ResultMessage string     `json:"result_message"`
}

func (d operationData) appendJSON(out []byte) []byte {
	o := openObject(out)
	d.appendFields(&o)
	return o.close()
}

func (d operationData) appendFields(o *object) {
	o.text("transaction_id", d.TransactionID)
	o.text("idempotency_key", d.IdempotencyKey)
	o.text("operation", string(d.Operation))
	o.text("status", string(d.Status))
	o.text("channel", string(d.Channel))
	customer := o.inner("customer")
	customer.text("subscriber_id", d.Customer.SubscriberID)
	customer.text("name", d.Customer.Name)
	customer.text("mobile", d.Customer.Mobile)
	if d.Customer.Password != "" {
		customer.text("password", d.Customer.Password)
	}
	o.closeInner(customer)
	o.text("provider", d.Provider)
	o.orNull("provider_transaction_id", d.ProviderTransaction)
	plan := o.inner("plan")
	plan.text("id", d.Plan.ID)
	plan.text("name", d.Plan.Name)
	plan.number("duration_months", int64(d.Plan.Months))
	o.closeInner(plan)
	o.amount("amount", d.Amount)
	o.text("currency", d.Currency)
	expiry := o.inner("expiry")
	expiry.orNull("previous", d.Expiry.Previous)
	expiry.orNull("new", d.Expiry.New)
	expiry.orNull("start_date", d.Expiry.StartDate)
	o.closeInner(expiry)
	wallet := o.inner("wallet")
	wallet.amount("before", d.Wallet.Before)
	wallet.amount("after", d.Wallet.After)
	wallet.amount("charged", d.Wallet.Charged)
	wallet.flag("refunded", d.Wallet.Refunded)
	wallet.flag("held", d.Wallet.Held)
	o.closeInner(wallet)
	o.texts("warnings", d.Warnings)
	o.text("created_at", d.CreatedAt)
	o.orNull("completed_at", d.CompletedAt)
	if d.ProviderMessage != nil {
		o.text("provider_message", *d.ProviderMessage)
	}
	if d.Reason != nil {
		o.text("reason", *d.Reason)
	}
}

// appendJSON is there because operationData's would do for the whole: Go takes an
// embedded method for one's own.
func (d transactionData) appendJSON(out []byte) []byte {
	o := openObject(out)
	d.appendFields(&o)
	o.text("result_code", string(d.ResultCode))
	o.text("result_message", d.ResultMessage)
	return o.close()
}

func viewOperation(op operation.Operation) operationData {
	data := operationData{
		TransactionID:       op.ID,
		IdempotencyKey:      op.KnownKey(),
		Operation:           op.Kind,
		Status:              op.State,
		Channel:             op.Channel,
		Customer:            customerData{SubscriberID: op.SubscriberID, Name: op.CustomerName, Mobile: op.Mobile},
		Provider:            op.Provider,
		ProviderTransaction: orNull(op.ProviderTransaction),
		Plan:                boughtPlanData{ID: op.PlanID, Name: op.PlanName, Months: op.PlanMonths},
		Amount:              op.Amount,
		Currency:            money.Currency,
		Expiry:              expiryData{Previous: dateTime(op.ExpiryPrevious)},
		Wallet: walletData{
			Before: op.WalletBefore, After: op.WalletAfter(), Charged: op.Charged(),
			Refunded: op.State == operation.Failed, Held: op.State.Open(),
		},
		Warnings:    []string{},
		CreatedAt:   *dateTime(op.CreatedAt),
		CompletedAt: dateTime(op.CompletedAt),
	}
	if op.State == operation.Success {
		data.Expiry.New = dateTime(op.ExpiryPlanned)
	}
	if op.Kind == operation.AdvanceRenew {
		data.Expiry.StartDate = orNull(op.CycleStartsAt.In(subscription.IST).Format(time.DateOnly))
	}
	if op.AddonMissing() {
		data.Warnings = append(data.Warnings, addonFailed)
	}
	if op.State == operation.Failed {
		reason := string(op.Reason)
		data.ProviderMessage, data.Reason = &op.ProviderMessage, &reason
	}
	return data
}

// subscriptionData is a subscriber in the contract's form.
type subscriptionData struct {
	Customer struct {
		SubscriberID   string `json:"subscriber_id"`
		Name           string `json:"name"`
		Mobile         string `json:"mobile"`
		Email          string `json:"email"`
		ConnectionType string `json:"connection_type"`
	} `json:"customer"`
	Provider                string                        `json:"provider"`
	Plan                    namedPlanData                 `json:"plan"`
	Status                  subscription.SubscriberStatus `json:"status"`
	Active                  bool                          `json:"active"`
	ExpiryDate              *string                       `json:"expiry_date"`
	DaysRemaining           int                           `json:"days_remaining"`
	CreatedAt               *string                       `json:"created_at"`
	RenewedAt               *string                       `json:"renewed_at"`
	LastProviderTransaction *string                       `json:"last_provider_transaction"`
	PendingOperations       []pendingData                 `json:"pending_operations"`
}

type namedPlanData struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type pendingData struct {
	TransactionID  string          `json:"transaction_id"`
	IdempotencyKey string          `json:"idempotency_key"`
	Operation      operation.Kind  `json:"operation"`
	Status         operation.State `json:"status"`
	Plan           namedPlanData   `json:"plan"`
	Amount         money.Amount    `json:"amount"`
	CreatedAt      string          `json:"created_at"`
}

func (d subscriptionData) appendJSON(out []byte) []byte {
	o := openObject(out)
	customer := o.inner("customer")
	customer.text("subscriber_id", d.Customer.SubscriberID)
	customer.text("name", d.Customer.Name)
	customer.text("mobile", d.Customer.Mobile)
	customer.text("email", d.Customer.Email)
	customer.text("connection_type", d.Customer.ConnectionType)
	o.closeInner(customer)
	o.text("provider", d.Provider)
	d.Plan.appendTo(&o)
	o.text("status", string(d.Status))
	o.flag("active", d.Active)
	o.orNull("expiry_date", d.ExpiryDate)
	o.number("days_remaining", int64(d.DaysRemaining))
	o.orNull("created_at", d.CreatedAt)
	o.orNull("renewed_at", d.RenewedAt)
	o.orNull("last_provider_transaction", d.LastProviderTransaction)
	o.objects("pending_operations", len(d.PendingOperations), func(i int, one *object) {
		pending := d.PendingOperations[i]
		one.text("transaction_id", pending.TransactionID)
		one.text("idempotency_key", pending.IdempotencyKey)
		one.text("operation", string(pending.Operation))
		one.text("status", string(pending.Status))
		pending.Plan.appendTo(one)
		one.amount("amount", pending.Amount)
		one.text("created_at", pending.CreatedAt)
	})
	return o.close()
}

func (d namedPlanData) appendTo(o *object) {
	plan := o.inner("plan")
	plan.text("id", d.ID)
	plan.text("name", d.Name)
	o.closeInner(plan)
}

// viewSubscription converts a subscriber. An imported subscriber has no operation yet
// that names a provider, so the configured provider is shown.
func viewSubscription(s operation.Subscription, now time.Time, providerName string) subscriptionData {
	status := subscription.StatusAt(s.Expires, now)
	data := subscriptionData{
		Provider:                s.Provider,
		Status:                  status,
		Active:                  status == subscription.SubscriberActive,
		ExpiryDate:              dateTime(s.Expires),
		DaysRemaining:           subscription.DaysRemaining(s.Expires, now),
		CreatedAt:               dateTime(s.CreatedAt),
		RenewedAt:               dateTime(s.RenewedAt),
		LastProviderTransaction: orNull(s.LastProviderTransaction),
		PendingOperations:       []pendingData{},
	}
	data.Customer.SubscriberID, data.Customer.Name, data.Customer.Mobile = s.ID, s.Name, s.Mobile
	data.Customer.Email, data.Customer.ConnectionType = s.Email, s.ConnectionType
	if data.Provider == "" {
		data.Provider = providerName
	}
	for _, op := range s.Pending {
		data.PendingOperations = append(data.PendingOperations, pendingData{
			TransactionID: op.ID, IdempotencyKey: op.KnownKey(), Operation: op.Kind, Status: op.State,
			Plan: namedPlanData{ID: op.PlanID, Name: op.PlanName}, Amount: op.Amount, CreatedAt: *dateTime(op.CreatedAt),
		})
	}
	if id, found := subscription.LatestPlan(s.Cycles, now); found {
		data.Plan = namedPlanData{ID: id, Name: s.Plans[id]}
	} else if status == subscription.SubscriberPending && len(s.Pending) > 0 {
		data.Plan = data.PendingOperations[0].Plan // of its activation
	}
	return data
}

// dateTime formats a time as in the contract, in Indian time; nil for the zero time.
func dateTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.In(subscription.IST).Format(time.DateTime)
	return &text
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
