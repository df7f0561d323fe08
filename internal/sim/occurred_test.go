package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

// demand fails a run of histories in which something that they are for never
// happened: a simulation that only ever sees fair weather proves little.
func requireOccurred(t *testing.T, happened map[string]int) {
	t.Helper()
	var wanted []string
	for _, code := range fault.Contract {
		wanted = append(wanted, "code "+string(code))
	}
	for _, kind := range faultKinds {
		if kind.rate < 1000 {
			wanted = append(wanted, "fault: "+kind.name)
		}
	}
	for _, list := range []struct {
		prefix  string
		weights []weight
	}{{"turn: ", disruptions}, {"staff: ", staffActions}, {"provider order: ", behaviours}, {"provider status: ", queryBehaviours}} {
		for _, one := range list.weights {
			if one.name != "ok" {
				wanted = append(wanted, list.prefix+one.name)
			}
		}
	}
	for _, step := range steps {
		wanted = append(wanted, "operation "+step)
	}
	wanted = append(wanted,
		"a batch of three facts or more", "the commit of three facts or more fails before it took hold", "the commit of three facts or more fails after it took hold",
		"an operation is taken over", "a client hangs up", "a node crashes", "exception LATE_SUCCESS", "exception WRONG_ANSWER", "nobody is there",
		"fault: "+rowsHeld, "a store call waits for held rows and goes on", "a store call gives up on held rows", "an operator is answered while rows of another are held",
		"review settles an operation while a question about another hangs", "an operation hangs to the end",
		"staff confirm while a question is under way", "staff reject while a question is under way", "the provider says no to what a person confirmed",
	)
	missing := slices.DeleteFunc(wanted, func(what string) bool { return happened[what] > 0 })
	if len(missing) > 0 {
		t.Errorf("these never happened:\n  %s", strings.Join(missing, "\n  "))
	}
}
