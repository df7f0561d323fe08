package e2e

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

func TestCodes_MissingCodeFailsTheRun(t *testing.T) {
	var book codeBook
	for _, code := range fault.Contract {
		if code != fault.InvalidNonce && code != fault.PlansUnavailable {
			book.note(code, "GET /api/v1/balance")
		}
	}
	var said strings.Builder
	if got := book.report(&said, fault.Contract); got != 1 {
		t.Errorf("two codes are missing, and the run ends with %d; want 1", got)
	}
	for _, want := range []string{"FAIL", "2 of the contract's 41 codes", "INVALID_NONCE, PLANS_UNAVAILABLE\n"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the run says %q; want %q in it", said.String(), want)
		}
	}
	book.note(fault.InvalidNonce, "GET /api/v1/balance")
	book.note(fault.PlansUnavailable, "GET /api/v1/plans")
	if got := book.report(io.Discard, fault.Contract); got != 0 {
		t.Errorf("no code is missing, and the run ends with %d; want 0", got)
	}
}

func TestCodes_PartialRunIsExempt(t *testing.T) {
	for _, filter := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if ranEverything(false, func(name string) string { return map[string]string{filter: "X"}[name] }) {
			t.Errorf("a run with -%s counts as whole", filter)
		}
	}
	none := func(string) string { return "" }
	if ranEverything(true, none) || !ranEverything(false, none) {
		t.Error("a short run counts as whole, or a whole one does not")
	}
	// The flags are the testing package's, and could be renamed there.
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if flag.Lookup(name) == nil {
			t.Errorf("there is no flag -%s", name)
		}
	}
}
