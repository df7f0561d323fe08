//go:build long

package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
	"github.com/coaxhq/coax/internal/e2e"
)

func TestLoad_ReportsAuditViolations(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	e2e.ExecOnInstall(e2e.InstallAt(t, folder), `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 1`)
	got, report := loadDemo(t, folder, "--only", "reads", "--reads", "balance")
	if got.Code != e2e.ExitRefused || report.OK || report.Audit.OK || !strings.Contains(strings.Join(report.Problems, "\n"), "the audit finds 3 violations") {
		t.Errorf("want exit 1 and what the audit found; %s", got)
	}
	if kinds := report.Phases[0].Kinds; len(kinds) != 1 || kinds["balance"] == 0 {
		t.Errorf("read %v; want balances alone", kinds)
	}
	text := run(t, append([]string{"load", "--only", "reads", "--credentials", filepath.Join(folder, "demo.json")}, shortLoad...)...)
	if text.Code != e2e.ExitRefused {
		t.Errorf("want exit 1; %s", text)
	}
	e2e.CheckMentions(t, "the text", text.Out, "\nM1 lco 1: ", "\nproblem: the audit finds 3 violations\n")
	e2e.CheckMentions(t, "the error", text.Err, "coaxbench: 1 problem; the first: the audit finds 3 violations\n")
}

func TestLoad_ReportsWrongCharges(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	// A trigger charges one paisa too much.
	e2e.ExecOnInstall(e2e.InstallAt(t, folder), e2e.StoreTrigger("AFTER UPDATE OF balance_paise ON wallets", "new.balance_paise < old.balance_paise AND new.entries = 5",
		"UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = new.operator_id"))
	got, report := loadDemo(t, folder, "--only", "renewals")
	if got.Code != e2e.ExitRefused || report.OK || !strings.Contains(strings.Join(report.Problems, "\n"), "the wallets hold ") {
		t.Errorf("want exit 1 and the wallets named; %s", got)
	}
}

func TestLoad_EndsWithoutSubscribers(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	got, report := loadDemo(t, folder, "--only", "renewals", "--duration", "1h", "--connections", "2", "--subscribers", "20")
	if got.Code != e2e.ExitDone || report.Books.Stored.Success == 0 || report.Books.Stored.Success > 160 {
		t.Fatalf("want exit 0 and at most 20 × 8 renewals; %s", got)
	}
	e2e.CheckMentions(t, "why it ended early", report.Phases[0].EndedEarly, "each of the 20 subscribers was renewed with each of the 8 plans", "give --subscribers ", "to load for 1h0m0s")
}

func TestLoad_CountsUnexpectedAnswers(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	e2e.ExecOnInstall(e2e.InstallAt(t, folder), e2e.StoreTrigger("BEFORE INSERT ON operations", "new.plan_id LIKE 'BENCH-%-2'", "SELECT RAISE(ABORT, 'broken')"))
	got, report := loadDemo(t, folder, "--only", "renewals", "--duration", "1h", "--subscribers", "40")
	if got.Code != e2e.ExitRefused || report.OK || !report.Audit.OK {
		t.Errorf("want exit 1 for the answers, though the books agree; %s", got)
	}
	failed := report.Phases[0].Answers["503 SERVICE_UNAVAILABLE"]
	if failed != report.Books.Answered.Unknown || len(report.Problems) != 1 || !strings.HasSuffix(report.Problems[0], " times 503 SERVICE_UNAVAILABLE") {
		t.Errorf("%d failed, %+v, problems %q", failed, report.Books.Answered, report.Problems)
	}
}

// The provider goes down under load: first outcomes are unknown, then the breaker
// refuses. Customers with open operations are not renewed again, so the load ends.
func TestLoad_ProviderOutage(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	_, line := e2e.StartDemo(t, folder)
	loading := launch(t, t.TempDir(), "load", "--credentials", filepath.Join(folder, "demo.json"), "--only", "renewals",
		"--duration", "1h", "--warmup", "0s", "--connections", "4", "--subscribers", "600")
	if !loading.Out.WaitFor("\nrenewals ", loading.Ended) {
		t.Fatalf("it did not begin:\n%s", loading.Err)
	}
	response, err := http.Post(line.SimulatorURL+"/control/status", "application/json", strings.NewReader(`{"mode":"down"}`))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("switch the provider off: %v %v", response, err)
	}
	response.Body.Close()
	code, out := loading.Wait(), loading.Out.String()
	if code != e2e.ExitRefused || strings.Count(out, "\nproblem: ") != 1 || strings.Contains(out, " 0.00 held") {
		t.Errorf("exit %d; want 1, for the 503s alone, and money held:\n%s", code, out)
	}
	e2e.CheckMentions(t, "the report", out, " times 202 PENDING_REVIEW\n", "ended early: no subscriber was left to renew", ", 0 violations\n")
	if !regexp.MustCompile(`\nproblem: renewals: \d+ times 503 SERVICE_UNAVAILABLE\n`).MatchString(out) {
		t.Errorf("the problem is another:\n%s", out)
	}
}

func TestLoad_CleansUpAfterFailedStart(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	// The key is made in one store, and the server has another.
	other := e2e.NewInstall(t)
	got := run(t, append([]string{"load", "--credentials", filepath.Join(folder, "demo.json"), "--config", other.Config, "--only", "reads", "--reads", "balance"}, shortLoad...)...)
	if got.Code != e2e.ExitRefused || !strings.Contains(got.Err, "names another store than that server's") {
		t.Errorf("want exit 1 and the reason; %s", got)
	}
	if plans := other.JSON("plan", "list"); strings.Count(plans, `"retired":true`) != load.PlanCount {
		t.Errorf("it was not cleaned up: %s", plans)
	}
}

func TestLoad_WithoutConfigOnlyReads(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	_, line := e2e.StartDemo(t, folder)
	h := e2e.InstallAt(t, folder)
	line.Config = filepath.Join(t.TempDir(), "elsewhere.toml") // as on another machine
	text, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := e2e.WriteFile(t, filepath.Join(t.TempDir(), "demo.json"), string(text))
	before := h.JSON("log")
	reading := func(args ...string) e2e.Result {
		return run(t, append([]string{"load", "--credentials", elsewhere, "--duration", "300ms", "--warmup", "0s", "--connections", "4"}, args...)...)
	}
	got := reading()
	if got.Code != e2e.ExitDone {
		t.Fatalf("want exit 0; %s", got)
	}
	e2e.CheckMentions(t, "the report", got.Out, "the given key, of 60 requests a minute: nine tenths of that are used", "only reads", "--config FILE", "\nreads ")
	for _, never := range []string{"\nrenewals ", "times 429", "audit"} {
		if strings.Contains(got.Out, never) {
			t.Errorf("the report mentions %q:\n%s", never, got.Out)
		}
	}
	var report loadReport
	got = reading("--json", "--reads", "plans")
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || !report.OK || report.Audit != nil || report.Books != nil || report.Load.RateLimit != 60 || report.Phases[0].Kinds["plans"] == 0 {
		t.Errorf("want plans read and no books; %s", got)
	}
	wrongUsage(t, reading("--only", "renewals"), "--config FILE", "never with the given operator's money")
	wrongUsage(t, reading("--reads", "transaction"), "--config FILE", "balance or plans")
	if after := h.JSON("log"); after != before {
		t.Errorf("staff actions were recorded:\n%s", after)
	}

	line.APISecret = "cxs_" + strings.Repeat("0", 64)
	if text, err = json.Marshal(line); err != nil {
		t.Fatal(err)
	}
	e2e.WriteFile(t, elsewhere, string(text))
	if got := reading(); got.Code != e2e.ExitRefused || !strings.Contains(got.Err, "INVALID_SIGNATURE") {
		t.Errorf("with a wrong secret: want exit 1 and the answer; %s", got)
	}
}

func TestLoad_RemoteProviderNeedsFlag(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	h := e2e.InstallAt(t, folder)
	before := h.JSON("log")
	args := []string{"load", "--json", "--credentials", filepath.Join(folder, "demo.json"), "--set", "provider.url=https://192.0.2.1"}
	args = append(args, shortLoad...)
	wrongUsage(t, run(t, args...), "https://192.0.2.1", "--only reads", "--remote-provider")
	wrongUsage(t, run(t, append(args, "--only", "reads", "--reads", "transaction")...), "--remote-provider")
	if after := h.JSON("log"); after != before {
		t.Errorf("it was refused after staff actions:\n%s", after)
	}
	// Reads need no orders; a mix does without transactions then.
	got, report := loadDemo(t, folder, "--set", "provider.url=https://192.0.2.1", "--only", "reads")
	if got.Code != e2e.ExitDone || report.Phases[0].Kinds["transaction"] != 0 || report.Phases[0].Kinds["subscription"] == 0 || report.Audit.Counts.Operations.Total != 0 {
		t.Errorf("want reads and no operation; %s", got)
	}
	got, report = loadDemo(t, folder, "--set", "provider.url=https://192.0.2.1", "--remote-provider", "--only", "renewals")
	if got.Code != e2e.ExitDone || report.Audit.Counts.Operations.Success == 0 {
		t.Errorf("want renewals, as they were asked for; %s", got)
	}
}

// wrongUsage fails the test unless a result is a usage error with these texts.
func wrongUsage(t *testing.T, got e2e.Result, want ...string) {
	t.Helper()
	for _, text := range want {
		if got.Code != e2e.ExitUsage || !strings.Contains(got.Err, text) {
			t.Errorf("want exit 2 and %q; %s", text, got)
		}
	}
}
