package cli

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
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// auditJSON audits with --json and returns the exit status and the object.
func auditJSON(h *e2e.Install, args ...string) (int, audit.Report) {
	h.TB.Helper()
	got := e2e.Run(h.TB, append([]string{"audit", "--config", h.Config, "--json"}, args...)...)
	var report audit.Report
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || strings.Count(got.Out, "\n") != 1 {
		h.TB.Fatalf("want one JSON object in one line; %s", got)
	}
	return got.Code, report
}

func TestAuditCommand_NewInstallIsClean(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	before := h.Dump()
	got := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config))
	e2e.CheckMentions(t, "the audit", got.Out, "operators             1\n", "operations            0 (0 success", "credited              10000.00\n", "Everything agrees.")

	code, report := auditJSON(h)
	if code != e2e.ExitDone || !report.OK || report.Counts.Operators != 1 || report.Counts.Sums.Balance.String() != "10000.00" || len(report.ActionsHead) != 64 {
		t.Errorf("exit %d, %+v", code, report)
	}
	raw := e2e.Run(t, "audit", "--config", h.Config, "--json").Out
	e2e.CheckMentions(t, "the JSON", raw, `{"ok":true,"counts":{"operators":1,`, `"operations":{"total":0,`, `"violations":[]}`)
	if after := h.Dump(); !slices.Equal(before, after) {
		t.Errorf("the audit changed the store:\n%s", e2e.Diff(before, after))
	}
}

func TestAuditCommand_BesideRunningNode(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	node, err := server.OpenStore(context.Background(), server.Config{Store: h.Store()}, server.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	e2e.RequireOK(t, h.Admin("wallet", "topup", "--lco", "1", "--amount", "5", "--reference", "beside"))
	e2e.CheckMentions(t, "the audit", e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config)).Out, "credited              10005.00\n")
}

func TestAuditCommand_AfterKilledNode(t *testing.T) {
	e2e.OnlySQLite(t, "the file and its log are copied")
	t.Parallel()
	h := e2e.NewInstall(t)
	node, err := sqlite.Open(context.Background(), e2e.StorePath(h), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	e2e.RequireOK(t, h.Admin("wallet", "topup", "--lco", "1", "--amount", "5", "--reference", "the last before it died"))
	// The file and its log, as they are on the disk at this moment.
	path := filepath.Join(t.TempDir(), "coax.db")
	e2e.WriteFile(t, path, e2e.ReadFile(t, e2e.StorePath(h)))
	e2e.WriteFile(t, path+"-wal", e2e.ReadFile(t, e2e.StorePath(h)+"-wal"))
	got := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config, "--set", "store.url=sqlite:"+path))
	e2e.CheckMentions(t, "the audit", got.Out, "credited              10005.00\n")
}

func TestAuditCommand_UsesServiceClock(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	stuck := func(args ...string) bool {
		_, report := auditJSON(h, args...)
		return slices.ContainsFunc(report.Violations, func(v audit.Violation) bool { return v.Invariant == "S4" })
	}
	lease := server.Clock(0)().UnixMilli() + 60*60*1000
	e2e.ExecOnInstall(h, fmt.Sprintf(`INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main, amount_paise, commission_bps,
		wallet_before_paise, expiry_planned, cycle_starts_at, status, epoch, node, lease_until, provider, created_at)
		VALUES ('CX1', 1, 'k', %s, 1, 'activate', 'api', 'a', '1', 'n', '9', 'BASIC-1', 1, 'n', 1, 'm', 1, 0, 0, 0, 0, 'processing', 1, 'n', %d, 'p', 0)`,
		e2e.BlobLiteral("00"), lease))
	if stuck() {
		t.Error("an operation with a valid lease is reported as stuck")
	}
	if !stuck("--set", "clock.offset=2h") {
		t.Error("two hours later it is not reported as stuck")
	}
}

func TestAuditCommand_UnreadableStore(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	text := e2e.WriteFile(t, filepath.Join(t.TempDir(), "letter.txt"), strings.Repeat("This is a letter. ", 500))
	empty := e2e.WriteFile(t, filepath.Join(t.TempDir(), "empty.db"), "")
	for path, want := range map[string]string{
		text:                                  "no store of Coax",
		empty:                                 "no store of Coax",
		filepath.Join(t.TempDir(), "none.db"): "there is none",
	} {
		e2e.CheckRefused(t, e2e.Run(t, "audit", "--config", h.Config, "--set", "store.url=sqlite:"+path), path, want)
	}
	e2e.ExecOnInstall(h, `UPDATE schema_tolerance SET oldest_generation = 99`)
	e2e.CheckRefused(t, e2e.Run(t, "audit", "--config", h.Config), "newer release", "generation 99")
}

func TestAuditCommand_StoreInAnyFolder(t *testing.T) {
	e2e.OnlySQLite(t, "its file is moved")
	t.Parallel()
	h := e2e.NewInstall(t)
	path := filepath.Join(t.TempDir(), "50% off? #1, märz.db")
	if err := os.Rename(e2e.StorePath(h), path); err != nil {
		t.Fatal(err)
	}
	e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config, "--set", "store.url=sqlite:"+path))
}

func TestAuditCommand_Usage(t *testing.T) {
	t.Parallel()
	e2e.CheckUsageError(t, e2e.Run(t, "audit"), "--config")
	e2e.CheckUsageError(t, e2e.Run(t, "audit", "--config", "x", "everything"), "everything")
	help := e2e.RequireOK(t, e2e.Run(t, "audit", "--help")).Out
	e2e.CheckMentions(t, "the help", help, "--config", "--json", "--set", "--progress")
	for _, invariant := range audit.Invariants {
		e2e.CheckMentions(t, "the help", help, "  "+invariant.ID+" ", invariant.Promise)
	}
}

func TestAuditCommand_Progress(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	got := e2e.Run(t, "audit", "--config", h.Config, "--progress", "--json")
	if got.Code != e2e.ExitDone || !strings.Contains(got.Err, "rows read, in plan_history now\n") || strings.Contains(got.Err, "\r") || !json.Valid([]byte(got.Out)) {
		t.Errorf("want lines of progress beside the JSON; %s", got)
	}
}
