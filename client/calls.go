package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"unicode/utf8"
)

// Activate creates a subscriber and activates a plan, for its price. The key
// names this activation for good.
//
// On an error that says what has become of the operation (PendingReview,
// ProviderError) the operation is returned as well.
func (c *Client) Activate(ctx context.Context, key IdempotencyKey, activation Activation) (*Operation, error) {
	return c.operate(ctx, "activate", key, activation, map[string]string{
		"full_name": activation.FullName, "mobile": activation.Mobile, "plan_id": activation.PlanID,
		"email": activation.Email, "password": string(activation.Password), "connection_type": activation.ConnectionType,
		"address": activation.Address, "subscriber_id": activation.SubscriberID,
	})
}

// Renew renews a subscriber, for the plan's price. The key names this renewal for
// good. Errors are as for Activate.
func (c *Client) Renew(ctx context.Context, key IdempotencyKey, renewal Renewal) (*Operation, error) {
	return c.operate(ctx, "renew", key, renewal, renewal.texts())
}

// AdvanceRenew books a subscriber's next cycle before the present one ends, for
// the plan's price. The key names this booking for good. Errors are as for
// Activate.
func (c *Client) AdvanceRenew(ctx context.Context, key IdempotencyKey, renewal Renewal) (*Operation, error) {
	return c.operate(ctx, "advance-renew", key, renewal, renewal.texts())
}

func (r Renewal) texts() map[string]string {
	return map[string]string{"subscriber_id": r.SubscriberID, "mobile": r.Mobile, "plan_id": r.PlanID}
}

var wellFormedKey = regexp.MustCompile(`^[A-Za-z0-9_.:-]{8,100}$`)

// operate carries out one operation: it is sent, and sent again where that is
// safe, and followed while it runs.
func (c *Client) operate(ctx context.Context, endpoint string, key IdempotencyKey, request any, texts map[string]string) (*Operation, error) {
	asked := call{method: http.MethodPost, path: endpoint, key: key}
	switch {
	case key == "":
		return nil, &Error{Call: asked.String(), Code: MissingIdempotencyKey,
			Message: "An operation needs an idempotency key; make one, store it, and call with it. Nothing was sent."}
	case !wellFormedKey.MatchString(string(key)):
		return nil, &Error{Call: asked.String(), Code: InvalidIdempotencyKey,
			Message: "An idempotency key has 8 to 100 characters from A-Z, a-z, 0-9, _ . : and -. Nothing was sent."}
	}
	// encoding/json would quietly put another character in the place of what is
	// no text, and the customer would get another name.
	for name, text := range texts {
		if !utf8.ValidString(text) {
			return nil, &Error{Call: asked.String(), Code: ValidationError, Message: "Texts have to be in UTF-8. Nothing was sent.",
				Fields: map[string]string{name: "It is not in UTF-8."}}
		}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	var op *Operation
	asked.body = body
	asked.read = func(answer envelope, header http.Header) (err error) {
		op, err = readOperation(answer, header, key)
		return err
	}
	failure := c.exchange(ctx, asked)
	switch {
	case failure == nil:
		return op, outcome(op)
	case failure.Code != RequestInProgress:
		return failure.Operation, failure
	}
	// An earlier attempt got there, and its answer was lost on the way.
	op, err = c.follow(ctx, key, func(s Status) bool { return s != Processing }, followPolls)
	if errors.Is(err, TransactionNotFound) {
		return nil, failure // it was under way a moment ago, so it cannot be known to be nothing
	}
	return op, err
}

func readOperation(answer envelope, header http.Header, key IdempotencyKey) (*Operation, error) {
	op := new(Operation)
	if err := json.Unmarshal(answer.Data, op); err != nil {
		return nil, fmt.Errorf("read the operation: %w", err)
	}
	if op.TransactionID == "" || op.Status == "" {
		return nil, errors.New("it is no operation")
	}
	if !op.is(key) {
		return nil, errOtherOperation
	}
	op.Replayed = replayed(header)
	return op, nil
}

// Balance reads the operator's wallet.
func (c *Client) Balance(ctx context.Context) (*Balance, error) {
	return lookUp[Balance](ctx, c, "balance", nil)
}

// Plans reads the catalogue. Its prices may be kept for about five minutes; what
// an operation costs is the price at its moment.
func (c *Client) Plans(ctx context.Context) (*Catalogue, error) {
	return lookUp[Catalogue](ctx, c, "plans", nil)
}

// Subscription reads one of the operator's subscribers.
func (c *Client) Subscription(ctx context.Context, of Subscriber) (*Subscription, error) {
	query := url.Values{}
	if of.ID != "" {
		query.Set("subscriber_id", of.ID)
	} else if of.Mobile != "" {
		query.Set("mobile", of.Mobile)
	}
	return lookUp[Subscription](ctx, c, "subscription", query)
}

// Transaction reads what has become of an operation, by the service's id. That
// the operation failed is no error here.
func (c *Client) Transaction(ctx context.Context, transactionID string) (*Operation, error) {
	return lookUp[Operation](ctx, c, "transaction", url.Values{"transaction_id": {transactionID}})
}

// TransactionByKey reads what has become of an operation, by the caller's key.
// That the operation failed is no error here.
func (c *Client) TransactionByKey(ctx context.Context, key IdempotencyKey) (*Operation, error) {
	return lookUp[Operation](ctx, c, "transaction", url.Values{"idempotency_key": {string(key)}})
}

func lookUp[T any](ctx context.Context, c *Client, endpoint string, query url.Values) (*T, error) {
	found := new(T)
	asked := call{method: http.MethodGet, path: endpoint}
	if len(query) > 0 {
		asked.path += "?" + query.Encode()
	}
	asked.read = func(answer envelope, _ http.Header) error {
		*found = *new(T) // nothing of an attempt that could not be read stays
		return json.Unmarshal(answer.Data, found)
	}
	if failure := c.exchange(ctx, asked); failure != nil {
		return nil, failure
	}
	return found, nil
}
