package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// benchShort is long enough for each of four workers to begin.
var benchShort = []string{"--duration", "1s", "--warmup", "50ms", "--connections", "4"}

// launchBench starts a bench with a server of its own, whose folder is in temp.
func launchBench(t *testing.T, temp string, args ...string) *e2e.Process {
	t.Helper()
	p := e2e.LaunchProgram(t, e2e.Binary(t), []string{"TMPDIR=" + temp}, append([]string{"bench"}, args...)...)
	t.Cleanup(func() { p.Kill() })
	return p
}

// awaitClosed waits until nothing listens at an address.
func awaitClosed(t *testing.T, baseURL string) {
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
		// The read returns when the server ends.
		_ = connection.SetReadDeadline(end)
		_, _ = connection.Read(make([]byte, 1))
		connection.Close()
		if time.Now().After(end) {
			t.Fatalf("a server still listens at %s", at.Host)
		}
	}
}

// checkEmptyFolder fails the test unless a folder is empty.
func checkEmptyFolder(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 0 {
		t.Errorf("left in the temporary folder: %v (%v)", entries, err)
	}
}

// benchServerURL matches the address of the server that a bench started.
var benchServerURL = regexp.MustCompile(` on (https://127\.0\.0\.1:\d+/api/v1), started for this`)

func TestBench_OwnServer(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp := t.TempDir()
	p := launchBench(t, temp, append(benchShort, "--subscribers", "2000")...)
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s%s", code, p.Out, p.Err)
	}
	out := p.Out.String()
	e2e.CheckMentions(t, "the report", out, "4 connections, 0.05s of warm-up and 1s measured", "2000 subscribers, 3 plans", "p50 ms", "p99.9 ms", "max ms",
		"\nreads ", "\nrenewals ", " times 200 OK\n", "\nwallet: ", "\nThe audit of the whole store:\n", "\nsubscribers           2000\n", "\nEverything agrees.\n")
	e2e.CheckMentions(t, "the progress", p.Err.String(), "starting a server", "imported 2000 of 2000", "auditing the books")
	checkEmptyFolder(t, temp)
	match := benchServerURL.FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("it does not name the server:\n%s", out)
	}
	awaitClosed(t, match[1])
}

func TestBench_StoppedRemovesItsServer(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	for name, stop := range map[string]func(*e2e.Process) int{"SIGTERM": (*e2e.Process).Terminate, "Ctrl-C": (*e2e.Process).Interrupt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir()
			p := launchBench(t, temp, "--duration", "10m", "--connections", "2", "--subscribers", "4")
			if !p.Out.WaitFor("started for this", p.Ended) {
				t.Fatalf("it did not begin:\n%s", p.Err)
			}
			server := benchServerURL.FindStringSubmatch(p.Out.String())[1]
			if code := stop(p); code != e2e.ExitRefused || !strings.Contains(p.Err.String(), "\ncoax: interrupted") {
				t.Errorf("it ended with %d; want 1 and that it was interrupted\n%s", code, p.Err)
			}
			checkEmptyFolder(t, temp)
			awaitClosed(t, server)
		})
	}
}

func TestBench_KilledEndsItsServer(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	temp := t.TempDir()
	p := launchBench(t, temp, "--duration", "10m", "--connections", "2", "--subscribers", "4")
	if !p.Out.WaitFor("started for this", p.Ended) {
		t.Fatalf("it did not begin:\n%s", p.Err)
	}
	p.Kill()
	awaitClosed(t, benchServerURL.FindStringSubmatch(p.Out.String())[1])
	awaitUnlocked(t, temp)
}

// awaitUnlocked waits until the demo of a bench has ended, which is after its listeners are
// closed: it writes to its folder until then.
func awaitUnlocked(t *testing.T, temp string) {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(temp, "coax-bench-*", "data", "coax.db.lock"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("the locks of the bench's store are %q, %v", locks, err)
	}
	for end := time.Now().Add(e2e.Timeout); ; {
		lock, err := sqlite.LockFolder(locks[0])
		if err == nil {
			lock.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Settings in the environment name another store, which must stay as it is.
func TestBench_OwnServerIgnoresEnvironment(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	h := e2e.NewInstall(t)
	before := h.Dump()
	p := e2e.LaunchProgram(t, e2e.Binary(t), []string{
		"TMPDIR=" + t.TempDir(), "COAX_STORE_URL=sqlite:" + e2e.StorePath(h), "COAX_SECRETS_MASTER_KEY_FILE=" + filepath.Join(h.Folder, "master.key"),
	}, append([]string{"bench", "--json", "--subscribers", "2000"}, benchShort...)...)
	t.Cleanup(func() { p.Kill() })
	if code := p.Wait(); code != e2e.ExitDone {
		t.Fatalf("it ended with %d; want 0\n%s", code, p.Err)
	}
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("it changed the store that the environment names:\n%s", diff)
	}
	var report benchReport
	if err := json.Unmarshal([]byte(p.Out.String()), &report); err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(e2e.FieldNames(t, p.Out.String()), " "); names != "ok problems server load phases books audit" {
		t.Errorf("the JSON has %s", names)
	}
	books := report.Books
	if !report.OK || len(report.Phases) != 2 || !report.Audit.OK || books.Charged == 0 || books.Credited-books.Charged != books.Balance {
		t.Errorf("%+v; want two phases, sound books and a clean audit", report)
	}
	for _, phase := range report.Phases {
		if phase.Requests == 0 || phase.PerSecond <= 0 || phase.Latency.P50 <= 0 || phase.Latency.Max < phase.Latency.P999 || phase.EndedEarly != "" {
			t.Errorf("%+v", phase)
		}
	}
}

func TestBench_GivenServerOnlyReads(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	folder := t.TempDir()
	e2e.StartDemo(t, folder)
	h := e2e.InstallAt(t, folder)
	before := h.JSON("log")
	args := []string{"bench", "--credentials", filepath.Join(folder, "demo.json"), "--duration", "300ms", "--warmup", "0s", "--connections", "4"}
	got := e2e.RequireOK(t, e2e.Run(t, args...))
	e2e.CheckMentions(t, "the report", got.Out, "only reads, at nine tenths of the key's 60 requests a minute", "\nreads ")
	for _, never := range []string{"\nrenewals ", "times 429", "audit"} {
		if strings.Contains(got.Out, never) {
			t.Errorf("the report mentions %q:\n%s", never, got.Out)
		}
	}
	var report benchReport
	got = e2e.RequireOK(t, e2e.Run(t, append(args, "--json")...))
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || !report.OK || report.Audit != nil || report.Books != nil || report.Load.RateLimit != 60 {
		t.Errorf("want reads and no books; %s", got)
	}
	if after := h.JSON("log"); after != before {
		t.Errorf("staff actions were recorded:\n%s", after)
	}
	wrong := e2e.RunWithEnv(t, []string{"COAX_API_SECRET=cxs_" + strings.Repeat("0", 64)}, args...)
	if wrong.Code != e2e.ExitRefused || !strings.Contains(wrong.Err, "INVALID_SIGNATURE") {
		t.Errorf("with a wrong secret: want exit 1 and the code; %s", wrong)
	}
}

func TestBench_Usage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"extra"}, []string{"extra"}},
		{[]string{"--only", "writes"}, []string{"writes", "reads or renewals"}},
		{[]string{"--credentials", "demo.json", "--only", "renewals"}, []string{"only read from", "coaxbench load"}},
		{[]string{"--duration", "0s"}, []string{"--duration", "10s"}},
		{[]string{"--duration", "10"}, []string{"duration", "10"}},
		{[]string{"--duration", "25h"}, []string{"24h"}},
		{[]string{"--warmup", "-1s"}, []string{"--warmup", "0s to 1h"}},
		{[]string{"--connections", "0"}, []string{"--connections", "1 to 4000"}},
		{[]string{"--connections", "4001"}, []string{"1 to 4000"}},
		{[]string{"--subscribers", "63"}, []string{"--subscribers", "64 to 1000000"}},
		{[]string{"--subscribers", "1000001"}, []string{"64 to 1000000"}},
	} {
		e2e.CheckUsageError(t, e2e.Run(t, append([]string{"bench"}, test.args...)...), test.want...)
	}
	e2e.CheckRefused(t, e2e.Run(t, "bench", "--credentials", filepath.Join(t.TempDir(), "none.json")), "read the credentials")
	help := e2e.RequireOK(t, e2e.Run(t, "bench", "--help")).Out
	e2e.CheckMentions(t, "the help", help, "--duration", "--warmup", "--connections", "--only", "--subscribers", "--credentials", "--json", "TMPDIR", "closed loop")
}

func TestBenchWorker_RenewsNoPairTwiceWithinTwoMinutes(t *testing.T) {
	w := &benchWorker{subscribers: []string{"1", "2", "3"}, plans: []client.Plan{{ID: "A"}, {ID: "B"}}, name: "k"}
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	last, keys := map[string]time.Time{}, map[string]bool{}
	for range 1000 {
		request, found := w.renew(now)
		if !found {
			now = now.Add(10 * time.Second)
			continue
		}
		if before, again := last[request.body]; again && now.Sub(before) < 2*time.Minute || keys[request.key] {
			t.Fatalf("%s with key %s again after %s", request.body, request.key, now.Sub(before))
		}
		last[request.body], keys[request.key] = now, true
		now = now.Add(time.Second)
	}
	if len(last) != 6 || len(keys) < 12 {
		t.Errorf("%d pairs in %d renewals; want all 6, and again after two minutes", len(last), len(keys))
	}
}

func TestBenchHistogram_PercentilesWithinOnePercent(t *testing.T) {
	var h benchHistogram
	var all []time.Duration
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		d := time.Duration(random.ExpFloat64() * float64(20*time.Millisecond))
		all = append(all, d)
		h.record(d)
	}
	slices.Sort(all)
	for _, percent := range []float64{50, 90, 99, 99.9, 100} {
		exact := float64(all[int(math.Ceil(percent/100*float64(len(all))))-1]) / 1e6
		if got := h.percentile(percent); got < exact-0.002 || got > exact*1.011+0.002 {
			t.Errorf("p%g is %g ms; want %g", percent, got, exact)
		}
	}
	if got := new(benchHistogram).summary(); got != (benchLatency{}) {
		t.Errorf("nothing recorded is %+v", got)
	}
}

// benchTestClient returns a client of a TLS server with one handler.
func benchTestClient(t *testing.T, handler http.HandlerFunc) (*client.Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{BaseURL: server.URL + "/api/v1", Key: "cxk_k", Secret: "cxs_s", HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return c, server
}

func TestBenchRun_CountsAnswers(t *testing.T) {
	served := 0
	c, _ := benchTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		if served++; served%2 == 0 {
			w.WriteHeader(429)
			fmt.Fprint(w, `{"code":"RATE_LIMITED"}`)
			return
		}
		fmt.Fprint(w, `{"code":"OK"}`)
	})
	left := 10
	r := &benchRun{
		phase: benchPhase{Name: "reads"}, start: time.Now(), end: time.Now().Add(time.Hour),
		next: func(*benchWorker, time.Time) (benchRequest, bool) {
			left--
			return benchRequest{kind: "balance", method: "GET", path: "/api/v1/balance"}, left >= 0
		},
	}
	phase, err := r.run(t.Context(), []*benchWorker{{client: c}}, func(string) {})
	if err != nil || phase.Requests != 10 || phase.Answers["200 OK"] != 5 || phase.Kinds["balance"] != 10 || phase.EndedEarly == "" {
		t.Errorf("%+v, %v; want ten requests, half of them answered 200", phase, err)
	}
	if got := phase.unexpected(); len(got) != 1 || got[0] != "reads: 5 times 429 RATE_LIMITED" {
		t.Errorf("unexpected: %q", got)
	}
}

func TestBenchRun_EndsWhenTheServerIsGone(t *testing.T) {
	c, server := benchTestClient(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	r := &benchRun{phase: benchPhase{Name: "reads"}, start: time.Now(), end: time.Now().Add(time.Hour), next: (*benchWorker).read}
	phase, err := r.run(t.Context(), []*benchWorker{{client: c, reads: []string{"balance"}}}, func(string) {})
	if err != nil || !strings.Contains(phase.EndedEarly, "no longer answers") || phase.Answers["no answer"] != benchLostAfter {
		t.Errorf("%+v, %v; want an end after %d requests", phase, err, benchLostAfter)
	}
}

func TestBenchRun_LeavesATenthOfTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 120
		r := &benchRun{rateLimit: limit, start: time.Now(), end: time.Now().Add(10 * time.Minute)}
		r.phase.Kinds, r.phase.Answers = map[string]uint64{}, map[string]uint64{}
		used := map[int64]int{}
		for r.wait(t.Context()) {
			minute := time.Now().Unix() / 60
			if used[minute] == 0 {
				used[minute] = 40 // requests of the key's owner
			}
			used[minute]++
			header := http.Header{"X-Ratelimit-Remaining": {fmt.Sprint(limit - used[minute])}}
			r.count(benchRequest{}, benchAnswer{status: 200, code: "OK", header: header}, time.Now(), time.Now())
		}
		if len(used) < 10 {
			t.Errorf("it sent in %d minutes; want all ten", len(used))
		}
		for minute, n := range used {
			if n > limit*9/10 {
				t.Errorf("in minute %d there were %d requests; want at most nine tenths of %d", minute, n, limit)
			}
		}
	})
}
