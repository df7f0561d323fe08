package main

import (
	"encoding/json"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bench"
	"github.com/coaxhq/coax/internal/e2e"
)

// benchShort is a load that is over soon. Nothing here is about speed: all that
// is asked of the machine is that each of four workers begins within a second,
// and the four begin with different reads.
var benchShort = []string{"--duration", "1s", "--warmup", "0s", "--connections", "4", "--subscribers", "200"}

// benchIn starts a bench with a server of its own, whose folder is in temp.
func benchIn(t *testing.T, temp string, args ...string) *e2e.Process {
	t.Helper()
	p := e2e.LaunchProgram(t, e2e.Binary(t), []string{"TMPDIR=" + temp}, append([]string{"bench"}, args...)...)
	t.Cleanup(func() { p.Kill() })
	return p
}

// benchAgainst loads a demo that runs, and returns how that ended with what was
// written as JSON.
func benchAgainst(t *testing.T, folder string, args ...string) (e2e.Result, benchReport) {
	t.Helper()
	all := append([]string{"bench", "--json", "--credentials", filepath.Join(folder, "demo.json")}, benchShort...)
	got := e2e.Run(t, append(all, args...)...)
	var report benchReport
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || strings.Count(got.Out, "\n") != 1 {
		t.Fatalf("want one JSON object in one line; %s", got)
	}
	return got, report
}

// benchEmpty demands that a folder has nothing in it.
func benchEmpty(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind in the temporary folder: %v (%v)", entries, err)
	}
}

// benchGone waits until nobody listens at an address.
func benchGone(t *testing.T, baseURL string) {
	t.Helper()
	at, err := url.Parse(baseURL)
	if err != nil || at.Host == "" {
		t.Fatalf("%q is no address", baseURL)
	}
	for end := time.Now().Add(e2e.Timeout); ; {
		connection, err := net.Dial("tcp", at.Host)
		if err != nil {
			return
		}
		// It closes when the server ends, if not before.
		_ = connection.SetReadDeadline(end)
		_, _ = connection.Read(make([]byte, 1))
		connection.Close()
		if time.Now().After(end) {
			t.Fatalf("a server still listens at %s", at.Host)
		}
	}
}

// benchServerLine is where the text says what is loaded.
var benchServerLine = regexp.MustCompile(`(?m)^server +(https://127\.0\.0\.1:\d+/api/v1), started for this`)

func TestBenchAloneStartsAServerAndLeavesNothingBehind(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp := t.TempDir()
	p := benchIn(t, temp, append(benchShort, "--warmup", "50ms")...)
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	out := p.Out.String()
	e2e.CheckMentions(t, "the report", out, "4 connections, each with one request at a time", "4 operators of the bench's own (lco 2 to 5), 1000000 requests a minute each",
		"200 subscribers and 8 plans: 1600 within two minutes", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "\nreads ", "\nrenewals ",
		" 0 in review, 0 without a clear answer, 0 refused\n", " 0 needs_review, 0 processing, 0 failed\n", " 0.00 held, ",
		"\nThe audit of the whole store:\n", "\nsubscribers           200\n", "\nEverything agrees.\n")
	e2e.CheckMentions(t, "the progress", p.Err.String(), "starting a server", "imported 200 of 200", "auditing the books")
	benchEmpty(t, temp)
	match := benchServerLine.FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("it does not say what it loaded:\n%s", out)
	}
	benchGone(t, match[1])
}

func TestBenchThatIsStoppedEndsItsServerAndRemovesItsFolder(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	for name, stop := range map[string]func(*e2e.Process) int{"SIGTERM": (*e2e.Process).Terminate, "Ctrl-C": (*e2e.Process).Interrupt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			p := benchIn(t, temp, "--duration", "10m", "--connections", "2", "--subscribers", "4")
			if !p.Out.WaitFor("started for this", p.Ended) {
				t.Fatalf("it did not begin:\n%s", p.Err)
			}
			server := benchServerLine.FindStringSubmatch(p.Out.String())[1]
			if code := stop(p); code != e2e.ExitRefused || !strings.Contains(p.Err.String(), "\ncoax: interrupted") {
				t.Errorf("it ended with %d; want 1, saying that it was interrupted\n%s", code, p.Err)
			}
			benchEmpty(t, temp)
			benchGone(t, server)
		})
	}
}

func TestBenchThatIsKilledTakesItsServerAlong(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	p := benchIn(t, t.TempDir(), "--duration", "10m", "--connections", "2", "--subscribers", "4")
	if !p.Out.WaitFor("started for this", p.Ended) {
		t.Fatalf("it did not begin:\n%s", p.Err)
	}
	p.Kill()
	benchGone(t, benchServerLine.FindStringSubmatch(p.Out.String())[1])
}

// A server that is started to be measured must not work on somebody's store,
// whatever the environment of whoever measures says.
func TestBenchAloneIgnoresTheSettingsOfTheEnvironment(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	h := e2e.NewInstall(t)
	before := h.Dump()
	p := e2e.LaunchProgram(t, e2e.Binary(t), []string{
		"TMPDIR=" + t.TempDir(), "COAX_STORE_URL=sqlite:" + e2e.StorePath(h), "COAX_SECRETS_MASTER_KEY_FILE=" + filepath.Join(h.Folder, "master.key"),
	}, append([]string{"bench", "--json"}, benchShort...)...)
	t.Cleanup(func() { p.Kill() })
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s", code, p.Err)
	}
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("it worked on the store of the environment:\n%s", diff)
	}
}

func TestBenchOfAGivenServerSpendsNobodysMoney(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	h := e2e.InstallAt(t, folder)
	got, report := benchAgainst(t, folder)
	if got.Code != e2e.ExitDone || !report.OK || len(report.Problems) != 0 {
		t.Fatalf("want exit 0 and no problems; %s", got)
	}
	e2e.CheckMentions(t, "the progress", got.Err, "preparing 200 subscribers", "tidying up", "auditing the books")

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
	for _, kind := range bench.ReadKinds {
		if report.Phases[0].Kinds[kind] == 0 {
			t.Errorf("no %s was read: %v", kind, report.Phases[0].Kinds)
		}
	}
	books := report.Books
	if renewed := report.Phases[1].Answers["200 OK"]; books.Answered.Done <= renewed || books.Stored.Success != books.Answered.Done {
		t.Errorf("%d renewals were answered 200 in the phase, in all %+v, stored %+v; want as many stored, the first few too", renewed, books.Answered, books.Stored)
	}
	if !report.Audit.OK || report.Audit.Counts.Operations.Success != int64(books.Stored.Success) || report.Server.Started {
		t.Errorf("audit %+v of %+v", report.Audit, report.Server)
	}

	// What is left is the bench's own, called so, and good for nothing any more.
	e2e.CheckMentions(t, "the given operator's wallet", h.JSON("wallet", "show", "--lco", "1"), `"wallet_balance":10000.00`)
	operators := e2e.JSONArray(t, h.JSON("lco", "list"))
	if len(operators) != 5 {
		t.Fatalf("%d operators; want the given one and the bench's four", len(operators))
	}
	for _, operator := range operators[1:] {
		e2e.CheckMentions(t, "an operator of the bench", operator, `"name":"Coax bench 20`, `"status":"inactive"`)
		id := e2e.CheckShape(t, operator, append(slices.Clone(e2e.OperatorShape), "undelete_until moment?")...)["lco_id"]
		e2e.CheckMentions(t, "its wallet", h.JSON("wallet", "show", "--lco", id), `"wallet_balance":0.00`)
		if key := h.JSON("key", "list", "--lco", id); strings.Contains(key, `"revoked_at":null`) {
			t.Errorf("a key of the bench is still good: %s", key)
		}
	}
	plans := e2e.RequireOK(t, e2e.Run(t, "call", "GET", "plans", "--credentials", filepath.Join(folder, "demo.json"))).Out
	if strings.Contains(plans, "BENCH") || !strings.Contains(plans, "BASIC-1") {
		t.Errorf("the catalogue after the bench:\n%s", plans)
	}
	// And it can be done again.
	if again, report := benchAgainst(t, folder, "--only", "renewals"); again.Code != e2e.ExitDone || len(report.Phases) != 1 || report.Phases[0].Name != "renewals" {
		t.Errorf("a second time: %s", again)
	}
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	given := []string{"--credentials", e2e.WriteFile(t, filepath.Join(t.TempDir(), "c.json"), `{"base_url":"https://127.0.0.1:9/api/v1","config":"`+h.Config+`"}`)}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"extra"}, []string{"extra"}},
		{[]string{"--config", h.Config}, []string{"--credentials FILE"}},
		{[]string{"--set", "log.level=warn"}, []string{"--credentials FILE"}},
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
		{append(given, "--connections", "300"), []string{"256 from one address", "server.max_connections_per_address"}},
	} {
		e2e.CheckUsageError(t, e2e.Run(t, append([]string{"bench"}, test.args...)...), test.want...)
	}
	e2e.CheckRefused(t, e2e.Run(t, "bench", "--credentials", filepath.Join(t.TempDir(), "none.json")), "read the credentials")
	e2e.CheckRefused(t, e2e.Run(t, append([]string{"bench", "--config", filepath.Join(t.TempDir(), "none.toml")}, given...)...), "there is no configuration")
	help := e2e.RequireOK(t, e2e.Run(t, "bench", "--help")).Out
	e2e.CheckMentions(t, "the help", help, "--duration", "--warmup", "--connections", "--only", "--reads", "--subscribers", "--credentials", "--config", "--json", "--remote-provider", "TMPDIR", "closed loop")
}
