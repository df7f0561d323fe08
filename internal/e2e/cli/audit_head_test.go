package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestAuditHead_TruncatedStoreIsFound(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	report := filepath.Join(t.TempDir(), "report.json")
	e2e.WriteFile(t, report, e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config, "--json")).Out)

	// A node logs the head when it starts and when it stops.
	node := e2e.Start(t, append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)...)
	e2e.RequireOK(t, h.Admin("wallet", "topup", "--lco", "1", "--amount", "5", "--reference", "while it runs"))
	if !node.Err.WaitFor(`"audit head"`, node.Ended) {
		t.Fatalf("the log has no head:\n%s", node.Err)
	}
	node.Terminate()
	log := filepath.Join(t.TempDir(), "coax.log")
	e2e.WriteFile(t, log, node.Err.String())

	audit := func(args ...string) e2e.Result {
		t.Helper()
		return e2e.Run(t, append([]string{"audit", "--config", h.Config}, args...)...)
	}
	e2e.CheckMentions(t, "the audit", e2e.RequireOK(t, audit("--head", report, "--head", log)).Out, "Compared with 3 exported heads.", "Everything agrees.")

	e2e.ExecOnInstall(h, `DELETE FROM staff_acts WHERE id = (SELECT max(id) FROM staff_acts)`)
	got := audit("--head", log)
	if got.Code != e2e.ExitRefused {
		t.Errorf("a truncated store: %s", got)
	}
	e2e.CheckMentions(t, "the audit", got.Out, "H1 head of ", "truncated or rewritten")
	if got := audit("--head", report); strings.Contains(got.Out, "H1") {
		t.Errorf("the older head is still in the store: %s", got)
	}
}

func TestAuditHead_UnusableFileIsRefused(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	e2e.CheckRefused(t, e2e.Run(t, "audit", "--config", h.Config, "--head", filepath.Join(h.Folder, "none")), "--head", "none")
	e2e.CheckRefused(t, e2e.Run(t, "audit", "--config", h.Config, "--head", h.Config), "--head", "no audit head in it", "coax audit --json")
}

func TestAudit_WithoutMasterKeySaysWhatItSkipped(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	nowhere := "secrets.master_key_file=" + filepath.Join(h.Folder, "none.key")
	got := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", h.Config, "--set", nowhere))
	e2e.CheckMentions(t, "the audit", got.Out, "Not verified: the MACs of staff actions", "none.key", "Everything agrees.")
	code, report := auditJSON(h, "--set", nowhere)
	if code != e2e.ExitDone || !report.OK || len(report.Skipped) != 1 {
		t.Errorf("exit %d, %+v; want it clean, and one thing skipped", code, report)
	}
	if code, report := auditJSON(h); code != e2e.ExitDone || len(report.Skipped) != 0 || len(report.Head.MAC) != 64 {
		t.Errorf("exit %d, %+v; want nothing skipped", code, report)
	}
}
