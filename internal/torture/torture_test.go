//go:build long

// Package torture runs installations of real processes, over HTTPS and with the public
// client, and disrupts them: nodes are killed at random and at every crash point,
// PostgreSQL is killed or its connections cut, and the server is flooded. Clients record
// what they send and receive; afterwards that is compared with the service, its wallets,
// its audit and the provider.
package torture

import (
	"os"
	"testing"

	"github.com/coaxhq/coax/internal/e2e/program"
)

func TestMain(m *testing.M) {
	code := m.Run()
	program.Remove()
	os.Exit(code)
}

// Whatever is killed at whatever point: answers stay true, no key is charged twice,
// every wallet is right to the paisa, and the provider has carried out what succeeded,
// once. COAX_TEST_STORE names one store; the default is both.
func TestKilledNodes_LoseNothing(t *testing.T) {
	stores := []string{"sqlite", "postgres"}
	if store := os.Getenv("COAX_TEST_STORE"); store != "" {
		stores = []string{store}
	}
	for _, store := range stores {
		t.Run(store, func(t *testing.T) { newCampaign(t, store, coverageCycles).run(t) })
	}
}
