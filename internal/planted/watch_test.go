package planted

import (
	"strings"
	"testing"
)

// A detector that fails for another reason has not found the bug.
func TestDetectors_NeedViolation(t *testing.T) {
	tests := []struct {
		name   string
		watch  func() func(string) (sighting, bool)
		output string
		what   string // empty if it is no finding
	}{
		{"a history with a violation", brokenHistory, "begin 7\n\ndone {\"seed\":7,\"violations\":[\"M2 operator 1:\\n  the wallet\"]}", "seed 7: M2 operator 1: the wallet"},
		{"histories without violations", brokenHistory, "done {\"seed\":7}\ndone {\"seed\":8,\"violations\":[]}\nPASS", ""},
		{"a history that panics", brokenHistory, "begin 7\npanic: nil pointer", ""},
		{"a truncated result line", brokenHistory, `done {"seed":7,"violations":["M2"`, ""},
		{"an order that was carried out twice", resendTrap.watch,
			"--- FAIL: TestGatewayFaults (0.1s)\n    --- FAIL: TestGatewayFaults/Resending/closed/renew (0.1s)\n        resending.go:58: CX2 was carried out 2 times, with 3 requests in all; want 1 of 2",
			"Resending/closed/renew: CX2 was carried out 2 times, with 3 requests in all; want 1 of 2"},
		{"a trap that was not reached", resendTrap.watch,
			"    --- FAIL: TestGatewayFaults/Resending/closed/renew (0.1s)\n        resending.go:53: the second order took another connection, so nothing was tested", ""},
		{"a test that logs and does not fail", malformedReplies.watch, "        faults.go:1: answer = confirmed; want unknown", ""},
		{"a history that no order explains", races.watch,
			"    --- FAIL: TestTwoNodes/PostgreSQL (9s)\n        x_test.go:38: the wallet of operator 1: no order of its 78 steps explains them (Illegal); see", "PostgreSQL: the wallet of operator 1: no order of its 78 steps explains them"},
		{"a fault at a step", faultAtStep, "--- FAIL: TestEveryFault (9s)\n    exhaustive_test.go:51: single/3/write fails after:\n          renew, lost, with crash at place 3: M2 operator 1", "renew, lost, with crash at place 3: M2 operator 1"},
		{"faults that were not reached", faultAtStep, "--- FAIL: TestEveryFault (9s)\n    exhaustive_test.go:58: 3 jobs of 500 came to an end", ""},
		{"a wallet that is wrong after a kill", torture.watch, "        --- FAIL: TestNothing/sqlite/node/1 (9s)\n            record_test.go:35: violation: the wallet", "sqlite/node/1: violation: the wallet"},
		{"a node that does not start", torture.watch, "        --- FAIL: TestNothing/sqlite/node/1 (9s)\n            node_test.go:110: n1 ended instead of serving", ""},
		{"a server that could not be reached", races.watch, "    --- FAIL: TestTwoNodes/PostgreSQL (9s)\n        x_test.go:31: no whole answer in time", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			watch, got := tt.watch(), ""
			for line := range strings.SplitSeq(tt.output, "\n") {
				if seen, is := watch(line); is {
					got = seen.what
				}
			}
			if got != tt.what {
				t.Errorf("found %q; want %q", got, tt.what)
			}
		})
	}
}
