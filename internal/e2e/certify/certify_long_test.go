//go:build long

package certify

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/coaxhq/coax/internal/certify"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// Each adapter runs alone, so that the log shows how long a full run takes.
func TestAdapters_PassEveryStory(t *testing.T) {
	for _, one := range adapters {
		t.Run(one.name, func(t *testing.T) {
			command := one.line(t)
			began := time.Now()
			results := certified(t, command)
			t.Logf("a full run of the adapter for %s took %.0f s on %d processors", one.name, time.Since(began).Seconds(), runtime.NumCPU())
			requirePassed(t, results)
			checkPage(t, one.name, results)
		})
	}
}

// checkPage checks the page of a run: what it says, that it asks for nothing else, and that it
// fits a phone.
func checkPage(t *testing.T, name string, results []certify.Result) {
	t.Helper()
	report, err := certify.NewReport(results, "1.2.3", time.Now(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	page, err := report.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if read, compared, err := certify.Verify(page, "1.2.3"); err != nil || !compared || read.Digest != report.Digest {
		t.Errorf("the page reads %s, compared %v: %v", read.Digest, compared, err)
	}
	if name != adapters[0].name {
		return // the pages differ in their texts only
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/report.html" {
			t.Errorf("the page asks for %s", r.URL)
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(page)
	}))
	defer server.Close()
	tab := looktest.New(t)
	tab.Listen(func(event any) {
		if sent, is := event.(*network.EventRequestWillBeSent); is && sent.Request.URL != server.URL+"/report.html" && sent.Request.URL != "data:," {
			t.Errorf("the page asks for %s", sent.Request.URL)
		}
	})
	tab.Do(network.Enable())
	tab.Open(server.URL + "/report.html")
	for _, text := range []string{fmt.Sprintf("All %d stories passed", len(results)), report.Date, report.Version, report.Digest} {
		tab.Sees(text)
	}
	tab.Do(chromedp.Evaluate(`for (const story of document.querySelectorAll("details")) story.open = true`, nil))
	tab.CheckEveryView("certify")
}

func TestHandWrittenClients_PassEveryStory(t *testing.T) {
	for _, one := range clients {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			requirePassed(t, certified(t, one.line(t)))
		})
	}
}

// Each broken client is wrong in one way, and that way is what is found, in the stories where
// it has to show and in no other way.
func TestBrokenClients_TheirFaultIsFound(t *testing.T) {
	const state = "STATE"
	tests := []struct {
		client  candidate
		args    []string
		fault   string
		story   string   // one in which the fault has to be found
		besides []string // consequences that other stories may name
	}{
		{client: clients[0], args: []string{"new-key-on-retry"}, fault: certify.ChargedTwice, story: "lost-answer"},
		{client: clients[0], args: []string{"retries-refusals"}, fault: certify.RetriedRefusal, story: "validation-error"},
		{client: clients[0], args: []string{"trusts-any-certificate"}, fault: certify.AcceptedCertificate, story: "expired-certificate"},
		{client: clients[0], args: []string{"pending-is-success"}, fault: certify.ToldFalse, story: "pending-then-failure"},
		{client: clients[0], args: []string{"reuses-nonce"}, fault: certify.ReSignedWrongly, story: "lost-request"},
		{client: clients[1], args: []string{"body-serialised-twice"}, fault: certify.SignedWrongly, story: "names"},
		{client: clients[1], args: []string{"floating-point"}, fault: certify.ToldFalse, story: "amounts"},
		{client: clients[1], args: []string{"no-retry-after-503"}, fault: certify.GaveUpEarly, story: "maintenance"},
		{client: clients[1], args: []string{"secret-in-log"}, fault: certify.LeakedSecret, story: "plain"},
		{client: clients[1], args: []string{"forgets-after-crash", state}, fault: certify.PaidAndForgotten, story: "killed-after-work", besides: []string{certify.GaveUpEarly}},
		{client: clients[2], args: []string{"polls-every-100ms"}, fault: certify.PolledTooHard, story: "pending-then-success"},
		{client: clients[2], args: []string{"follows-redirects"}, fault: certify.FollowedRedirect, story: "redirect"},
		{client: clients[2], args: []string{"never-corrects-clock"}, fault: certify.GaveUpEarly, story: "clock-ahead"},
		{client: clients[2], args: []string{"pending-is-failure"}, fault: certify.PaidAndForgotten, story: "pending-then-success", besides: []string{certify.ToldFalse}},
		{client: clients[2], args: []string{"lost-answer-is-failure"}, fault: certify.PaidAndForgotten, story: "lost-answer", besides: []string{certify.GaveUpEarly}},
		{client: clients[3], args: []string{"ignores-retry-after"}, fault: certify.PolledTooHard, story: "rate-limit"},
		{client: clients[3], args: []string{"new-key-after-crash", state}, fault: certify.ChargedTwice, story: "killed-after-work"},
		{client: clients[3], args: []string{"strict-about-fields"}, fault: certify.PaidAndForgotten, story: "unknown-field", besides: []string{certify.GaveUpEarly}},
		{client: clients[3], args: []string{"any-200-is-success"}, fault: certify.ToldFalse, story: "portal-page"},
		{client: clients[3], args: []string{"impatient"}, fault: certify.GaveUpEarly, story: "pending-then-success"},
	}
	for _, test := range tests {
		t.Run(test.client.name+"/"+test.args[0], func(t *testing.T) {
			t.Parallel()
			args := slices.Clone(test.args)
			if i := slices.Index(args, state); i >= 0 {
				args[i] = filepath.Join(t.TempDir(), "state")
			}
			found := false
			for _, r := range certified(t, test.client.line(t, args...)) {
				if r.Passed {
					continue
				}
				t.Logf("%s: %s", r.Name, r.Fault)
				if r.Fault != test.fault && !slices.Contains(test.besides, r.Fault) {
					t.Errorf("%s: %s: %s; want %q", r.Name, r.Fault, r.Explanation, test.fault)
				}
				found = found || r.Name == test.story && r.Fault == test.fault
			}
			if !found {
				t.Errorf("%s did not find %q", test.story, test.fault)
			}
		})
	}
}
