package cli

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestSubscriberPassword_Reset(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, line := e2e.StartDemo(t, folder)
	h := e2e.InstallAt(t, folder)
	credentials := folder + "/demo.json"
	id := cliActivate(t, credentials, "9812340001", "BASIC-1", 200).subscriber

	raw := h.JSON("subscriber", "reset-password", "--lco", "1", "--subscriber", id)
	got := e2e.CheckShape(t, raw, "subscriber_id text", "password text", "outcome text")
	password := strings.Trim(got["password"], `"`)
	if len(password) != 12 || got["outcome"] != `"confirmed"` {
		t.Errorf("a reset printed %s", raw)
	}
	cliSameCalls(t, "a reset", cliCalls(t, line.SimulatorURL, "9812340001"), "activate TV-BASIC true applied", "reset_password  true applied")
	log := e2e.RequireOK(t, h.Admin("log", "--lco", "1"))
	e2e.CheckMentions(t, "the log", log.Out, "password reset", "app password of subscriber "+id, "confirmed")
	if strings.Contains(log.Out, password) || strings.Contains(s.Err.String(), password) {
		t.Error("the password stands in a log")
	}

	// A provider that says no, and one that says nothing useful.
	cliControl(t, line.SimulatorURL, "script", `{"mobile":"9812340001","outcomes":["reject","gateway_error"]}`)
	e2e.CheckRefused(t, h.Admin("subscriber", "reset-password", "--lco", "1", "--subscriber", id), "the old one stays valid")
	unclear := e2e.RequireOK(t, h.Admin("subscriber", "reset-password", "--lco", "1", "--subscriber", id))
	e2e.CheckMentions(t, "the printed outcome", unclear.Out, "unknown", "may be reset again")

	other := e2e.CheckShape(t, h.JSON("lco", "create", "--name", "Other"), e2e.OperatorShape...)["lco_id"]
	h.CheckRefused([]string{"subscriber", "reset-password", "--lco", other, "--subscriber", id}, "under this account")
	proved := e2e.RequireOK(t, e2e.Run(t, "audit", "--config", folder+"/coax.toml"))
	e2e.CheckMentions(t, "the audit", proved.Out, "Everything agrees.")
}
