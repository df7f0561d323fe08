package main

import (
	"strings"
	"testing"
)

func TestCLIResetsACustomersPassword(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, line := cliDemoIn(t, folder)
	h := cliHouseAt(t, folder)
	credentials := folder + "/demo.json"
	id := cliActivate(t, credentials, "9812340001", "BASIC-1", 200).subscriber

	raw := h.json("subscriber", "reset-password", "--lco", "1", "--subscriber", id)
	got := cliShape(t, raw, "subscriber_id text", "password text", "outcome text")
	password := strings.Trim(got["password"], `"`)
	if len(password) != 12 || got["outcome"] != `"confirmed"` {
		t.Errorf("a reset printed %s", raw)
	}
	cliSameCalls(t, "a reset", cliCalls(t, line.SimulatorURL, "9812340001"), "activate TV-BASIC true applied", "reset_password  true applied")
	log := cliOK(t, h.admin("log", "--lco", "1"))
	cliSays(t, "the log", log.out, "password reset", "app password of subscriber "+id, "confirmed")
	if strings.Contains(log.out, password) || strings.Contains(s.err.String(), password) {
		t.Error("the password stands in a log")
	}

	// A provider that says no, and one that says nothing useful.
	cliSteer(t, line.SimulatorURL, "script", `{"mobile":"9812340001","outcomes":["reject","gateway_error"]}`)
	cliRefusal(t, h.admin("subscriber", "reset-password", "--lco", "1", "--subscriber", id), "the old one holds")
	unclear := cliOK(t, h.admin("subscriber", "reset-password", "--lco", "1", "--subscriber", id))
	cliSays(t, "the printed outcome", unclear.out, "unknown", "may be reset again")

	other := cliShape(t, h.json("lco", "create", "--name", "Other"), cliOperatorShape...)["lco_id"]
	h.refuses([]string{"subscriber", "reset-password", "--lco", other, "--subscriber", id}, "under this account")
	proved := cliOK(t, cliRun(t, "audit", "--config", folder+"/coax.toml"))
	cliSays(t, "the audit", proved.out, "Everything agrees.")
}
