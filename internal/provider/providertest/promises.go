package providertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/coaxhq/coax/internal/operation"
)

func addon(order operation.Order, attempt string) operation.Order {
	order.Reference += attempt
	order.Component = "OTT-PLUS"
	order.Password = ""
	return order
}

func addonFails(f *fixture) {
	main := sample(operation.Activate, "CX1", "9000061234")
	confirmed.check(f, "main", apply(f, main))
	for _, attempt := range []string{"-2", "-2.2", "-2.3"} {
		rejected.check(f, "add-on "+attempt, apply(f, addon(main, attempt)))
		f.effects("CX1"+attempt, 0)
	}
	f.effects("CX1", 1)
}

func addonFailsByScript(f *fixture) {
	main := sample(operation.Renew, "CX1", "9812345678")
	f.Script(f.T, main.Mobile, "addon_fails")
	confirmed.check(f, "main", apply(f, main))
	rejected.check(f, "add-on", apply(f, addon(main, "-2")))
	confirmed.check(f, "add-on, second try", apply(f, addon(main, "-2.2")))
}

func notFound(f *fixture) {
	missing.check(f, "status", status(f, sample(operation.Renew, "CX-UNKNOWN", "9812345678")))
	if effects := f.Effects(f.T); len(effects) != 0 {
		f.Errorf("a status call had effects: %v", effects)
	}
}

func voidFirst(f *fixture) {
	for i, kind := range kinds {
		order := sample(kind, fmt.Sprintf("CX%d", i), "9812345678")
		rejected.check(f, "void", void(f, order))
		rejected.check(f, "status", status(f, order))
		rejected.check(f, "the order, late", apply(f, order))
		rejected.check(f, "void again", void(f, order))
		f.effects(order.Reference, 0)
	}
}

func sameReferenceConcurrently(f *fixture) {
	for i, kind := range kinds {
		order := sample(kind, fmt.Sprintf("CX%d", i), "9812345678")
		answers := concurrently(32, func(int) operation.Reply { return apply(f, order) })
		f.effects(order.Reference, 1)

		settled := status(f, order)
		confirmed.check(f, "status", settled)
		for _, answer := range answers {
			// An order that arrives while another is pending may get an
			// unknown outcome; a definite outcome is the same for all.
			if answer.Outcome == operation.Rejected || answer.Outcome == operation.Confirmed && answer.Transaction != settled.Transaction {
				f.Errorf("a concurrent order was answered %+v; want %q or an unknown outcome", answer, settled.Transaction)
			}
		}
	}
}

func voidRaces(f *fixture) {
	for i := range 60 {
		order := sample(kinds[i%len(kinds)], fmt.Sprintf("CX%d", i), fmt.Sprintf("98%08d", i))
		if i%2 == 0 {
			f.Script(f.T, order.Mobile, "slow")
		}
		answers := concurrently(2, func(n int) operation.Reply {
			if n == 0 {
				return apply(f, order)
			}
			return void(f, order)
		})
		applied, voided := answers[0].Outcome, answers[1].Outcome
		if applied != voided || applied == operation.Unknown {
			f.Errorf("order %d: apply says %s, void says %s; want the same, and definite", i, applied, voided)
		}
		effects := 0
		if voided == operation.Confirmed {
			effects = 1
		}
		f.effects(order.Reference, effects)
	}
}

func hungUp(f *fixture) {
	gone, hangUp := context.WithCancel(context.Background())
	hangUp()
	for i, kind := range kinds {
		order := sample(kind, fmt.Sprintf("CX%d", i), "9812345678")
		confirmed.check(f, "apply", f.Apply(gone, order))
		confirmed.check(f, "status", f.Status(gone, order))
		confirmed.check(f, "void", f.Void(gone, order))
		f.effects(order.Reference, 1)
	}
}

func down(f *fixture) {
	for _, c := range calls {
		order := sample(c.kind, "CX-"+c.name, "9812345678")
		f.Mode(f.T, "down")
		unknown.check(f, c.name, c.do(f, order))
		f.Mode(f.T, "up")
		missing.check(f, "status once it is up", status(f, order))
		f.effects(order.Reference, 0)
	}
}

func slow(f *fixture) {
	f.Mode(f.T, "slow")
	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(f, "apply", apply(f, order))
	confirmed.check(f, "status", status(f, order))
	confirmed.check(f, "void", void(f, order))
	f.effects(order.Reference, 1)
}

func anotherOrder(f *fixture) {
	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(f, "apply", apply(f, order))
	for _, change := range []func(*operation.Order){
		func(o *operation.Order) { o.Kind = operation.AdvanceRenew },
		func(o *operation.Order) { o.SubscriberID = "999999" },
		func(o *operation.Order) { o.Mobile = "9800000000" },
		func(o *operation.Order) { o.Component = "TV-BASIC" },
	} {
		other := order
		change(&other)
		// Not confirmed, because this order was not carried out; not rejected,
		// because that would refund the one that was.
		unknown.check(f, fmt.Sprintf("apply %+v", other), apply(f, other))
	}
	f.effects(order.Reference, 1)
}

func notForSale(f *fixture) {
	order := sample(operation.Renew, "CX1", "9812345678")
	order.Component = "TV-NOT-SOLD"
	rejected.check(f, "apply", apply(f, order))
	f.effects(order.Reference, 0)
}

func scriptOrder(f *fixture) {
	f.Script(f.T, "9812345678", "reject", "gateway_error", "reset_applied")
	for i, wanted := range []want{rejected, unknown, unknown, confirmed} {
		order := sample(operation.Renew, fmt.Sprintf("CX%d", i), "9812345678")
		wanted.check(f, order.Reference, apply(f, order))
		other := sample(operation.Renew, fmt.Sprintf("CY%d", i), "9887654321")
		confirmed.check(f, other.Reference, apply(f, other))
	}
	f.effects("CX2", 1)

	// A repeated order consumes no scripted outcome: the provider has its result.
	f.Script(f.T, "9812345678", "reject")
	confirmed.check(f, "CX3 again", apply(f, sample(operation.Renew, "CX3", "9812345678")))
	rejected.check(f, "CX4", apply(f, sample(operation.Renew, "CX4", "9812345678")))
}

// concurrently makes several calls at the same time.
func concurrently(times int, do func(int) operation.Reply) []operation.Reply {
	answers := make([]operation.Reply, times)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range answers {
		all.Go(func() {
			<-start
			answers[i] = do(i)
		})
	}
	close(start)
	all.Wait()
	return answers
}
