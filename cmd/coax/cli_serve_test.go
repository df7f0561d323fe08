package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

// cliFreePorts are settings that keep a node out of everybody's way.
var cliFreePorts = []string{"--set", "server.addr=127.0.0.1:0", "--set", "server.internal_addr=127.0.0.1:0"}

// serve runs coax serve, which is to be refused.
func (h *cliHouse) serve(more ...string) cliResult {
	h.t.Helper()
	return cliRun(h.t, append(append([]string{"serve", "--config", h.config}, cliFreePorts...), more...)...)
}

func TestCLIServeDemandsItsMasterKey(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	cliOK(t, cliRun(t, "init", "--dir", other))
	otherKey := cliRead(t, filepath.Join(other, "master.key"))

	for _, test := range []struct {
		name string
		key  string
		mode os.FileMode
		want []string
	}{
		{"another installation's", otherKey, 0o400, []string{"not the master key", "secrets.master_key_file", "backup"}},
		{"readable by everybody", "", 0o444, []string{"master.key", "read by others", "0444", "chmod 0400"}},
		{"readable by the group", "", 0o440, []string{"read by others", "chmod 0400"}},
		{"empty", "\n", 0o400, []string{"master.key", "empty"}},
		{"not a key at all", "hunter2-is-my-password", 0o400, []string{"master.key", "not JSON"}},
		{"another kind of JSON", `{"password":"hunter2"}`, 0o400, []string{"master.key", "keyset"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := cliNewHouse(t)
			path := filepath.Join(h.folder, "master.key")
			key := test.key
			if key == "" {
				key = cliRead(t, path)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(cliWrite(t, path, key), test.mode); err != nil {
				t.Fatal(err)
			}
			before := h.dump()
			for _, got := range []cliResult{h.serve(), h.admin("lco", "list"), h.admin("key", "issue", "--lco", "1")} {
				cliRefusal(t, got, test.want...)
				if strings.Contains(got.err, "hunter2") {
					t.Errorf("the message repeats what may be a secret: %s", got.err)
				}
			}
			if diff := cliDifference(before, h.dump()); diff != "" {
				t.Errorf("the store has changed:\n%s", diff)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		h := cliNewHouse(t)
		path := filepath.Join(h.folder, "master.key")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		cliRefusal(t, h.serve(), path, "backup", "secrets.master_key_file", "coax init")
	})
}

func TestCLIServeTakesTheMasterKeyFromTheEnvironment(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	path := filepath.Join(h.folder, "master.key")
	right := "COAX_MASTER_KEY=" + cliRead(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"serve", "--config", h.config}, cliFreePorts...)
	serving := cliServe(t, []string{right}, `"serving"`, args...)
	issued := cliRunIn(t, []string{right}, "admin", "--config", h.config, "key", "issue", "--lco", "1", "--json")
	cliShape(t, cliOK(t, issued).out, cliIssuedShape...)
	if code := serving.Stop(); code != exitDone {
		t.Errorf("serve ended with %d", code)
	}

	// The variable wins over the file, and says so when it is wrong.
	other := t.TempDir()
	cliOK(t, cliRun(t, "init", "--dir", other))
	wrong := "COAX_MASTER_KEY=" + cliRead(t, filepath.Join(other, "master.key"))
	cliRefusal(t, cliRunIn(t, []string{wrong}, args...), "not the master key")
	cliRefusal(t, cliRunIn(t, []string{"COAX_MASTER_KEY=hunter2"}, args...), "COAX_MASTER_KEY", "not JSON")
	cliRefusal(t, cliRunIn(t, []string{"COAX_MASTER_KEY="}, args...), "no master key at")
}

// A disk that has failed may have taken something with it: nobody is served before
// the file was inspected and the books audited.
func TestCLIServeLooksAtAStoreWhoseDiskHasFailed(t *testing.T) {
	aboutSQLite(t, "its disk")
	t.Parallel()
	h := cliNewHouse(t)
	doubt := h.store().Path + ".doubt"
	cliWrite(t, doubt, "commit: disk I/O error\n")

	damageStore(t, h.store(), `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 1`)
	refused := func(want ...string) {
		t.Helper()
		got := h.serve()
		lines := strings.Split(strings.TrimSpace(got.err), "\n") // of which all but the last are the log's
		got.err = lines[len(lines)-1] + "\n"
		cliRefusal(t, got, want...)
	}
	refused("store.url", "commit: disk I/O error", "the books do not agree", "M1 lco 1", "coax audit", "backup", doubt)
	damageStore(t, h.store(), `UPDATE wallets SET balance_paise = balance_paise + 1 WHERE operator_id = 1`)
	intact := cliRead(t, h.store().Path)
	pages := []byte(intact)
	copy(pages[len(pages)-4096:], strings.Repeat("rubbish ", 512))
	cliWrite(t, h.store().Path, string(pages))
	refused("commit: disk I/O error", "the file is damaged", "backup", doubt)
	cliWrite(t, h.store().Path, intact)

	args := append([]string{"serve", "--config", h.config}, cliFreePorts...)
	serving := cliServe(t, nil, `"serving"`, args...)
	cliSays(t, "the log", serving.err.String(), "commit: disk I/O error", `"table":"operations"`, "nothing is wrong with the store")
	if code := serving.Stop(); code != exitDone {
		t.Errorf("serve ended with %d", code)
	}
	if _, err := os.Stat(doubt); !os.IsNotExist(err) {
		t.Errorf("the store is still doubted: %v", err)
	}
	again := cliServe(t, nil, `"serving"`, args...)
	if strings.Contains(again.err.String(), "inspecting") {
		t.Error("a store that is trusted is inspected")
	}
}

func TestCLIServeRefusesAStoreItCannotUse(t *testing.T) {
	aboutSQLite(t, "where its file may be")
	t.Parallel()
	h := cliNewHouse(t)
	file := cliWrite(t, filepath.Join(h.folder, "file"), "this is not a database, and long enough to be seen as none\n"+strings.Repeat("x", 4096))
	for _, test := range []struct {
		name, url string
		want      []string
	}{
		{"under a file", "sqlite:file/coax.db", []string{file}},
		{"a folder", "sqlite:data", []string{filepath.Join(h.folder, "data")}},
		{"something else", "sqlite:file", []string{"not a database", file}},
		{"a device", "sqlite:/dev/null/coax.db", []string{"/dev/null"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Which setting to mend is part of what to do.
			want := append(test.want, "store.url")
			cliRefusal(t, h.in(t).serve("--set", "store.url="+test.url), want...)
			cliRefusal(t, cliRun(t, "migrate", "--config", h.config, "--set", "store.url="+test.url), want...)
		})
	}
	if !strings.HasPrefix(cliRead(t, file), "this is not a database") {
		t.Error("somebody's file was overwritten")
	}
}

func TestCLIServeRefusesADatabaseItCannotUse(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := taken.Addr().String()
	taken.Close()
	there := pgtest.NewDatabase(t)
	for _, test := range []struct {
		name, url string
		want      []string
	}{
		{"nobody listens", "postgres://coax:hunter2@" + nobody + "/coax", []string{nobody}},
		{"nobody listens at either", "postgres://coax:hunter2@" + nobody + "," + nobody + "/coax", []string{nobody}},
		{"no such database", strings.Replace(there, "?", "_none?", 1), []string{"does not exist"}},
		{"no such role", strings.Replace(there, "postgres://coax@", "postgres://nobody:hunter2@", 1), []string{"nobody"}},
		{"not durable", there + "&synchronous_commit=off", []string{"would not be durable", "synchronous_commit=off"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := append(test.want, "store.url")
			for _, got := range []cliResult{
				h.in(t).serve("--set", "store.url="+test.url), cliRun(t, "migrate", "--config", h.config, "--set", "store.url="+test.url),
			} {
				cliRefusal(t, got, want...)
				if strings.Contains(got.err, "hunter2") {
					t.Errorf("the password is shown: %s", got.err)
				}
			}
		})
	}
}

func TestCLIServeRefusesASchemaFromTheFuture(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	damageStore(t, h.store(), `INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (99, 1000)`)
	cliRefusal(t, h.serve(), "newer release", "1000", "install")
	cliRefusal(t, h.admin("lco", "list"), "newer release", "1000", "install")
	cliRefusal(t, cliRun(t, "migrate", "--config", h.config), "newer release")
	cliRefusal(t, cliRun(t, "demo", "--dir", h.folder, "--addr", "127.0.0.1:0"), "newer release")
}

func TestCLIServeRefusesAMovedClock(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	cliRefusal(t, h.serve("--set", "clock.offset=744h"), "clock.offset", "demo only", "remove")
	environ := []string{"COAX_CLOCK_OFFSET=-1s"}
	cliRefusal(t, cliRunIn(t, environ, append([]string{"serve", "--config", h.config}, cliFreePorts...)...), "clock.offset")
	cliWrite(t, h.config, "[store]\nurl = "+tomlQuote(h.store().URL)+"\n[clock]\noffset = \"744h\"\n")
	cliRefusal(t, h.serve(), "clock.offset")
	// Staff go on working beside a demo whose clock was moved.
	cliOK(t, h.admin("lco", "list"))
}

func TestCLIServeNamesThePortThatIsTaken(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, key := range []string{"server.addr", "server.plain_addr", "server.internal_addr"} {
		cliRefusal(t, h.serve("--set", key+"="+taken.Addr().String()), key+": ", taken.Addr().String(), "--set "+key+"=HOST:PORT")
	}
	// A refused start lets go of everything.
	cliServe(t, nil, `"serving"`, append([]string{"serve", "--config", h.config}, cliFreePorts...)...)
}

func TestCLIServeIsAloneInItsFolder(t *testing.T) {
	aboutSQLite(t, "one node has the folder to itself")
	t.Parallel()
	h := cliNewHouse(t)
	first := cliServe(t, nil, `"serving"`, append([]string{"serve", "--config", h.config}, cliFreePorts...)...)
	cliRefusal(t, h.serve(), "another node", "process", "stop it")
	cliRefusal(t, cliRun(t, "migrate", "--config", h.config), "another node")
	cliRefusal(t, cliRun(t, "demo", "--dir", h.folder, "--addr", "127.0.0.1:0"), "another node")
	cliOK(t, h.admin("wallet", "topup", "--lco", "1", "--amount", "1", "--reference", "beside a node"))
	first.Stop()
	cliSays(t, "migrate", cliOK(t, cliRun(t, "migrate", "--config", h.config)).out, "up to date")
}

func TestCLIServeAsAProcess(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	p := cliStart(t, append([]string{"serve", "--config", h.config}, cliFreePorts...)...)

	// SIGHUP reads the certificate again; one that does not read changes nothing.
	hangUp := func(want string) {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if !p.err.until(want, p.ended) {
			t.Fatalf("after SIGHUP the log does not say %q:\n%s", want, p.err)
		}
	}
	hangUp("the certificate was read again")
	cliWrite(t, filepath.Join(h.folder, "tls.pem"), "rubbish")
	hangUp("the old one stays")

	if code := p.Terminate(); code != exitDone {
		t.Errorf("SIGTERM ended serve with %d; want 0\n%s", code, p.err)
	}
	if out := p.out.String(); out != "" {
		t.Errorf("serve wrote on stdout: %s", out)
	}
	for line := range strings.Lines(p.err.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("a line of the log is no JSON object: %s", line)
		}
	}
	cliSays(t, "the log", p.err.String(), "draining", "stopped")
}

// Profiles are for the house alone, and only where it asked for them.
func TestCLIProfilesAreOnTheInternalListenerWhereTheyWereAskedFor(t *testing.T) {
	t.Parallel()
	_, asked := cliDemoIn(t, t.TempDir(), "--set", "server.profiling=true")
	_, plain := cliDemoIn(t, t.TempDir())
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer insecure.CloseIdleConnections()
	for _, test := range []struct {
		name, url string
		offered   bool
	}{
		{"asked for, internal listener", asked.InternalURL + "/debug/pprof/heap", true},
		{"asked for, API", strings.TrimSuffix(asked.BaseURL, "/api/v1") + "/debug/pprof/heap", false},
		{"not asked for", plain.InternalURL + "/debug/pprof/heap", false},
	} {
		response, err := insecure.Get(test.url)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.StatusCode == http.StatusOK; got != test.offered {
			t.Errorf("%s: GET %s is answered %d", test.name, test.url, response.StatusCode)
		}
	}
}
