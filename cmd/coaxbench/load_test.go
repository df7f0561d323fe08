package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
	"github.com/coaxhq/coax/internal/e2e"
)

// shortLoad is long enough for each of four workers to begin, each with another kind of
// read.
var shortLoad = []string{"--duration", "1s", "--warmup", "0s", "--connections", "4", "--subscribers", "200"}

// loadDemo loads a running demo and returns the result with the parsed report.
func loadDemo(t *testing.T, folder string, args ...string) (e2e.Result, loadReport) {
	t.Helper()
	all := append([]string{"load", "--json", "--credentials", filepath.Join(folder, "demo.json")}, shortLoad...)
	got := run(t, append(all, args...)...)
	var report loadReport
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || strings.Count(got.Out, "\n") != 1 {
		t.Fatalf("want one JSON object in one line; %s", got)
	}
	return got, report
}

func TestLoad_UsesItsOwnOperators(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	h := e2e.InstallAt(t, folder)
	got, report := loadDemo(t, folder)
	if got.Code != e2e.ExitDone || !report.OK || len(report.Problems) != 0 {
		t.Fatalf("want exit 0 and no problems; %s", got)
	}
	e2e.CheckMentions(t, "the progress", got.Err, "preparing 200 subscribers", "cleaning up", "auditing the books")

	if names := strings.Join(e2e.FieldNames(t, got.Out), " "); names != "ok problems server load phases books audit" {
		t.Errorf("the JSON has %s", names)
	}
	e2e.CheckMentions(t, "the JSON", got.Out, `"latency_ms":{"mean":`, `"p50":`, `"p90":`, `"p99":`, `"p99_9":`, `"max":`, `"answers":{"200 OK":`, `"kinds":{"balance":`)
	if len(report.Phases) != 2 || report.Phases[0].Name != "reads" || report.Phases[1].Name != "renewals" {
		t.Fatalf("phases: %+v; want reads, then renewals", report.Phases)
	}
	for _, phase := range report.Phases {
		if phase.Requests == 0 || phase.PerSecond <= 0 || phase.Latency.P50 <= 0 || phase.Latency.Max < phase.Latency.P999 || phase.EndedEarly != "" {
			t.Errorf("%+v", phase)
		}
	}
	for _, kind := range load.ReadKinds {
		if report.Phases[0].Kinds[kind] == 0 {
			t.Errorf("no %s was read: %v", kind, report.Phases[0].Kinds)
		}
	}
	books := report.Books
	if renewed := report.Phases[1].Answers["200 OK"]; books.Answered.Done <= renewed || books.Stored.Success != books.Answered.Done {
		t.Errorf("%d renewals were answered 200 in the phase, in all %+v, stored %+v; want as many stored, the first few too", renewed, books.Answered, books.Stored)
	}
	if !report.Audit.OK || report.Audit.Counts.Operations.Success != int64(books.Stored.Success) {
		t.Errorf("audit %+v of %+v", report.Audit, report.Server)
	}

	// What is left is inactive and named.
	e2e.CheckMentions(t, "the given operator's wallet", h.JSON("wallet", "show", "--lco", "1"), `"wallet_balance":10000.00`)
	operators := e2e.JSONArray(t, h.JSON("lco", "list"))
	if len(operators) != 5 {
		t.Fatalf("%d operators; want the given one and the bench's four", len(operators))
	}
	for _, operator := range operators[1:] {
		e2e.CheckMentions(t, "an operator of the load", operator, `"name":"Coax bench 20`, `"status":"inactive"`)
		id := e2e.CheckShape(t, operator, append(slices.Clone(e2e.OperatorShape), "undelete_until moment?")...)["lco_id"]
		e2e.CheckMentions(t, "its wallet", h.JSON("wallet", "show", "--lco", id), `"wallet_balance":0.00`)
		if key := h.JSON("key", "list", "--lco", id); strings.Contains(key, `"revoked_at":null`) {
			t.Errorf("a key of the load is still valid: %s", key)
		}
	}
	plans := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "plans", "--credentials", filepath.Join(folder, "demo.json"))).Out
	if strings.Contains(plans, "BENCH") || !strings.Contains(plans, "BASIC-1") {
		t.Errorf("the catalogue after the load:\n%s", plans)
	}
	// A second load works too.
	if again, report := loadDemo(t, folder, "--only", "renewals"); again.Code != e2e.ExitDone || len(report.Phases) != 1 || report.Phases[0].Name != "renewals" {
		t.Errorf("a second time: %s", again)
	}
}

func TestLoad_Usage(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	given := []string{"--credentials", e2e.WriteFile(t, filepath.Join(t.TempDir(), "c.json"), `{"base_url":"https://127.0.0.1:9/api/v1","config":"`+h.Config+`"}`)}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"extra"}, []string{"extra"}},
		{[]string{"--config", h.Config}, []string{"--credentials FILE"}},
		{[]string{"--only", "writes"}, []string{"writes", "reads or renewals"}},
		{[]string{"--reads", "everything"}, []string{"everything", "balance, plans, subscription, transaction or mix"}},
		{[]string{"--only", "renewals", "--reads", "plans"}, []string{"--reads", "--only renewals"}},
		{[]string{"--duration", "0s"}, []string{"--duration", "10s"}},
		{[]string{"--duration", "10"}, []string{"duration", "10"}},
		{[]string{"--duration", "25h"}, []string{"24h"}},
		{[]string{"--warmup", "-1s"}, []string{"--warmup", "0s to 1h"}},
		{[]string{"--connections", "0"}, []string{"--connections", "1 to 4000"}},
		{[]string{"--connections", "4001"}, []string{"1 to 4000"}},
		{[]string{"--subscribers", "63"}, []string{"--subscribers", "64 to 1000000"}},
		{[]string{"--subscribers", "1000001"}, []string{"64 to 1000000"}},
		{[]string{"--connections", "300"}, []string{"256 from one address", "server.max_connections_per_address"}},
	} {
		got := run(t, append(append([]string{"load"}, given...), test.args...)...)
		if test.args[0] == "--config" {
			got = run(t, append([]string{"load"}, test.args...)...)
		}
		for _, want := range test.want {
			if got.Code != e2e.ExitUsage || !strings.Contains(got.Err, want) {
				t.Errorf("%q: want exit 2 and %q; %s", test.args, want, got)
			}
		}
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"load", "--credentials", filepath.Join(t.TempDir(), "none.json")}, "read the credentials"},
		{append([]string{"load", "--config", filepath.Join(t.TempDir(), "none.toml")}, given...), "there is no configuration"},
	} {
		if got := run(t, test.args...); got.Code != e2e.ExitRefused || !strings.Contains(got.Err, test.want) {
			t.Errorf("%q: want exit 1 and %q; %s", test.args, test.want, got)
		}
	}
}
