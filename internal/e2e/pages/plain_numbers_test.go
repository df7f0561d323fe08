package pages

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// The list of missing add-ons and the operation's page count the same provider calls.
func TestAddons_CountProviderCalls(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me := w.DemoCaller()
	const mobile = "9800000077"
	w.ScriptProvider(mobile, slices.Repeat([]string{"addon_fails"}, 200)...)
	w.Activate(me, mobile, "COMBO-1")
	id := w.LookUp(me, "activate-"+mobile).Text("transaction_id")
	var staff *e2e.Browser
	counted := func(path, form string) string {
		if found := regexp.MustCompile(form).FindStringSubmatch(staff.Get(path).Body); found != nil {
			return strings.Join(found[1:], " calls, rejected: ")
		}
		return ""
	}
	last := ""
	for _, more := range []time.Duration{0, time.Hour} {
		w.Advance(more)
		staff = w.SignIn(t, w.Demo.Admin) // the session has expired
		w.WaitUntil("list and page count the same calls", func() bool {
			page := counted(reviewed(id), `The provider was called (\d+) times? about it. (\d+) orders? (?:was|were) rejected`)
			list := counted("/console/review/addons", `data-label="Provider calls" class="num"><span>(\d+) <span class="sub">(\d+) rejected`)
			same := page != "" && page == list && page != last // a call may come between the two
			if same {
				last = page
			}
			return same
		})
	}
	w.CheckAudit()
}

var providerState = regexp.MustCompile(`(?s)<dt>(?:Provider|State)</dt><dd>(<span class="badge[^>]*>.*?(?:Healthy|calls failed|Not healthy).*?)</dd>`)

// Home and the health page say the same of the provider, and how old that is.
func TestHome_SaysWhatHealthSays(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	staff := w.SignIn(t, w.Demo.Admin)
	staff.Get("/console/").Shows(t, http.StatusOK, "Overview", "State")
	w.Simulator.Stop() // for good: one answer to a probe, and all is healthy again
	got := w.Operate(w.DemoCaller(), "activate", "no-provider", e2e.Order{"full_name": "Asha", "mobile": "9800000002", "plan_id": "FAMILY-1"})
	if got.Code != fault.ProviderError {
		t.Fatalf("without a provider: %s", got.Raw)
	}
	w.WaitUntil("both pages say that a call failed", func() bool {
		home, health := staff.Get("/console/").Body, staff.Get("/console/health").Body
		// Three failed probes in a row, and the provider is down.
		if !strings.Contains(health, "calls failed") && !strings.Contains(health, "Not healthy") {
			return false
		}
		said := providerState.FindStringSubmatch(home)
		if said == nil || strings.Contains(said[1], "Healthy") || !strings.Contains(said[1], "<time") {
			t.Fatalf("health says that a call failed; home says of the provider: %q", said)
		}
		if strings.Contains(home, "No action needed.") || strings.Contains(home, "Everything is working.") {
			t.Error("health counts a failed call, and home says that no action is needed")
		}
		return true
	})
}
