package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// maxCursor is the longest cursor that is accepted, in bytes.
const maxCursor = 200

// ListOrders reads a page of the orders that the provider has carried out. It changes nothing, so it
// ends when ctx ends. HTTP 404, 405 or 501 mean that the provider has no list, whatever their bodies
// say; every other flaw is an error and not an empty or shorter page.
func (g *Gateway) ListOrders(ctx context.Context, since time.Time, cursor string) (operation.OrderPage, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()

	// In whole seconds, because a provider may keep no fractions: it would seem to list orders that
	// are too early, or leave out those of the same second.
	since = since.UTC().Truncate(time.Second)
	query := url.Values{"since": {since.Format(time.RFC3339)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	c := g.begin(ctx, "orders", "")
	got, failed := g.get(ctx, c, pathOrders, query)
	code := got.code
	if failed != nil {
		code = failed.code
	}
	switch {
	case isUnsupported(code):
		g.conclude(c, result{cause: Answered})
		return operation.OrderPage{}, fmt.Errorf("list the provider's orders: HTTP %d: %w", code, operation.ErrListUnsupported)
	case failed == nil && code != http.StatusOK:
		failed = violation("HTTP %d where a list of orders was expected", code)
	}
	var page operation.OrderPage
	if failed == nil {
		page, failed = g.readOrders(got.fields, since, cursor)
	}
	if failed != nil {
		g.conclude(c, failed.result())
		return operation.OrderPage{}, fmt.Errorf("list the provider's orders: %s", failed.detail)
	}
	g.conclude(c, result{cause: Answered})
	return page, nil
}

// readOrders accepts only a page without errors: a part of one would hide an order that was carried
// out.
func (g *Gateway) readOrders(fields map[string]any, since time.Time, cursor string) (page operation.OrderPage, failed *failure) {
	listed, ok := fields["orders"].([]any)
	if !ok {
		return page, violation("the answer has no list of orders")
	}
	seen, last := map[string]bool{}, since
	for i, item := range listed {
		order, wrong := g.readOrder(item)
		switch {
		case wrong != "":
			return operation.OrderPage{}, violation("order %d of the list %s", i+1, wrong)
		case seen[order.Reference]:
			return operation.OrderPage{}, violation("order %s is listed twice", order.Reference)
		case order.CarriedOutAt.Before(since):
			return operation.OrderPage{}, violation("order %s was carried out before the time that was asked for", order.Reference)
		case order.CarriedOutAt.Before(last):
			return operation.OrderPage{}, violation("order %s was carried out before the one that is listed ahead of it", order.Reference)
		}
		seen[order.Reference], last = true, order.CarriedOutAt
		page.Orders = append(page.Orders, order)
	}
	if page.Next, failed = g.readNext(fields, cursor, len(listed)); failed != nil {
		return operation.OrderPage{}, failed
	}
	return page, nil
}

// readNext reads the cursor of the next page; empty on the last one. It refuses a cursor that would not
// lead on, so that reading page by page ends.
func (g *Gateway) readNext(fields map[string]any, cursor string, listed int) (string, *failure) {
	value, given := fields["next_cursor"]
	if !given {
		return "", nil
	}
	next, isText := value.(string)
	switch {
	case !isText || next == "" || len(next) > maxCursor || !isVisible(next):
		return "", violation("the next_cursor is not 1 to %d visible ASCII characters", maxCursor)
	case g.reveals(next, ""):
		return "", violation("the next_cursor repeats a secret")
	case next == cursor:
		return "", violation("the next_cursor is the one that was asked with")
	case listed == 0:
		return "", violation("a page without orders has a next_cursor")
	}
	return next, nil
}

// readOrder reads one order of the list, or says what is wrong with it.
func (g *Gateway) readOrder(item any) (order operation.ListedOrder, wrong string) {
	object, ok := item.(map[string]any)
	if !ok {
		return order, "is not an object"
	}
	var kind, carriedOutAt, expiresAt string
	for _, field := range []struct {
		name     string
		into     *string
		required bool
		valid    func(string) bool
		rule     string
	}{
		{"reference", &order.Reference, true, isReference, "1 to 64 characters of A–Z a–z 0–9 . -"},
		{"client_key", &order.ClientKey, false, isClientKey, "the text that came with the order"},
		{"kind", &kind, true, isKind, "activate, renew or advance_renew"},
		{"subscriber_id", &order.SubscriberID, true, isNumber, "1 to 100 visible ASCII characters"},
		{"mobile", &order.Mobile, true, isMobile, "ten digits"},
		{"component", &order.Component, true, isNumber, "1 to 100 visible ASCII characters"},
		{"transaction_id", &order.Transaction, true, isNumber, "1 to 100 visible ASCII characters"},
		{"carried_out_at", &carriedOutAt, true, isMoment, "a time with an offset"},
		{"expires_at", &expiresAt, false, isMoment, "a time with an offset"},
		{"reversed_by", &order.ReversedBy, false, isReference, "the reference of a reversal, or empty"},
	} {
		value, given := object[field.name]
		text, isText := value.(string)
		switch {
		case !given && !field.required:
			continue
		case !given:
			return order, "has no " + field.name
		case !isText || text == "" && field.required || text != "" && !field.valid(text):
			return order, fmt.Sprintf("has a %s that is not %s", field.name, field.rule)
		case g.reveals(text, ""):
			return order, fmt.Sprintf("has a %s that repeats a secret", field.name)
		}
		*field.into = text
	}
	order.Kind = operation.Kind(kind)
	_, order.TellsReversals = object["reversed_by"]
	_ = order.CarriedOutAt.UnmarshalText([]byte(carriedOutAt)) // checked above
	if expiresAt != "" {
		_ = order.ExpiresAt.UnmarshalText([]byte(expiresAt))
	}
	if value, given := object["months"]; given {
		number, _ := value.(json.Number)
		months, err := number.Int64()
		if err != nil || months < 1 || months > maxMonths {
			return order, fmt.Sprintf("has months that are not a whole number from 1 to %d", maxMonths)
		}
		order.Months = int(months)
	}
	return order, ""
}

// maxMonths is more than any plan has.
const maxMonths = 1200

func isKind(text string) bool {
	_, known := paths[operation.Kind(text)]
	return known
}

// isMoment is as strict as RFC 3339: package time accepts a comma before fractions.
func isMoment(text string) bool {
	return new(time.Time).UnmarshalText([]byte(text)) == nil && !strings.Contains(text, ",")
}

func isMobile(text string) bool { return len(text) == 10 && strings.Trim(text, "0123456789") == "" }

func isReference(text string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-"
	return len(text) <= 64 && strings.Trim(text, allowed) == ""
}

// isClientKey is strict, because a key that was changed, if only to capitals, would not be recognised.
func isClientKey(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}
