package e2e

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

// received has every code that a running service answered a test with.
var received codeSet

// codeSet records codes, with where each was seen.
type codeSet struct {
	mu   sync.Mutex
	seen map[fault.Code]map[string]bool
}

func (b *codeSet) record(code fault.Code, where string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen = map[fault.Code]map[string]bool{}
	}
	if b.seen[code] == nil {
		b.seen[code] = map[string]bool{}
	}
	b.seen[code][where] = true
}

// report returns the exit code of a full run: 1, after printing the reason, if some code of
// the contract was never received.
func (b *codeSet) report(w io.Writer, promised []fault.Code) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var missing []string
	for _, code := range promised {
		if len(b.seen[code]) == 0 {
			missing = append(missing, string(code))
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(w, "FAIL: %d of the contract's %d codes were not received from a running service by any test: %s\n",
			len(missing), len(promised), strings.Join(missing, ", "))
		return 1
	}
	if testing.Verbose() {
		fmt.Fprintf(w, "all %d codes of the contract were received from a running service:\n", len(promised))
		for _, code := range promised {
			fmt.Fprintf(w, "  %-25s %d kinds of answers\n", code, len(b.seen[code]))
		}
	}
	return 0
}

// isFullRun reports whether no test was left out of this run.
func isFullRun() bool {
	return runsEverything(testing.Short(), func(name string) string { return flag.Lookup(name).Value.String() })
}

func runsEverything(short bool, value func(name string) string) bool {
	return !short && value("test.run") == "" && value("test.skip") == "" && value("test.list") == "" && value("test.fuzz") == ""
}
