package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/replica/replicatest"
	"github.com/coaxhq/coax/internal/server"
)

// replicate opens an installation's store as a node with a replica does, and calls work meanwhile.
func replicate(t *testing.T, config, address string, work func(), sets ...string) {
	t.Helper()
	loaded, err := server.LoadConfig(server.Sources{File: config, Sets: append(sets, "store.replica="+address, "store.replica_mode=sync")})
	if err != nil {
		t.Fatal(err)
	}
	store, err := server.OpenStore(t.Context(), loaded, server.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	work()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// A store is restored from its replica, as it is now and as it was at a moment.
func TestRestore_FromReplica(t *testing.T) {
	e2e.OnlySQLite(t, "a replica is of SQLite")
	var environ []string
	for name, value := range replicatest.Environment {
		t.Setenv(name, value)
		environ = append(environ, name+"="+value)
	}
	host, key := replicatest.SFTP(t)
	for kind, address := range map[string]string{
		"file": "file://" + filepath.Join(t.TempDir(), "replica"),
		"sftp": replicatest.SFTPAddress(host, key, filepath.Join(t.TempDir(), "replica")),
		"s3":   replicatest.S3(t),
	} {
		t.Run(kind, func(t *testing.T) {
			install, config := backupInstall(t)
			var before time.Time
			replicate(t, config, address, func() {
				before = time.Now()
				install.JSON("lco", "create", "--name", "South")
			}, "provider.name=headend", "log.security_file="+filepath.Join(t.TempDir(), "lost.log"))
			for _, row := range []struct {
				at        []string
				operators int
			}{{nil, 3}, {[]string{"--at", before.Format(time.RFC3339Nano)}, 2}} {
				work, dir := t.TempDir(), filepath.Join(t.TempDir(), "restored")
				args := append([]string{"restore", address, "--dir", dir, "--work", work}, row.at...)
				got := requireDone(t, e2e.RunWithEnv(t, environ, args...))
				e2e.CheckMentions(t, "the restore", got.Out, "Everything agrees.", "lost.log", fmt.Sprintf("Audited: %d operator", row.operators))
				checkNames(t, work)
				e2e.CheckMentions(t, "the configuration", e2e.ReadFile(t, filepath.Join(dir, "coax.toml")), "name = 'headend'")
				requireOpenRestore(t, server.StoreConfig{Kind: "sqlite", Path: filepath.Join(dir, "data", "coax.db")})
			}
		})
	}
}

// A restore from a replica that is refused leaves nothing of the store behind.
func TestRestore_RefusedReplicaLeavesNothing(t *testing.T) {
	e2e.OnlySQLite(t, "a replica is of SQLite")
	t.Parallel()
	install, config := backupInstall(t)
	address := "file://" + filepath.Join(t.TempDir(), "replica")
	replicate(t, config, address, func() {})
	full, work := t.TempDir(), t.TempDir()
	e2e.WriteFile(t, filepath.Join(full, "note"), "mine")
	refused := func(want string, args ...string) {
		t.Helper()
		e2e.CheckRefused(t, e2e.Run(t, append([]string{"restore", address, "--work", work}, args...)...), want)
		checkNames(t, work)
	}
	refused("is not empty, note is in it", "--dir", full)
	refused("no such file or directory", "--dir", filepath.Join(t.TempDir(), "new"), "--work", filepath.Join(work, "none"))
	refused("name a later moment", "--dir", filepath.Join(t.TempDir(), "new"), "--at", "2020-01-01T00:00:00Z")
	replicate(t, config, address, func() {
		e2e.ExecOnStore(t, server.StoreConfig{Kind: "sqlite", Path: e2e.StorePath(install)}, `INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (9999, 1)`)
	})
	refused("made by a newer release", "--dir", filepath.Join(t.TempDir(), "new"))
}

// While the replica is gone, a node in async mode sells and counts. In sync mode it answers 503
// and is not ready, and goes on by itself: the key that was answered so has its result.
func TestReplica_GoneWhileNodeRuns(t *testing.T) {
	e2e.OnlySQLite(t, "a replica is of SQLite")
	for _, mode := range []string{"async", "sync"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			mount := filepath.Join(t.TempDir(), "mount")
			if err := os.Mkdir(mount, 0o700); err != nil {
				t.Fatal(err)
			}
			address := "file://" + filepath.Join(mount, "replica")
			p, _ := e2e.StartDemo(t, t.TempDir(), "--set", "store.replica="+address, "--set", "store.replica_mode="+mode)
			env := e2e.NewRemoteEnv(t, p)
			move := func(from, to string) {
				t.Helper()
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			activate := func(key, mobile string) e2e.Answer {
				t.Helper()
				got, answered := env.TryOperate(env.DemoCaller(), "activate", key, e2e.Activation(mobile))
				if !answered {
					t.Fatalf("%s: no answer", key)
				}
				return got
			}
			if got := activate("replica-there", "9800000001"); got.Code != fault.OK {
				t.Fatalf("before: %s", got.Raw)
			}
			env.WaitUntil("the replica is complete", func() bool { return env.Metric("coax_replica_lag_seconds") == 0 })
			move(mount, mount+".away")
			gone := activate("replica-gone", "9800000002")
			env.WaitUntil("the failure is counted", func() bool {
				return env.Metric("coax_replica_errors_total") > 0 && env.Metric("coax_replica_lag_seconds") > 0
			})
			want, ready := fault.OK, http.StatusOK
			if mode == "sync" {
				want, ready = fault.ServiceUnavailable, http.StatusServiceUnavailable
			}
			if got := e2e.Readiness(t, p.Demo.InternalURL); gone.Code != want || got != ready {
				t.Errorf("while it is gone: /readyz says %d, and the order is answered %s; want %d and %s", got, gone.Raw, ready, want)
			}
			move(mount+".away", mount)
			env.WaitUntil("the replica is complete again", func() bool {
				return env.Metric("coax_replica_lag_seconds") == 0 && e2e.Readiness(t, p.Demo.InternalURL) == http.StatusOK
			})
			var again e2e.Answer
			env.WaitUntil("the key has its result", func() bool {
				again = activate("replica-gone", "9800000002")
				return again.Code == fault.OK
			})
			if id := gone.Text("transaction_id"); mode == "async" && again.Text("transaction_id") != id {
				t.Errorf("repeated: %s; its first answer was %s", again.Raw, gone.Raw)
			}
			if code := p.Terminate(); code != e2e.ExitDone {
				t.Fatalf("the demo ended with %d", code)
			}
			dir := filepath.Join(t.TempDir(), "restored")
			requireDone(t, e2e.Run(t, "restore", address, "--dir", dir))
			var sold, reserved int
			err := openSQLite(t, filepath.Join(dir, "data", "coax.db")).QueryRow(`
				SELECT (SELECT count(*) FROM operations WHERE status = 'success' AND idempotency_key = 'replica-gone'),
				       (SELECT count(*) FROM wallet_entries e JOIN operations o ON o.id = e.operation_id WHERE o.idempotency_key = 'replica-gone')`).Scan(&sold, &reserved)
			if err != nil || sold != 1 || reserved != 1 {
				t.Errorf("the replica has %d operations under the key and %d wallet entries, %v; want one of each", sold, reserved, err)
			}
		})
	}
}
