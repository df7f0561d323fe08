package e2e

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// firstStart is what a demo leaves when it has started for the first time: its
// folder and, on PostgreSQL, its database.
type firstStart struct {
	folder   string
	database string
	at       time.Time
}

// furnished is a first start, to copy: schema, certificate, catalogue and logins
// take longer to make than most tests take. What makes them has tests of its own.
var furnished = sync.OnceValues(func() (made firstStart, err error) {
	made.at = standingStill()
	if made.folder, err = os.MkdirTemp("", "coax-furnished-"); err != nil {
		return made, err
	}
	firstStartFolder = made.folder
	in := demo.Folder{Path: made.folder}
	if pgtest.Chosen() {
		if made.database, err = pgtest.KeptDatabase(); err != nil {
			return made, err
		}
		in.Sets = []string{"store.url=" + made.database}
	}
	provider, err := demo.StartSimulator("127.0.0.1:0", filepath.Join(made.folder, "simulator.json"))
	if err != nil {
		return made, err
	}
	defer provider.Stop()
	config, err := demo.Prepare(in, "127.0.0.1:0", provider.URL)
	if err != nil {
		return made, err
	}
	n, err := server.Open(context.Background(), config, nil, slog.New(slog.DiscardHandler), func() time.Time { return made.at })
	if err != nil {
		return made, err
	}
	_, err = demo.Furnish(context.Background(), n, filepath.Join(made.folder, "demo.json"))
	return made, errors.Join(err, n.Close())
})

// standingStill is where the clock of a world stands that was begun now.
func standingStill() time.Time { return time.Now().Truncate(time.Minute).Add(10 * time.Second) }

// furnishedFolder is a folder in which the first start is over, and the settings
// with which its store is found. A world that is to live before it was made begins
// with nothing.
func furnishedFolder(t testing.TB, at time.Time) (folder string, sets []string) {
	t.Helper()
	folder = t.TempDir()
	made, err := furnished()
	if err != nil {
		t.Fatal(err)
	}
	if at.Before(made.at) {
		return folder, NewStoreSettings(t)
	}
	if err := os.CopyFS(folder, os.DirFS(made.folder)); err != nil {
		t.Fatal(err)
	}
	// Copies are open to everybody, and the product minds.
	if err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	}); err != nil {
		t.Fatal(err)
	}
	if made.database != "" {
		sets = append(sets, "store.url="+pgtest.CopyDatabase(t, made.database))
	}
	return folder, sets
}

// firstStartFolder is the folder of furnished, once a test has wanted it.
var firstStartFolder string

// removeFurnished is for the end of a run.
func removeFurnished() {
	if firstStartFolder != "" {
		_ = os.RemoveAll(firstStartFolder)
	}
}
