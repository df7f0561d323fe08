package e2e

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

func TestCodes_MissingCodeFailsTheRun(t *testing.T) {
	var codes codeSet
	for _, code := range fault.Contract {
		if code != fault.InvalidNonce && code != fault.PlansUnavailable {
			codes.record(code, "GET /api/v1/balance")
		}
	}
	var said strings.Builder
	if got := codes.report(&said, fault.Contract); got != 1 {
		t.Errorf("exit code %d with two codes missing; want 1", got)
	}
	for _, want := range []string{"FAIL", "2 of the contract's 41 codes", "INVALID_NONCE, PLANS_UNAVAILABLE\n"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the report is %q; want %q in it", said.String(), want)
		}
	}
	codes.record(fault.InvalidNonce, "GET /api/v1/balance")
	codes.record(fault.PlansUnavailable, "GET /api/v1/plans")
	if got := codes.report(io.Discard, fault.Contract); got != 0 {
		t.Errorf("exit code %d with no code missing; want 0", got)
	}
}

func TestCodes_PartialRunIsExempt(t *testing.T) {
	for _, filter := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if runsEverything(false, func(name string) string { return map[string]string{filter: "X"}[name] }) {
			t.Errorf("a run with -%s counts as full", filter)
		}
	}
	none := func(string) string { return "" }
	if runsEverything(true, none) || !runsEverything(false, none) {
		t.Error("a short run counts as full, or a full one does not")
	}
	// The flags are the testing package's, and could be renamed there.
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if flag.Lookup(name) == nil {
			t.Errorf("there is no flag -%s", name)
		}
	}
}
