package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// installation is an installation for coax doctor, whose node has run once.
type installation struct {
	t      *testing.T
	folder string
	from   Sources
	// change changes the doctor before it looks.
	change func(*doctor)
	// backups is the folder of the backups.
	backups string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "coax")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &installation{t: t, folder: folder, from: Sources{File: filepath.Join(folder, "coax.toml")}, change: func(*doctor) {}}
	sim, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	provider := httptest.NewServer(sim)
	t.Cleanup(provider.Close)
	p.set("provider.url", provider.URL)
	if err := errors.Join(WriteMasterKey(filepath.Join(folder, "master.key")), EnsureCertificate(folder, "127.0.0.1:0")); err != nil {
		t.Fatal(err)
	}
	p.serve(func() {})
	return p
}

// copy copies the installation into a new folder. The provider is the same.
func (p *installation) copy(t *testing.T) *installation {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "coax")
	err := filepath.WalkDir(p.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := folder + strings.TrimPrefix(path, p.folder)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Mkdir(to, info.Mode().Perm())
		}
		text, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(to, text, info.Mode().Perm()))
	})
	if err != nil {
		t.Fatal(err)
	}
	return &installation{t: t, folder: folder, from: Sources{File: filepath.Join(folder, "coax.toml")}, change: func(*doctor) {}}
}

// set sets settings as the file has them.
func (p *installation) set(pairs ...string) {
	p.t.Helper()
	values := map[string]string{"server.addr": "127.0.0.1:0", "server.internal_addr": "127.0.0.1:0"}
	if kept, err := ReadConfigFile(p.from.File); err == nil {
		values = kept
	}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	if err := os.WriteFile(p.from.File, RenderConfig("test", values), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// serve runs a node, and calls do while it does.
func (p *installation) serve(do func()) {
	p.t.Helper()
	config, err := LoadConfig(p.from)
	if err != nil {
		p.t.Fatal(err)
	}
	node, err := Open(p.t.Context(), config, nil, slog.New(slog.DiscardHandler), Clock(0))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := node.Listen(); err != nil {
		p.t.Fatal(err)
	}
	p.set("server.addr", node.APIAddr.String(), "server.internal_addr", node.InternalAddr.String())
	ctx, stop := context.WithCancel(p.t.Context())
	served := make(chan error, 1)
	go func() { served <- node.Serve(ctx) }()
	do()
	stop()
	if err := errors.Join(<-served, node.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// store returns the path of the store.
func (p *installation) store() string { return filepath.Join(p.folder, "data", "coax.db") }

// sql changes the store, and leaves no log behind.
func (p *installation) sql(statements ...string) {
	p.t.Helper()
	pool, err := sql.Open("sqlite", "file:"+p.store())
	if err != nil {
		p.t.Fatal(err)
	}
	defer pool.Close()
	for _, statement := range statements {
		if _, err := pool.Exec(statement); err != nil {
			p.t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (p *installation) path(name string) string { return filepath.Join(p.folder, name) }

func (p *installation) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// doctor returns a doctor with a longer timeout than that of the command: the machine may be busy.
func (p *installation) doctor() *doctor {
	d := newDoctor(p.t.Context(), p.from, p.backups)
	d.timeout = time.Minute
	return d
}

// diagnose runs the doctor, who must leave every file as it was.
func (p *installation) diagnose() []Diagnosis {
	p.t.Helper()
	before := p.files()
	d := p.doctor()
	d.synchronized = func() (bool, bool) { return true, true }
	p.change(d)
	found := append(diagnoseConfig(p.from), d.run(p.t.Context())...)
	if after := p.files(); !slices.Equal(before, after) {
		p.t.Errorf("the doctor has changed files:\n%q\nbefore\n%q", after, before)
	}
	return found
}

// files lists the files with their sizes and times, but for the log's index, which readers
// write to.
func (p *installation) files() (all []string) {
	err := filepath.WalkDir(p.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && !strings.HasSuffix(path, "-shm") {
			all = append(all, fmt.Sprint(path, info.Mode(), info.Size(), info.ModTime()))
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// expect finds a line of a check with a status and texts in its message or cure.
func expect(t *testing.T, found []Diagnosis, check string, status Status, texts ...string) {
	t.Helper()
	for _, d := range found {
		if d.Check == check && d.Status == status && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(d.Message+"\n"+d.Cure, text) }) {
			if status != StatusOK && d.Cure == "" && !strings.Contains(d.Message, ": ") {
				t.Errorf("%s: %q does not say what to do", check, d.Message)
			}
			return
		}
	}
	t.Errorf("no %s of %q with %q in\n%s", status, check, texts, shown(found))
}

func shown(found []Diagnosis) string {
	var out strings.Builder
	for _, d := range found {
		fmt.Fprintf(&out, "%-8s %-14s %s -> %s\n", d.Status, d.Check, d.Message, d.Cure)
	}
	return out.String()
}

func problems(found []Diagnosis) (checks []string) {
	for _, d := range found {
		if d.Status == StatusProblem {
			checks = append(checks, d.Check)
		}
	}
	return checks
}

func TestDoctor_HealthyInstallation(t *testing.T) {
	t.Parallel()
	p := newInstallation(t)
	p.backups = t.TempDir()
	config, err := LoadConfig(p.from)
	p.must(err)
	_, err = BackUp(t.Context(), config, p.backups, BackupOptions{Progress: func(string, int64, int64) {}})
	p.must(err)

	stopped := p.diagnose()
	if got := problems(stopped); got != nil {
		t.Errorf("while no node runs: problems of %q:\n%s", got, shown(stopped))
	}
	expect(t, stopped, "node", StatusWarning, "none runs", "systemctl start")
	for _, check := range []string{"configuration", "permissions", "disk", "master key", "store", "schema", "maintenance", "mark", "clock", "certificate", "provider", "prices", "backup"} {
		expect(t, stopped, check, StatusOK)
	}
	// It reads the log of a node that runs, which the file does not have yet. Addresses are free
	// ports, which the file gets once they are known.
	p.set("server.addr", "127.0.0.1:0", "server.internal_addr", "127.0.0.1:0")
	p.serve(func() {
		running := p.doctor()
		found := running.run(t.Context())
		if got := problems(found); got != nil {
			t.Errorf("while a node runs: problems of %q:\n%s", got, shown(found))
		}
		expect(t, found, "node", StatusOK, "it runs, and is ready")

		// Another certificate than the node was started with.
		other := t.TempDir()
		writeTestCertificate(t, other, time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour))
		p.set("server.tls_cert", filepath.Join(other, "tls.pem"), "server.tls_key", filepath.Join(other, "tls.key"))
		expect(t, p.doctor().run(t.Context()), "node", StatusWarning, "another certificate", "systemctl reload coax")
		// A node with another address than the file has.
		p.set("server.internal_addr", "127.0.0.1:1")
		expect(t, p.doctor().run(t.Context()), "node", StatusWarning, fmt.Sprint("process ", os.Getpid()), "127.0.0.1:1")
	})
}

// writeTestCertificate writes a certificate for localhost with its key.
func writeTestCertificate(t *testing.T, folder string, from, until time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: until, DNSNames: []string{"localhost"}}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := writePair(filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key"), signed, key); err != nil {
		t.Fatal(err)
	}
}

// occupied returns the address of a listener that is no node.
func occupied(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	other := httptest.NewServer(handler)
	t.Cleanup(other.Close)
	return other.Listener.Addr().String()
}

func TestDoctor_FindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	healthy := newInstallation(t)
	for _, test := range []struct {
		name   string
		broken func(p *installation)
		check  string
		status Status
		texts  []string
	}{
		{"an expired certificate", func(p *installation) {
			writeTestCertificate(p.t, p.folder, time.Now().Add(-90*day), time.Now().Add(-time.Hour))
		}, "certificate", StatusProblem, []string{"has expired", "the service notices the new files"}},
		{"a certificate that expires soon", func(p *installation) {
			writeTestCertificate(p.t, p.folder, time.Now().Add(-90*day), time.Now().Add(10*day))
		}, "certificate", StatusWarning, []string{"expires in 10 days"}},
		{"a certificate of tomorrow", func(p *installation) {
			writeTestCertificate(p.t, p.folder, time.Now().Add(day), time.Now().Add(90*day))
		}, "certificate", StatusProblem, []string{"valid only from"}},
		{"a key of another certificate", func(p *installation) {
			p.set("server.tls_key", "ca.key")
		}, "certificate", StatusProblem, []string{"private key does not match public key", "server.tls_key"}},
		{"no certificate", func(p *installation) {
			p.must(os.Remove(p.path("tls.pem")))
		}, "certificate", StatusProblem, []string{"tls.pem: no such file"}},
		{"a certificate without the pages' name", func(p *installation) {
			p.set("panel.origin", "https://panel.example.com")
		}, "certificate", StatusProblem, []string{"is not for panel.example.com"}},
		{"a TLS key that all can read", func(p *installation) {
			p.must(os.Chmod(p.path("tls.key"), 0o644))
		}, "configuration", StatusWarning, []string{"every user of this machine can read the TLS key", "chmod 600"}},

		{"a master key that all can read", func(p *installation) {
			p.must(os.Chmod(p.path("master.key"), 0o444))
		}, "master key", StatusProblem, []string{"can be read by others (mode 0444)", "chmod 0400"}},
		{"no master key", func(p *installation) {
			p.must(os.Remove(p.path("master.key")))
		}, "master key", StatusProblem, []string{"there is no master key at", "restore it from its backup"}},
		{"another installation's master key", func(p *installation) {
			p.must(errors.Join(os.Remove(p.path("master.key")), WriteMasterKey(p.path("master.key"))))
		}, "master key", StatusProblem, []string{"this is not the master key the store was sealed with"}},
		{"a token that all can read", func(p *installation) {
			p.must(os.WriteFile(p.path("token"), []byte("secret"), 0o644))
			p.set("provider.token_file", "token")
		}, "permissions", StatusProblem, []string{"token", "chmod 600"}},
		{"a configuration with a password that all can read", func(p *installation) {
			p.set("store.url", "postgres://coax:secret@127.0.0.1:1/coax")
			p.must(os.Chmod(p.from.File, 0o644))
		}, "permissions", StatusProblem, []string{"coax.toml (mode 0644), which is secret"}},
		{"a data folder that all can write to", func(p *installation) {
			p.must(os.Chmod(p.path("data"), 0o777))
		}, "permissions", StatusProblem, []string{"every user of this machine can write to", "chmod 700"}},
		{"a store that all can read", func(p *installation) {
			p.must(os.Chmod(p.store(), 0o644))
		}, "permissions", StatusProblem, []string{"coax.db (mode 0644)", "chmod 600"}},

		{"a full disk", func(p *installation) {
			p.change = func(d *doctor) {
				d.space = func(string) (diskSpace, error) { return diskSpace{free: 20 << 20, total: 1 << 30}, nil }
			}
		}, "disk", StatusProblem, []string{"20 MB of 1024 MB free", "free some space"}},
		{"a disk with little room", func(p *installation) {
			p.change = func(d *doctor) {
				d.space = func(string) (diskSpace, error) { return diskSpace{free: 900 << 20, total: 50 << 30}, nil }
			}
		}, "disk", StatusWarning, []string{"900 MB of 50 GB free"}},
		{"a disk that was mounted read-only", func(p *installation) {
			p.change = func(d *doctor) {
				d.space = func(string) (diskSpace, error) { return diskSpace{free: 1 << 40, readOnly: true}, nil }
			}
		}, "disk", StatusProblem, []string{"is mounted read-only"}},
		{"a disk that hangs", func(p *installation) {
			p.change = func(d *doctor) {
				d.timeout = 100 * time.Millisecond
				hung := make(chan struct{})
				p.t.Cleanup(func() { close(hung) })
				d.space = func(string) (diskSpace, error) { <-hung; return diskSpace{}, nil }
			}
		}, "disk", StatusProblem, []string{"did not end within 100ms"}},

		{"no store", func(p *installation) {
			p.must(os.RemoveAll(p.path("data")))
		}, "store", StatusWarning, []string{"there is no store yet", "coax migrate"}},
		{"another program's file", func(p *installation) {
			p.must(os.WriteFile(p.store(), []byte(strings.Repeat("something else ", 500)), 0o600))
		}, "store", StatusProblem, []string{"file is not a database"}},
		{"a log without its index", func(p *installation) {
			p.must(os.WriteFile(p.store()+"-wal", []byte("log"), 0o600))
		}, "store", StatusProblem, []string{"coax.db-shm is not", "start a node"}},
		{"a disk that has failed", func(p *installation) {
			p.must(os.WriteFile(p.store()+".doubt", []byte("disk I/O error\n"), 0o600))
		}, "store", StatusProblem, []string{"its disk has failed: disk I/O error"}},
		{"no database", func(p *installation) {
			p.set("store.url", "postgres://coax:hunter2@127.0.0.1:1/coax")
		}, "store", StatusProblem, []string{"postgres://coax@127.0.0.1:1/coax", "see that PostgreSQL runs there"}},
		{"an older schema", func(p *installation) {
			p.sql(`DELETE FROM schema_tolerance WHERE migration = (SELECT max(migration) FROM schema_tolerance)`)
		}, "schema", StatusProblem, []string{"older than this binary", "coax migrate"}},
		{"a schema that is too new", func(p *installation) {
			p.sql(`INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (99, 1000)`)
		}, "schema", StatusProblem, []string{"needs a binary of generation 1000", "install the newer release"}},
		{"a newer schema", func(p *installation) {
			p.sql(`INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (99, 1)`)
		}, "schema", StatusWarning, []string{"migration 99", "install the newer release"}},
		{"maintenance", func(p *installation) {
			p.sql(`INSERT INTO maintenance (one, since, actor, reason) VALUES (1, 1790000000000, 'cli:asha', 'a new switch')`)
		}, "maintenance", StatusWarning, []string{"by cli:asha", "a new switch", "coax admin maintenance off"}},
		{"a restored store", func(p *installation) {
			p.sql(`INSERT INTO store_restores (found_at, how) VALUES (1790000000000, 'it was put back')`)
		}, "maintenance", StatusProblem, []string{"it was put back", "coax reconcile"}},
		{"a store behind its mark", func(p *installation) {
			p.sql(`UPDATE store_mark SET value = 0`)
		}, "mark", StatusProblem, []string{"takes the store for restored", "its mark is 0"}},
		{"a damaged mark", func(p *installation) {
			p.must(os.WriteFile(p.path("store.mark"), []byte("{}"), 0o600))
		}, "mark", StatusProblem, []string{"is not a mark that a node has written"}},

		{"a clock that was set back", func(p *installation) {
			p.change = func(d *doctor) { d.now = func() time.Time { return time.Now().Add(-day) } }
		}, "clock", StatusProblem, []string{"the clock was set back", "NTP"}},
		{"a clock that is not the database's", func(p *installation) {
			p.change = func(d *doctor) {
				state, err := d.store()
				state.off, state.hasClock = -5*time.Second, true
				d.store = func() (storeState, error) { return state, err }
			}
		}, "clock", StatusProblem, []string{"are 5s apart", "set the clock"}},
		{"a clock without NTP", func(p *installation) {
			p.change = func(d *doctor) { d.synchronized = func() (bool, bool) { return false, true } }
		}, "clock", StatusWarning, []string{"run an NTP service"}},

		{"a provider that is down", func(p *installation) {
			p.set("provider.url", "http://127.0.0.1:1")
		}, "provider", StatusProblem, []string{"connection refused", "nothing is lost"}},
		{"a provider that wants a token", func(p *installation) {
			sim, err := simulator.New(simulator.Config{Token: "secret"})
			p.must(err)
			p.set("provider.url", "http://"+occupied(p.t, sim.ServeHTTP))
		}, "provider", StatusProblem, []string{"HTTP 401", "provider.token_file"}},
		{"a provider with an unknown authority", func(p *installation) {
			other := httptest.NewTLSServer(http.NotFoundHandler())
			other.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
			p.t.Cleanup(other.Close)
			p.set("provider.url", other.URL)
		}, "provider", StatusProblem, []string{"certificate was not accepted", "provider.ca"}},
		{"an address that is no provider's", func(p *installation) {
			p.set("provider.url", "http://"+occupied(p.t, http.NotFound))
		}, "provider", StatusProblem, []string{"see that provider.url is the address of a provider"}},
		{"no token file", func(p *installation) {
			p.set("provider.token_file", "token")
		}, "provider", StatusProblem, []string{"provider.token_file", "no such file"}},
		{"prices that were never verified", func(p *installation) {
			p.sql(`DELETE FROM catalogue_comparisons`)
		}, "prices", StatusWarning, []string{"never verified"}},

		{"another program at the internal port", func(p *installation) {
			p.set("server.internal_addr", occupied(p.t, http.NotFound))
		}, "node", StatusProblem, []string{"another program answers", "server.internal_addr"}},
		{"another program at the HTTPS port", func(p *installation) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			p.must(err)
			p.t.Cleanup(func() { _ = listener.Close() })
			p.set("server.addr", listener.Addr().String())
		}, "node", StatusProblem, []string{"another program listens", "choose another server.addr"}},
		{"a node that is not ready", func(p *installation) {
			p.set("server.internal_addr", occupied(p.t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"ok":false,"reason":"store"}`)
			}))
		}, "node", StatusProblem, []string{"is not ready: store"}},

		{"no backup", func(p *installation) { p.backups = p.t.TempDir() }, "backup", StatusProblem, []string{"there is no backup of this store", "coax-backup.timer"}},
		{"no backup in the setting's folder", func(p *installation) { p.set("backup.folder", p.t.TempDir()) }, "backup", StatusProblem, []string{"there is no backup of this store"}},
		{"no folder of backups", func(p *installation) { p.backups = p.path("none") }, "backup", StatusProblem, []string{"no such file"}},
		{"an old backup", func(p *installation) {
			p.backups = p.t.TempDir()
			config, err := LoadConfig(p.from)
			p.must(err)
			_, err = BackUp(p.t.Context(), config, p.backups, BackupOptions{Progress: func(string, int64, int64) {}})
			p.must(err)
			p.change = func(d *doctor) { d.now = func() time.Time { return time.Now().Add(3 * day) } }
		}, "backup", StatusWarning, []string{"is 3 days old"}},
		{"no replica", func(p *installation) {
			p.set("store.replica", "file://"+p.t.TempDir())
		}, "replica", StatusProblem, []string{"there is none yet"}},
		{"another store's replica", func(p *installation) {
			place := p.t.TempDir()
			p.set("store.replica", "file://"+place)
			p.serve(func() {})
			p.sql(`UPDATE store_mark SET store_id = 'other'`)
		}, "replica", StatusProblem, []string{"is the replica of another store"}},

		{"a setting that cannot be", func(p *installation) {
			text, err := os.ReadFile(p.from.File)
			p.must(err)
			p.must(os.WriteFile(p.from.File, append(text, "\n[providr]\nurl = \"x\"\n"...), 0o600))
		}, "configuration", StatusProblem, []string{"providr.url", "is provider.url meant?"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := healthy.copy(t)
			test.broken(p)
			found := p.diagnose()
			expect(t, found, test.check, test.status, test.texts...)
			if text := shown(found); strings.Contains(text, "hunter2") {
				t.Errorf("a password is shown:\n%s", text)
			}
			// What is broken does not keep the doctor from the rest.
			for _, c := range doctorChecks {
				if c.name != "replica" && !slices.ContainsFunc(found, func(d Diagnosis) bool { return d.Check == c.name }) {
					t.Errorf("nothing is said of %s:\n%s", c.name, shown(found))
				}
			}
		})
	}
}

func TestDoctor_ReplicaHasEverything(t *testing.T) {
	t.Parallel()
	p := newInstallation(t)
	p.set("store.replica", "file://"+t.TempDir(), "store.replica_mode", "sync", "server.addr", "127.0.0.1:0", "server.internal_addr", "127.0.0.1:0")
	p.serve(func() {})
	found := p.diagnose()
	expect(t, found, "replica", StatusOK)
	p.sql(fmt.Sprintf(`UPDATE store_mark SET marked_at = %d`, time.Now().Add(time.Hour).UnixMilli()))
	expect(t, p.diagnose(), "replica", StatusProblem, "behind the store")
}

// The files of root in a folder of the service's user, as they come about.
func TestDoctor_FilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	p := newInstallation(t)
	const nobody = 65534
	for _, name := range []string{"data", "data/coax.db", "coax.toml", "tls.key"} {
		p.must(os.Chown(p.path(name), nobody, nobody))
	}
	for above := p.folder; above != os.TempDir() && above != "/"; above = filepath.Dir(above) {
		p.must(os.Chmod(above, 0o755))
	}
	found := p.diagnose()
	expect(t, found, "permissions", StatusProblem, "cannot read", "master.key", "chown")
	expect(t, found, "permissions", StatusProblem, "cannot write", "coax.db.lock", "chown")
	expect(t, found, "permissions", StatusProblem, "cannot write", "store.mark", "chown")
	for _, d := range found {
		if strings.Contains(d.Message, "tls.key") || strings.Contains(d.Message, "coax.toml") && d.Check == "permissions" {
			t.Errorf("%+v; want nothing of a file that the user can read", d)
		}
	}
}

func TestDoctor_UnreadableConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "coax.toml")
	found := Diagnose(t.Context(), Sources{File: file}, "")
	expect(t, found, "configuration", StatusProblem, "there is no configuration at")
	expect(t, found, "everything else", StatusWarning, "not checked")
	if err := os.WriteFile(file, []byte("[server\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found = Diagnose(t.Context(), Sources{File: file}, "")
	expect(t, found, "configuration", StatusProblem, file+":1", "column")
	if len(found) != 2 {
		t.Errorf("%s; want nothing of a place that is not known", shown(found))
	}
}

// A query that fails would complete nothing, silently.
func TestReadChoices_EveryQueryRuns(t *testing.T) {
	p := newInstallation(t)
	config, err := LoadConfig(p.from)
	p.must(err)
	for _, what := range []sqlstore.Choosable{
		sqlstore.Operators, sqlstore.DeletedOperators, sqlstore.Plans, sqlstore.APIKeys, sqlstore.Logins, sqlstore.Components, sqlstore.Reviews,
	} {
		p.must(lookAtStore(t.Context(), config.Store, func(q sqlstore.Querier) error {
			_, err := sqlstore.ReadChoices(q, what)
			return err
		}))
	}
}
