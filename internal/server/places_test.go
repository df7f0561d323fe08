package server

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/telemetry"
)

func TestPlacesWatch_NewestBackup(t *testing.T) {
	t.Parallel()
	p := newInstallation(t)
	folder := t.TempDir()
	p.set("backup.folder", folder)
	config := p.withOperator()
	metrics := telemetry.NewMetrics()
	watch := newPlacesWatch(config, metrics, slog.New(slog.DiscardHandler))
	last := func() float64 {
		watch.backup(t.Context())
		return sample(t, scraped(t, metrics), "coax_backup_last_timestamp_seconds")
	}
	if got := last(); got != 0 {
		t.Errorf("without a backup: %v; want 0", got)
	}
	made, err := BackUp(t.Context(), config, folder, BackupOptions{Progress: func(string, int64, int64) {}})
	p.must(err)
	if got, want := last(), float64(made.TakenAt.UnixMilli())/1000; got != want {
		t.Errorf("after a backup: %v; want %v", got, want)
	}
	// A backup of another store, and a file that only looks like one, are newer.
	other := newInstallation(t)
	otherConfig := other.withOperator()
	_, err = BackUp(t.Context(), otherConfig, folder, BackupOptions{Progress: func(string, int64, int64) {}})
	p.must(err)
	p.must(os.WriteFile(filepath.Join(folder, "coax-"+time.Now().Add(time.Hour).UTC().Format("20060102T150405Z")+".coaxbackup"), []byte("torn"), 0o600))
	if got, want := last(), float64(made.TakenAt.UnixMilli())/1000; got != want {
		t.Errorf("beside backups of others: %v; want %v", got, want)
	}
	p.must(os.RemoveAll(folder))
	if got := last(); !math.IsNaN(got) {
		t.Errorf("without the folder: %v; want NaN", got)
	}
}

// withOperator makes an operator, which is the store's first staff action: by it backups tell
// their store from others.
func (p *installation) withOperator() Config {
	p.t.Helper()
	config, err := LoadConfig(p.from)
	p.must(err)
	vault, err := OpenVault(config, nil)
	p.must(err)
	store, err := OpenStore(p.t.Context(), config, StoreOptions{Tool: true})
	p.must(err)
	_, _, err = UnlockStore(p.t.Context(), store, vault, time.Now())
	p.must(err)
	_, err = admin.NewService(store, vault, "test", time.Now).CreateOperator(p.t.Context(), filepath.Base(filepath.Dir(p.folder)), admin.OperatorChange{})
	p.must(err)
	p.must(store.Close())
	return config
}

func TestPlacesWatch_Disks(t *testing.T) {
	t.Parallel()
	p := newInstallation(t)
	p.set("store.replica", "file://"+filepath.Join(p.folder, "replica"), "log.security_file", filepath.Join(p.folder, "security.log"))
	config, err := LoadConfig(p.from)
	p.must(err)
	metrics := telemetry.NewMetrics()
	watch := newPlacesWatch(config, metrics, slog.New(slog.DiscardHandler))
	for _, name := range []string{"store", "mark", "security_log", "replica"} {
		if got := sample(t, scraped(t, metrics), `coax_disk_free_bytes{place="`+name+`"}`); !math.IsNaN(got) {
			t.Errorf("%s before it is measured: %v; want NaN", name, got)
		}
		watch.disk(name)
		text := scraped(t, metrics)
		free, size := sample(t, text, `coax_disk_free_bytes{place="`+name+`"}`), sample(t, text, `coax_disk_size_bytes{place="`+name+`"}`)
		if free <= 0 || size < free {
			t.Errorf("%s: %v of %v bytes are free", name, free, size)
		}
	}
	if got := sample(t, scraped(t, metrics), `coax_disk_free_bytes{place="backup"}`); got != -1 {
		t.Errorf("without backup.folder its disk has %v bytes free", got)
	}
}
