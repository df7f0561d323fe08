package providertest

import (
	"context"

	"github.com/coaxhq/coax/internal/operation"
)

// resetter is the provider as one that can replace a password.
func (h *house) resetter(of operation.Provider) operation.PasswordResetter {
	h.Helper()
	resetter, is := of.(operation.PasswordResetter)
	if !is {
		h.Fatal("the provider cannot reset a customer's password")
	}
	return resetter
}

func newReset(reference, mobile string) operation.PasswordReset {
	return operation.PasswordReset{Reference: reference, SubscriberID: "100234", Mobile: mobile, Password: secretPassword}
}

func passwordOnce(h *house) {
	provider := h.resetter(h.Provider)
	reset := newReset("PW1", "9812345678")
	first := provider.ResetPassword(context.Background(), reset)
	confirmed.check(h, "reset", first)
	again := provider.ResetPassword(context.Background(), reset)
	confirmed.check(h, "reset again", again)
	if first.Transaction != again.Transaction {
		h.Errorf("the provider's number is first %q, then %q", first.Transaction, again.Transaction)
	}
	h.effects("PW1", 1)
	confirmed.check(h, "another reset", provider.ResetPassword(context.Background(), newReset("PW2", "9812345678")))
	h.effects("PW2", 1)

	gone, hangUp := context.WithCancel(context.Background())
	hangUp()
	confirmed.check(h, "reset by somebody who hung up", provider.ResetPassword(gone, newReset("PW3", "9812345678")))
	h.effects("PW3", 1)
}

func passwordOutcomes(h *house) {
	for _, scene := range table {
		if scene.name == "slow" {
			continue // which is a success that takes a while
		}
		asked := h.Provider
		if scene.silent {
			asked = h.Impatient()
		}
		reset := newReset("PW-"+scene.name, "9812345678")
		h.Script(h.T, reset.Mobile, scene.name)
		answer := h.resetter(asked).ResetPassword(context.Background(), reset)
		scene.apply.check(h, scene.name, answer)
		if scene.apply == rejected && answer.Message == "" {
			h.Errorf("%s: a rejection without a word for people", scene.name)
		}
		h.effects(reset.Reference, scene.effects)
	}
	h.Mode(h.T, "down")
	unknown.check(h, "down", h.resetter(h.Provider).ResetPassword(context.Background(), newReset("PW-down", "9812345678")))
	h.Mode(h.T, "up")
	h.effects("PW-down", 0)
}

func passwordsReference(h *house) {
	provider := h.resetter(h.Provider)
	confirmed.check(h, "reset", provider.ResetPassword(context.Background(), newReset("PW1", "9812345678")))
	unknown.check(h, "another customer's", provider.ResetPassword(context.Background(), newReset("PW1", "9800000000")))
	unknown.check(h, "an order under its reference", apply(h, sample(operation.Renew, "PW1", "9812345678")))
	h.effects("PW1", 1)

	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(h, "an order", apply(h, order))
	unknown.check(h, "a reset under its reference", provider.ResetPassword(context.Background(), newReset("CX1", "9812345678")))
	h.effects("CX1", 1)

	empty := newReset("PW2", "9812345678")
	empty.Password = ""
	rejected.check(h, "no password at all", provider.ResetPassword(context.Background(), empty))
	h.effects("PW2", 0)
}
