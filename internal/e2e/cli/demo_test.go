package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// cliLineShape is the documented output of demo --json.
var cliLineShape = []string{
	"base_url text", "ca_cert text", "config text", "lco_id int", "api_key text", "api_secret text", "simulator_url text",
	"internal_url text", "plain_url text", "panel_url text", "admin object", "operator object", "finance object",
}

func TestDemo_PrintsOneLineWhenReady(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "made", "by", "demo")
	p := e2e.Start(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json")

	// The service answers as soon as the line is printed.
	balance := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "/api/v1/balance", "--credentials", p.Credentials()))
	e2e.CheckMentions(t, "the first call", balance.Out, `"success": true`, `"wallet_balance": 10000.00`)

	line := e2e.CheckShape(t, p.DemoJSON, cliLineShape...)
	for _, who := range []string{"admin", "operator", "finance"} {
		e2e.CheckShape(t, line[who], "username text", "password text")
	}
	for name, want := range map[string]string{
		p.Demo.BaseURL: `^https://127\.0\.0\.1:[1-9]\d*/api/v1$`, p.Demo.InternalURL: `^http://127\.0\.0\.1:[1-9]\d*$`, p.Demo.PlainURL: `^http://127\.0\.0\.1:[1-9]\d*$`,
		p.Demo.PanelURL: `^https://127\.0\.0\.1:[1-9]\d*/$`, p.Demo.Admin.Username: `^admin$`, p.Demo.Operator.Username: `^operator$`, p.Demo.Finance.Username: `^finance$`,
		p.Demo.Admin.Password: `^.{10,}$`, p.Demo.Operator.Password: `^.{10,}$`, p.Demo.Finance.Password: `^.{10,}$`,
		p.Demo.APIKey: `^cxk_[0-9a-f]{32}$`, p.Demo.APISecret: `^cxs_[0-9a-f]{64}$`,
		p.Demo.CACert: "^" + regexp.QuoteMeta(filepath.Join(folder, "ca.pem")) + "$", p.Demo.Config: "^" + regexp.QuoteMeta(filepath.Join(folder, "coax.toml")) + "$",
	} {
		if !regexp.MustCompile(want).MatchString(name) {
			t.Errorf("%s is not as documented: want %s", name, want)
		}
	}
	if kept := e2e.ReadFile(t, filepath.Join(folder, "demo.json")); kept != p.DemoJSON+"\n" {
		t.Errorf("demo.json is %q; want the printed line %q", kept, p.DemoJSON)
	}
	modes := map[string]os.FileMode{"demo.json": 0o600, "coax.toml": 0o600, "master.key": 0o400, "tls.key": 0o600, "ca.key": 0o600, "data/coax.db": 0o600}
	if pgtest.Chosen() {
		delete(modes, "data/coax.db")
	}
	for name, mode := range modes {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v (%v); want mode %v", name, info, err, mode)
		}
	}

	for _, path := range []string{"/", "/api/v1/balance", "/nothing?x=1"} {
		if got := e2e.NewRemoteEnv(t, p).SendNow(e2e.Call{Base: p.Demo.PlainURL, Path: path}); got.Code != fault.HTTPSRequired {
			t.Errorf("plain_url%s: %s; want 403 HTTPS_REQUIRED", path, got.Raw)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if status, body := e2e.HTTPGet(t, p.Demo.InternalURL+path); status != http.StatusOK {
			t.Errorf("internal_url%s: %d %s; want 200", path, status, body)
		}
	}
	if status, _ := e2e.HTTPGet(t, p.Demo.InternalURL+"/api/v1/balance"); status != http.StatusNotFound {
		t.Errorf("the API answers %d on the internal listener; want 404", status)
	}

	if code := p.Terminate(); code != e2e.ExitDone {
		t.Errorf("SIGTERM ended the demo with %d; want 0\n%s", code, p.Err)
	}
	if out := p.Out.String(); out != p.DemoJSON+"\n" {
		t.Errorf("the demo wrote on stdout:\n%s\nwant its line and nothing else", out)
	}
	for _, secret := range []string{p.Demo.APISecret, p.Demo.Admin.Password, p.Demo.Operator.Password, p.Demo.Finance.Password} {
		if strings.Contains(p.Err.String(), secret) {
			t.Error("the log has a secret")
		}
	}
}

func TestDemo_RestartKeepsEverything(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	args := []string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}
	first := e2e.Start(t, args...)
	h := first.Install(t)
	h.JSON("wallet", "topup", "--lco", "1", "--amount", "0.50", "--reference", "first")
	if code := first.Interrupt(); code != e2e.ExitDone {
		t.Errorf("Ctrl-C ended the demo with %d; want 0\n%s", code, first.Err)
	}
	ca := e2e.ReadFile(t, first.Demo.CACert)

	check := func(p *e2e.Process, balance string) {
		t.Helper()
		if p.Demo.APIKey != first.Demo.APIKey || p.Demo.APISecret != first.Demo.APISecret || p.Demo.LCOID != first.Demo.LCOID ||
			p.Demo.Admin != first.Demo.Admin || p.Demo.Operator != first.Demo.Operator || p.Demo.Finance != first.Demo.Finance {
			t.Errorf("credentials %s; want those of the first start %s", p.DemoJSON, first.DemoJSON)
		}
		if e2e.ReadFile(t, p.Demo.CACert) != ca {
			t.Error("the CA has changed")
		}
		got := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "--credentials", p.Credentials()))
		e2e.CheckMentions(t, "the balance", got.Out, `"wallet_balance": `+balance)
		if n := len(e2e.JSONArray(t, h.JSON("key", "list", "--lco", "1"))); n != 1 {
			t.Errorf("there are %d keys; want the one", n)
		}
		if n := len(e2e.JSONArray(t, h.JSON("lco", "list"))); n != 1 {
			t.Errorf("there are %d operators; want the one", n)
		}
	}
	second := e2e.Start(t, args...)
	check(second, "10000.50")
	h.JSON("wallet", "topup", "--lco", "1", "--amount", "1", "--reference", "second")
	h.JSON("plan", "set", "--id", "BASIC-1", "--name", "Basic", "--price", "211", "--duration", "1", "--component", "main=TV-BASIC")
	second.Kill()

	third := e2e.Start(t, args...)
	check(third, "10001.50")
	if got := cliPlan(t, h, "BASIC-1"); got["price"] != "211.00" {
		t.Errorf("BASIC-1 costs %s after a start; want 211.00, as it was set", got["price"])
	}
	third.Kill()
}

func TestDemo_KeepsItsSettings(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "coax.toml")
	demo := func(more ...string) {
		t.Helper()
		s, _ := e2e.StartDemo(t, folder, more...)
		if code := s.Terminate(); code != e2e.ExitDone {
			t.Fatalf("the demo ended with %d\n%s", code, s.Err)
		}
	}
	kept := func(want map[string]string) {
		t.Helper()
		values, err := server.ReadConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range want {
			if values[key] != value {
				t.Errorf("coax.toml has %s = %q; want %q", key, values[key], value)
			}
		}
	}
	demo("--set", "provider.timeout=3s", "--set", "rules.activation_term=plan", "--set", "server.trusted_proxies=10.0.0.0/8,192.0.2.1")
	kept(map[string]string{"provider.timeout": "3s", "rules.activation_term": "plan", "server.trusted_proxies": "10.0.0.0/8,192.0.2.1"})
	demo()
	kept(map[string]string{"provider.timeout": "3s", "rules.activation_term": "plan"})
	demo("--set", "provider.timeout=4s")
	kept(map[string]string{"provider.timeout": "4s", "rules.activation_term": "plan"})

	before := e2e.ReadFile(t, file)
	for _, bad := range []string{"provider.timeout=soon", "provider.timout=5s", "provider.timeout", "limits.failed_auth_per_minute=0"} {
		got := e2e.Run(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--set", "log.level=warn", "--set", bad)
		key, _, _ := strings.Cut(bad, "=")
		e2e.CheckRefused(t, got, "--set "+key)
		if e2e.ReadFile(t, file) != before {
			t.Errorf("--set %s was refused and has changed coax.toml:\n%s", bad, e2e.ReadFile(t, file))
		}
	}
	// Ports that the demo chose by itself are not saved: they may be in use at the next
	// start.
	if text := e2e.ReadFile(t, file); strings.Contains(text, "127.0.0.1:0") {
		t.Errorf("coax.toml keeps the demo's own ports:\n%s", text)
	}
}

// A value in an unusual notation, such as a leading zero, must not make the folder unusable.
func TestDemo_RestartsAfterBadSetting(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	args := []string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json"}
	odd := cliServeOrRefuse(t, append(args, "--set", "limits.failed_auth_per_minute=030")...)
	if odd.Code == e2e.ExitRefused {
		e2e.CheckMentions(t, "the refusal", odd.Err, "--set limits.failed_auth_per_minute")
	}
	s, _ := e2e.StartDemo(t, folder)
	s.Terminate()
}

// cliServeOrRefuse runs a command until it is ready or refused.
func cliServeOrRefuse(t testing.TB, args ...string) e2e.Result {
	t.Helper()
	p := e2e.Launch(t, args...)
	p.Out.WaitFor("\n", p.Ended)
	code := p.Terminate()
	return e2e.Result{Code: code, Out: p.Out.String(), Err: p.Err.String()}
}

// An error in coax.toml names the file, also without --set.
func TestDemo_NamesTheDamagedFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := e2e.WriteFile(t, filepath.Join(folder, "coax.toml"), "[provider]\ntimeout = \"soon\"\n")
	got := e2e.Run(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0")
	e2e.CheckRefused(t, got, file+":2: provider.timeout: ")
	if text := e2e.ReadFile(t, file); !strings.Contains(text, "soon") {
		t.Errorf("the file was overwritten:\n%s", text)
	}
	e2e.WriteFile(t, file, "[provider]\ntimout = \"1s\"\n")
	e2e.CheckRefused(t, e2e.Run(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0"), file+":2: provider.timout: ")
}

func TestDemo_AddrFlag(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, addr := range []string{"localhost:0", "0.0.0.0:0", ":0", "127.0.0.1:0"} {
		s := e2e.Serve(t, nil, "\n", "demo", "--dir", folder, "--addr", addr, "--json")
		got := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "--credentials", filepath.Join(folder, "demo.json")))
		e2e.CheckMentions(t, "a call to a demo on "+addr, got.Out, `"success": true`)
		s.Terminate()
	}
	// Explicitly set listeners are saved.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	chosen := free.Addr().String()
	free.Close()
	s, line := e2e.StartDemo(t, folder, "--set", "server.internal_addr="+chosen)
	if line.InternalURL != "http://"+chosen {
		t.Errorf("internal_url %s; want http://%s", line.InternalURL, chosen)
	}
	s.Terminate()
	if _, line = e2e.StartDemo(t, folder); line.InternalURL != "http://"+chosen {
		t.Errorf("internal_url %s at the next start; want http://%s, as it was set", line.InternalURL, chosen)
	}
}

// server.addr is a setting like any other, unless --addr says otherwise.
func TestDemo_ServerAddrSetting(t *testing.T) {
	t.Parallel()
	s := e2e.Serve(t, nil, "\n", "demo", "--dir", t.TempDir(), "--json", "--set", "server.addr=127.0.0.1:0")
	var line demo.Info
	if err := json.Unmarshal([]byte(s.Out.String()), &line); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(line.BaseURL, ":8443/") {
		t.Errorf("with --set server.addr=127.0.0.1:0 and no --addr the demo serves on %s", line.BaseURL)
	}
}

func TestDemo_PortInUseSuggestsAnother(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	// What the message recommends has to work for a demo: --addr does.
	e2e.CheckRefused(t, e2e.Run(t, "demo", "--dir", t.TempDir(), "--addr", taken.Addr().String()), taken.Addr().String(), "--addr")
}

// A second start in the folder of a running demo is refused and changes nothing.
func TestDemo_SecondStartIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	before := cliFiles(t, folder)
	e2e.CheckRefused(t, e2e.Run(t, "demo", "--dir", folder, "--addr", "192.0.2.1:0", "--set", "provider.timeout=7s"), "another node")
	for name, text := range cliFiles(t, folder) {
		if before[name] != text {
			t.Errorf("the second demo was refused and has changed %s", name)
		}
	}
}

// cliFiles reads the files of a folder that a running node does not write: not the mark,
// nor the temporary file that becomes the mark.
func cliFiles(t testing.TB, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		if !entry.IsDir() && !strings.Contains(entry.Name(), "store.mark") {
			files[entry.Name()] = e2e.ReadFile(t, filepath.Join(folder, entry.Name()))
		}
	}
	return files
}

// The printed credentials are valid even if the store was replaced.
func TestDemo_CredentialsMatchItsStore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, _ := e2e.StartDemo(t, folder)
	s.Terminate()
	another := e2e.NewStoreSettings(t)
	if another == nil {
		another = []string{"store.url=sqlite:data/second.db"}
	}
	e2e.StartDemo(t, folder, "--set", another[0])
	got := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "balance", "--credentials", filepath.Join(folder, "demo.json")))
	e2e.CheckMentions(t, "a call to the demo on another store", got.Out, `"success": true`)
}
