// Package torture runs installations of real processes, over HTTPS and with the public
// client, and disrupts them: nodes are killed at random and at every crash point,
// PostgreSQL is killed or its connections cut, and the server is flooded. Clients record
// what they send and receive; afterwards that is compared with the service, its wallets,
// its audit and the provider.
package torture

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }

// number reads a number from the environment.
func number(t testing.TB, variable string, standard int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number from 1 on", variable, text)
	}
	return n
}

func sortedCounts(counts map[string]int) string {
	var words []string
	for _, name := range slices.SortedFunc(maps.Keys(counts), cmp.Compare[string]) {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}
