package providertest

import (
	"fmt"
	"testing"

	"github.com/coaxhq/coax/internal/operation"
)

// scenario is one way an order can go, and what may be learnt of it afterwards.
type scenario struct {
	name    string
	silent  bool // no answer ever comes
	apply   want
	effects int
	status  want
	void    want
	// again is the same order once more, after the void: the delayed original,
	// or a second try.
	again want
}

// table has the scenarios by their digit in a mobile number.
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

// scenarios tries each scenario with each operation, picked by the number and by
// script, and asks about it afterwards.
func scenarios(t *testing.T, newProvider func(testing.TB) (operation.Provider, Control)) {
	for digit, scene := range table {
		for _, kind := range kinds {
			byNumber := fmt.Sprintf("90000%d4321", digit)
			t.Run(fmt.Sprintf("%s/%s/by number", scene.name, kind), func(t *testing.T) {
				t.Parallel()
				provider, control := newProvider(t)
				scene.play(&house{t, provider, control}, sample(kind, "CX1", byNumber))
			})
			t.Run(fmt.Sprintf("%s/%s/by script", scene.name, kind), func(t *testing.T) {
				t.Parallel()
				provider, control := newProvider(t)
				control.Script(t, "9812345678", scene.name)
				scene.play(&house{t, provider, control}, sample(kind, "CX1", "9812345678"))
			})
		}
	}
}

func (s scenario) play(h *house, order operation.Order) {
	asked := h.Provider
	if s.silent {
		asked = h.Impatient()
	}
	first := apply(asked, order)
	s.apply.check(h, "apply", first)
	if s.apply == rejected && first.Message == "" {
		h.Error("a rejection without a word for people")
	}
	h.effects(order.Reference, s.effects)

	// Answers may be asked for as often as one likes.
	transaction := ""
	for range 2 {
		later := status(h.Provider, order)
		s.status.check(h, "status", later)
		transaction = later.Transaction
	}
	if s.apply == confirmed && first.Transaction != transaction {
		h.Errorf("the provider's number is first %q, then %q", first.Transaction, transaction)
	}

	for range 2 {
		s.void.check(h, "void", void(h.Provider, order))
	}
	h.effects(order.Reference, s.effects)
	if s.void == unknown {
		return
	}

	again := apply(h.Provider, order)
	s.again.check(h, "apply again", again)
	if again.Outcome == operation.Confirmed && again.Transaction != transaction {
		h.Errorf("the provider's number is %q, and %q when asked again", transaction, again.Transaction)
	}
	h.effects(order.Reference, s.effects)
	// What a provider has said about an order stays true.
	final := rejected
	if s.effects == 1 {
		final = confirmed
	}
	final.check(h, "status in the end", status(h.Provider, order))
}
