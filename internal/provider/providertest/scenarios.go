package providertest

import (
	"fmt"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// scenario is one outcome of an order, and the replies to later calls about it.
type scenario struct {
	name    string
	silent  bool // the provider never answers
	apply   want
	effects int
	status  want
	void    want
	// again is the result of the same order after the void, delayed or retried.
	again want
}

// table lists the scenarios by their digit in a mobile number.
var table = [10]scenario{
	0: {name: "success", apply: confirmed, effects: 1, status: confirmed, void: confirmed, again: confirmed},
	1: {name: "reject", apply: rejected, effects: 0, status: rejected, void: rejected, again: rejected},
	2: {name: "timeout_applied", silent: true, apply: unknown, effects: 1, status: confirmed, void: confirmed, again: confirmed},
	3: {name: "timeout_not_applied", silent: true, apply: unknown, effects: 0, status: missing, void: rejected, again: rejected},
	4: {name: "gateway_error", apply: unknown, effects: 0, status: missing, void: rejected, again: rejected},
	5: {name: "wrong_reference", apply: unknown, effects: 1, status: confirmed, void: confirmed, again: confirmed},
	6: {name: "addon_fails", apply: confirmed, effects: 1, status: confirmed, void: confirmed, again: confirmed},
	7: {name: "slow", apply: confirmed, effects: 1, status: confirmed, void: confirmed, again: confirmed},
	8: {name: "unknowable", silent: true, apply: unknown, effects: 0, status: unknown, void: unknown},
	9: {name: "reset_applied", apply: unknown, effects: 1, status: confirmed, void: confirmed, again: confirmed},
}

// scenarios tests each scenario with each operation, selected by the mobile number
// and by script.
func scenarios(t *testing.T, newProvider func(testing.TB) (operation.Provider, Control)) {
	for digit, scene := range table {
		for _, kind := range kinds {
			byNumber := fmt.Sprintf("90000%d4321", digit)
			t.Run(fmt.Sprintf("%s/%s/by number", scene.name, kind), func(t *testing.T) {
				t.Parallel()
				provider, control := newProvider(t)
				scene.play(&fixture{t, provider, control}, sample(kind, "CX1", byNumber))
			})
			t.Run(fmt.Sprintf("%s/%s/by script", scene.name, kind), func(t *testing.T) {
				t.Parallel()
				provider, control := newProvider(t)
				control.Script(t, "9812345678", scene.name)
				scene.play(&fixture{t, provider, control}, sample(kind, "CX1", "9812345678"))
			})
		}
	}
}

func (s scenario) play(f *fixture, order operation.Order) {
	provider := f.Provider
	if s.silent {
		provider = f.WithShortTimeout()
	}
	first := apply(provider, order)
	s.apply.check(f, "apply", first)
	if s.apply == rejected && first.Message == "" {
		f.Error("a rejection without a message")
	}
	f.effects(order.Reference, s.effects)

	// Status calls can be repeated.
	transaction := ""
	for range 2 {
		later := status(f.Provider, order)
		s.status.check(f, "status", later)
		transaction = later.Transaction
	}
	if s.apply == confirmed && first.Transaction != transaction {
		f.Errorf("the transaction number is first %q, then %q", first.Transaction, transaction)
	}

	for range 2 {
		s.void.check(f, "void", void(f.Provider, order))
	}
	f.effects(order.Reference, s.effects)
	if s.void == unknown {
		return
	}

	again := apply(f.Provider, order)
	s.again.check(f, "apply again", again)
	if again.Outcome == operation.Confirmed && again.Transaction != transaction {
		f.Errorf("the transaction number is %q, and %q for the repeated order", transaction, again.Transaction)
	}
	f.effects(order.Reference, s.effects)
	// A definite outcome never changes.
	final := rejected
	if s.effects == 1 {
		final = confirmed
	}
	final.check(f, "status in the end", status(f.Provider, order))
}
