package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"unicode/utf8"
)

// Activate creates a subscriber and activates a plan, for its price. The key
// names this activation permanently.
//
// If the provider's answer is missing the call waits until the operation is settled,
// and ends with PendingReview if that takes longer than Retry.Total: call again later,
// with the same key, or use Await. With the errors PendingReview and ProviderError the
// operation is returned as well. A password that the service generated is only in the
// first response, even if that is PendingReview: store it.
func (c *Client) Activate(ctx context.Context, key IdempotencyKey, activation Activation) (*Operation, error) {
	return c.operate(ctx, "activate", key, activation)
}

// Renew renews a subscriber, for the plan's price. The key names this renewal
// permanently. Errors are as for Activate.
func (c *Client) Renew(ctx context.Context, key IdempotencyKey, renewal Renewal) (*Operation, error) {
	return c.operate(ctx, "renew", key, renewal)
}

// AdvanceRenew books a subscriber's next cycle before the present one ends, for
// the plan's price. The key names this booking permanently. Errors are as for
// Activate.
func (c *Client) AdvanceRenew(ctx context.Context, key IdempotencyKey, renewal Renewal) (*Operation, error) {
	return c.operate(ctx, "advance-renew", key, renewal)
}

// texts returns the fields of a request by their names, without empty ones.
func texts(request any) map[string]string {
	of := reflect.ValueOf(request)
	fields := map[string]string{}
	for i := range of.NumField() {
		if text := of.Field(i).String(); text != "" {
			fields[of.Type().Field(i).Tag.Get("json")] = text
		}
	}
	return fields
}

var wellFormedKey = regexp.MustCompile(`^[A-Za-z0-9_.:-]{8,100}$`)

// operate sends one operation, with retries where that is safe, and polls it while
// it is in progress.
func (c *Client) operate(ctx context.Context, endpoint string, key IdempotencyKey, request any) (*Operation, error) {
	req := call{method: http.MethodPost, path: endpoint, key: key}
	if failure := key.check(req); failure != nil {
		return nil, failure
	}
	fields := texts(request)
	// encoding/json silently replaces invalid UTF-8, which would change the
	// customer's name.
	for name, text := range fields {
		if !utf8.ValidString(text) {
			return nil, &Error{Call: req.String(), Code: ValidationError, Message: "Texts have to be in UTF-8. Nothing was sent.",
				Fields: map[string]string{name: "It is not in UTF-8."}}
		}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.retry.Total)
	defer cancel()
	var op *Operation
	req.body = body
	req.read = func(answer envelope, header http.Header) (err error) {
		op, err = readOperation(answer, header, key)
		return err
	}
	failure := c.exchange(ctx, req)
	switch {
	case failure == nil:
		return op, outcome(op)
	case failure.Code == PendingReview && !c.returnPending:
		return c.waitForOutcome(ctx, key, failure, Status.Settled)
	case failure.Code == RequestInProgress && c.returnPending:
		return c.waitForOutcome(ctx, key, failure, func(s Status) bool { return s != Processing })
	case failure.Code == RequestInProgress:
		// An earlier attempt arrived, and its response was lost.
		return c.waitForOutcome(ctx, key, failure, Status.Settled)
	}
	return failure.Operation, failure
}

// waitForOutcome polls the operation of a response that leaves its outcome open.
func (c *Client) waitForOutcome(ctx context.Context, key IdempotencyKey, open *Error, enough func(Status) bool) (*Operation, error) {
	first := open.Operation
	op, err := c.follow(ctx, key, enough)
	if op == nil {
		// The operation exists, even if the look-up fails.
		open.Err = err
		return first, open
	}
	if first != nil && op.Customer.Password == "" {
		op.Customer.Password = first.Customer.Password // look-ups do not repeat it
	}
	return op, err
}

// check validates a key before anything is sent.
func (k IdempotencyKey) check(req call) *Error {
	switch {
	case k == "":
		return &Error{Call: req.String(), Code: MissingIdempotencyKey,
			Message: "An operation needs an idempotency key; make one, store it, and call with it. Nothing was sent."}
	case !wellFormedKey.MatchString(string(k)):
		return &Error{Call: req.String(), Code: InvalidIdempotencyKey,
			Message: "An idempotency key has 8 to 100 characters from A-Z, a-z, 0-9, _ . : and -. Nothing was sent."}
	}
	return nil
}

func readOperation(answer envelope, header http.Header, key IdempotencyKey) (*Operation, error) {
	op := new(Operation)
	if err := json.Unmarshal(answer.Data, op); err != nil {
		return nil, fmt.Errorf("read the operation: %w", err)
	}
	if op.TransactionID == "" || op.Status == "" {
		return nil, errNoOperation
	}
	if !op.is(key) {
		return nil, errOtherOperation
	}
	op.Replayed, op.RequestID = replayed(header), answer.RequestID
	return op, nil
}

// Balance reads the operator's wallet.
func (c *Client) Balance(ctx context.Context) (*Balance, error) {
	return lookUp(ctx, c, "balance", nil, func(b *Balance) bool { return b.Currency != "" })
}

// Plans reads the catalogue. Its prices may be cached for about five minutes; an
// operation costs the price at the time of the operation.
func (c *Client) Plans(ctx context.Context) (*Catalogue, error) {
	return lookUp(ctx, c, "plans", nil, func(p *Catalogue) bool { return p.Plans != nil })
}

// Subscription reads one of the operator's subscribers.
func (c *Client) Subscription(ctx context.Context, of Subscriber) (*Subscription, error) {
	query := url.Values{}
	if of.ID != "" {
		query.Set("subscriber_id", of.ID)
	} else if of.Mobile != "" {
		query.Set("mobile", of.Mobile)
	}
	return lookUp(ctx, c, "subscription", query, func(s *Subscription) bool { return s.Customer.SubscriberID != "" })
}

// Transaction reads an operation by the service's id. A failed operation is not an
// error here.
func (c *Client) Transaction(ctx context.Context, transactionID string) (*Operation, error) {
	return lookUp(ctx, c, "transaction", url.Values{"transaction_id": {transactionID}},
		func(op *Operation) bool { return op.TransactionID == transactionID && op.Status != "" })
}

// TransactionByKey reads an operation by the caller's key. A failed operation is
// not an error here.
func (c *Client) TransactionByKey(ctx context.Context, key IdempotencyKey) (*Operation, error) {
	return lookUp(ctx, c, "transaction", url.Values{"idempotency_key": {string(key)}},
		func(op *Operation) bool { return op.IdempotencyKey == key && op.TransactionID != "" && op.Status != "" })
}

// lookUp reads one resource; right reports whether it is the requested one and
// complete.
func lookUp[T any](ctx context.Context, c *Client, endpoint string, query url.Values, right func(*T) bool) (*T, error) {
	found := new(T)
	req := call{method: http.MethodGet, path: endpoint, query: query.Encode()}
	req.read = func(answer envelope, _ http.Header) error {
		*found = *new(T) // drop the data of an earlier attempt that could not be read
		if err := json.Unmarshal(answer.Data, found); err != nil {
			return err
		}
		if !right(found) {
			return errors.New("the response is not the requested resource")
		}
		if op, is := any(found).(*Operation); is {
			op.RequestID = answer.RequestID
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.retry.Total)
	defer cancel()
	if failure := c.exchange(ctx, req); failure != nil {
		return nil, failure
	}
	return found, nil
}
