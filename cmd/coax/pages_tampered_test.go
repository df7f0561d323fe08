package main

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Somebody with access to the store itself changes an act of the log, and then takes
// one out. Whoever opens the log is told at once, and what to do; so is whoever looks
// at the act, and at the health of the installation.
func TestAnActThatWasTamperedWithIsToldOnThePages(t *testing.T) {
	w := newWorldAt(t, time.Now(), "panel.staff_totp=false", "audit.every=10ms")
	b := w.as(t, w.line.Admin)
	const broken = "The chain is broken."
	said := func(path string) bool { return strings.Contains(b.get(path).shows(t, http.StatusOK).body, broken) }
	if said("/console/audit-log") || said("/console/audit-log/3") {
		t.Fatal("the chain is called broken before anybody touched it")
	}
	b.get("/console/audit-log?verify=yes").shows(t, http.StatusOK, "The chain is whole here.")
	w.until("the books were audited", func() bool { return strings.Contains(b.get("/console/health").body, "The books agree") })

	damageStore(t, w.node.config.Store, `UPDATE staff_acts SET actor = 'cli:nobody' WHERE id = 3`)
	const advice = "Act 3 does not fit the one before it: it was changed, or one before it was taken out. Run coax audit, and keep the store as it is."
	for _, path := range []string{"/console/audit-log", "/console/audit-log?verify=yes", "/console/audit-log?actor=cli:nobody", "/console/audit-log/3"} {
		b.get(path).shows(t, http.StatusOK, broken, advice)
	}
	if said("/console/audit-log/2") || said("/console/audit-log/4") {
		t.Error("an act that nobody touched is called broken")
	}
	w.until("the audit has found it", func() bool { return strings.Contains(b.get("/console/health").body, "A9 act 3: its hash is") })
	b.get("/console/health").shows(t, http.StatusOK, "Something needs attention.", "1 violation", "Keep a copy of the store as it is, and run coax audit")
	b.get("/console/audit-log").shows(t, http.StatusOK, "The last audit found 1 violation.", "The health page names them")
	b.get("/console/").shows(t, http.StatusOK, "The last audit found 1 violation.")

	damageStore(t, w.node.config.Store, `UPDATE staff_acts SET actor = (SELECT actor FROM staff_acts WHERE id = 2) WHERE id = 3`)
	if said("/console/audit-log/3") {
		t.Error("an act that is as it was is called broken")
	}
	damageStore(t, w.node.config.Store, `DELETE FROM staff_acts WHERE id = 5`)
	b.get("/console/audit-log").shows(t, http.StatusOK, broken, "Act 6 does not fit the one before it")
	b.get("/console/audit-log/6").shows(t, http.StatusOK, broken)
	b.get("/console/audit-log/5").shows(t, http.StatusNotFound)
}
