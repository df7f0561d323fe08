// Package providertest is the test suite for implementations of
// operation.Provider, over real sockets. Run tests them with a working provider;
// Faults with one that fails on the wire.
package providertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Control configures the provider behind the tested client, and reads its
// records.
type Control interface {
	// Script sets the outcomes of the next orders for a mobile, by the scenarios'
	// names.
	Script(t testing.TB, mobile string, outcomes ...string)
	// Mode switches the provider as a whole: up, down or slow.
	Mode(t testing.TB, mode string)
	// Effects counts how often the provider carried out each reference.
	Effects(t testing.TB) map[string]int
	// WithShortTimeout returns a client of the same provider with a short timeout.
	WithShortTimeout() operation.Provider
}

// testCase is one test of Run.
type testCase struct {
	name string
	run  func(*fixture)
}

// Run tests a provider's client together with the provider behind it.
func Run(t *testing.T, newProvider func(testing.TB) (operation.Provider, Control)) {
	t.Run("Scenarios", func(t *testing.T) { scenarios(t, newProvider) })
	runCases(t, newProvider, []testCase{
		{"an add-on fails while its main component works", addonFails},
		{"a script with addon_fails alone rejects the add-on", addonFailsByScript},
		{"the status of an unknown reference is not found", notFound},
		{"an order after its void is rejected", voidFirst},
		{"concurrent orders with one reference have one effect", sameReferenceConcurrently},
		{"a void that races its order agrees with the effect", voidRaces},
		{"a canceled context does not stop an order", hungUp},
		{"a provider that is down carries out nothing", down},
		{"a slow provider confirms", slow},
		{"a reference cannot be reused for another order", anotherOrder},
		{"a component that is not for sale is rejected", notForSale},
		{"scripts apply in order and to one customer", scriptOrder},
		{"a password is reset once for each reference", passwordOnce},
		{"a password reset has the outcomes of orders", passwordOutcomes},
		{"a reset's reference cannot be reused", passwordsReference},
		{"an order is reversed once", reversedOnce},
		{"a reversal has the outcomes of orders", reversalOutcomes},
		{"a combo is reversed as a whole", reversesCombo},
		{"concurrent reversals with one reference have one effect", reversedConcurrently},
		{"a reversal's reference cannot be reused", reversalsReference},
		{"a voided reversal is never carried out", voidsReversal},
	})
	RunLists(t, newProvider)
	RunContacts(t, newProvider)
}

// RunContacts is the part of Run about contact data, which a provider need not take.
func RunContacts(t *testing.T, newProvider func(testing.TB) (operation.Provider, Control)) {
	runCases(t, newProvider, []testCase{
		{"contact data is taken once for each reference", contactOnce},
		{"contact data has the outcomes of orders", contactOutcomes},
	})
}

// RunLists is the part of Run about the list of orders, which a provider need not have.
func RunLists(t *testing.T, newProvider func(testing.TB) (operation.Provider, Control)) {
	runCases(t, newProvider, []testCase{
		{"the list has the orders that were carried out", listsCarriedOut},
		{"the list is stable while orders are added", listIsStable},
		{"an unknown cursor is refused", listRefusesUnknownCursor},
		{"a provider that is down lists nothing", listFailsWhileDown},
	})
}

func runCases(t *testing.T, newProvider func(testing.TB) (operation.Provider, Control), tests []testCase) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider, control := newProvider(t)
			test.run(&fixture{T: t, Provider: provider, Control: control})
		})
	}
}

// fixture is a provider under test with its control.
type fixture struct {
	*testing.T
	operation.Provider
	Control
}

// kinds are the three operations that cost money.
var kinds = []operation.Kind{operation.Activate, operation.Renew, operation.AdvanceRenew}

// sample returns an order with all fields set.
func sample(kind operation.Kind, reference, mobile string) operation.Order {
	order := operation.Order{
		Reference:    reference,
		Kind:         kind,
		SubscriberID: "100234",
		Mobile:       mobile,
		Name:         "अनिता देसाई",
		Email:        "anita@example.in",
		Component:    "TV-FAMILY",
		Months:       3,
		StartDate:    time.Date(2027, 3, 1, 0, 0, 0, 0, subscription.IST),
		ExpiresAt:    time.Date(2027, 5, 30, 18, 30, 0, 0, subscription.IST),
	}
	if kind == operation.Activate {
		order.Password = secretPassword
	}
	return order
}

// secretPassword must appear only in the requests of an activation or a reset.
const secretPassword = `s3cret"pässword`

// want is the expected result of a provider call.
type want struct {
	outcome  operation.Outcome
	notFound bool
	notSent  bool
}

var (
	confirmed = want{outcome: operation.Confirmed}
	rejected  = want{outcome: operation.Rejected}
	unknown   = want{}
	missing   = want{notFound: true}
	notSent   = want{outcome: operation.Rejected, notSent: true}
)

func (w want) String() string {
	text := w.outcome.String()
	if w.notFound {
		text += ", not found"
	}
	if w.notSent {
		text += ", not sent"
	}
	return text
}

// mismatch describes how a reply differs from what is wanted or breaks a rule for
// all replies; it is empty if the reply is right.
func (w want) mismatch(got operation.Reply) string {
	result := want{got.Outcome, got.NotFound, got.NotSent}
	switch {
	case result != w:
		return fmt.Sprintf("answer = %s (%s); want %s", result, got.Detail, w)
	case got.Outcome == operation.Confirmed && got.Transaction == "":
		return "a confirmation without the provider's transaction number"
	case got.Outcome == operation.Unknown && got.Detail == "":
		return "an unknown outcome without a detail for staff"
	case leaks(got.Detail), leaks(got.Message), leaks(got.Transaction):
		return fmt.Sprintf("the password is in the reply: %+v", got)
	}
	return ""
}

func (w want) check(t testing.TB, doing string, got operation.Reply) {
	t.Helper()
	if wrong := w.mismatch(got); wrong != "" {
		t.Errorf("%s: %s", doing, wrong)
	}
}

// call is one kind of provider call about an order.
type call struct {
	name string
	kind operation.Kind
	do   func(operation.Provider, operation.Order) operation.Reply
}

// calls are the three orders, and the calls of recovery.
var calls = []call{
	{"activate", operation.Activate, apply},
	{"renew", operation.Renew, apply},
	{"advance_renew", operation.AdvanceRenew, apply},
	{"status", operation.Renew, status},
	{"void", operation.Renew, void},
}

func (c call) isOrder() bool { return c.name != "status" && c.name != "void" }

func apply(p operation.Provider, order operation.Order) operation.Reply {
	return p.Apply(context.Background(), order)
}

func status(p operation.Provider, order operation.Order) operation.Reply {
	return p.Status(context.Background(), order)
}

func void(p operation.Provider, order operation.Order) operation.Reply {
	return p.Void(context.Background(), order)
}

func (f *fixture) effects(reference string, want int) {
	f.Helper()
	if got := f.Effects(f.T)[reference]; got != want {
		f.Errorf("%s was carried out %d times; want %d", reference, got, want)
	}
}
