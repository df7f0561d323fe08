//go:build long

// Package torture runs installations of real processes, over HTTPS and with the
// public client, and breaks them: nodes are killed at random and at every crash
// point, PostgreSQL is torn away under them, and strangers flood the door. The
// clients write down what they sent and what they were told; afterwards that is
// held against what the service, its wallets, its audit and the provider say.
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

// Whatever is killed, and wherever it dies: what a client was told stays true, no
// key is charged twice, every wallet is right to the paisa, and the provider has
// done what succeeded, once. COAX_TEST_STORE names one store; otherwise it is both.
func TestKilledNodes_LoseNothing(t *testing.T) {
	stores := []string{"sqlite", "postgres"}
	if store := os.Getenv("COAX_TEST_STORE"); store != "" {
		stores = []string{store}
	}
	for _, store := range stores {
		t.Run(store, func(t *testing.T) { newCampaign(t, store, enough).run(t) })
	}
}
