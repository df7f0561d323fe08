package providertest

import (
	"context"

	"github.com/coaxhq/coax/internal/operation"
)

// taker returns the provider as a ContactTaker.
func (f *fixture) taker(of operation.Provider) operation.ContactTaker {
	f.Helper()
	taker, is := of.(operation.ContactTaker)
	if !is {
		f.Fatal("the provider cannot be told contact data")
	}
	return taker
}

func newContact(reference string, version int64) operation.ContactUpdate {
	return operation.ContactUpdate{
		Reference: reference, SubscriberID: "100234", Mobile: "9812345678", Version: version,
		Contact: operation.Contact{Name: "अनिता देसाई", Area: "Ward 4", Address: "7 Lake Road\nKochi", BoxNumber: "STB-77123"},
	}
}

// told sends an update, and fails unless the provider takes contact data.
func (f *fixture) told(ctx context.Context, provider operation.Provider, update operation.ContactUpdate) operation.Reply {
	f.Helper()
	reply, supported := f.taker(provider).UpdateContact(ctx, update)
	if !supported {
		f.Fatal("the provider takes no contact data")
	}
	return reply
}

func contactOnce(f *fixture) {
	ctx := context.Background()
	first := f.told(ctx, f.Provider, newContact("CT1", 1))
	confirmed.check(f, "contact data", first)
	again := f.told(ctx, f.Provider, newContact("CT1", 1))
	confirmed.check(f, "the same again", again)
	if first.Transaction != again.Transaction {
		f.Errorf("the transaction number is first %q, then %q", first.Transaction, again.Transaction)
	}
	f.effects("CT1", 1)
	confirmed.check(f, "a later version", f.told(ctx, f.Provider, newContact("CT2", 2)))
	unknown.check(f, "an order under its reference", apply(f, sample(operation.Renew, "CT1", "9812345678")))

	gone, hangUp := context.WithCancel(ctx)
	hangUp()
	confirmed.check(f, "contact data with a canceled context", f.told(gone, f.Provider, newContact("CT3", 3)))
	f.effects("CT3", 1)
}

func contactOutcomes(f *fixture) {
	for _, scenario := range table {
		if scenario.name == "slow" {
			continue // a success after a delay
		}
		provider := f.Provider
		if scenario.silent {
			provider = f.WithShortTimeout()
		}
		update := newContact("CT-"+scenario.name, 1)
		f.Script(f.T, update.Mobile, scenario.name)
		scenario.apply.check(f, scenario.name, f.told(context.Background(), provider, update))
		f.effects(update.Reference, scenario.effects)
	}
}
