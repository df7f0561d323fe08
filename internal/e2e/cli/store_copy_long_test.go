//go:build long

package cli

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/transfer"
)

// `coax store copy` is killed at every crash point, also between batches of one table. Each time
// the target is in the copy's maintenance, which nobody ends, and the next copy goes on.
func TestStoreCopy_KilledGoesOn(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	install, config := backupInstall(t)
	path := e2e.StorePath(install)
	e2e.ExecOnStore(t, server.StoreConfig{Kind: "sqlite", Path: path}, `
		INSERT INTO acme_secrets (id, sealed)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) SELECT 'secret ' || i, x'00ff' FROM n`)
	for _, url := range []string{"sqlite:" + filepath.Join(t.TempDir(), "coax.db"), pgtest.NewDatabase(t)} {
		to, err := server.ReadStoreURL(url)
		if err != nil {
			t.Fatal(err)
		}
		killed := func(point string) {
			t.Helper()
			p := e2e.LaunchProgram(t, e2e.FailpointBinary(t), []string{"COAX_FAILPOINT=" + point + "=kill"}, "store", "copy", "--from", "sqlite:"+path, "--to", url)
			if code := p.Wait(); code != -1 {
				t.Fatalf("%s: the copy was not killed, and ended with %d\n%s", point, code, p.Err)
			}
			if by := maintainedBy(t, to); by != "coax store copy" {
				t.Fatalf("%s, killed at %s: it is in maintenance by %q", url, point, by)
			}
			requireUnfinished(t, config, url)
		}
		killed("C.begun")
		// The secrets are three batches; what is before them, one for each table.
		between := false
		for rows := int64(0); rows < 20_000; rows = countSecrets(t, to) {
			killed("C.batch")
			between = between || rows == 10_000
		}
		if !between {
			t.Errorf("%s: it was not killed between two batches of a table", url)
		}
		killed("C.rest")
		killed("C.compared")
		killed("C.audited")
		got := requireDone(t, e2e.Run(t, "store", "copy", "--from", "sqlite:"+path, "--to", url, "--json"))
		var result transfer.Result
		if err := json.Unmarshal([]byte(got.Out), &result); err != nil || result != digestOf(t, "sqlite:"+path) {
			t.Errorf("%s: copied %+v, %v; want %+v", url, result, err, digestOf(t, "sqlite:"+path))
		}
		if by := maintainedBy(t, to); by != "" {
			t.Errorf("%s: in maintenance by %q", url, by)
		}
	}
}

func countSecrets(t *testing.T, store server.StoreConfig) (rows int64) {
	t.Helper()
	db := openStore(t, store)
	defer db.Close()
	if err := db.QueryRow(`SELECT count(*) FROM acme_secrets`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}
