package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// auditPath is where a house keeps its store.
func auditPath(h *cliHouse) string { return filepath.Join(h.folder, "data", "coax.db") }

// auditDamage changes a house's store behind its back.
func auditDamage(h *cliHouse, statements ...string) {
	h.t.Helper()
	damageStore(h.t, h.store(), statements...)
}

// auditJSON audits with --json and returns the exit status and the object.
func auditJSON(h *cliHouse, args ...string) (int, audit.Report) {
	h.t.Helper()
	got := cliRun(h.t, append([]string{"audit", "--config", h.config, "--json"}, args...)...)
	var report audit.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || strings.Count(got.out, "\n") != 1 {
		h.t.Fatalf("want one JSON object in one line; %s", got)
	}
	return got.code, report
}

func TestAuditOfAFreshHouseIsClean(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	before := h.dump()
	got := cliOK(t, cliRun(t, "audit", "--config", h.config))
	cliSays(t, "the audit", got.out, "operators             1\n", "operations            0 (0 success", "credited              10000.00\n", "Everything agrees.")

	code, report := auditJSON(h)
	if code != exitDone || !report.OK || report.Counts.Operators != 1 || report.Counts.Sums.Balance.String() != "10000.00" || len(report.ActsHead) != 64 {
		t.Errorf("exit %d, %+v", code, report)
	}
	raw := cliRun(t, "audit", "--config", h.config, "--json").out
	cliSays(t, "the JSON", raw, `{"ok":true,"counts":{"operators":1,`, `"operations":{"total":0,`, `"violations":[]}`)
	if after := h.dump(); !slices.Equal(before, after) {
		t.Errorf("the audit changed the store:\n%s", cliDifference(before, after))
	}
}

func TestAuditRunsBesideANodeThatHoldsTheFolder(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	node, err := openStore(context.Background(), Config{Store: h.store()}, storeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	cliOK(t, h.admin("wallet", "topup", "--lco", "1", "--amount", "5", "--reference", "beside"))
	cliSays(t, "the audit", cliOK(t, cliRun(t, "audit", "--config", h.config)).out, "credited              10005.00\n")
}

func TestAuditReadsWhatAKilledNodeLeft(t *testing.T) {
	aboutSQLite(t, "the file and its log are copied")
	t.Parallel()
	h := cliNewHouse(t)
	node, err := sqlite.Open(context.Background(), auditPath(h), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	cliOK(t, h.admin("wallet", "topup", "--lco", "1", "--amount", "5", "--reference", "the last before it died"))
	// The file and its log, as they are on the disk at this moment.
	path := filepath.Join(t.TempDir(), "coax.db")
	cliWrite(t, path, cliRead(t, auditPath(h)))
	cliWrite(t, path+"-wal", cliRead(t, auditPath(h)+"-wal"))
	got := cliOK(t, cliRun(t, "audit", "--config", h.config, "--set", "store.url=sqlite:"+path))
	cliSays(t, "the audit", got.out, "credited              10005.00\n")
}

func TestAuditTakesTheClockOfTheService(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	stuck := func(args ...string) bool {
		_, report := auditJSON(h, args...)
		return slices.ContainsFunc(report.Violations, func(v audit.Violation) bool { return v.Invariant == "S4" })
	}
	lease := clock(0)().UnixMilli() + 60*60*1000
	auditDamage(h, fmt.Sprintf(`INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, amount_paise, commission_bps,
		wallet_before_paise, expiry_planned, cycle_starts_at, status, epoch, node, lease_until, provider, created_at)
		VALUES ('CX1', 1, 'k', %s, 1, 'activate', 'api', 'a', '1', 'n', '9', 'BASIC-1', 1, 'n', 1, 'm', 1, 0, 0, 0, 0, 'processing', 1, 'n', %d, 'p', 0)`,
		blob("00"), lease))
	if stuck() {
		t.Error("an operation is called stuck whose lease runs")
	}
	if !stuck("--set", "clock.offset=2h") {
		t.Error("two hours later it is not called stuck")
	}
}

func TestAuditRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	text := cliWrite(t, filepath.Join(t.TempDir(), "letter.txt"), strings.Repeat("This is a letter. ", 500))
	empty := cliWrite(t, filepath.Join(t.TempDir(), "empty.db"), "")
	for path, want := range map[string]string{
		text:                                  "no store of Coax",
		empty:                                 "no store of Coax",
		filepath.Join(t.TempDir(), "none.db"): "there is none",
	} {
		cliRefusal(t, cliRun(t, "audit", "--config", h.config, "--set", "store.url=sqlite:"+path), path, want)
	}
	auditDamage(h, `UPDATE schema_tolerance SET oldest_generation = 99`)
	cliRefusal(t, cliRun(t, "audit", "--config", h.config), "newer release", "generation 99")
}

func TestAuditFindsAStoreInAnyFolder(t *testing.T) {
	aboutSQLite(t, "its file is moved")
	t.Parallel()
	h := cliNewHouse(t)
	path := filepath.Join(t.TempDir(), "50% off? #1, märz.db")
	if err := os.Rename(auditPath(h), path); err != nil {
		t.Fatal(err)
	}
	cliOK(t, cliRun(t, "audit", "--config", h.config, "--set", "store.url=sqlite:"+path))
}

func TestAuditUsage(t *testing.T) {
	t.Parallel()
	cliWrongUsage(t, cliRun(t, "audit"), "--config")
	cliWrongUsage(t, cliRun(t, "audit", "--config", "x", "everything"), "everything")
	help := cliOK(t, cliRun(t, "audit", "--help")).out
	cliSays(t, "the help", help, "--config", "--json", "--set", "--progress")
	for _, invariant := range audit.Invariants {
		cliSays(t, "the help", help, "  "+invariant.ID+" ", invariant.Promise)
	}
}

func TestAuditTellsItsProgressIfAsked(t *testing.T) {
	t.Parallel()
	h := cliNewHouse(t)
	got := cliRun(t, "audit", "--config", h.config, "--progress", "--json")
	if got.code != exitDone || !strings.Contains(got.err, "rows read, in plan_history now\n") || strings.Contains(got.err, "\r") || !json.Valid([]byte(got.out)) {
		t.Errorf("want lines of progress beside the JSON; %s", got)
	}
}
