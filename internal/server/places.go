package server

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/backup"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/telemetry"
)

// place is a folder that the service writes to. If it is not there yet, path is the folder
// in which it will be made.
type place struct{ name, path string }

// places returns the folders that the service writes to, and the folder of its backups.
func places(c Config) (all []place) {
	add := func(name, path string) {
		for path != "" && !exists(path) && path != filepath.Dir(path) {
			path = filepath.Dir(path)
		}
		if path != "" {
			all = append(all, place{name, path})
		}
	}
	if c.Store.Kind == "sqlite" {
		add("store", filepath.Dir(c.Store.Path))
	}
	if c.Store.MarkFile != "" {
		add("mark", filepath.Dir(c.Store.MarkFile))
	}
	if c.Log.SecurityFile != "" {
		add("security_log", filepath.Dir(c.Log.SecurityFile))
	}
	if folder, isFolder := strings.CutPrefix(c.Store.Replica, "file://"); isFolder {
		add("replica", folder)
	}
	add("backup", c.Backup.Folder)
	return all
}

// placeNames are the names of all places.
var placeNames = []string{"store", "mark", "security_log", "replica", "backup"}

type foundBackup struct {
	path string
	at   time.Time
}

// newestBackup returns the newest backup of a store in a folder; the zero value if there is
// none. id is the store's StoreID; "" if it is not known, and then its name is enough.
func newestBackup(folder, name, id string) (newest foundBackup, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return newest, fmt.Errorf("read the folder of the backups: %w", fileowner.Explain(folder, err))
	}
	for _, entry := range entries {
		at, ours := backup.ParseName(name, entry.Name())
		if !ours || !entry.Type().IsRegular() || !at.After(newest.at) {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		head, err := readBackupHeader(path)
		if err != nil || id != "" && head.Store != id {
			continue
		}
		newest = foundBackup{path, head.TakenAt}
	}
	return newest, nil
}

// placesWatch measures disks and backups. Each disk is measured on a goroutine of its own: one
// that hangs, such as a network mount, delays nothing else.
type placesWatch struct {
	config  Config
	metrics *telemetry.PlaceMetrics
	log     *slog.Logger
	// storeID is the StoreID; "" as long as it is not known.
	storeID string
	// warned is the last error that was logged.
	warned string
}

func newPlacesWatch(config Config, metrics *telemetry.Metrics, log *slog.Logger) *placesWatch {
	w := &placesWatch{config: config, log: log, metrics: metrics.Places()}
	for _, p := range places(config) {
		w.metrics.Disk(p.name, math.NaN(), math.NaN())
	}
	if config.Backup.Folder != "" {
		w.metrics.Backup(math.NaN())
	}
	return w
}

// run measures until ctx ends. It does not wait for a disk that hangs.
func (w *placesWatch) run(ctx context.Context) {
	for _, name := range placeNames {
		if !slices.ContainsFunc(places(w.config), func(p place) bool { return p.name == name }) {
			continue
		}
		go every(ctx, measureEvery, func() { w.disk(name) })
	}
	if w.config.Backup.Folder != "" {
		go every(ctx, measureEvery, func() { w.backup(ctx) })
	}
	<-ctx.Done()
}

func (w *placesWatch) disk(name string) {
	for _, p := range places(w.config) {
		if p.name != name {
			continue
		}
		space, err := readSpace(p.path)
		if err != nil {
			w.metrics.Disk(name, math.NaN(), math.NaN())
			return
		}
		free := space.free
		// The unit lets the node only read the backups, which coax-backup.service writes: there
		// it looks like a disk that is mounted read-only.
		if space.readOnly && name != "backup" {
			free = 0
		}
		w.metrics.Disk(name, float64(free), float64(space.total))
	}
}

func (w *placesWatch) backup(ctx context.Context) {
	if w.storeID == "" {
		state, err := readStoreState(ctx, w.config, nil)
		if err == nil && len(state.FirstHash) > 0 {
			w.storeID = StoreID(sqlite.Facts{FirstHash: state.FirstHash})
		}
	}
	newest, err := newestBackup(w.config.Backup.Folder, storeName(w.config.Store), w.storeID)
	if err != nil {
		w.metrics.Backup(math.NaN())
	} else {
		w.metrics.Backup(machineTime(w.config, newest.at))
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != w.warned && err != nil {
		w.log.Warn("look for the newest backup", "error", err)
	}
	w.warned = problem
}
