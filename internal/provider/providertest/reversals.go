package providertest

import (
	"context"
	"errors"
	"sync"

	"github.com/coaxhq/coax/internal/operation"
)

// reverse asks the provider to undo an order.
func (f *fixture) reverse(of operation.Provider, order operation.ReversalOrder) operation.Reply {
	f.Helper()
	reverser, is := of.(operation.Reverser)
	if !is {
		f.Fatal("the provider cannot undo an order")
	}
	return reverser.Reverse(context.Background(), order)
}

func newReversal(reference string, of operation.Order) operation.ReversalOrder {
	return operation.ReversalOrder{Reference: reference, Order: of.Reference, SubscriberID: of.SubscriberID, Mobile: of.Mobile}
}

func reversedOnce(f *fixture) {
	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(f, "an order", apply(f, order))
	reversal := newReversal("RV1", order)
	first := f.reverse(f.Provider, reversal)
	confirmed.check(f, "its reversal", first)
	again := f.reverse(f.Provider, reversal)
	confirmed.check(f, "the reversal again", again)
	if first.Transaction != again.Transaction {
		f.Errorf("the transaction number is first %q, then %q", first.Transaction, again.Transaction)
	}
	f.effects("RV1", 1)
	f.rejects("another reversal of the order", newReversal("RV2", order))
	f.rejects("a reversal of an unknown order", newReversal("RV3", sample(operation.Renew, "CX9", "9812345678")))

	refused := sample(operation.Renew, "CX2", "9812345678")
	f.Script(f.T, refused.Mobile, "reject")
	rejected.check(f, "an order", apply(f, refused))
	f.rejects("a reversal of a rejected order", newReversal("RV4", refused))
	f.rejects("a reversal of a reversal", newReversal("RV5", operation.Order{Reference: "RV1", SubscriberID: order.SubscriberID, Mobile: order.Mobile}))

	theirs := sample(operation.Renew, "CX3", "9812345678")
	confirmed.check(f, "an order", apply(f, theirs))
	theirs.Mobile = "9800000000"
	f.rejects("a reversal for another customer", newReversal("RV6", theirs))

	// What was carried out stays in the answers about the order itself.
	confirmed.check(f, "the status of a reversed order", status(f, order))
	confirmed.check(f, "the reversed order again", apply(f, order))
	f.effects("CX1", 1)
	f.listsReversal(order.Reference, reversal.Reference)
	f.listsReversal(theirs.Reference, "")
}

// listsReversal requires that the list names the reversal of an order, if it has reversals at all.
func (f *fixture) listsReversal(reference, want string) {
	f.Helper()
	lister, is := f.Provider.(operation.OrderLister)
	if !is {
		return
	}
	page, err := lister.ListOrders(context.Background(), allTime, "")
	if errors.Is(err, operation.ErrListUnsupported) {
		return
	}
	if err != nil {
		f.Fatal(err)
	}
	for _, order := range page.Orders {
		if order.Reference == reference && order.TellsReversals && order.ReversedBy != want {
			f.Errorf("%s is listed as reversed by %q; want %q", reference, order.ReversedBy, want)
		}
	}
}

// rejects requires that a reversal is rejected with a message and has no effect.
func (f *fixture) rejects(what string, reversal operation.ReversalOrder) {
	f.Helper()
	answer := f.reverse(f.Provider, reversal)
	rejected.check(f, what, answer)
	if answer.Message == "" || answer.Unsupported {
		f.Errorf("%s: %+v; want a rejection with a message", what, answer)
	}
	f.effects(reversal.Reference, 0)
}

func reversalOutcomes(f *fixture) {
	for _, scenario := range table {
		if scenario.name == "slow" {
			continue // a success after a delay
		}
		order := sample(operation.Renew, "CX-"+scenario.name, "9812345678")
		confirmed.check(f, "the order for "+scenario.name, apply(f, order))
		provider := f.Provider
		if scenario.silent {
			provider = f.WithShortTimeout()
		}
		reversal := newReversal("RV-"+scenario.name, order)
		f.Script(f.T, reversal.Mobile, scenario.name)
		scenario.apply.check(f, scenario.name, f.reverse(provider, reversal))
		f.effects(reversal.Reference, scenario.effects)
		if scenario.apply == rejected {
			continue
		}
		// The same reference again finds out, and carries it out if that did not happen.
		confirmed.check(f, scenario.name+" again", f.reverse(f.Provider, reversal))
		f.effects(reversal.Reference, 1)
	}
	order := sample(operation.Renew, "CX-down", "9812345678")
	confirmed.check(f, "an order", apply(f, order))
	f.Mode(f.T, "down")
	unknown.check(f, "down", f.reverse(f.Provider, newReversal("RV-down", order)))
	f.Mode(f.T, "up")
	f.effects("RV-down", 0)
}

func reversesCombo(f *fixture) {
	main, addon := sample(operation.Activate, "CX1", "9812345678"), sample(operation.Activate, "CX1-2", "9812345678")
	addon.Component = "OTT-PLUS"
	confirmed.check(f, "the main component", apply(f, main))
	early := newReversal("RV1", main)
	early.Addon = addon.Reference
	f.rejects("a reversal with an add-on that was not ordered", early)
	confirmed.check(f, "the add-on", apply(f, addon))
	both := newReversal("RV2", main)
	both.Addon = addon.Reference
	confirmed.check(f, "the reversal of both", f.reverse(f.Provider, both))
	f.effects("RV2", 1)
	f.rejects("a reversal of the add-on alone", newReversal("RV3", addon))
}

func reversedConcurrently(f *fixture) {
	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(f, "an order", apply(f, order))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { f.reverse(f.Provider, newReversal("RV1", order)) })
		all.Go(func() { f.reverse(f.Provider, newReversal("RV2", order)) })
	}
	all.Wait()
	if effects := f.Effects(f.T); effects["RV1"]+effects["RV2"] != 1 {
		f.Errorf("the order was undone %d times as RV1 and %d times as RV2; want once in all", effects["RV1"], effects["RV2"])
	}
}

func reversalsReference(f *fixture) {
	order, other := sample(operation.Renew, "CX1", "9812345678"), sample(operation.Renew, "CX2", "9812345678")
	confirmed.check(f, "an order", apply(f, order))
	confirmed.check(f, "another order", apply(f, other))
	confirmed.check(f, "a reversal", f.reverse(f.Provider, newReversal("RV1", order)))
	unknown.check(f, "a reversal of another order under its reference", f.reverse(f.Provider, newReversal("RV1", other)))
	unknown.check(f, "an order under its reference", apply(f, sample(operation.Renew, "RV1", "9812345678")))
	unknown.check(f, "a reversal under an order's reference", f.reverse(f.Provider, newReversal("CX2", order)))
	f.effects("RV1", 1)
	f.effects("CX2", 1)
}

func voidsReversal(f *fixture) {
	order, other := sample(operation.Renew, "CX1", "9812345678"), sample(operation.Renew, "CX2", "9812345678")
	confirmed.check(f, "an order", apply(f, order))
	confirmed.check(f, "another order", apply(f, other))
	reverser := f.Provider.(operation.Reverser)
	void := func(what string, wanted want, reversal operation.ReversalOrder) operation.Reply {
		f.Helper()
		reply := reverser.VoidReversal(context.Background(), reversal)
		wanted.check(f, what, reply)
		return reply
	}
	never := newReversal("RV1", order)
	void("a reversal that never arrived", rejected, never)
	void("the same again", rejected, never)
	rejected.check(f, "a reversal that was voided before", f.reverse(f.Provider, never))
	f.effects("RV1", 0)

	lost := newReversal("RV2", order)
	f.Script(f.T, order.Mobile, "reset_applied")
	unknown.check(f, "a reversal without a reply", f.reverse(f.Provider, lost))
	carriedOut := void("a reversal that was carried out", confirmed, lost)
	confirmed.check(f, "the reversal again", f.reverse(f.Provider, lost))
	if carriedOut.Transaction == "" {
		f.Errorf("the void of a reversal that was carried out has no transaction: %+v", carriedOut)
	}
	f.effects("RV2", 1)

	refused := newReversal("RV3", other)
	f.Script(f.T, other.Mobile, "reject")
	rejected.check(f, "a refused reversal", f.reverse(f.Provider, refused))
	void("a refused reversal", rejected, refused)
	f.Mode(f.T, "down")
	void("down", unknown, newReversal("RV4", other))
	f.Mode(f.T, "up")
}
