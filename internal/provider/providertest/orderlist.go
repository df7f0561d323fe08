package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// lister returns the provider as an OrderLister, and skips the test if it does not
// list its orders.
func (f *fixture) lister() operation.OrderLister {
	f.Helper()
	lister, is := f.Provider.(operation.OrderLister)
	if !is {
		f.Skip("the provider's client cannot list orders")
	}
	_, err := lister.ListOrders(context.Background(), allTime, "")
	if errors.Is(err, operation.ErrListUnsupported) {
		f.Skip("the provider does not list its orders")
	}
	if err != nil {
		f.Fatalf("list no orders: %v", err)
	}
	return lister
}

// allTime is before every order.
var allTime = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

var clientKey = strings.Repeat("0123456789abcdef", 4)

// maxPages limits how many pages a test reads.
const maxPages = 5000

// listAll reads every page; between runs after each but the last.
func (f *fixture) listAll(lister operation.OrderLister, since time.Time, between func()) (orders []operation.ListedOrder) {
	f.Helper()
	cursor := ""
	for range maxPages {
		page, err := lister.ListOrders(context.Background(), since, cursor)
		if err != nil {
			f.Fatalf("list orders with the cursor %q: %v", cursor, err)
		}
		orders = append(orders, page.Orders...)
		if cursor = page.Next; cursor == "" {
			return orders
		}
		between()
	}
	f.Fatalf("the list has more than %d pages", maxPages)
	return nil
}

func references(orders []operation.ListedOrder) []string {
	all := []string{}
	for _, order := range orders {
		all = append(all, order.Reference)
	}
	return all
}

func listsCarriedOut(f *fixture) {
	lister := f.lister()
	var want []operation.Order
	for i, kind := range kinds {
		order := sample(kind, fmt.Sprintf("CX%d", i), "9812345678")
		order.ClientKey = clientKey
		for _, order := range []operation.Order{order, addon(order, "-2")} {
			first := apply(f, order)
			confirmed.check(f, order.Reference, first)
			confirmed.check(f, order.Reference+" again", apply(f, order))
			want = append(want, order)
		}
	}
	// The outcome is unknown here, but not there.
	lost := sample(operation.Renew, "CX-LOST", "9812345678")
	f.Script(f.T, lost.Mobile, "reset_applied", "reject", "gateway_error")
	unknown.check(f, "an order without a reply", apply(f, lost))
	want = append(want, lost)

	rejected.check(f, "a rejected order", apply(f, sample(operation.Renew, "CX-REJECTED", lost.Mobile)))
	unknown.check(f, "an order that was not carried out", apply(f, sample(operation.Renew, "CX-503", lost.Mobile)))
	rejected.check(f, "a void", void(f, sample(operation.Renew, "CX-VOIDED", lost.Mobile)))
	if resetter, is := f.Provider.(operation.PasswordResetter); is {
		confirmed.check(f, "a password reset", resetter.ResetPassword(context.Background(), newReset("PW1", lost.Mobile)))
	}

	listed := f.listAll(lister, allTime, func() {})
	if len(listed) != len(want) {
		f.Fatalf("listed %s; want the %d orders that were carried out", references(listed), len(want))
	}
	for i, order := range want {
		got := listed[i]
		if got.Reference != order.Reference || got.Kind != order.Kind || got.SubscriberID != order.SubscriberID ||
			got.Mobile != order.Mobile || got.Component != order.Component {
			f.Errorf("listed %+v; want %+v", got, order)
		}
		// A provider may leave these out, but not change them.
		if got.ClientKey != "" && got.ClientKey != order.ClientKey || got.Months != 0 && got.Months != order.Months ||
			!got.ExpiresAt.IsZero() && !got.ExpiresAt.Equal(order.ExpiresAt) {
			f.Errorf("listed %+v; want the client key, months and expiry of %+v, or none", got, order)
		}
		if said := status(f, order); said.Transaction != got.Transaction {
			f.Errorf("%s is listed as %s; its status says %s", got.Reference, got.Transaction, said.Transaction)
		}
	}
}

func listIsStable(f *fixture) {
	lister := f.lister()
	var want []string
	add := func() {
		// As long as references can be, so that pages are as large as they get.
		order := sample(operation.AdvanceRenew, fmt.Sprintf("CX%062d", len(want)), "9812345678")
		order.ClientKey = clientKey
		want = append(want, order.Reference)
		confirmed.check(f, order.Reference, apply(f, order))
	}
	// At least two pages, however long they are: an answer has at most 64 KiB.
	for range 300 {
		add()
		if page, err := lister.ListOrders(context.Background(), allTime, ""); err != nil {
			f.Fatal(err)
		} else if page.Next != "" {
			break
		}
	}
	more := 25
	listed := f.listAll(lister, allTime, func() {
		if more--; more > 0 {
			add()
		}
	})
	if got := references(listed); !slices.Equal(got, want) {
		f.Errorf("listed %s while orders were added; want %s", got, want)
	}
	if got := references(f.listAll(lister, allTime, func() {})); !slices.Equal(got, want) {
		f.Errorf("listed %s afterwards; want %s", got, want)
	}

	// From the time of an order on, without any later one missing.
	middle := listed[len(listed)/2]
	from := references(f.listAll(lister, middle.CarriedOutAt, func() {}))
	if tail := want[len(want)/2:]; len(from) < len(tail) || !slices.Equal(from[len(from)-len(tail):], tail) {
		f.Errorf("from the time of %s on, listed %s; want it and everything after it", middle.Reference, from)
	}
	if after := f.listAll(lister, listed[len(listed)-1].CarriedOutAt.Add(time.Hour), func() {}); len(after) != 0 {
		f.Errorf("an hour after the last order, listed %s; want none", references(after))
	}
}

func listRefusesUnknownCursor(f *fixture) {
	lister := f.lister()
	confirmed.check(f, "apply", apply(f, sample(operation.Renew, "CX1", "9812345678")))
	page, err := lister.ListOrders(context.Background(), allTime, "no-such-cursor")
	if err == nil || errors.Is(err, operation.ErrListUnsupported) {
		f.Errorf("ListOrders with an unknown cursor = %+v, %v; want an error", page, err)
	}
}

func listFailsWhileDown(f *fixture) {
	lister := f.lister()
	f.Mode(f.T, "down")
	page, err := lister.ListOrders(context.Background(), allTime, "")
	f.Mode(f.T, "up")
	if err == nil || errors.Is(err, operation.ErrListUnsupported) {
		f.Errorf("ListOrders of a provider that is down = %+v, %v; want an error", page, err)
	}
}
