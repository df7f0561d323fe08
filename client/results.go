package client

// IdempotencyKey permanently names one business action of the caller: 8 to 100
// characters from A-Z, a-z, 0-9, underscore, period, colon and hyphen. Derive it
// from the action (an order's number), or generate it at random, and store it before
// the first call.
type IdempotencyKey string

// Activation is the request for a new subscriber with a plan. The first three
// fields are required; empty fields are not sent.
type Activation struct {
	FullName string `json:"full_name"`
	Mobile   string `json:"mobile"`
	PlanID   string `json:"plan_id"`
	Email    string `json:"email"`
	// Password is the customer's app password. If it is empty the service generates
	// one and returns it in the first response only: if that is lost, so is the
	// password. Set one if that must not happen.
	Password       Secret `json:"password"`
	ConnectionType string `json:"connection_type"`
	Address        string `json:"address"`
	// SubscriberID is a preferred id of six digits; if it is in use the subscriber
	// gets another.
	SubscriberID string `json:"subscriber_id"`
}

// Renewal is the request for a further term of a subscriber, identified by id or,
// if that is empty, by mobile number.
type Renewal struct {
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`
	PlanID       string `json:"plan_id"`
}

// Subscriber identifies a subscriber by id or, if that is empty, by mobile number.
type Subscriber struct {
	ID     string
	Mobile string
}

// Status is the state of an operation.
type Status string

// Every operation is in one of these.
const (
	Processing  Status = "processing"
	Success     Status = "success"
	Failed      Status = "failed"
	NeedsReview Status = "needs_review"
)

// Settled reports whether the status is final.
func (s Status) Settled() bool { return s == Success || s == Failed }

// Operation is an activation, a renewal or an advance renewal.
type Operation struct {
	// TransactionID is the service's id; store it with the order.
	TransactionID  string         `json:"transaction_id"`
	IdempotencyKey IdempotencyKey `json:"idempotency_key"`
	// Operation is activate, renew or advance_renew.
	Operation string `json:"operation"`
	Status    Status `json:"status"`
	// Channel is api, or web for operations in the operator's panel.
	Channel  string   `json:"channel"`
	Customer Customer `json:"customer"`
	Provider string   `json:"provider"`
	// ProviderTransactionID is empty if the provider gave none.
	ProviderTransactionID string     `json:"provider_transaction_id"`
	Plan                  BoughtPlan `json:"plan"`
	// Amount is the catalogue's price; Wallet says whether it was charged.
	Amount   Amount `json:"amount"`
	Currency string `json:"currency"`
	Expiry   Expiry `json:"expiry"`
	Wallet   Wallet `json:"wallet"`
	// Warnings may hold ComboSecondaryFailed.
	Warnings    []string `json:"warnings"`
	CreatedAt   Moment   `json:"created_at"`
	CompletedAt Moment   `json:"completed_at"`
	// ProviderMessage and Reason say why the operation failed; the message is
	// human-readable.
	ProviderMessage string `json:"provider_message,omitempty"`
	Reason          Reason `json:"reason,omitempty"`
	// ResultCode and ResultMessage are the code and message that a repeated request
	// would return now. They are set by look-ups.
	ResultCode    Code   `json:"result_code,omitempty"`
	ResultMessage string `json:"result_message,omitempty"`
	// Replayed is true if this is the result of an earlier request with the same key.
	Replayed bool `json:"-"`

	// RequestID identifies the request of the response to support.
	RequestID string `json:"-"`
}

// Reason is why an operation failed. New reasons may be added within version 1.
type Reason string

// Nothing was charged, and the key is used up: a new attempt is a new action with a new
// key.
const (
	// ProviderRejected: the provider refused it. See ProviderMessage.
	ProviderRejected Reason = "PROVIDER_REJECTED"
	// ProviderUnreachable: the provider could not be reached, and was sent nothing.
	ProviderUnreachable Reason = "PROVIDER_UNREACHABLE"
	// NotConfirmed: the outcome was unknown, and the provider then stated that it had
	// not carried it out.
	NotConfirmed Reason = "NOT_CONFIRMED"
	// RejectedByReview: the outcome was unknown, and staff found that it had not been
	// carried out.
	RejectedByReview Reason = "REJECTED_BY_REVIEW"
)

// ComboSecondaryFailed is the warning that a combo's main plan is active and its
// add-on is not yet; the service retries the add-on.
const ComboSecondaryFailed = "COMBO_SECONDARY_FAILED"

// Customer is the customer of an operation.
type Customer struct {
	SubscriberID string `json:"subscriber_id"`
	Name         string `json:"name"`
	Mobile       string `json:"mobile"`
	// Password is set only if the service generated it, and only in the first
	// response to an activation.
	Password Secret `json:"password,omitempty"`
}

// BoughtPlan is the plan of an operation.
type BoughtPlan struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	DurationMonths int    `json:"duration_months"`
}

// Expiry is the change of a subscriber's expiry by an operation.
type Expiry struct {
	Previous Moment `json:"previous"`
	New      Moment `json:"new"`
	// StartDate is the first day of a cycle that was booked in advance, as
	// YYYY-MM-DD; otherwise empty.
	StartDate string `json:"start_date"`
}

// Wallet is the change of the operator's wallet by an operation.
type Wallet struct {
	Before   Amount `json:"before"`
	After    Amount `json:"after"`
	Charged  Amount `json:"charged"`
	Refunded bool   `json:"refunded"`
	Held     bool   `json:"held"`
}

// Balance is the operator's wallet.
type Balance struct {
	LCOID         int64  `json:"lco_id"`
	WalletBalance Amount `json:"wallet_balance"`
	Currency      string `json:"currency"`
	LowBalance    bool   `json:"low_balance"`
	AsOf          Moment `json:"as_of"`
	Note          string `json:"note"`
}

// Catalogue lists the plans for sale. It may be cached for about five minutes.
type Catalogue struct {
	Provider string `json:"provider"`
	Currency string `json:"currency"`
	Plans    []Plan `json:"plans"`
}

// Plan is a plan in the catalogue.
type Plan struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Price       Amount `json:"price"`
	// Duration is in months of 30 days.
	Duration int `json:"duration"`
	// Type is standard or combo.
	Type string `json:"type"`
}

// Subscription is a subscriber with the current plan.
type Subscription struct {
	Customer struct {
		SubscriberID   string `json:"subscriber_id"`
		Name           string `json:"name"`
		Mobile         string `json:"mobile"`
		Email          string `json:"email"`
		ConnectionType string `json:"connection_type"`
	} `json:"customer"`
	Provider string    `json:"provider"`
	Plan     NamedPlan `json:"plan"`
	// Status is active, expired, or pending while the activation is not settled.
	Status                  string             `json:"status"`
	Active                  bool               `json:"active"`
	ExpiryDate              Moment             `json:"expiry_date"`
	DaysRemaining           int                `json:"days_remaining"`
	CreatedAt               Moment             `json:"created_at"`
	RenewedAt               Moment             `json:"renewed_at"`
	LastProviderTransaction string             `json:"last_provider_transaction"`
	PendingOperations       []PendingOperation `json:"pending_operations"`
}

// NamedPlan is a plan by id and name.
type NamedPlan struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// PendingOperation is an unsettled operation of a subscriber.
type PendingOperation struct {
	TransactionID  string         `json:"transaction_id"`
	IdempotencyKey IdempotencyKey `json:"idempotency_key"`
	Operation      string         `json:"operation"`
	Status         Status         `json:"status"`
	Plan           NamedPlan      `json:"plan"`
	Amount         Amount         `json:"amount"`
	CreatedAt      Moment         `json:"created_at"`
}
