//go:build long

package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// cliKillMoments are points of a demo's first start: when a file exists, or when a query
// returns more than zero. Files in the data folder exist on SQLite only.
var cliKillMoments = []struct{ name, file, query string }{
	{name: "its folder is made", file: "."},
	{name: "its configuration is written", file: "coax.toml"},
	{name: "its master key is written", file: "master.key"},
	{name: "its CA is half written", file: "ca.key"},
	{name: "its CA is written", file: "ca.pem"},
	{name: "its certificate is half written", file: "tls.key"},
	{name: "its certificate is written", file: "tls.pem"},
	{name: "the data folder is made", file: "data"},
	{name: "the store is locked", file: "data/coax.db.lock"},
	{name: "the store is made", file: "data/coax.db"},
	{name: "the store is first written", file: "data/coax.db-wal"},
	{name: "the schema is there", query: `SELECT 1 + count(*) FROM staff_acts`},
	{name: "the master key is known", query: `SELECT count(*) FROM master_keys`},
	{name: "the operator is there", query: `SELECT count(*) FROM operators`},
	{name: "a plan is there", query: `SELECT count(*) FROM plans`},
	{name: "the money is there", query: `SELECT count(*) FROM wallet_entries`},
	{name: "an address is let in", query: `SELECT count(*) FROM whitelist`},
	{name: "the key is there", query: `SELECT count(*) FROM credentials`},
	{name: "the credentials are kept", file: "demo.json"},
	{name: "the first login is there", query: `SELECT count(*) FROM logins`},
	{name: "the second login is there", query: `SELECT count(*) - 1 FROM logins`},
	{name: "all logins are there", query: `SELECT count(*) - 2 FROM logins`},
}

func TestDemo_KilledDuringFirstStart(t *testing.T) {
	t.Parallel()
	for _, moment := range cliKillMoments {
		t.Run(moment.name, func(t *testing.T) {
			if strings.HasPrefix(moment.file, "data") {
				e2e.OnlySQLite(t, "its files")
			}
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "demo")
			e2e.UseEmptyStore(t, folder)
			victim := e2e.Launch(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json")
			t.Cleanup(victim.Kill)
			cliAwaitMoment(t, victim, folder, moment.file, moment.query)
			victim.Kill()
			cliCheckStarts(t, folder)
		})
	}
}
