package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

// runScenario runs a scenario without further faults, and requires that some events
// occurred in it.
func runScenario(t *testing.T, s scenario, happened ...string) {
	t.Helper()
	skipUnlessWhole(t)
	got := runHistory(t, exhaustiveSeed, program{planned: &planned{}, scenario: &s}, false)
	for _, v := range got.Violations {
		t.Errorf("%s: %s", s.name, v)
	}
	for _, what := range happened {
		if got.Happened[what] == 0 {
			t.Errorf("%s: this never occurred: %s", s.name, what)
		}
	}
}

func scenarioNamed(t *testing.T, name string) scenario {
	t.Helper()
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("there is no scenario %q", name)
	}
	return all[i]
}

// Of a person's decision and the provider's reply, the one written first counts. If
// the other contradicts it, no money moves and an exception is raised.
func TestReview_StaffDecidesDuringStatusQuery(t *testing.T) {
	runScenario(t, scenarioNamed(t, "a person rejects during a status query"), "staff reject during a query", "exception LATE_SUCCESS")
	runScenario(t, scenarioNamed(t, "a person confirms during a status query"), "staff confirm during a query")
	runScenario(t, scenarioNamed(t, "a person confirms during a void"), "staff confirm during a query",
		"the provider rejects what a person confirmed")
}

// While the rows of one operator are locked, another is answered at once; requests
// that waited for the rows are charged once when they are unlocked.
func TestLockedRows_DelayNoOtherOperator(t *testing.T) {
	runScenario(t, scenario{name: "the rows of one operator are held", behaviours: map[string][]string{"the-order": {"slow"}}, run: func(t scenarioRunner) {
		theirs := map[string]string{"subscriber_id": customerID(1, 0), "plan_id": "FAMILY-3"}
		t.staff("top up", func(ctx context.Context, service *admin.Service) error {
			_, _, err := service.TopUp(ctx, admin.TopUp{OperatorID: 2, Amount: paise(1_000_000), Reference: "more"})
			return err
		})
		t.together(func() { t.perform("one", "renew", "the-order", first) }, func() {
			t.env.sleep(100 * time.Millisecond)
			t.env.gates.pass("session", "hold rows", nil, false)
			t.env.locks.hold("session", 1, 5*time.Second)
			t.together(func() { t.perform("late", "renew", "the-other", second) }, func() {
				f := action{env: t.env, label: "two"}.post("two", t.keyOf(2), "renew", theirs, "their-order")
				if got, ok := t.env.send(f, 0); !ok || got.code != "OK" {
					t.env.fail(fmt.Sprintf("operator 2 was told %q while the rows of operator 1 were held", got.code))
				}
				if free := t.env.locks.freeAt(1); !time.Now().Before(free) {
					t.env.fail("operator 2 was answered only after the rows of operator 1 were free")
				}
			})
		})
		for _, name := range []string{"the-order", "the-other"} {
			if op := t.env.model.byKey[keyOf(1, name)]; op == nil {
				t.env.fail(name + " never got through")
			}
		}
	}}, "an operator is answered while rows of another are held", "a store call gives up on held rows", "a store call waits for held rows and goes on")
}

// Queries about some operations of one operator hang until the timeout, again and
// again. Everything else in review is settled meanwhile.
func TestReview_HangingQueryDelaysNoOther(t *testing.T) {
	for _, hanging := range []int{1, 40} {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) { runHangingQueries(t, hanging, 200) })
	}
}

// runHangingQueries runs a scenario of many operations in review. Queries about the
// first ones, operator 1's, hang; the others are operator 2's.
func runHangingQueries(t *testing.T, hanging, all int) {
	s := scenario{name: fmt.Sprintf("queries about %d of %d hang", hanging, all), behaviours: map[string][]string{}}
	name := func(i int) string { return fmt.Sprint("order-of-", i) }
	for i := range all {
		s.behaviours[name(i)] = []string{"lost"}
		if i < hanging {
			s.hang = append(s.hang, name(i))
		}
	}
	s.run = func(t scenarioRunner) {
		for operator := range int64(2) {
			t.staff("prepare", func(ctx context.Context, service *admin.Service) error {
				if _, err := service.ChangeOperator(ctx, operator+1, admin.OperatorChange{RateLimit: new(1000)}); err != nil {
					return err
				}
				_, _, err := service.TopUp(ctx, admin.TopUp{OperatorID: operator + 1, Amount: paise(int64(all) * 100_000), Reference: fmt.Sprintf("for all of operator %d", operator+1)})
				return err
			})
		}
		for i := range all {
			task := fmt.Sprint("a", i)
			t.env.gates.pass(task, "begin action", nil, false)
			fields := map[string]string{"full_name": fmt.Sprint("Newcomer ", i), "mobile": fmt.Sprintf("9600000%03d", i), "plan_id": "BASIC-1"}
			key := t.keyOf(1)
			if i >= hanging {
				key = t.keyOf(2)
			}
			t.env.send(action{env: t.env, label: task}.post(task, key, "activate", fields, name(i)), 0)
		}
		began := t.env.elapsed()
		for {
			t.env.gates.pass("one", "look", nil, false)
			left := slices.DeleteFunc(t.env.unsettled(), func(text string) bool {
				of, _, _ := strings.Cut(text, " ")
				return slices.Contains(s.hang, of)
			})
			took := t.env.elapsed() - began
			switch {
			case t.env.broken():
				return
			case len(left) == 0:
				t.env.occurred("everything else is settled")
				return
			case took > reviewsWithin:
				t.env.fail(fmt.Sprintf("S4: %s, and %d other operations are still not settled after %s", s.name, len(left), took))
				return
			}
			t.env.sleep(250 * time.Millisecond)
		}
	}
	runScenario(t, s, "everything else is settled", "fault: "+queriesHang, "review settles an operation while a query about another hangs")
}

// reviewsWithin is how long two hundred operations may be in review while queries
// about others hang, each for providerTimeout.
const reviewsWithin = 30 * time.Second

// keyOf returns an API key of an operator.
func (t scenarioRunner) keyOf(operator int64) *apiKey {
	return t.env.allKeys()[slices.IndexFunc(t.env.allKeys(), func(k *apiKey) bool { return k.operator == operator })]
}
