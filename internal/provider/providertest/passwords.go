package providertest

import (
	"context"

	"github.com/coaxhq/coax/internal/operation"
)

// resetter returns the provider as a PasswordResetter.
func (f *fixture) resetter(of operation.Provider) operation.PasswordResetter {
	f.Helper()
	resetter, is := of.(operation.PasswordResetter)
	if !is {
		f.Fatal("the provider cannot reset a customer's password")
	}
	return resetter
}

func newReset(reference, mobile string) operation.PasswordReset {
	return operation.PasswordReset{Reference: reference, SubscriberID: "100234", Mobile: mobile, Password: secretPassword}
}

func passwordOnce(f *fixture) {
	provider := f.resetter(f.Provider)
	reset := newReset("PW1", "9812345678")
	first := provider.ResetPassword(context.Background(), reset)
	confirmed.check(f, "reset", first)
	again := provider.ResetPassword(context.Background(), reset)
	confirmed.check(f, "reset again", again)
	if first.Transaction != again.Transaction {
		f.Errorf("the transaction number is first %q, then %q", first.Transaction, again.Transaction)
	}
	f.effects("PW1", 1)
	confirmed.check(f, "another reset", provider.ResetPassword(context.Background(), newReset("PW2", "9812345678")))
	f.effects("PW2", 1)

	gone, hangUp := context.WithCancel(context.Background())
	hangUp()
	confirmed.check(f, "reset with a canceled context", provider.ResetPassword(gone, newReset("PW3", "9812345678")))
	f.effects("PW3", 1)
}

func passwordOutcomes(f *fixture) {
	for _, scenario := range table {
		if scenario.name == "slow" {
			continue // a success after a delay
		}
		provider := f.Provider
		if scenario.silent {
			provider = f.WithShortTimeout()
		}
		reset := newReset("PW-"+scenario.name, "9812345678")
		f.Script(f.T, reset.Mobile, scenario.name)
		answer := f.resetter(provider).ResetPassword(context.Background(), reset)
		scenario.apply.check(f, scenario.name, answer)
		if scenario.apply == rejected && answer.Message == "" {
			f.Errorf("%s: a rejection without a message", scenario.name)
		}
		f.effects(reset.Reference, scenario.effects)
	}
	f.Mode(f.T, "down")
	unknown.check(f, "down", f.resetter(f.Provider).ResetPassword(context.Background(), newReset("PW-down", "9812345678")))
	f.Mode(f.T, "up")
	f.effects("PW-down", 0)
}

func passwordsReference(f *fixture) {
	provider := f.resetter(f.Provider)
	confirmed.check(f, "reset", provider.ResetPassword(context.Background(), newReset("PW1", "9812345678")))
	unknown.check(f, "another customer's", provider.ResetPassword(context.Background(), newReset("PW1", "9800000000")))
	unknown.check(f, "an order under its reference", apply(f, sample(operation.Renew, "PW1", "9812345678")))
	f.effects("PW1", 1)

	order := sample(operation.Renew, "CX1", "9812345678")
	confirmed.check(f, "an order", apply(f, order))
	unknown.check(f, "a reset under its reference", provider.ResetPassword(context.Background(), newReset("CX1", "9812345678")))
	f.effects("CX1", 1)

	empty := newReset("PW2", "9812345678")
	empty.Password = ""
	rejected.check(f, "no password at all", provider.ResetPassword(context.Background(), empty))
	f.effects("PW2", 0)
}
