package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
)

// cliSimulatorURL reads where a simulator listens from its one line.
func cliSimulatorURL(t testing.TB, out *e2e.Output) string {
	t.Helper()
	found := regexp.MustCompile(`^The simulator listens on (http://127\.0\.0\.1:[1-9]\d*)\n$`).FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("the simulator prints %q; want its address", out)
	}
	return found[1]
}

// cliSimulator runs coax simulator as a process.
func cliSimulator(t testing.TB, args ...string) (*e2e.Process, string) {
	t.Helper()
	p := e2e.Launch(t, append([]string{"simulator"}, args...)...)
	t.Cleanup(p.Kill)
	if !p.Out.WaitFor("\n", p.Ended) {
		t.Fatalf("the simulator did not come up:\n%s", p.Err)
	}
	return p, cliSimulatorURL(t, p.Out)
}

// cliPost posts JSON; a dropped connection is status 0.
func cliPost(t testing.TB, url, body string) (int, string) {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// cliControl posts to the simulator's control endpoint and requires success.
func cliControl(t testing.TB, url, what, body string) {
	t.Helper()
	if status, text := cliPost(t, url+"/control/"+what, body); status != http.StatusOK {
		t.Fatalf("/control/%s %s: %d %s", what, body, status, text)
	}
}

// cliOrder orders a renewal directly from the simulator and returns its reply.
func cliOrder(t testing.TB, url, reference, mobile string) string {
	t.Helper()
	status, text := cliPost(t, url+"/v1/renew", fmt.Sprintf(
		`{"reference":%q,"subscriber_id":"100234","mobile":%q,"component":"TV-BASIC","months":1,"expires_at":"2027-03-31T12:00:00+05:30"}`, reference, mobile))
	var said struct {
		Status      string
		Transaction string `json:"transaction_id"`
	}
	if status == 0 || json.Unmarshal([]byte(text), &said) != nil || said.Status == "" {
		return fmt.Sprint(status)
	}
	return strings.TrimSpace(said.Status + " " + said.Transaction)
}

// cliStatus returns the simulator's status of a reference.
func cliStatus(t testing.TB, url, reference string) string {
	t.Helper()
	_, text := e2e.HTTPGet(t, url+"/v1/status?reference="+reference)
	var said struct {
		Status      string
		Transaction string `json:"transaction_id"`
	}
	if json.Unmarshal([]byte(text), &said) != nil {
		t.Errorf("status of %s: %s", reference, text)
	}
	return strings.TrimSpace(said.Status + " " + said.Transaction)
}

// cliCalls returns the simulator's calls for a mobile, each as "kind component applied
// answer".
func cliCalls(t testing.TB, url, mobile string) []string {
	t.Helper()
	status, text := e2e.HTTPGet(t, url+"/control/calls?mobile="+mobile)
	if status != http.StatusOK {
		t.Fatalf("/control/calls: %d %s", status, text)
	}
	var calls []string
	for _, raw := range e2e.JSONArray(t, text) {
		if names := e2e.FieldNames(t, raw); !slices.Equal(names[:4], []string{"reference", "kind", "component", "applied"}) {
			t.Errorf("a call has the fields %q", names)
		}
		var c struct {
			Kind, Component, Answer string
			Applied                 bool
		}
		if err := json.Unmarshal([]byte(raw), &c); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, fmt.Sprintln(c.Kind, c.Component, c.Applied, c.Answer))
	}
	return calls
}

func cliSameCalls(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "") != strings.Join(want, "\n")+"\n" {
		t.Errorf("%s: the provider was asked %q; want %q", what, got, want)
	}
}

func TestSimulator_EndsCleanly(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*e2e.Process) int{"SIGTERM": (*e2e.Process).Terminate, "Ctrl-C": (*e2e.Process).Interrupt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, url := cliSimulator(t)
			// A call for this number hangs.
			left := make(chan string, 1)
			go func() { left <- cliOrder(t, url, "REF-HELD", "9000030001") }()
			for deadline := time.Now().Add(e2e.Timeout); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
				if calls := cliCalls(t, url, "9000030001"); len(calls) == 1 && strings.HasSuffix(calls[0], " none\n") {
					break
				}
			}
			if code := end(p); code != e2e.ExitDone {
				t.Errorf("%s ended the simulator with %d; want 0\n%s", name, code, p.Err)
			}
			if got := <-left; got != "0" {
				t.Errorf("who waited was told %q; want the connection dropped", got)
			}
			if p.Err.String() != "" || strings.Count(p.Out.String(), "\n") != 1 {
				t.Errorf("it said %q and %q; want its one line", p.Out, p.Err)
			}
		})
	}
}

func TestSimulator_StateSurvivesKill(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "provider.json")
	p, url := cliSimulator(t, "--state", state, "--addr", "127.0.0.1:0")
	cliControl(t, url, "script", `{"mobile":"9812345678","outcomes":["success","reject","reset_applied","gateway_error"]}`)
	for reference, want := range map[string]string{"REF-VOID": "voided"} {
		if _, text := cliPost(t, url+"/v1/void", `{"reference":"`+reference+`"}`); !strings.Contains(text, want) {
			t.Errorf("void %s: %s", reference, text)
		}
	}
	for i, want := range []string{"applied SIM-00000001", "rejected", "0", "503"} {
		if got := cliOrder(t, url, fmt.Sprint("REF-", i), "9812345678"); got != want {
			t.Errorf("REF-%d: %q; want %q", i, got, want)
		}
	}
	p.Kill()

	p, url = cliSimulator(t, "--state", state)
	for reference, want := range map[string]string{
		"REF-0": "applied SIM-00000001", "REF-1": "rejected", "REF-2": "applied SIM-00000002", "REF-3": "unknown_reference", "REF-VOID": "voided",
	} {
		if got := cliStatus(t, url, reference); got != want {
			t.Errorf("after the kill %s is %q; want %q", reference, got, want)
		}
	}
	// The books answer; nothing is done twice. What had left no trace is new.
	for i, want := range []string{"applied SIM-00000001", "rejected", "applied SIM-00000002", "applied SIM-00000003"} {
		for range 2 {
			if got := cliOrder(t, url, fmt.Sprint("REF-", i), "9812345678"); got != want {
				t.Errorf("after the kill REF-%d is answered %q; want %q", i, got, want)
			}
		}
	}
	if got := cliOrder(t, url, "REF-VOID", "9812345678"); got != "rejected" {
		t.Errorf("what was voided before the kill is answered %q; want rejected", got)
	}
	applied := 0
	for _, call := range cliCalls(t, url, "9812345678") {
		if strings.Contains(call, " true ") {
			applied++
		}
	}
	if applied != 3 {
		t.Errorf("carried out were %d orders over both lives; want 3", applied)
	}
	if code := p.Terminate(); code != e2e.ExitDone {
		t.Errorf("exit %d", code)
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its books: %v, %v; want mode 0600", info, err)
	}
	// Half a line is what a kill in the middle of a writing leaves.
	e2e.WriteFile(t, state, e2e.ReadFile(t, state)+`{"order":{"reference":"REF-0","sta`)
	_, url = cliSimulator(t, "--state", state)
	if got := cliStatus(t, url, "REF-0"); got != "applied SIM-00000001" {
		t.Errorf("after half a line REF-0 is %q", got)
	}
	// Without a file it remembers nothing.
	_, url = cliSimulator(t)
	if got := cliStatus(t, url, "REF-0"); got != "unknown_reference" {
		t.Errorf("another provider knows REF-0: %s", got)
	}
}

func TestSimulator_Control(t *testing.T) {
	t.Parallel()
	p, url := cliSimulator(t)
	cliControl(t, url, "script", `{"mobile":"9812345678","outcomes":["reject","gateway_error","wrong_reference"]}`)
	for i, want := range []string{"rejected", "503", "applied SIM-00000001", "applied SIM-00000002"} {
		if got := cliOrder(t, url, fmt.Sprint("REF-", i), "9812345678"); got != want {
			t.Errorf("order %d: %q; want %q", i, got, want)
		}
	}
	cliSameCalls(t, "by script", cliCalls(t, url, "9812345678"), "renew TV-BASIC false rejected", "renew TV-BASIC false 503",
		"renew TV-BASIC true wrong_reference", "renew TV-BASIC true applied")
	cliControl(t, url, "script", `{"mobile":"9812345678","outcomes":["reject"]}`)
	cliControl(t, url, "script", `{"mobile":"9812345678","outcomes":[]}`) // ends it
	if got := cliOrder(t, url, "REF-UP", "9812345678"); got != "applied SIM-00000003" {
		t.Errorf("after the script: %q; want success", got)
	}

	cliControl(t, url, "status", `{"mode":"down"}`)
	if got := cliOrder(t, url, "REF-DOWN", "9812345678"); got != "0" {
		t.Errorf("a provider that is down says %q; want nothing at all", got)
	}
	cliControl(t, url, "status", `{"mode":"up"}`)
	if got := cliStatus(t, url, "REF-DOWN"); got != "unknown_reference" {
		t.Errorf("what was asked of a provider that is down is %q; want unknown to it", got)
	}
	cliControl(t, url, "status", `{"mode":"slow"}`)
	began := time.Now()
	if got := cliStatus(t, url, "REF-UP"); got != "applied SIM-00000003" || time.Since(began) < 1900*time.Millisecond {
		t.Errorf("a slow provider says %q after %s; want the truth after 2 s", got, time.Since(began))
	}
	cliControl(t, url, "status", `{"mode":"up","catalogue":"down"}`)
	if status, _ := e2e.HTTPGet(t, url+"/v1/catalogue"); status != http.StatusServiceUnavailable {
		t.Errorf("a catalogue that is down answers %d; want 503", status)
	}
	cliControl(t, url, "status", `{"catalogue":"up"}`)
	if _, text := e2e.HTTPGet(t, url+"/v1/catalogue"); !strings.Contains(text, "TV-BASIC") || !strings.Contains(text, "OTT-PLUS") {
		t.Errorf("the catalogue is %s", text)
	}
	for what, body := range map[string]string{
		"script": `{"mobile":"9812345678","outcomes":["explode"]}`, "script ": `{"mobile":"98","outcomes":[]}`, "status": `{"mode":"sideways"}`, "status ": `{}`,
	} {
		if status, text := cliPost(t, url+"/control/"+strings.TrimSpace(what), body); status != http.StatusBadRequest {
			t.Errorf("/control/%s %s: %d %s; want 400", what, body, status, text)
		}
	}
	if got := cliCalls(t, url, "9800000000"); len(got) != 0 {
		t.Errorf("about a stranger it was asked %q", got)
	}
	if code := p.Terminate(); code != e2e.ExitDone {
		t.Errorf("exit %d", code)
	}
}

func TestSimulator_Errors(t *testing.T) {
	t.Parallel()
	e2e.CheckUsageError(t, e2e.Run(t, "simulator", "extra"), "extra")
	e2e.CheckUsageError(t, e2e.Run(t, "simulator", "--config", "x"), "--config")
	_, url := cliSimulator(t)
	taken := strings.TrimPrefix(url, "http://")
	damaged := e2e.WriteFile(t, filepath.Join(t.TempDir(), "books.json"), "{}\nrubbish\n")
	e2e.CheckRefused(t, e2e.Run(t, "simulator", "--addr", taken), taken)
	e2e.CheckRefused(t, e2e.Run(t, "simulator", "--state", "/none/books.json"), "/none/books.json")
	e2e.CheckRefused(t, e2e.Run(t, "simulator", "--state", damaged), damaged, "line 2")
	if got := e2e.ReadFile(t, damaged); got != "{}\nrubbish\n" {
		t.Errorf("what it could not read it has changed: %q", got)
	}
}

// cliSavedSetting returns a setting of DIR/coax.toml.
func cliSavedSetting(t testing.TB, folder, key string) string {
	t.Helper()
	values, err := server.ReadConfigFile(filepath.Join(folder, "coax.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return values[key]
}

// The demo's simulator has a new address at each start, which coax.toml names; its state is
// in the folder.
func TestDemo_SimulatorStateInFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := e2e.Start(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json")
	me, url := first.Credentials(), first.Demo.SimulatorURL
	if !regexp.MustCompile(`^http://127\.0\.0\.1:[1-9]\d*$`).MatchString(url) || cliSavedSetting(t, folder, "provider.url") != url {
		t.Errorf("simulator_url %s, provider.url %s; want the same address", url, cliSavedSetting(t, folder, "provider.url"))
	}
	done := cliActivate(t, me, "9876500001", "COMBO-1", 200)
	cliControl(t, url, "script", `{"mobile":"9876500002","outcomes":["reject"]}`)
	refused := cliActivate(t, me, "9876500002", "BASIC-1", 502)
	want := []string{"activate TV-FAMILY true applied", "activate OTT-PLUS true applied"}
	cliSameCalls(t, "at first", cliCalls(t, url, "9876500001"), want...)
	first.Kill()

	second := e2e.Start(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json")
	again := second.Demo.SimulatorURL
	if kept := cliSavedSetting(t, folder, "provider.url"); kept != again || !strings.Contains(second.DemoJSON, `"simulator_url":"`+again+`"`) {
		t.Errorf("at the next start provider.url is %s; want %s", kept, again)
	}
	cliSameCalls(t, "after a kill", cliCalls(t, again, "9876500001"), want...)
	for reference, want := range map[string]string{
		done.transaction: "applied SIM-00000001", done.transaction + "-2": "applied SIM-00000002", refused.transaction: "rejected",
	} {
		if got := cliStatus(t, again, reference); got != want {
			t.Errorf("after a kill %s is %q; want %q", reference, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(folder, "simulator.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("simulator.json: %v, %v; want mode 0600", info, err)
	}
	// Numbers go on where they were, so no two orders share one.
	third := cliActivate(t, me, "9876500003", "BASIC-1", 200)
	if got := cliStatus(t, again, third.transaction); got != "applied SIM-00000003" {
		t.Errorf("the next order is %q; want the next number", got)
	}
	if code := second.Terminate(); code != e2e.ExitDone {
		t.Errorf("exit %d", code)
	}
	cliHiddenInFiles(t, folder, []string{cliGivenPassword, done.password})
}

func TestDemo_ExternalSimulator(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	state := filepath.Join(t.TempDir(), "provider.json")
	p, url := cliSimulator(t, "--state", state)
	demo, line := e2e.StartDemo(t, folder, "--set", "provider.url="+url, "--set", "review.first_check=1h")
	me := filepath.Join(folder, "demo.json")
	if line.SimulatorURL == url || cliSavedSetting(t, folder, "provider.url") != url {
		t.Errorf("provider.url is kept as %s, simulator_url is %s; want %s kept, and the demo's own shown", cliSavedSetting(t, folder, "provider.url"), line.SimulatorURL, url)
	}
	first := cliActivate(t, me, "9876500001", "BASIC-1", 200)
	cliSameCalls(t, "the one it was told", cliCalls(t, url, "9876500001"), "activate TV-BASIC true applied")
	if got := cliCalls(t, line.SimulatorURL, "9876500001"); len(got) != 0 {
		t.Errorf("its own simulator was asked %q; want nothing", got)
	}
	cliControl(t, url, "status", `{"mode":"down"}`)
	cliActivate(t, me, "9876500002", "BASIC-1", 202)
	cliControl(t, url, "status", `{"mode":"up"}`)
	cliActivate(t, me, "9876500003", "BASIC-1", 200)
	cliControl(t, url, "script", `{"mobile":"9876500004","outcomes":["reset_applied"]}`)
	lost := cliActivate(t, me, "9876500004", "BASIC-1", 202)
	p.Kill()
	if got := cliOperate(t, me, "activate", "without-a-provider", `{"full_name":"Asha","mobile":"9876500005","plan_id":"BASIC-1"}`); got.status == http.StatusOK {
		t.Errorf("without a provider: %+v", got)
	}

	// A restarted simulator has its state, and knows what the demo got no reply for.
	_, url = cliSimulator(t, "--state", state)
	for reference, want := range map[string]string{first.transaction: "applied SIM-00000001", lost.transaction: "applied SIM-00000003"} {
		if got := cliStatus(t, url, reference); got != want {
			t.Errorf("%s is %q; want %q", reference, got, want)
		}
	}
	demo.Terminate()
	demo, line = e2e.StartDemo(t, folder)
	if kept := cliSavedSetting(t, folder, "provider.url"); kept != line.SimulatorURL || cliSavedSetting(t, folder, "review.first_check") != "1h" {
		t.Errorf("told nothing, the next start has provider.url %s; want its own %s, and the other settings kept", kept, line.SimulatorURL)
	}
	cliCheckAudit(t, e2e.InstallAt(t, folder))
	demo.Terminate()
}

// Two simulators with one state file would lose each other's writes.
func TestSimulator_LocksItsFile(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "provider.json")
	cliSimulator(t, "--state", state)
	second := e2e.Launch(t, "simulator", "--state", state)
	t.Cleanup(second.Kill)
	if second.Out.WaitFor("\n", second.Ended) {
		t.Error("a second simulator writes into the books of one that runs")
	}
}

func TestSimulator_RequiresAddress(t *testing.T) {
	t.Parallel()
	e2e.CheckUsageError(t, e2e.Run(t, "simulator", "--addr", "localhost"), "--addr", "HOST:PORT")
}

func TestDemo_ProviderFromEnvironment(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, url := cliSimulator(t)
	e2e.Serve(t, []string{"COAX_PROVIDER_URL=" + url}, "\n", "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json")
	cliActivate(t, filepath.Join(folder, "demo.json"), "9876500001", "BASIC-1", 200)
	cliSameCalls(t, "the environment's provider", cliCalls(t, url, "9876500001"), "activate TV-BASIC true applied")
}

// A provider URL that cannot be used is not saved.
func TestDemo_ForgetsUnusableProvider(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"provider.token_file=/none/token", "provider.ca=/none/ca.pem", "provider.url="} {
		folder := t.TempDir()
		e2e.CheckRefused(t, e2e.Run(t, "demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json", "--set", bad), "provider")
		demo, _ := e2e.StartDemo(t, folder)
		demo.Terminate()
	}
}

// Successful, rejected and unknown operations, and coax admin beside the running service.
func TestSimulator_OneDay(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "day")
	args := []string{"demo", "--dir", folder, "--addr", "127.0.0.1:0", "--json", "--set", "review.first_check=1h"}
	morning := e2e.Start(t, args...)
	h, me := morning.Install(t), morning.Credentials()
	sold := cliActivate(t, me, "9876543210", "BASIC-1", 200)
	refused := cliActivate(t, me, "9000010001", "BASIC-1", 502)
	if code := morning.Terminate(); code != e2e.ExitDone {
		t.Errorf("SIGTERM ended the demo with %d; want 0\n%s", code, morning.Err)
	}

	// A provider that never answers is waited for from now on not so long.
	noon := e2e.Start(t, append(args, "--set", "provider.timeout=2s")...)
	unknown := cliActivate(t, me, "9000030001", "FAMILY-1", 202)
	var listed []string
	for _, raw := range e2e.JSONArray(t, h.JSON("operation", "list")) {
		o := e2e.CheckShape(t, raw, cliOperationShape...)
		listed = append(listed, e2e.JoinUnquoted(o["transaction_id"], o["status"], o["amount"]))
	}
	if want := []string{unknown.transaction + " needs_review 349.00", refused.transaction + " failed 199.00", sold.transaction + " success 199.00"}; !slices.Equal(listed, want) {
		t.Errorf("the operations are %q; want %q", listed, want)
	}
	shown := cliShowOperation(t, h, unknown.transaction)
	if !slices.Equal(shown.events, []string{"null processing", "processing needs_review"}) || !slices.Equal(shown.calls, []string{"activate ID TV-FAMILY unknown null"}) {
		t.Errorf("the unknown outcome went %q, asked %q", shown.events, shown.calls)
	}
	e2e.CheckMentions(t, "the unknown outcome", shown.raw, "in time")
	pending := e2e.CheckShape(t, h.JSON("subscriber", "show", "--subscriber", unknown.subscriber), e2e.SubscriberShape...)
	if pending["status"] != `"pending"` || pending["expiry_date"] != "null" || !strings.Contains(pending["pending_operations"], unknown.transaction) {
		t.Errorf("the customer is %v; want one that waits for %s", pending, unknown.transaction)
	}

	wallet := func(want string, args ...string) {
		t.Helper()
		got := e2e.CheckShape(t, h.JSON(append([]string{"wallet"}, args...)...), e2e.WalletShape...)
		if e2e.JoinUnquoted(got["wallet_balance"], got["held"], got["is_low"]) != want {
			t.Errorf("wallet %q: %v; want %s", args, got, want)
		}
	}
	ledger := []string{"credit 10000.00 10000.00 Top-up demo opening balance", "debit 199.00 9801.00 Activation of " + sold.subscriber + ", Basic, 1 month [API]"}
	wallet("9452.00 349.00 false", "show", "--lco", "1")
	if got := cliLedger(t, h, "1"); !slices.Equal(got, ledger) {
		t.Errorf("the ledger is %q; want %q: what is held is not in it", got, ledger)
	}
	commission := e2e.JSONArray(t, h.JSON("commission"))
	if len(commission) != 1 || e2e.CheckShape(t, commission[0], cliCommissionShape...)["amount"] != "4.98" || !strings.Contains(commission[0], sold.transaction) {
		t.Errorf("commission is %q; want 4.98 of what was sold", commission)
	}

	// Staff may take all that is there, and nothing of what is held.
	wallet("0.00 349.00 true", "adjust", "--lco", "1", "--amount", "-9452.00", "--reason", "all of it")
	h.CheckRefused([]string{"wallet", "adjust", "--lco", "1", "--amount", "-0.01", "--reason", "a paisa more"}, "0.00", "0.01")
	wallet("9452.00 349.00 false", "adjust", "--lco", "1", "--amount", "9452", "--reason", "and back")

	counts, states, sums := cliCheckAudit(t, h)
	if got := e2e.JoinUnquoted(states["total"], states["success"], states["failed"], states["needs_review"], states["processing"], counts["provider_calls"]); got != "3 1 1 1 0 3" {
		t.Errorf("the audit counted %s", got)
	}
	if got := e2e.JoinUnquoted(sums["credited"], sums["charged"], sums["held"], sums["balance"], sums["ledger"], sums["commission"]); got != "10000.00 199.00 349.00 9452.00 9801.00 4.98" {
		t.Errorf("the audit summed up %s", got)
	}
	if code := noon.Terminate(); code != e2e.ExitDone {
		t.Errorf("SIGTERM ended the demo with %d; want 0\n%s", code, noon.Err)
	}
	cliCheckAudit(t, h)
	cliHidden(t, "the log", morning.Err.String()+noon.Err.String(), []string{cliGivenPassword})
	cliHiddenInFiles(t, folder, []string{cliGivenPassword})
}
