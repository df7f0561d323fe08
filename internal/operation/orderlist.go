package operation

import (
	"context"
	"errors"
	"time"
)

// OrderLister is a provider that can list the orders that it has carried out. Unlike Status it also
// finds orders whose references we have lost, as after a restore from an older backup.
type OrderLister interface {
	// ListOrders returns a page of the orders that were carried out at or after a time, oldest
	// first. The cursor is empty for the first page, then the Next of the page before, with the
	// same time. A page is whole or an error. The error is ErrListUnsupported if the provider
	// has no such list: then nothing is known about its orders.
	ListOrders(ctx context.Context, since time.Time, cursor string) (OrderPage, error)
}

// ErrListUnsupported is returned by an OrderLister whose provider does not list its orders.
var ErrListUnsupported = errors.New("the provider does not list its orders")

// OrderPage is a part of a provider's list of orders.
type OrderPage struct {
	Orders []ListedOrder
	// Next is the cursor of the next page; empty on the last one.
	Next string
}

// ListedOrder is an order that the provider has carried out.
type ListedOrder struct {
	Reference string
	// ClientKey is the one that the order carried; see ClientKeys. It is empty if the order had
	// none or the provider does not keep it.
	ClientKey    string
	Kind         Kind
	SubscriberID string
	Mobile       string
	Component    string
	// Months and ExpiresAt are as ordered; zero if the provider does not keep them.
	Months    int
	ExpiresAt time.Time
	// CarriedOutAt is the time by the provider's clock.
	CarriedOutAt time.Time
	Transaction  string
	// ReversedBy is the reference of the reversal that undid it; empty if none did. TellsReversals:
	// the provider says so of its orders.
	ReversedBy     string
	TellsReversals bool
}
