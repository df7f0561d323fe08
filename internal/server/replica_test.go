package server

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const secretReplica = "sftp://coax:hunter2@127.0.0.1:1/replica?insecure_host_key=true"

func TestReplica_RefusedForPostgreSQL(t *testing.T) {
	sources := Sources{Sets: []string{"store.url=postgres://coax@db.example/coax", "store.replica=" + secretReplica}}
	_, err := LoadConfig(sources)
	if err == nil || !strings.Contains(err.Error(), "store.replica: it is for a store on SQLite") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a replica of a PostgreSQL store: %v", err)
	}
}

func TestPortableSettings_LeaveTheReplicaBehind(t *testing.T) {
	kept, err := portableOf(Sources{
		Environ: []string{"COAX_STORE_REPLICA=" + secretReplica, "COAX_PROVIDER_URL=https://coax:hunter2@provider.example"},
		Sets:    []string{"store.replica_mode=sync", "provider.name=headend"},
	})
	if err != nil || len(kept) != 1 || kept["provider.name"] != "headend" {
		t.Errorf("kept %v, %v", kept, err)
	}
}

// The password of a replica is in no message.
func TestReplica_MessagesHideItsPassword(t *testing.T) {
	for _, bad := range []string{"sftp://coax:hunter2@host", "sftp://coax:hunter2@host/x?kee=1", "sftp://coax:hunter2%zz@host/x", "s3://key:hunter2@/x", "s3://key:hunter2@b/x#y"} {
		if _, err := LoadConfig(Sources{Sets: []string{"store.replica=" + bad}}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	var logged bytes.Buffer
	config, err := LoadConfig(Sources{Sets: []string{"store.url=sqlite:" + filepath.Join(t.TempDir(), "coax.db"), "store.replica=" + secretReplica}})
	if err != nil {
		t.Fatal(err)
	}
	if found := openReplica(config); found == nil || strings.Contains(found.Details[1].(string), "hunter2") {
		t.Errorf("the insecure setting: %+v", found)
	}
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&logged, nil)))
	defer slog.SetDefault(old)
	store, err := OpenStore(t.Context(), config, StoreOptions{})
	if err != nil {
		t.Fatalf("async mode did not start without its replica: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if text := logged.String(); !strings.Contains(text, "the replica is behind the store") || !strings.Contains(text, "127.0.0.1:1") || strings.Contains(text, "hunter2") {
		t.Errorf("logged %s", text)
	}
	config.Store.ReplicaMode = "sync"
	if _, err := OpenStore(t.Context(), config, StoreOptions{}); err == nil || !strings.Contains(err.Error(), "sftp://coax@127.0.0.1:1/replica") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("sync mode without its replica: %v", err)
	}
}

func TestReplicaWatch_LogsOnceAMinute(t *testing.T) {
	var logged bytes.Buffer
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	w := &replicaWatch{address: "file:///x", log: slog.New(slog.NewTextHandler(&logged, nil)), now: func() time.Time { return now }}
	for range 90 {
		w.report(errors.New("it is full"))
		now = now.Add(time.Second)
	}
	w.report(nil)
	if n := strings.Count(logged.String(), "it is full"); n != 2 || !strings.Contains(logged.String(), "the replica is complete") {
		t.Errorf("%d warnings in 90 s:\n%s", n, logged.String())
	}
}
