package cli

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
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
