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

func addonFails(h *house) {
	main := sample(operation.Activate, "CX1", "9000061234")
	confirmed.check(h, "main", apply(h, main))
	for _, attempt := range []string{"-2", "-2.2", "-2.3"} {
		rejected.check(h, "add-on "+attempt, apply(h, addon(main, attempt)))
		h.effects("CX1"+attempt, 0)
	}
	h.effects("CX1", 1)
}

func addonFailsInOneWord(h *house) {
	main := sample(operation.Renew, "CX1", "9812345678")
	h.Script(h.T, main.Mobile, "addon_fails")
	confirmed.check(h, "main", apply(h, main))
	rejected.check(h, "add-on", apply(h, addon(main, "-2")))
	confirmed.check(h, "add-on, second try", apply(h, addon(main, "-2.2")))
}

func notFound(h *house) {
	missing.check(h, "status", status(h, sample(operation.Renew, "CX-NOBODY", "9812345678")))
	if effects := h.Effects(h.T); len(effects) != 0 {
		h.Errorf("a question had effects: %v", effects)
	}
}

func voidFirst(h *house) {
	for i, kind := range kinds {
		order := sample(kind, fmt.Sprintf("CX%d", i), "9812345678")
		rejected.check(h, "void", void(h, order))
		rejected.check(h, "status", status(h, order))
		rejected.check(h, "the order, late", apply(h, order))
		rejected.check(h, "void again", void(h, order))
		h.effects(order.Reference, 0)
	}
}

func sameReferenceAtOnce(h *house) {
	for i, kind := range kinds {
		order := sample(kind, fmt.Sprintf("CX%d", i), "9812345678")
		answers := atOnce(32, func(int) operation.Reply { return apply(h, order) })
		h.effects(order.Reference, 1)

		settled := status(h, order)
		confirmed.check(h, "status", settled)
		for _, answer := range answers {
			// One that comes while another is being worked on may be told
			// so; a definite answer is the same for all.
			if answer.Outcome == operation.Rejected || answer.Outcome == operation.Confirmed && answer.Transaction != settled.Transaction {
				h.Errorf("one of many was answered %+v; want %q or not yet known", answer, settled.Transaction)
			}
		}
	}
}

func voidRaces(h *house) {
	for i := range 60 {
		order := sample(kinds[i%len(kinds)], fmt.Sprintf("CX%d", i), fmt.Sprintf("98%08d", i))
		if i%2 == 0 {
			h.Script(h.T, order.Mobile, "slow")
		}
		answers := atOnce(2, func(n int) operation.Reply {
			if n == 0 {
				return apply(h, order)
			}
			return void(h, order)
		})
		applied, voided := answers[0].Outcome, answers[1].Outcome
		if applied != voided || applied == operation.Unknown {
			h.Errorf("order %d: apply says %s, void says %s; want the same, and definite", i, applied, voided)
		}
		effects := 0
		if voided == operation.Confirmed {
			effects = 1
		}
		h.effects(order.Reference, effects)
	}
}

func hungUp(h *house) {
	gone, hangUp := context.WithCancel(context.Background())
	hangUp()
	for i, kind := range kinds {
		order := sample(kind, fmt.Sprintf("CX%d", i), "9812345678")
		confirmed.check(h, "apply", h.Apply(gone, order))
		confirmed.check(h, "status", h.Status(gone, order))
		confirmed.check(h, "void", h.Void(gone, order))
		h.effects(order.Reference, 1)
	}
}

func down(h *house) {
	for _, q := range questions {
		order := sample(q.kind, "CX-"+q.name, "9812345678")
		h.Mode(h.T, "down")
		unknown.check(h, q.name, q.ask(h, order))
		h.Mode(h.T, "up")
		missing.check(h, "status once it is up", status(h, order))
		h.effects(order.Reference, 0)
	}
}

func slow(h *house) {
	h.Mode(h.T, "slow")
	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(h, "apply", apply(h, order))
	confirmed.check(h, "status", status(h, order))
	confirmed.check(h, "void", void(h, order))
	h.effects(order.Reference, 1)
}

func anotherOrder(h *house) {
	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(h, "apply", apply(h, order))
	for _, change := range []func(*operation.Order){
		func(o *operation.Order) { o.Kind = operation.AdvanceRenew },
		func(o *operation.Order) { o.SubscriberID = "999999" },
		func(o *operation.Order) { o.Mobile = "9800000000" },
		func(o *operation.Order) { o.Component = "TV-BASIC" },
	} {
		other := order
		change(&other)
		// Neither yes, for it is not what was done, nor no, for that would
		// refund what was.
		unknown.check(h, fmt.Sprintf("apply %+v", other), apply(h, other))
	}
	h.effects(order.Reference, 1)
}

func notForSale(h *house) {
	order := sample(operation.Renew, "CX1", "9812345678")
	order.Component = "TV-NOBODY-SELLS"
	rejected.check(h, "apply", apply(h, order))
	h.effects(order.Reference, 0)
}

func scriptOrder(h *house) {
	h.Script(h.T, "9812345678", "reject", "gateway_error", "reset_applied")
	for i, wanted := range []want{rejected, unknown, unknown, confirmed} {
		order := sample(operation.Renew, fmt.Sprintf("CX%d", i), "9812345678")
		wanted.check(h, order.Reference, apply(h, order))
		other := sample(operation.Renew, fmt.Sprintf("CY%d", i), "9887654321")
		confirmed.check(h, other.Reference, apply(h, other))
	}
	h.effects("CX2", 1)

	// Asking again takes nothing from the script: the books have the answer.
	h.Script(h.T, "9812345678", "reject")
	confirmed.check(h, "CX3 again", apply(h, sample(operation.Renew, "CX3", "9812345678")))
	rejected.check(h, "CX4", apply(h, sample(operation.Renew, "CX4", "9812345678")))
}

// atOnce asks several times at once.
func atOnce(times int, ask func(int) operation.Reply) []operation.Reply {
	answers := make([]operation.Reply, times)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range answers {
		all.Go(func() {
			<-start
			answers[i] = ask(i)
		})
	}
	close(start)
	all.Wait()
	return answers
}
