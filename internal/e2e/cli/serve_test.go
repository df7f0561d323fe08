package cli

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

func TestServe_RequiresMasterKey(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", other))
	otherKey := e2e.ReadFile(t, filepath.Join(other, "master.key"))

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
			h := e2e.NewInstall(t)
			path := filepath.Join(h.Folder, "master.key")
			key := test.key
			if key == "" {
				key = e2e.ReadFile(t, path)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(e2e.WriteFile(t, path, key), test.mode); err != nil {
				t.Fatal(err)
			}
			before := h.Dump()
			for _, got := range []e2e.Result{h.RunServe(), h.Admin("lco", "list"), h.Admin("key", "issue", "--lco", "1")} {
				e2e.CheckRefused(t, got, test.want...)
				if strings.Contains(got.Err, "hunter2") {
					t.Errorf("the message repeats what may be a secret: %s", got.Err)
				}
			}
			if diff := e2e.Diff(before, h.Dump()); diff != "" {
				t.Errorf("the store has changed:\n%s", diff)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		h := e2e.NewInstall(t)
		path := filepath.Join(h.Folder, "master.key")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		e2e.CheckRefused(t, h.RunServe(), path, "backup", "secrets.master_key_file", "coax init")
	})
}

func TestServe_MasterKeyFromEnvironment(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	path := filepath.Join(h.Folder, "master.key")
	right := "COAX_MASTER_KEY=" + e2e.ReadFile(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)
	serving := e2e.Serve(t, []string{right}, `"serving"`, args...)
	issued := e2e.RunWithEnv(t, []string{right}, "admin", "--config", h.Config, "key", "issue", "--lco", "1", "--json")
	e2e.CheckShape(t, e2e.RequireOK(t, issued).Out, e2e.IssuedShape...)
	if code := serving.Terminate(); code != e2e.ExitDone {
		t.Errorf("serve ended with %d", code)
	}

	// The variable wins over the file, and says so when it is wrong.
	other := t.TempDir()
	e2e.RequireOK(t, e2e.Run(t, "init", "--dir", other))
	wrong := "COAX_MASTER_KEY=" + e2e.ReadFile(t, filepath.Join(other, "master.key"))
	e2e.CheckRefused(t, e2e.RunWithEnv(t, []string{wrong}, args...), "not the master key")
	e2e.CheckRefused(t, e2e.RunWithEnv(t, []string{"COAX_MASTER_KEY=hunter2"}, args...), "COAX_MASTER_KEY", "not JSON")
	e2e.CheckRefused(t, e2e.RunWithEnv(t, []string{"COAX_MASTER_KEY="}, args...), "no master key at")
}

// After a disk failure the node serves only once the file was checked and audited.
func TestServe_ChecksStoreAfterDiskFailure(t *testing.T) {
	e2e.OnlySQLite(t, "its disk")
	t.Parallel()
	h := e2e.NewInstall(t)
	doubt := h.Store().Path + ".doubt"
	e2e.WriteFile(t, doubt, "commit: disk I/O error\n")

	e2e.ExecOnStore(t, h.Store(), `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 1`)
	refused := func(want ...string) {
		t.Helper()
		got := h.RunServe()
		lines := strings.Split(strings.TrimSpace(got.Err), "\n") // of which all but the last are the log's
		got.Err = lines[len(lines)-1] + "\n"
		e2e.CheckRefused(t, got, want...)
	}
	refused("store.url", "commit: disk I/O error", "the books do not agree", "M1 lco 1", "coax audit", "backup", doubt)
	e2e.ExecOnStore(t, h.Store(), `UPDATE wallets SET balance_paise = balance_paise + 1 WHERE operator_id = 1`)
	intact := e2e.ReadFile(t, h.Store().Path)
	pages := []byte(intact)
	copy(pages[len(pages)-4096:], strings.Repeat("rubbish ", 512))
	e2e.WriteFile(t, h.Store().Path, string(pages))
	refused("commit: disk I/O error", "the file is damaged", "backup", doubt)
	e2e.WriteFile(t, h.Store().Path, intact)

	args := append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)
	serving := e2e.Serve(t, nil, `"serving"`, args...)
	e2e.CheckMentions(t, "the log", serving.Err.String(), "commit: disk I/O error", `"table":"operations"`, "the check of the store found nothing wrong")
	if code := serving.Terminate(); code != e2e.ExitDone {
		t.Errorf("serve ended with %d", code)
	}
	if _, err := os.Stat(doubt); !os.IsNotExist(err) {
		t.Errorf("the store is still marked as suspect: %v", err)
	}
	again := e2e.Serve(t, nil, `"serving"`, args...)
	if strings.Contains(again.Err.String(), "inspecting") {
		t.Error("a store that is not marked is checked")
	}
}

func TestServe_UnusableStore(t *testing.T) {
	e2e.OnlySQLite(t, "where its file may be")
	t.Parallel()
	h := e2e.NewInstall(t)
	file := e2e.WriteFile(t, filepath.Join(h.Folder, "file"), "this is not a database, and long enough to be seen as none\n"+strings.Repeat("x", 4096))
	for _, test := range []struct {
		name, url string
		want      []string
	}{
		{"under a file", "sqlite:file/coax.db", []string{file}},
		{"a folder", "sqlite:data", []string{filepath.Join(h.Folder, "data")}},
		{"something else", "sqlite:file", []string{"not a database", file}},
		{"a device", "sqlite:/dev/null/coax.db", []string{"/dev/null"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Which setting to mend is part of what to do.
			want := append(test.want, "store.url")
			e2e.CheckRefused(t, h.WithTB(t).RunServe("--set", "store.url="+test.url), want...)
			e2e.CheckRefused(t, e2e.Run(t, "migrate", "--config", h.Config, "--set", "store.url="+test.url), want...)
		})
	}
	if !strings.HasPrefix(e2e.ReadFile(t, file), "this is not a database") {
		t.Error("somebody's file was overwritten")
	}
}

func TestServe_UnusableDatabase(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
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
			for _, got := range []e2e.Result{
				h.WithTB(t).RunServe("--set", "store.url="+test.url), e2e.Run(t, "migrate", "--config", h.Config, "--set", "store.url="+test.url),
			} {
				e2e.CheckRefused(t, got, want...)
				if strings.Contains(got.Err, "hunter2") {
					t.Errorf("the password is shown: %s", got.Err)
				}
			}
		})
	}
}

func TestServe_NewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	e2e.ExecOnStore(t, h.Store(), `INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (99, 1000)`)
	e2e.CheckRefused(t, h.RunServe(), "newer release", "1000", "install")
	e2e.CheckRefused(t, h.Admin("lco", "list"), "newer release", "1000", "install")
	e2e.CheckRefused(t, e2e.Run(t, "migrate", "--config", h.Config), "newer release")
	e2e.CheckRefused(t, e2e.Run(t, "demo", "--dir", h.Folder, "--addr", "127.0.0.1:0"), "newer release")
}

func TestServe_ClockOffsetIsRefused(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	e2e.CheckRefused(t, h.RunServe("--set", "clock.offset=744h"), "clock.offset", "demo only", "remove")
	environ := []string{"COAX_CLOCK_OFFSET=-1s"}
	e2e.CheckRefused(t, e2e.RunWithEnv(t, environ, append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)...), "clock.offset")
	e2e.WriteFile(t, h.Config, "[store]\nurl = "+server.TomlQuote(h.Store().URL)+"\n[clock]\noffset = \"744h\"\n")
	e2e.CheckRefused(t, h.RunServe(), "clock.offset")
	// Staff go on working beside a demo whose clock was moved.
	e2e.RequireOK(t, h.Admin("lco", "list"))
}

func TestServe_PortInUse(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, key := range []string{"server.addr", "server.plain_addr", "server.internal_addr"} {
		e2e.CheckRefused(t, h.RunServe("--set", key+"="+taken.Addr().String()), key+": ", taken.Addr().String(), "--set "+key+"=HOST:PORT")
	}
	// A refused start lets go of everything.
	e2e.Serve(t, nil, `"serving"`, append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)...)
}

func TestServe_SecondNodeInFolderIsRefused(t *testing.T) {
	e2e.OnlySQLite(t, "one node has the folder to itself")
	t.Parallel()
	h := e2e.NewInstall(t)
	first := e2e.Serve(t, nil, `"serving"`, append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)...)
	e2e.CheckRefused(t, h.RunServe(), "another node", "process", "stop it")
	e2e.CheckRefused(t, e2e.Run(t, "migrate", "--config", h.Config), "another node")
	e2e.CheckRefused(t, e2e.Run(t, "demo", "--dir", h.Folder, "--addr", "127.0.0.1:0"), "another node")
	e2e.RequireOK(t, h.Admin("wallet", "topup", "--lco", "1", "--amount", "1", "--reference", "beside a node"))
	first.Terminate()
	e2e.CheckMentions(t, "migrate", e2e.RequireOK(t, e2e.Run(t, "migrate", "--config", h.Config)).Out, "up to date")
}

func TestServe_Process(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	p := e2e.Start(t, append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)...)

	// SIGHUP reads the certificate again; one that does not read changes nothing.
	hangUp := func(want string) {
		t.Helper()
		if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if !p.Err.WaitFor(want, p.Ended) {
			t.Fatalf("after SIGHUP the log does not say %q:\n%s", want, p.Err)
		}
	}
	hangUp("the certificate was read again")
	e2e.WriteFile(t, filepath.Join(h.Folder, "tls.pem"), "rubbish")
	hangUp("the old one stays")

	if code := p.Terminate(); code != e2e.ExitDone {
		t.Errorf("SIGTERM ended serve with %d; want 0\n%s", code, p.Err)
	}
	if out := p.Out.String(); out != "" {
		t.Errorf("serve wrote on stdout: %s", out)
	}
	for line := range strings.Lines(p.Err.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("a line of the log is no JSON object: %s", line)
		}
	}
	e2e.CheckMentions(t, "the log", p.Err.String(), "draining", "stopped")
}

// Profiles are on the internal listener only, and only if configured.
func TestServe_ProfilesOnInternalListener(t *testing.T) {
	t.Parallel()
	_, asked := e2e.StartDemo(t, t.TempDir(), "--set", "server.profiling=true")
	_, plain := e2e.StartDemo(t, t.TempDir())
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
