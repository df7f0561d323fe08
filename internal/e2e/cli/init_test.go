package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestInit_CreatesInstallation(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new", "etc")
	got := e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder))
	for name, mode := range map[string]os.FileMode{
		"coax.toml": 0o600, "master.key": 0o400, "data": os.ModeDir | 0o700,
	} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode {
			t.Errorf("%s has mode %v; want %v", name, info.Mode(), mode)
		}
		e2e.CheckMentions(t, "what init says", got.Out, name)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 3 {
		t.Errorf("init made %v (%v); want three things and nothing besides", entries, err)
	}
	e2e.CheckMentions(t, "what init says", got.Out, folder, "tls.pem", "tls.key", "server.tls_cert", "safe place",
		"coax serve --config "+filepath.Join(folder, "coax.toml"), "lco create")

	text := e2e.ReadFile(t, filepath.Join(folder, "coax.toml"))
	e2e.CheckMentions(t, "coax.toml", text, "COAX_SERVER_ADDR", "--set", "relative to this file")
	key := e2e.ReadFile(t, filepath.Join(folder, "master.key"))
	if strings.Contains(got.Out+text, strings.TrimSpace(key)) {
		t.Error("init shows the master key")
	}
	other := t.TempDir()
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", other))
	if e2e.ReadFile(t, filepath.Join(other, "master.key")) == key {
		t.Error("two installations have the same master key")
	}
}

// With --set the store, the key and whatever else lie elsewhere, as the package wants it.
func TestInit_WritesGivenSettings(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder, data, key := filepath.Join(root, "etc"), filepath.Join(root, "lib", "data"), filepath.Join(root, "keys", "ring")
	out := e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder, "--set", "store.url=sqlite:"+filepath.Join(data, "coax.db"),
		"--set", "secrets.master_key_file="+key, "--set", "provider.timeout=7s")).Out
	e2e.CheckMentions(t, "what init says", out, data+"/", key)
	if info, err := os.Stat(data); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("the store's folder is %v (%v); want one of mode 0700", info, err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode() != 0o400 {
		t.Errorf("the master key is %v (%v); want a file of mode 0400", info, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("--dir has %v (%v); want coax.toml alone", entries, err)
	}
	config := filepath.Join(folder, "coax.toml")
	e2e.CheckMentions(t, "coax.toml", e2e.ReadFile(t, config), "\ntimeout = '7s'\n")
	e2e.RequireOK(t, e2e.Run(t, "migrate", "--config", config, "--set", "provider.url=http://127.0.0.1:1"))
	if _, err := os.Stat(filepath.Join(data, "coax.db")); err != nil {
		t.Error(err)
	}

	other := filepath.Join(root, "other")
	e2e.CheckRefused(t, e2e.Run(t, "init", "--dir", other, "--set", "secrets.master_key_file="+key), key, "overwrites nothing")
	e2e.CheckRefused(t, e2e.Run(t, "init", "--dir", other, "--set", "store.urll=x"), "store.urll")
	if _, err := os.Stat(other); err == nil {
		t.Error("a refused init made its folder")
	}
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", other, "--set", "store.url=postgres://coax@db.example/coax"))
	if _, err := os.Stat(filepath.Join(other, "data")); err == nil {
		t.Error("init made a folder for SQLite, and the store is on PostgreSQL")
	}
}

func TestInit_OverwritesNothing(t *testing.T) {
	t.Parallel()
	for _, there := range []string{"coax.toml", "master.key", "data"} {
		t.Run(there, func(t *testing.T) {
			folder := t.TempDir()
			path := e2e.WriteFile(t, filepath.Join(folder, there), "mine")
			e2e.CheckRefused(t, e2e.Run(t, "init", "--dir", folder), path, "overwrites nothing")
			entries, err := os.ReadDir(folder)
			if err != nil || len(entries) != 1 || e2e.ReadFile(t, path) != "mine" {
				t.Errorf("a refused init left %v (%v); want what was there, untouched", entries, err)
			}
		})
	}
	t.Run("a link that leads nowhere", func(t *testing.T) {
		folder := t.TempDir()
		if err := os.Symlink("/nowhere/master.key", filepath.Join(folder, "master.key")); err != nil {
			t.Fatal(err)
		}
		e2e.CheckRefused(t, e2e.Run(t, "init", "--dir", folder), "master.key")
	})
	t.Run("twice", func(t *testing.T) {
		folder := t.TempDir()
		e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder))
		before := e2e.ReadFile(t, filepath.Join(folder, "master.key"))
		e2e.CheckRefused(t, e2e.Run(t, "init", "--dir", folder), folder)
		if e2e.ReadFile(t, filepath.Join(folder, "master.key")) != before {
			t.Error("the second init changed the master key")
		}
	})
	t.Run("where no folder can be", func(t *testing.T) {
		file := e2e.WriteFile(t, filepath.Join(t.TempDir(), "file"), "mine")
		e2e.CheckRefused(t, e2e.Run(t, "init", "--dir", filepath.Join(file, "etc")), file)
	})
}

// The commands that init prints can be pasted into a shell, whatever the folder's name.
func TestInit_PrintsShellCommands(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "it's mine")
	out := e2e.RequireOK(t, e2e.Run(t, "init", "--dir", folder)).Out
	_, command, found := strings.Cut(out, "coax serve ")
	if !found {
		t.Fatalf("no command to paste:\n%s", out)
	}
	command, _, _ = strings.Cut(command, "\n")
	words, err := exec.Command("sh", "-c", `for word in `+command+`; do echo "$word"; done`).CombinedOutput()
	if want := "--config\n" + filepath.Join(folder, "coax.toml") + "\n"; err != nil || string(words) != want {
		t.Errorf("a shell takes %q as %q (%v); want %q", command, words, err, want)
	}
}
