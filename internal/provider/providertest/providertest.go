// Package providertest is the one suite that a provider passes, over real
// sockets. Run holds a working provider to what operation.Provider promises;
// Faults puts a broken one in its place. Neither knows who is being tested.
package providertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Control steers the provider behind the one that is tested, and reads its
// books.
type Control interface {
	// Script sets what the next orders for a mobile meet, by the scenarios'
	// names.
	Script(t testing.TB, mobile string, outcomes ...string)
	// Mode switches the provider as a whole: up, down or slow.
	Mode(t testing.TB, mode string)
	// Effects counts how often each reference was carried out, as the provider
	// itself has it.
	Effects(t testing.TB) map[string]int
	// Impatient is the same provider for somebody who soon gives up on an
	// answer.
	Impatient() operation.Provider
}

// Run holds a provider, and the party behind it, against the suite.
func Run(t *testing.T, newProvider func(testing.TB) (operation.Provider, Control)) {
	t.Run("Scenarios", func(t *testing.T) { scenarios(t, newProvider) })
	for _, test := range []struct {
		name string
		run  func(*house)
	}{
		{"an add-on fails while its main component works", addonFails},
		{"a script for an add-on that fails needs one word", addonFailsInOneWord},
		{"what nobody asked for is not found", notFound},
		{"a void that comes first refuses the order that comes late", voidFirst},
		{"the same reference many times at once has one effect", sameReferenceAtOnce},
		{"a void that races its order agrees with the effect", voidRaces},
		{"a caller who hung up does not stop an order", hungUp},
		{"a provider that is down does nothing and says nothing", down},
		{"a provider that is slow is still right", slow},
		{"a reference belongs to its order", anotherOrder},
		{"a component that is not for sale is refused", notForSale},
		{"scripts are taken one by one, and by one customer", scriptOrder},
		{"a password is reset once for each reference", passwordOnce},
		{"a reset of a password goes as orders go", passwordOutcomes},
		{"a reset's reference belongs to it", passwordsReference},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			provider, control := newProvider(t)
			test.run(&house{T: t, Provider: provider, Control: control})
		})
	}
}

// house is a provider under test with words for what tests do.
type house struct {
	*testing.T
	operation.Provider
	Control
}

// kinds are the three operations that cost money.
var kinds = []operation.Kind{operation.Activate, operation.Renew, operation.AdvanceRenew}

// sample is an order with everything in it.
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

// secretPassword must turn up nowhere but in an activation or a reset on its way out.
const secretPassword = `s3cret"pässword`

// want is what an answer must come to.
type want struct {
	verdict   operation.Outcome
	notFound  bool
	neverLeft bool
}

var (
	confirmed = want{verdict: operation.Confirmed}
	rejected  = want{verdict: operation.Rejected}
	unknown   = want{}
	missing   = want{notFound: true}
	neverLeft = want{verdict: operation.Rejected, neverLeft: true}
)

func (w want) String() string {
	text := w.verdict.String()
	if w.notFound {
		text += ", not found"
	}
	if w.neverLeft {
		text += ", never left"
	}
	return text
}

// mismatch says what is wrong with an answer; empty if nothing is. Beside what
// is wanted it looks after what holds for every answer.
func (w want) mismatch(got operation.Reply) string {
	came := want{got.Outcome, got.NotFound, got.NotSent}
	switch {
	case came != w:
		return fmt.Sprintf("answer = %s (%s); want %s", came, got.Detail, w)
	case got.Outcome == operation.Confirmed && got.Transaction == "":
		return "a confirmation without the provider's number"
	case got.Outcome == operation.Unknown && got.Detail == "":
		return "an unknown outcome that staff is told nothing about"
	case leaks(got.Detail), leaks(got.Message), leaks(got.Transaction):
		return fmt.Sprintf("the password is in the answer: %+v", got)
	}
	return ""
}

func (w want) check(t testing.TB, doing string, got operation.Reply) {
	t.Helper()
	if wrong := w.mismatch(got); wrong != "" {
		t.Errorf("%s: %s", doing, wrong)
	}
}

// question is one of the things a provider can be asked about an order.
type question struct {
	name string
	kind operation.Kind
	ask  func(operation.Provider, operation.Order) operation.Reply
}

// questions are the three orders, and what recovery asks later.
var questions = []question{
	{"activate", operation.Activate, apply},
	{"renew", operation.Renew, apply},
	{"advance_renew", operation.AdvanceRenew, apply},
	{"status", operation.Renew, status},
	{"void", operation.Renew, void},
}

func (q question) isOrder() bool { return q.name != "status" && q.name != "void" }

func apply(p operation.Provider, order operation.Order) operation.Reply {
	return p.Apply(context.Background(), order)
}

func status(p operation.Provider, order operation.Order) operation.Reply {
	return p.Status(context.Background(), order)
}

func void(p operation.Provider, order operation.Order) operation.Reply {
	return p.Void(context.Background(), order)
}

func (h *house) effects(reference string, want int) {
	h.Helper()
	if got := h.Effects(h.T)[reference]; got != want {
		h.Errorf("%s was carried out %d times; want %d", reference, got, want)
	}
}
