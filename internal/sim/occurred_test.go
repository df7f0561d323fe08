package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

// requireOccurred fails a run in which a result code, fault, staff action or state
// transition never occurred: without them the simulation proves little.
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
	}{{"disruption: ", disruptions}, {"staff: ", staffActions}, {"provider order: ", behaviours}, {"provider status: ", queryBehaviours}, {"provider reverse: ", reverseBehaviours}} {
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
		"a batch of three writes or more", "a commit of three writes or more fails before it took effect", "a commit of three writes or more fails after it took effect",
		"an operation is taken over", "a client hangs up", "a node crashes", "exception LATE_SUCCESS", "exception WRONG_ANSWER", "no node is running",
		"fault: "+rowsHeld, "a store call waits for held rows and goes on", "a store call gives up on held rows", "an operator is answered while rows of another are held",
		"review settles an operation while a query about another hangs", "an operation hangs to the end",
		"staff confirm during a query", "staff reject during a query", "the provider rejects what a person confirmed",
		"a reversal is requested", "a reversal is reversed by the provider", "a reversal is refused by the provider", "a reversal is reversed by a person", "a reversal is refused by a person",
		"staff settle a reversal during a call", "exception REVERSAL_CONTRADICTION",
	)
	missing := slices.DeleteFunc(wanted, func(what string) bool { return happened[what] > 0 })
	if len(missing) > 0 {
		t.Errorf("these never occurred:\n  %s", strings.Join(missing, "\n  "))
	}
}
