//go:build long

package certify

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
	tab.Do(chromedp.Evaluate(`for (const story of [...document.querySelectorAll("details")].slice(0, 3)) story.open = true`, nil))
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
		stories []string // those in which the fault has to be found
		besides []string // consequences that other stories may name
		// more is a second fault that has to be named in the first of the stories.
		more string
	}{
		{client: clients[0], args: []string{"new-key-on-retry"}, fault: certify.ChargedTwice, stories: []string{"lost-answer", "portal-page"}, more: certify.GaveUpEarly},
		{client: clients[0], args: []string{"retries-refusals"}, fault: certify.RetriedRefusal, stories: []string{"validation-error"}},
		{client: clients[0], args: []string{"trusts-any-certificate"}, fault: certify.AcceptedCertificate, stories: []string{"expired-certificate", "other-authority", "wrong-name"}},
		{client: clients[0], args: []string{"pending-is-success"}, fault: certify.ToldFalse, stories: []string{"pending-then-failure"}},
		{client: clients[0], args: []string{"reuses-nonce"}, fault: certify.ReSignedWrongly, stories: []string{"lost-answer", "lost-request"}, more: certify.PaidAndForgotten},
		{client: clients[1], args: []string{"body-serialised-twice"}, fault: certify.SignedWrongly, stories: []string{"names", "long-body"}, more: certify.GaveUpEarly},
		{client: clients[1], args: []string{"floating-point"}, fault: certify.ToldFalse, stories: []string{"amounts"}},
		{client: clients[1], args: []string{"no-retry-after-503"}, fault: certify.GaveUpEarly, stories: []string{"maintenance"}},
		{client: clients[1], args: []string{"secret-in-log"}, fault: certify.LeakedSecret, stories: []string{"plain"}},
		{client: clients[1], args: []string{"forgets-after-crash", state}, fault: certify.PaidAndForgotten, stories: []string{"killed-after-work"}, besides: []string{certify.GaveUpEarly}},
		{client: clients[2], args: []string{"polls-every-100ms"}, fault: certify.PolledTooHard, stories: []string{"pending-then-success"}},
		{client: clients[2], args: []string{"follows-redirects"}, fault: certify.FollowedRedirect, stories: []string{"redirect", "redirect-moved"}},
		{client: clients[2], args: []string{"never-corrects-clock"}, fault: certify.GaveUpEarly, stories: []string{"clock-ahead"}},
		{client: clients[2], args: []string{"pending-is-failure"}, fault: certify.PaidAndForgotten, stories: []string{"pending-then-success"}, besides: []string{certify.ToldFalse}},
		{client: clients[2], args: []string{"lost-answer-is-failure"}, fault: certify.PaidAndForgotten, stories: []string{"lost-answer"}, besides: []string{certify.GaveUpEarly}},
		{client: clients[3], args: []string{"ignores-retry-after"}, fault: certify.PolledTooHard, stories: []string{"rate-limit", "too-many-failures"}},
		{client: clients[3], args: []string{"new-key-after-crash", state}, fault: certify.ChargedTwice, stories: []string{"killed-after-work"}, more: certify.PaidAndForgotten},
		{client: clients[3], args: []string{"strict-about-fields"}, fault: certify.PaidAndForgotten, stories: []string{"unknown-field"}, besides: []string{certify.GaveUpEarly}},
		{client: clients[3], args: []string{"any-200-is-success"}, fault: certify.ToldFalse, stories: []string{"portal-page"}},
		{client: clients[3], args: []string{"impatient"}, fault: certify.GaveUpEarly, stories: []string{"pending-then-success"}},
	}
	for _, test := range tests {
		t.Run(test.client.name+"/"+test.args[0], func(t *testing.T) {
			t.Parallel()
			args := slices.Clone(test.args)
			if i := slices.Index(args, state); i >= 0 {
				args[i] = filepath.Join(t.TempDir(), "state")
			}
			missing := slices.Clone(test.stories)
			for _, r := range certified(t, test.client.line(t, args...)) {
				if r.Passed {
					continue
				}
				t.Logf("%s: %s; %q", r.Name, r.Fault, r.More)
				if r.Fault != test.fault && !slices.Contains(test.besides, r.Fault) {
					t.Errorf("%s: %s: %s; want %q", r.Name, r.Fault, r.Explanation, test.fault)
				}
				if r.Fault == test.fault {
					missing = slices.DeleteFunc(missing, func(name string) bool { return name == r.Name })
				}
				second := func(text string) bool { return strings.HasPrefix(text, test.more+": ") }
				if r.Name == test.stories[0] && test.more != "" && !slices.ContainsFunc(r.More, second) {
					t.Errorf("%s: besides, it names %q; want %q", r.Name, r.More, test.more)
				}
			}
			if len(missing) > 0 {
				t.Errorf("%q did not find %q", missing, test.fault)
			}
		})
	}
}
