package cli

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// cliAwaitMoment polls until a file exists or a query returns more than zero, or the process
// is ready and the moment was missed.
func cliAwaitMoment(t testing.TB, p *e2e.Process, folder, file, query string) {
	t.Helper()
	reached := func() bool {
		_, err := os.Stat(filepath.Join(folder, file))
		return err == nil
	}
	if query != "" {
		file, log := filepath.Join(folder, "coax.toml"), filepath.Join(folder, "data", "coax.db-wal")
		var db *sql.DB
		reached = func() bool {
			if db == nil {
				// Opening it earlier would create the store.
				await := log
				if pgtest.Chosen() {
					await = file
				}
				if _, err := os.Stat(await); err != nil {
					return false
				}
				db = e2e.OpenReadOnly(t, e2e.LoadStoreConfig(t, file))
			}
			var n int
			return db.QueryRow(query).Scan(&n) == nil && n > 0
		}
	}
	for deadline := time.Now().Add(e2e.Timeout); !reached(); <-time.After(200 * time.Microsecond) {
		select {
		case <-p.Ended:
			t.Fatalf("the demo ended by itself:\n%s", p.Err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for the moment:\n%s", p.Err)
		}
	}
}

// cliCheckLogins signs in with the logins that a demo printed.
func cliCheckLogins(t testing.TB, line demo.Info) {
	t.Helper()
	w := &e2e.Env{TB: t, Demo: line, HTTP: e2e.NewHTTPClient(t, line.CACert)}
	for _, who := range []demo.Login{line.Admin, line.Operator, line.Finance} {
		if got := w.Browser(t).SignIn(who.Username, who.Password); got.Status != http.StatusSeeOther {
			t.Errorf("the printed login of %s: %d\n%s", who.Username, got.Status, got.Body)
		}
	}
}

// cliCheckStarts starts a demo in a folder and checks that it is complete.
func cliCheckStarts(t testing.TB, folder string) {
	t.Helper()
	s, line := e2e.StartDemo(t, folder)
	cliCheckLogins(t, line)
	got := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "--credentials", filepath.Join(folder, "demo.json")))
	e2e.CheckMentions(t, "the balance", got.Out, `"success": true`, `"wallet_balance": 10000.00`)
	db := e2e.OpenReadOnly(t, e2e.LoadStoreConfig(t, filepath.Join(folder, "coax.toml")))
	for table, want := range map[string]string{"operators": "1", "wallets": "1", "ledger": "1", "plans": "4", "whitelist": "2", "master_keys": "1", "logins": "3"} {
		if got := e2e.QueryRows(t, db, "SELECT count(*) FROM "+table)[0]; got != want {
			t.Errorf("%s has %s rows; want %s", table, got, want)
		}
	}
	if code := s.Terminate(); code != e2e.ExitDone {
		t.Errorf("the demo ended with %d\n%s", code, s.Err)
	}
}

// States that a kill can leave but rarely does, each made by hand.
func TestDemo_RepairsPartialFirstStart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// made: start with the folder of a complete demo, not an empty one.
		made  bool
		leave func(t *testing.T, folder string)
	}{
		{"a CA's key without its certificate", false, func(t *testing.T, folder string) {
			cliReplaceFile(t, folder, "ca.key")
		}},
		{"a new certificate's key beside the old certificate", true, func(t *testing.T, folder string) {
			cliReplaceFile(t, folder, "tls.key")
		}},
		{"a new CA's key beside the old CA", true, func(t *testing.T, folder string) {
			cliReplaceFile(t, folder, "ca.key")
		}},
		{"a store that was made and not written", false, func(t *testing.T, folder string) {
			e2e.UseEmptyStore(t, folder)
			if err := os.Mkdir(filepath.Join(folder, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			e2e.WriteFile(t, filepath.Join(folder, "data", "coax.db"), "")
		}},
		{"drafts of files", true, func(t *testing.T, folder string) {
			e2e.WriteFile(t, filepath.Join(folder, ".coax.toml-123"), "[serv")
			e2e.WriteFile(t, filepath.Join(folder, ".demo.json-123"), "{")
		}},
		{"set up by an older release", true, func(t *testing.T, folder string) {
			e2e.ExecOnStore(t, e2e.LoadStoreConfig(t, filepath.Join(folder, "coax.toml")), `DELETE FROM logins`)
			var line map[string]any
			kept := filepath.Join(folder, "demo.json")
			if err := json.Unmarshal([]byte(e2e.ReadFile(t, kept)), &line); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"panel_url", "admin", "operator", "finance"} {
				delete(line, name)
			}
			older, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			e2e.WriteFile(t, kept, string(older))
		}},
		{"a key whose secret was not kept", true, func(t *testing.T, folder string) {
			if err := os.Remove(filepath.Join(folder, "demo.json")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if test.made {
				folder = e2e.NewInstall(t).Folder
			}
			test.leave(t, folder)
			cliCheckStarts(t, folder)
		})
	}
}

// cliReplaceFile replaces a file by that of another demo.
func cliReplaceFile(t testing.TB, folder, name string) {
	t.Helper()
	other := t.TempDir()
	if err := server.EnsureCertificate(other, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	e2e.WriteFile(t, filepath.Join(folder, name), e2e.ReadFile(t, filepath.Join(other, name)))
}

// A kill between creating and writing the master key's file would leave a key that no start
// can read or may overwrite. So the file appears with its full content.
func TestMasterKey_WrittenAtomically(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for i := range 300 {
		path := filepath.Join(folder, fmt.Sprint(i))
		written := make(chan error, 1)
		go func() { written <- server.WriteMasterKey(path) }()
		var first []byte
		for err := os.ErrNotExist; err != nil; first, err = os.ReadFile(path) {
			if !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if whole := e2e.ReadFile(t, path); string(first) != whole {
			t.Fatalf("the master key had %d of its %d bytes when it appeared", len(first), len(whole))
		}
	}
}

// SIGTERM during a demo's first start exits with 0.
func TestDemo_StoppedDuringFirstStart(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"coax.toml", "master.key", "tls.pem", "data/coax.db", "data/coax.db-wal"} {
		t.Run(strings.ReplaceAll(file, "/", " "), func(t *testing.T) {
			if strings.HasPrefix(file, "data") {
				e2e.OnlySQLite(t, "its files")
			}
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "demo")
			e2e.UseEmptyStore(t, folder)
			p := e2e.Launch(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json")
			t.Cleanup(p.Kill)
			cliAwaitMoment(t, p, folder, file, "")
			if code := p.Signal(syscall.SIGTERM); code != e2e.ExitDone {
				t.Errorf("SIGTERM when %s was there: exit %d; want 0\n%s", file, code, p.Err)
			}
			cliCheckStarts(t, folder)
		})
	}
}
