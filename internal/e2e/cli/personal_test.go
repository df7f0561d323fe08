package cli

import (
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestForget_OnTheCommandLine(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	h.CheckImport(cliImportHeader+
		"1,100001,9800000001,Zubeida Quark,BASIC-1,2020-01-31\n"+
		"1,100002,9800000002,Ravi Nair,BASIC-1,2090-01-31\n", 2, 0)
	exported := h.JSON("subscriber", "export", "--subscriber", "100001")
	parts := e2e.CheckShape(t, exported, "subscriber object", "operations any", "ledger any", "exceptions any", "bulk_rows any", "contact_changes any", "acts any")
	e2e.CheckShape(t, parts["subscriber"], e2e.SubscriberShape...)
	e2e.CheckMentions(t, "the export", exported, `"name":"Zubeida Quark"`, `"mobile":"9800000001"`, `"operations":[]`)
	if got := e2e.RequireOK(t, h.Admin("subscriber", "export", "--subscriber", "100001")).Out; strings.TrimSpace(got) != strings.TrimSpace(exported) {
		t.Errorf("without --json the export is %s; want the same", got)
	}

	h.CheckRefused([]string{"subscriber", "forget", "--subscriber", "100002", "--reason", "asked"}, "100002", "runs until 2090-01-31 23:59:59")
	h.CheckRefused([]string{"subscriber", "forget", "--subscriber", "4711", "--reason", "asked"}, "no subscriber 4711")
	h.CheckRefused([]string{"subscriber", "forget", "--subscriber", "100001", "--reason", " "}, "reason")
	h.CheckRefused([]string{"subscriber", "forget", "--subscriber", "100001", "--reason", "asked", "--set", "retention.personal_data=876000h"}, "retention.personal_data")
	e2e.CheckUsageError(t, h.Admin("subscriber", "forget", "--subscriber", "100001"), "reason")

	forgotten := e2e.CheckShape(t, h.JSON("subscriber", "forget", "--subscriber", "100001", "--reason", "asked by letter"),
		"subscriber_id text", "lco_id int", "already_forgotten any", "operations int", "bulk_rows int", "texts int")
	if forgotten["already_forgotten"] != "false" {
		t.Errorf("%v", forgotten)
	}
	dump := e2e.DumpStore(t, h.Store())
	for _, part := range []string{"Zubeida", "zubeida", "Quark", "quark", "9800000001"} {
		if strings.Contains(dump, part) {
			t.Errorf("the store still has %q", part)
		}
	}
	entries := e2e.JSONArray(t, h.JSON("log", "--lco", "1"))
	e2e.CheckMentions(t, "the last staff action", entries[len(entries)-1], `"action":"subscriber forget"`, `"subject":"subscriber 100001"`, "asked by letter")
	again := e2e.RequireOK(t, h.Admin("subscriber", "forget", "--subscriber", "100001", "--reason", "asked again"))
	e2e.CheckMentions(t, "a second time", again.Out, "already_forgotten  true", "simulator keeps its own data", "Backups made before")
	if more := e2e.JSONArray(t, h.JSON("log", "--lco", "1")); len(more) != len(entries) {
		t.Errorf("a second time wrote %d staff actions", len(more)-len(entries))
	}
	// The number is free, under another id.
	h.CheckImport(cliImportHeader+"1,100003,9800000001,Zubeida Quark,BASIC-1,2090-01-31\n", 1, 0)
	cliCheckAudit(t, h)
}
