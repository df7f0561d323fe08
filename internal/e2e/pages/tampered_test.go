package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// An entry of the audit log is changed in the database, and then one is deleted. The log,
// the entry's page and the health page show it, with what to do.
func TestAuditLog_TamperedEntryIsShown(t *testing.T) {
	w := e2e.NewEnvAt(t, time.Now(), "panel.staff_totp=false", "audit.every=10ms")
	b := w.SignIn(t, w.Demo.Admin)
	const broken = "The hash chain is broken."
	shown := func(path string) bool { return strings.Contains(b.Get(path).Shows(t, http.StatusOK).Body, broken) }
	if shown("/console/audit-log") || shown("/console/audit-log/3") {
		t.Fatal("the chain is shown as broken before the change")
	}
	b.Get("/console/audit-log?verify=yes").Shows(t, http.StatusOK, "The hash chain is intact here.")
	w.WaitUntil("an audit has run", func() bool { return strings.Contains(b.Get("/console/health").Body, "The ledger is consistent") })

	e2e.ExecOnStore(t, w.Node.Config.Store, `UPDATE staff_acts SET actor = 'cli:nobody' WHERE id = 3`)
	const advice = "The hash of action 3 does not match the previous one: it was changed, or an earlier one was deleted. Run coax audit, and do not change the store."
	for _, path := range []string{"/console/audit-log", "/console/audit-log?verify=yes", "/console/audit-log?actor=cli:nobody", "/console/audit-log/3"} {
		b.Get(path).Shows(t, http.StatusOK, broken, advice)
	}
	if shown("/console/audit-log/2") || shown("/console/audit-log/4") {
		t.Error("an unchanged entry is shown as broken")
	}
	w.WaitUntil("the audit has found it", func() bool {
		body := b.Get("/console/health").Body
		return strings.Contains(body, "A9 staff action 3: its hash is") && strings.Contains(body, "A12 staff action 3: its MAC is wrong")
	})
	b.Get("/console/health").Shows(t, http.StatusOK, "Action needed.", "2 violations", "Keep a copy of the store and run coax audit")
	b.Get("/console/audit-log").Shows(t, http.StatusOK, "The last audit found 2 violations.", "The health page lists them")
	b.Get("/console/").Shows(t, http.StatusOK, "The last audit found 2 violations.")

	e2e.ExecOnStore(t, w.Node.Config.Store, `UPDATE staff_acts SET actor = (SELECT actor FROM staff_acts WHERE id = 2) WHERE id = 3`)
	if shown("/console/audit-log/3") {
		t.Error("a restored entry is shown as broken")
	}
	e2e.ExecOnStore(t, w.Node.Config.Store, `DELETE FROM staff_acts WHERE id = 5`)
	b.Get("/console/audit-log").Shows(t, http.StatusOK, broken, "The hash of action 6 does not match the previous one")
	b.Get("/console/audit-log/6").Shows(t, http.StatusOK, broken)
	b.Get("/console/audit-log/5").Shows(t, http.StatusNotFound)
}
