package cli

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/pressly/goose/v3"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/backup"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/transfer"
)

// backupJSON and restoreJSON are what the commands print.
type backupJSON struct {
	Path    string    `json:"path"`
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`
	TakenAt time.Time `json:"taken_at"`
	Deleted []string  `json:"deleted"`
}

type restoreJSON struct {
	Store       string `json:"store"`
	Config      string `json:"config"`
	Maintenance bool   `json:"maintenance"`
	Audit       struct {
		OK         bool
		Violations []any
		Skipped    []string
	} `json:"audit"`
	Logs      []string                `json:"logs"`
	Forgotten []server.ForgottenEvent `json:"forgotten"`
	Missing   *int64                  `json:"missing_acts"`
}

// runJSON runs a command that has to succeed and print exactly one JSON object.
func runJSON[T any](t testing.TB, args ...string) (result T) {
	t.Helper()
	got := requireDone(t, e2e.Run(t, args...))
	decoder := json.NewDecoder(strings.NewReader(got.Out))
	if err := decoder.Decode(&result); err != nil || decoder.More() || strings.Count(got.Out, "\n") != 1 {
		t.Fatalf("coax %q printed no single object: %v\n%s", args, err, got.Out)
	}
	return result
}

// requireDone requires success. There may be progress on standard error.
func requireDone(t testing.TB, got e2e.Result) e2e.Result {
	t.Helper()
	if got.Code != e2e.ExitDone {
		t.Fatalf("want success; %s", got)
	}
	return got
}

// unpackBackup writes the SQLite file in a backup to a new file.
func unpackBackup(t testing.TB, path string, identities ...age.Identity) (db string, m backup.Manifest) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var content bytes.Buffer
	if m, err = backup.Read(context.Background(), file, identities, &content); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return e2e.WriteFile(t, filepath.Join(t.TempDir(), "unpacked.db"), content.String()), m
}

// digestOf returns the digest of a store's rows, but for the record of its restore.
func digestOf(t testing.TB, url string) transfer.Result {
	t.Helper()
	config, err := server.ReadStoreURL(url)
	if err != nil {
		t.Fatal(err)
	}
	side := transfer.Store{Postgres: config.Kind == "postgres"}
	if side.Postgres {
		side.DB, err = postgres.OpenSQL(config.URL)
	} else {
		side.DB, err = sqlite.OpenSQL(config.Path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer side.DB.Close()
	if _, err := side.DB.Exec(`DELETE FROM store_restores`); err != nil {
		t.Fatal(err)
	}
	result, err := transfer.Digest(context.Background(), side)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// buyers activate subscribers until they are stopped.
type buyers struct {
	env   *e2e.Env
	mu    sync.Mutex
	done  map[string]string // transaction ids by key
	stop  chan struct{}
	group sync.WaitGroup
}

func startBuyers(t testing.TB, p *e2e.Process) *buyers {
	t.Helper()
	p.Install(t).JSON("lco", "set", "--lco", "1", "--rate-limit", "1000000")
	p.Install(t).JSON("wallet", "topup", "--lco", "1", "--amount", "1000000", "--reference", "for the buyers")
	b := &buyers{env: &e2e.Env{TB: t, Demo: p.Demo, HTTP: e2e.NewHTTPClient(t, p.Demo.CACert)}, done: map[string]string{}, stop: make(chan struct{})}
	for n := range 4 {
		b.group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-b.stop:
					return
				default:
				}
				key := fmt.Sprintf("buyer-%d-%d", n, i)
				got, answered := b.env.TryOperate(b.env.DemoCaller(), "activate", key, e2e.Activation(fmt.Sprintf("98%02d%06d", n, i)))
				if !answered || got.Code != fault.OK {
					t.Errorf("%s: %v %s", key, answered, got.Raw)
					return
				}
				b.mu.Lock()
				b.done[key] = got.Text("transaction_id")
				b.mu.Unlock()
			}
		})
	}
	t.Cleanup(b.end)
	return b
}

func (b *buyers) end() {
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	b.group.Wait()
}

// answered waits for this many answers more, and returns the transactions of all.
func (b *buyers) answered(t testing.TB, more int) (ids []string) {
	t.Helper()
	want, timeout := -1, time.After(e2e.Timeout)
	for {
		b.mu.Lock()
		if want < 0 {
			want = len(b.done) + more
		}
		if len(b.done) >= want {
			for _, id := range b.done {
				ids = append(ids, id)
			}
			b.mu.Unlock()
			return ids
		}
		b.mu.Unlock()
		select {
		case <-timeout:
			t.Fatal("the buyers get no answers")
		case <-time.After(time.Millisecond):
		}
	}
}

// A backup that is made while clients buy is one moment of the store, with everything that was
// answered before. It can be restored to either kind of store.
func TestBackup_UnderLoadRestoresToEitherStore(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			folder, sets := t.TempDir(), []string{"--history"}
			if kind == "postgres" {
				sets = append(sets, "--set", "store.url="+pgtest.NewDatabase(t))
			}
			p, _ := e2e.StartDemo(t, folder, sets...)
			config := p.Demo.Config
			b := startBuyers(t, p)
			before := b.answered(t, 40)
			dest := t.TempDir()
			made := runJSON[backupJSON](t, "backup", dest, "--config", config, "--json")
			b.answered(t, 10)
			b.end()

			db, m := unpackBackup(t, made.Path)
			if m.Kind != kind || !m.TakenAt.Equal(made.TakenAt) || time.Since(m.TakenAt) > time.Hour || m.Settings["panel.staff_totp"] != "false" {
				t.Errorf("the manifest is %+v", m)
			}
			text := []byte(e2e.ReadFile(t, made.Path))
			if sum := sha256Hex(text); sum != made.SHA256 || int64(len(text)) != made.Bytes {
				t.Errorf("the file has %d bytes and the sum %s; printed were %d and %s", len(text), sum, made.Bytes, made.SHA256)
			}
			if info, err := os.Stat(made.Path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file's mode is %v, %v", info.Mode(), err)
			}

			dir := filepath.Join(t.TempDir(), "restored")
			there := runJSON[restoreJSON](t, "restore", made.Path, "--dir", dir, "--json")
			second := pgtest.NewDatabase(t)
			back := runJSON[restoreJSON](t, "restore", made.Path, "--to", second, "--json")
			for _, r := range []restoreJSON{there, back} {
				if !r.Audit.OK || !r.Maintenance || len(r.Audit.Skipped) == 0 {
					t.Errorf("restored: %+v", r)
				}
			}
			for _, id := range before {
				var status string
				if err := openSQLite(t, there.Store).QueryRow(`SELECT status FROM operations WHERE id = ?`, id).Scan(&status); err != nil || status != "success" {
					t.Errorf("%s was answered before the backup began, and is %q in it, %v", id, status, err)
				}
			}
			// Neither command needs a master key.
			audited := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", there.Config))
			e2e.CheckMentions(t, "the audit", audited.Out, "Everything agrees.", "Not verified")
			shown := e2e.RequireOK(t, e2e.Run(t, "admin", "--config", there.Config, "maintenance", "show"))
			e2e.CheckMentions(t, "the maintenance", shown.Out, "maintenance        true", "restored")
			shown = e2e.RequireOK(t, e2e.Run(t, "admin", "--config", config, "--set", "store.url="+second, "maintenance", "show"))
			e2e.CheckMentions(t, "the maintenance of the database", shown.Out, "maintenance        true", "restored")

			want := digestOf(t, "sqlite:"+db)
			if kind == "postgres" && (want.Digest != m.Digest || want.Rows != m.Rows) {
				t.Errorf("the file has %+v; its manifest says %d rows, %s", want, m.Rows, m.Digest)
			}
			for _, url := range []string{"sqlite:" + there.Store, second} {
				if got := digestOf(t, url); got != want {
					t.Errorf("%s has %+v; the backup %+v", url, got, want)
				}
			}
		})
	}
}

// With its master key, a restored store is served in maintenance, and sells once a person has
// accepted it.
func TestRestore_SellsOnceCompared(t *testing.T) {
	e2e.OnlySQLite(t, "a folder is restored")
	t.Parallel()
	folder := t.TempDir()
	log := filepath.Join(t.TempDir(), "security.log")
	p, _ := e2e.StartDemo(t, folder, "--set", "log.security_file="+log)
	env := &e2e.Env{TB: t, Demo: p.Demo, HTTP: e2e.NewHTTPClient(t, p.Demo.CACert)}
	first, _ := env.TryOperate(env.DemoCaller(), "activate", "first-order", e2e.Activation("9800000001"))
	made := runJSON[backupJSON](t, "backup", t.TempDir()+"/", "--config", p.Demo.Config, "--json")
	env.SignIn(t, p.Demo.Operator).Post("/account/password", url.Values{
		"password": {p.Demo.Operator.Password}, "new_password": {"a kite over Kochi"}, "repeated_password": {"a kite over Kochi"},
	})
	dir := filepath.Join(t.TempDir(), "restored")
	restored := runJSON[restoreJSON](t, "restore", made.Path, "--dir", dir, "--json")
	if !slices.ContainsFunc(restored.Forgotten, func(e server.ForgottenEvent) bool { return e.Event == "password_changed" }) {
		t.Errorf("forgotten: %+v; want a changed password", restored.Forgotten)
	}
	if code := p.Terminate(); code != e2e.ExitDone {
		t.Fatalf("the demo ended with %d", code)
	}
	if _, err := os.Stat(filepath.Join(dir, "master.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a master key was restored: %v", err)
	}
	e2e.CheckRefused(t, e2e.Run(t, "admin", "--config", restored.Config, "lco", "list"), "there is no master key at "+filepath.Join(dir, "master.key"))

	again, _ := e2e.StartDemo(t, folder, "--set", "store.url=sqlite:"+restored.Store, "--set", "provider.timeout=2s", "--set", "review.refund_after=2s")
	env = &e2e.Env{TB: t, Demo: again.Demo, HTTP: e2e.NewHTTPClient(t, again.Demo.CACert)}
	if got, _ := env.TryOperate(env.DemoCaller(), "activate", "second-order", e2e.Activation("9800000002")); got.Code != fault.ServiceUnavailable {
		t.Errorf("a restored store is asked to sell: %s", got.Raw)
	}
	if got, _ := env.TryOperate(env.DemoCaller(), "activate", "first-order", e2e.Activation("9800000001")); got.Text("transaction_id") != first.Text("transaction_id") {
		t.Errorf("a key from before the backup: %s; its first answer was %s", got.Raw, first.Raw)
	}
	set := "store.url=sqlite:" + restored.Store
	// Nothing was sold since the backup, so the comparison with the provider finds nothing.
	requireComparedOff(t, e2e.Run(t, "admin", "--config", again.Demo.Config, "--set", set, "maintenance", "off"))
	if got, _ := env.TryOperate(env.DemoCaller(), "activate", "third-order", e2e.Activation("9800000003")); got.Code != fault.OK {
		t.Errorf("an accepted store is asked to sell: %s", got.Raw)
	}
	proved := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", again.Demo.Config, "--set", set))
	e2e.CheckMentions(t, "the audit", proved.Out, "Everything agrees.")
}

// What people did after the backup is listed from the security log, and the number of staff
// actions from an audit head.
func TestRestore_ListsWhatWasForgotten(t *testing.T) {
	e2e.OnlySQLite(t, "a folder is restored; the list does not depend on the store")
	t.Parallel()
	install := e2e.NewInstall(t)
	log := filepath.Join(t.TempDir(), "security.log")
	set := []string{"--config", filepath.Join(install.Folder, "coax.toml"), "--set", "log.security_file=" + log}
	act := func(args ...string) { e2e.RequireOK(t, e2e.Run(t, slices.Concat([]string{"admin"}, set, args)...)) }
	act("lco", "create", "--name", "North")
	act("key", "issue", "--lco", "1")
	act("login", "create", "--username", "meera", "--name", "Meera", "--role", "viewer")
	made := runJSON[backupJSON](t, slices.Concat([]string{"backup", t.TempDir(), "--json"}, set)...)
	act("wallet", "topup", "--lco", "1", "--amount", "250.50", "--reference", "NEFT-123")
	act("login", "reset-password", "--username", "meera")
	rotate := func(to string) {
		t.Helper()
		if err := os.Rename(log, log+to); err != nil {
			t.Fatal(err)
		}
	}
	rotate(".2")
	if out, err := exec.Command("gzip", log+".2").CombinedOutput(); err != nil {
		t.Fatalf("gzip: %v %s", err, out)
	}
	act("wallet", "adjust", "--lco", "1", "--amount", "-0.50", "--reason", "a fee")
	rotate(".1")
	long := time.Now().Add(-40 * 24 * time.Hour) // no line of it is younger than the backup
	if err := os.Chtimes(e2e.WriteFile(t, log+".3.gz", "not gzip"), long, long); err != nil {
		t.Fatal(err)
	}
	act("key", "revoke", "--key-id", "1")
	act("plan", "set", "--id", "P-1", "--name", "Plan", "--price", "10.00", "--duration", "1", "--component", "main=TV-BASIC")
	act("maintenance", "on", "--reason", "secret plans")
	head := e2e.RequireOK(t, e2e.Run(t, slices.Concat([]string{"audit", "--json"}, set)...))
	headFile := e2e.WriteFile(t, filepath.Join(t.TempDir(), "head.json"), head.Out)

	r := runJSON[restoreJSON](t, "restore", made.Path, "--dir", filepath.Join(t.TempDir(), "a"), "--log", headFile, "--json")
	var got []string
	for _, e := range r.Forgotten {
		got = append(got, strings.Join([]string{e.Event, e.Subject, e.Amount}, "|"))
	}
	want := []string{
		"wallet_topped_up|wallet of lco 1, reference NEFT-123|+250.50", "password_reset|login 4|", "wallet_adjusted|wallet of lco 1|-0.50", "key_revoked|key 1|", "plan_changed|plan P-1|", "maintenance_on|maintenance|",
	}
	if !slices.Equal(got, want) {
		t.Errorf("forgotten: %q; want %q", got, want)
	}
	if r.Missing == nil || *r.Missing != 6 || !slices.Contains(r.Logs, log) {
		t.Errorf("missing: %v of 6 staff actions; read %q", r.Missing, r.Logs)
	}
	shown := requireDone(t, e2e.Run(t, "restore", made.Path, "--dir", filepath.Join(t.TempDir(), "b")))
	e2e.CheckMentions(t, "the restore", shown.Out, "wallet topped up, +250.50, wallet of lco 1, reference NEFT-123 (cli:", "key revoked, key 1, lco 1", "Everything agrees.", "master.key")
	if strings.Contains(shown.Out, "Not read") {
		t.Errorf("a log from before the backup is read:\n%s", shown.Out)
	}

	for _, suffix := range []string{"", ".1", ".2.gz"} {
		if err := os.Remove(log + suffix); err != nil {
			t.Fatal(err)
		}
	}
	none := requireDone(t, e2e.Run(t, "restore", made.Path, "--dir", filepath.Join(t.TempDir(), "c")))
	e2e.CheckMentions(t, "without a log", none.Out, "is not known: no log was found", log, "--log")
	plain, _ := unpackBackup(t, made.Path)
	none = requireDone(t, e2e.Run(t, "restore", plain, "--dir", filepath.Join(t.TempDir(), "e")))
	e2e.CheckMentions(t, "without a manifest", none.Out, "is not known: no log was found", "this copy says nothing of its installation", "--log")
	old := runJSON[restoreJSON](t, "restore", made.Path, "--dir", filepath.Join(t.TempDir(), "d"), "--json")
	if old.Missing != nil || len(old.Forgotten) != 0 {
		t.Errorf("without a log: %+v", old)
	}
}

func sha256Hex(text []byte) string {
	command := exec.Command("sha256sum")
	command.Stdin = bytes.NewReader(text)
	out, err := command.Output()
	if err != nil {
		return err.Error()
	}
	sum, _, _ := strings.Cut(string(out), " ")
	return sum
}

func openSQLite(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sqlite.OpenSQL(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// install is an installation with an operator, and its configuration.
func backupInstall(t *testing.T) (install *e2e.Install, config string) {
	t.Helper()
	install = e2e.NewInstall(t)
	install.JSON("lco", "create", "--name", "North")
	return install, filepath.Join(install.Folder, "coax.toml")
}

func TestBackup_Refuses(t *testing.T) {
	t.Parallel()
	_, config := backupInstall(t)
	folder := t.TempDir()
	taken := e2e.WriteFile(t, filepath.Join(folder, "taken"), "mine")
	if err := os.Symlink(filepath.Join(folder, "nowhere"), filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	e2e.CheckRefused(t, e2e.Run(t, "backup", taken, "--config", config), taken+" is there already", "replaces nothing")
	e2e.CheckRefused(t, e2e.Run(t, "backup", filepath.Join(folder, "link"), "--config", config), "is there already")
	e2e.CheckRefused(t, e2e.Run(t, "backup", folder+"/none/", "--config", config), "there is no folder "+folder+"/none/")
	e2e.CheckRefused(t, e2e.Run(t, "backup", folder+"/none/x", "--config", config), "no such file or directory")
	e2e.CheckRefused(t, e2e.Run(t, "backup", taken+"/x", "--config", config), "not a directory")
	e2e.CheckRefused(t, e2e.Run(t, "backup", filepath.Join(folder, "x"), "--config", config, "--keep", "7d"), "--keep needs a folder")
	e2e.CheckRefused(t, e2e.Run(t, "backup", folder, "--config", config, "--encrypt-to", "age1wrong"), "--encrypt-to: age1wrong")
	e2e.CheckRefused(t, e2e.Run(t, "backup", folder, "--config", config, "--encrypt-to", "bob"), "neither an age recipient (age1…) nor a file of them")
	e2e.CheckRefused(t, e2e.Run(t, "backup", folder, "--config", config, "--set", "store.url=sqlite:"+folder+"/none.db"), "there is no store at")
	e2e.CheckRefused(t, e2e.Run(t, "backup", folder, "--config", config, "--set", "store.url=sqlite:"+taken), "another program's file")
	e2e.CheckUsageError(t, e2e.Run(t, "backup", folder, "--config", config, "--keep", "7y"), "such as 7d,4w,12m")
	e2e.CheckUsageError(t, e2e.Run(t, "backup", "--config", config), "the folder or new file")
	if got := e2e.ReadFile(t, taken); got != "mine" {
		t.Errorf("the file was changed to %q", got)
	}
	checkNames(t, folder, "link", "taken")
}

// checkNames checks the names in a folder.
func checkNames(t testing.TB, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("in %s are %q; want %q", folder, got, want)
	}
}

// Every refusal comes before anything is written: the folder is not there afterwards.
func TestRestore_Refuses(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	install, config := backupInstall(t)
	folder := t.TempDir()
	mine, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	recipients := e2e.WriteFile(t, filepath.Join(folder, "recipients"), "# ours\n"+mine.Recipient().String()+"\n")
	key := e2e.WriteFile(t, filepath.Join(folder, "key.txt"), mine.String()+"\n")
	otherKey := e2e.WriteFile(t, filepath.Join(folder, "other.txt"), other.String()+"\n")
	plain := runJSON[backupJSON](t, "backup", filepath.Join(folder, "plain"), "--config", config, "--json").Path
	sealed := runJSON[backupJSON](t, "backup", filepath.Join(folder, "sealed"), "--config", config, "--encrypt-to", recipients, "--json").Path
	twice := runJSON[backupJSON](t, "backup", filepath.Join(folder, "twice"), "--config", config, "--encrypt-to", other.Recipient().String(), "--encrypt-to", mine.Recipient().String(), "--json").Path
	db, m := unpackBackup(t, plain)
	craft := func(name string, change func(*backup.Manifest), content []byte) string {
		crafted := m
		crafted.Bytes = int64(len(content))
		change(&crafted)
		var file bytes.Buffer
		if err := backup.Write(&file, crafted, nil, contentOf(content)); err != nil {
			t.Fatal(err)
		}
		return e2e.WriteFile(t, filepath.Join(folder, name), file.String())
	}
	store := []byte(e2e.ReadFile(t, db))
	newer := craft("newer", func(m *backup.Manifest) { m.Release, m.Migration = "9.0.0", 9000 }, store)
	stranger := craft("stranger", func(m *backup.Manifest) { m.Generation = 99 }, store)
	broken := bytes.Clone(store)
	for i := 8 * sqlite.PageSize; i < 9*sqlite.PageSize; i++ {
		broken[i] = 0xff
	}
	unsound := craft("unsound", func(*backup.Manifest) {}, broken)
	noStore := craft("nostore", func(*backup.Manifest) {}, []byte("nothing of SQLite's"))
	text := e2e.WriteFile(t, filepath.Join(folder, "text"), "hello")

	dir := filepath.Join(folder, "new")
	refused := func(want string, args ...string) {
		t.Helper()
		e2e.CheckRefused(t, e2e.Run(t, append([]string{"restore", "--dir", dir}, args...)...), want)
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("restore %q left %s: %v", args, dir, err)
		}
	}
	refused("there is no backup at", filepath.Join(folder, "none"))
	refused("is not a file", folder)
	refused("not a backup", text)
	refused("made by a newer release", newer)
	refused("made by a newer release", stranger)
	refused("the store in the backup is damaged", unsound)
	refused("the store in the backup is damaged: file is not a database", noStore)
	refused("encrypted: give the file with the age identity", sealed)
	refused("encrypted for other recipients", sealed, "--identity", otherKey)
	refused("--identity", sealed, "--identity", filepath.Join(folder, "none"))
	refused("ftp:// is nothing", "ftp://host/x")
	refused("AWS_ACCESS_KEY_ID", "s3://bucket/x")
	refused("is the store of an installation", e2e.StorePath(install))
	damagedAtRandom(t, folder, plain, refused)
	damagedAtRandom(t, folder, sealed, func(want string, args ...string) {
		t.Helper()
		refused(want, append(args, "--identity", key)...)
	})

	full := t.TempDir()
	e2e.WriteFile(t, filepath.Join(full, "note"), "mine")
	e2e.CheckRefused(t, e2e.Run(t, "restore", plain, "--dir", full), "is not empty, note is in it")
	checkNames(t, full, "note")
	e2e.CheckUsageError(t, e2e.Run(t, "restore", plain), "either --dir DIR or --to")
	e2e.CheckUsageError(t, e2e.Run(t, "restore", plain, "--dir", dir, "--to", "postgres://x"), "either --dir DIR or --to")
	e2e.CheckUsageError(t, e2e.Run(t, "restore", plain, "--to", "sqlite:x"), "--to takes the address of a PostgreSQL database")

	database := pgtest.NewDatabase(t)
	e2e.CheckRefused(t, e2e.Run(t, "restore", newer, "--to", database), "made by a newer release")
	runJSON[restoreJSON](t, "restore", sealed, "--identity", otherKey, "--identity", key, "--to", database, "--json")
	e2e.CheckRefused(t, e2e.Run(t, "restore", plain, "--to", database), "the target is not empty")
	shown := e2e.RequireOK(t, e2e.Run(t, "admin", "--config", config, "--set", "store.url="+database, "maintenance", "show"))
	e2e.CheckMentions(t, "the maintenance", shown.Out, "maintenance        true")

	for i, args := range [][]string{{sealed, "--identity", key}, {twice, "--identity", key}, {twice, "--identity", otherKey}, {db}} {
		r := runJSON[restoreJSON](t, append([]string{"restore", "--json", "--dir", filepath.Join(folder, fmt.Sprint("good-", i))}, args...)...)
		if !r.Audit.OK {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// A backup of the release before is migrated, and restored as any other.
func TestRestore_BringsAnOlderBackupUpToDate(t *testing.T) {
	e2e.OnlySQLite(t, "a folder is restored")
	t.Parallel()
	const before = 24 // the last migration of the release before
	path := e2e.WriteFile(t, filepath.Join(t.TempDir(), "old.db"), "")
	db := openSQLite(t, path)
	migrations, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS(filepath.Join("..", "..", "store", "sqlite", "migrations")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.UpTo(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content := []byte(e2e.ReadFile(t, path))
	m := backup.Manifest{Store: "empty", TakenAt: time.Now().UTC(), Release: "0.1.0", Kind: "sqlite", Bytes: int64(len(content)), Migration: before, Generation: 2}
	var file bytes.Buffer
	if err := backup.Write(&file, m, nil, contentOf(content)); err != nil {
		t.Fatal(err)
	}
	old := e2e.WriteFile(t, filepath.Join(t.TempDir(), "old"+backup.Extension), file.String())
	r := runJSON[restoreJSON](t, "restore", old, "--dir", filepath.Join(t.TempDir(), "new"), "--json")
	shown := e2e.RequireOK(t, e2e.Run(t, "admin", "--config", r.Config, "maintenance", "show"))
	e2e.CheckMentions(t, "the maintenance", shown.Out, "maintenance        true", "`coax restore` made it")
	if !r.Audit.OK {
		t.Errorf("the audit: %+v", r.Audit)
	}
}

func contentOf(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

// damagedAtRandom restores copies with a changed byte, and copies that end early. The package
// backup tries many more; here the program does.
func damagedAtRandom(t *testing.T, folder, path string, refused func(want string, args ...string)) {
	t.Helper()
	whole := []byte(e2e.ReadFile(t, path))
	draw := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range 12 {
		damaged := bytes.Clone(whole)
		at := draw.IntN(len(damaged))
		damaged[at] ^= byte(1 + draw.IntN(255))
		refused("", e2e.WriteFile(t, filepath.Join(folder, "damaged"), string(damaged)))
		refused("", e2e.WriteFile(t, filepath.Join(folder, "damaged"), string(whole[:at])))
	}
}

// Older backups of the store are deleted by the rule, and nothing else is.
func TestBackup_KeepsByRule(t *testing.T) {
	t.Parallel()
	_, config := backupInstall(t)
	folder := t.TempDir()
	first := runJSON[backupJSON](t, "backup", folder, "--config", config, "--json")
	_, m := unpackBackup(t, first.Path)
	name := strings.SplitN(filepath.Base(first.Path), "-2", 2)[0]
	craft := func(store, file string, at time.Time, of string) string {
		old := m
		old.Bytes, old.TakenAt, old.Store = 3, at, of
		var text bytes.Buffer
		if err := backup.Write(&text, old, nil, contentOf([]byte("old"))); err != nil {
			t.Fatal(err)
		}
		return e2e.WriteFile(t, filepath.Join(folder, file), text.String())
	}
	year := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)
	var ours []string
	for day := range 5 {
		at := year.AddDate(0, 0, day)
		ours = append(ours, craft(name, backup.Name(name, at, 1), at, m.Store))
	}
	at := year.AddDate(0, 0, 1)
	stays := []string{
		craft(name, backup.Name("another", at, 1), at, m.Store),                           // of another name
		craft(name, backup.Name(name, at, 2), at, "0123"),                                 // of another store
		craft(name, backup.Name(name, at, 3), at.Add(time.Hour), m.Store),                 // of another time
		e2e.WriteFile(t, filepath.Join(folder, backup.Name(name, at, 4)), "not a backup"), // of another program
		e2e.WriteFile(t, filepath.Join(folder, "notes.txt"), "mine"),                      //
		craft(name, "copy-of-"+backup.Name(name, at, 1)+".old", at, m.Store),              // renamed
	}
	second := runJSON[backupJSON](t, "backup", folder, "--config", config, "--keep", "3d", "--json")
	if !slices.Equal(second.Deleted, append(slices.Clone(ours[:3]), first.Path)) {
		t.Errorf("deleted %q; want the three oldest, and the first one of today", second.Deleted)
	}
	for _, path := range append(append(stays, ours[3:]...), second.Path) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, path := range second.Deleted {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was to be deleted: %v", path, err)
		}
	}
	shown := requireDone(t, e2e.Run(t, "backup", folder, "--config", config, "--keep", "1d"))
	e2e.CheckMentions(t, "the backup", shown.Out, "deleted "+second.Path, "The master key is not in it.")
}

// endedInPostgres ends a demo and copies its store to a new database.
func endedInPostgres(t *testing.T, p *e2e.Process, folder string) (database string) {
	t.Helper()
	if code := p.Terminate(); code != e2e.ExitDone {
		t.Fatalf("the demo ended with %d", code)
	}
	database = pgtest.NewDatabase(t)
	requireDone(t, e2e.Run(t, "store", "copy", "--from", "sqlite:"+filepath.Join(folder, "data", "coax.db"), "--to", database))
	return database
}

// However a backup is killed, no file is left that looks like one and is none; what is left
// is removed by a later backup.
func TestBackup_KilledLeavesNoBackup(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	folder := t.TempDir()
	p, _ := e2e.StartDemo(t, folder, "--history")
	config := p.Demo.Config
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			args := []string{"--config", config}
			if kind == "postgres" {
				args = append(args, "--set", "store.url="+endedInPostgres(t, p, folder))
			}
			dest := t.TempDir()
			whole, killed := 0, 0
			for try := 0; whole == 0 || killed < backupKills; try++ {
				if try > 200 {
					t.Fatalf("%d backups were completed and %d killed", whole, killed)
				}
				drafts := filepath.Join(dest, ".coaxbackup-*.part")
				before, _ := filepath.Glob(drafts)
				b := e2e.Launch(t, append([]string{"backup", dest}, args...)...)
				// Killed at some time after it has begun to write, or not at all.
				for running := killed < backupKills; running; {
					now, _ := filepath.Glob(drafts)
					select {
					case <-b.Ended:
						running = false
					case <-time.After(time.Duration(rand.IntN(3)) * time.Millisecond):
						if len(now) > len(before) {
							b.Kill()
							running = false
						}
					}
				}
				if b.Wait() == e2e.ExitDone {
					whole++
				} else {
					killed++
				}
				found, _ := filepath.Glob(filepath.Join(dest, "*"+backup.Extension))
				for _, path := range found {
					unpackBackup(t, path)
				}
			}
			left, _ := filepath.Glob(filepath.Join(dest, ".coaxbackup-*.part"))
			past := time.Now().Add(-time.Minute)
			for _, path := range left {
				if err := os.Chtimes(path, past, past); err != nil {
					t.Fatal(err)
				}
			}
			requireDone(t, e2e.Run(t, append([]string{"backup", dest}, args...)...))
			if still, _ := filepath.Glob(filepath.Join(dest, ".coaxbackup-*.part")); len(still) > 0 {
				t.Errorf("of %d drafts of killed backups, %q are still there", len(left), still)
			}
		})
	}
}

// However a restore is killed, it can be repeated, or it is complete.
func TestRestore_KilledGoesOn(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	folder := t.TempDir()
	p, _ := e2e.StartDemo(t, folder, "--history")
	made := runJSON[backupJSON](t, "backup", t.TempDir(), "--config", p.Demo.Config, "--json")
	took := time.Now()
	want := runJSON[restoreJSON](t, "restore", made.Path, "--dir", filepath.Join(t.TempDir(), "whole"), "--json")
	whole := time.Since(took)
	digest := digestOf(t, "sqlite:"+want.Store)
	for try := range restoreKills {
		dir := filepath.Join(t.TempDir(), "killed")
		b := e2e.Launch(t, "restore", made.Path, "--dir", dir)
		select {
		case <-b.Ended:
		case <-time.After(whole * time.Duration(try+1) / restoreKills):
			b.Kill()
		}
		again := e2e.Run(t, "restore", made.Path, "--dir", dir)
		if again.Code != e2e.ExitDone {
			e2e.CheckRefused(t, again, "is not empty")
		}
		shown := e2e.RequireOK(t, e2e.Run(t, "admin", "--config", filepath.Join(dir, "coax.toml"), "maintenance", "show"))
		e2e.CheckMentions(t, "the maintenance", shown.Out, "maintenance        true")
		requireOpenRestore(t, server.StoreConfig{Kind: "sqlite", Path: filepath.Join(dir, "data", "coax.db")})
		if got := digestOf(t, "sqlite:"+filepath.Join(dir, "data", "coax.db")); got != digest {
			t.Errorf("killed once: %+v; want %+v", got, digest)
		}
	}
	database := pgtest.NewDatabase(t)
	to := server.StoreConfig{Kind: "postgres", URL: database}
	for _, point := range restorePoints {
		b := e2e.LaunchProgram(t, e2e.FailpointBinary(t), []string{"COAX_FAILPOINT=" + point + "=kill"}, "restore", made.Path, "--to", database)
		if code := b.Wait(); code != -1 {
			t.Fatalf("%s: the restore was not killed, and ended with %d", point, code)
		}
		if point == "C.marked" {
			requireOpenRestore(t, to)
		} else {
			requireUnfinished(t, p.Demo.Config, database)
		}
	}
	for try := range restoreKills / 2 {
		b := e2e.Launch(t, "restore", made.Path, "--to", database)
		select {
		case <-b.Ended:
		case <-time.After(whole * time.Duration(try+1) * 4 / restoreKills):
			b.Kill()
		}
		if b.Wait() == e2e.ExitDone {
			break
		}
		if maintainedBy(t, to) == admin.CopyActor {
			requireUnfinished(t, p.Demo.Config, database)
		}
	}
	got := e2e.Run(t, "restore", made.Path, "--to", database)
	if got.Code != e2e.ExitDone {
		e2e.CheckRefused(t, got, "the target is not empty") // the last one was complete
	}
	requireOpenRestore(t, to)
	if got := digestOf(t, database); got != digest {
		t.Errorf("the database: %+v; want %+v", got, digest)
	}
	shown := e2e.RequireOK(t, e2e.Run(t, "admin", "--config", p.Demo.Config, "--set", "store.url="+database, "maintenance", "show"))
	e2e.CheckMentions(t, "the maintenance", shown.Out, "maintenance        true")
}

// requireOpenRestore requires that a store is in the maintenance of a restore that was neither
// compared nor accepted, and that nobody is signed in.
func requireOpenRestore(t *testing.T, store server.StoreConfig) {
	t.Helper()
	db := openStore(t, store)
	defer db.Close()
	var open, sessions int
	err := db.QueryRow(`SELECT (SELECT count(*) FROM store_restores WHERE outcome = ''), (SELECT count(*) FROM login_sessions)`).Scan(&open, &sessions)
	if by := maintainedBy(t, store); err != nil || open != 1 || sessions != 0 || by != admin.RestoredActor {
		t.Errorf("%s: %d open restores, %d sessions, in maintenance by %q, %v", store.Place(), open, sessions, by, err)
	}
}

// A disk that is full ends a backup and a restore with a clear error, and nothing stays on it.
func TestBackup_FullDisk(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	folder := t.TempDir()
	replica := "file://" + filepath.Join(t.TempDir(), "replica")
	p, _ := e2e.StartDemo(t, folder, "--history", "--set", "store.replica="+replica, "--set", "store.replica_mode=sync")
	config := p.Demo.Config
	made := runJSON[backupJSON](t, "backup", t.TempDir(), "--config", config, "--json")
	database := endedInPostgres(t, p, folder)
	disk := t.TempDir()
	for name, args := range map[string][]string{
		"a backup of SQLite":        {"backup", disk, "--config", config},
		"a backup of PostgreSQL":    {"backup", disk, "--config", config, "--set", "store.url=" + database, "--set", "store.replica="},
		"a restore":                 {"restore", made.Path, "--dir", filepath.Join(disk, "new")},
		"a replica":                 {"restore", replica, "--dir", filepath.Join(t.TempDir(), "new"), "--work", disk},
		"a restore into PostgreSQL": {"restore", made.Path, "--to", pgtest.NewDatabase(t), "--work", disk},
		// It is continued, so it leaves what it has.
		"a copy": {"store", "copy", "--from", database, "--to", "sqlite:" + filepath.Join(disk, "coax.db")},
	} {
		for _, kilobytes := range smallDisks {
			script := fmt.Sprintf(`mount -t tmpfs -o size=%dk tmpfs %q || exit 77; "$@"; status=$?; ls -A %[2]q; exit $status`, kilobytes, disk)
			command := exec.CommandContext(t.Context(), "unshare", append([]string{"--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", e2e.Binary(t)}, args...)...)
			command.Env = e2e.CoverageEnv()
			var out, problem bytes.Buffer
			command.Stdout, command.Stderr = &out, &problem
			err := command.Run()
			if command.ProcessState == nil || command.ProcessState.ExitCode() == 77 || strings.Contains(problem.String(), "unshare:") {
				t.Skipf("this machine does not allow mounting a small disk (%v): %s", err, problem.String())
			}
			if code := command.ProcessState.ExitCode(); code != e2e.ExitRefused {
				t.Errorf("%s with %d KB ended with %d\n%s%s", name, kilobytes, code, out.String(), problem.String())
			}
			if out.String() != "" && name != "a copy" {
				t.Errorf("%s with %d KB left %s", name, kilobytes, out.String())
			}
			e2e.CheckMentions(t, name, problem.String(), disk, "free")
		}
	}
}

// Without permission, the error says whose the folder or file is.
func TestBackup_NoPermission(t *testing.T) {
	e2e.OnlySQLite(t, "files")
	if os.Geteuid() != 0 {
		t.Skip("the test acts as another user")
	}
	t.Parallel()
	folder, program := reachable(t)
	name, uid, gid := serviceUser(t)
	install, config := backupInstall(t)
	e2e.CopyDir(t, install.Folder, filepath.Join(folder, "srv"))
	config = filepath.Join(folder, "srv", filepath.Base(config))
	if out, err := exec.Command("chown", "-R", name, filepath.Join(folder, "srv")).CombinedOutput(); err != nil {
		t.Fatalf("chown: %s", out)
	}
	closed, open := filepath.Join(folder, "closed"), filepath.Join(folder, "open")
	for path, mode := range map[string]fs.FileMode{closed: 0o700, open: 0o755} {
		if err := os.Mkdir(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, dest := range []string{closed, closed + "/x", open} {
		got := runAs(t, uid, gid, program, "backup", dest, "--config", config)
		e2e.CheckRefused(t, got, "permission denied", "belongs to root")
	}
	store := "sqlite:" + filepath.Join(folder, "srv", "data", "coax.db")
	e2e.CheckRefused(t, runAs(t, uid, gid, program, "store", "copy", "--from", store, "--to", "sqlite:"+closed+"/coax.db"), "open the target", "permission denied", "belongs to root")
	if err := os.Chown(open, uid, gid); err != nil {
		t.Fatal(err)
	}
	// As root, the file belongs to the owner of its folder.
	e2e.RequireOK(t, runAs(t, 0, 0, program, "backup", open+"/b", "--config", config))
	e2e.RequireOK(t, runAs(t, uid, gid, program, "restore", open+"/b", "--dir", open+"/r"))
	e2e.CheckRefused(t, runAs(t, uid, gid, program, "restore", open+"/b", "--dir", closed+"/r"), "permission denied", "belongs to root")
	toDatabase := runAs(t, uid, gid, program, "restore", open+"/b", "--to", "postgres://coax@127.0.0.1:1/coax", "--work", closed)
	e2e.CheckRefused(t, toDatabase, "permission denied", "belongs to root")
	other := runAs(t, 0, 0, program, "restore", open+"/b", "--dir", open+"/s")
	e2e.RequireOK(t, other)
	e2e.RequireOK(t, runAs(t, uid, gid, program, "audit", "--config", open+"/s/coax.toml"))
}
