package console

import (
	"cmp"
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// healthRoutes are the page on the state of the provider, this node and the ledger.
func (c console) healthRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: "/console/health", Area: web.Console, Allow: everyone, Keys: "g e", Menu: look.Text("Health"), Icon: "activity", Handle: c.showHealth},
	}
}

// healthState is the health with what home and the health page say about it.
type healthState struct {
	admin.Health
	// Well: nothing needs attention. Failing: nothing but failed calls does.
	Well, Failing bool
	// Failed is how many of the provider's last calls failed, and Calls how many there are;
	// LastCall is when this node made the last one, zero if it made none.
	Failed, Calls int
	LastCall      time.Time
}

func stateOfHealth(h admin.Health) healthState {
	state := healthState{Health: h, Failed: failedCalls(h.Provider.Recent), Calls: len(h.Provider.Recent)}
	if len(h.Provider.Recent) > 0 {
		state.LastCall = h.Provider.Recent[0].At
	}
	well := h.StoreProblem == "" && !h.Provider.Down && !h.Restore.Open && h.Provider.PricesVerified && h.OverdueReviews == 0 && !h.Maintenance.On &&
		h.Audit.Violations == 0 && h.Audit.Problem == "" &&
		!h.Certificate.Expired && !h.Certificate.Expiring && !h.Certificate.Missing && h.Certificate.Problem == "" && h.Certificate.OpenKeyMode == ""
	state.Well, state.Failing = well && state.Failed == 0, well && state.Failed > 0
	return state
}

type healthPage struct {
	healthState
	Answers []providerAnswer
	Jobs    []waitingJob
	// Every is the pause between two audits, as text.
	Every string
}

// waitingJob is a bulk renewal that waits for its operator.
type waitingJob struct {
	admin.WaitingJob
	OperatorName string
}

// providerAnswer describes one of the provider's last replies, in English.
type providerAnswer struct {
	admin.ProviderAnswer
	Question, Outcome string
}

// questionNames are the names of the provider calls.
var questionNames = map[string]string{
	"activate":       look.Text("Activate"),
	"renew":          look.Text("Renew"),
	"advance_renew":  look.Text("Book in advance"),
	"reset_password": look.Text("Password reset"),
	"contact":        look.Text("Change of contact data"),
	"status":         look.Text("Status check"),
	"void":           look.Text("Order cancellation"),
	"reverse":        look.Text("Undo an order"),
	"catalogue":      look.Text("Price list"),
	"probe":          look.Text("Probe"),
}

// questionName returns a call's name in English, or the stored name if it has none.
func questionName(what string) string { return cmp.Or(questionNames[what], what) }

// causeNames are the results of provider calls.
var causeNames = map[string]string{
	"answered":           look.Text("Answered"),
	"undecided":          look.Text("Not known yet"),
	"unreachable":        look.Text("Not reachable"),
	"certificate":        look.Text("Certificate not accepted"),
	"timed_out":          look.Text("Timed out"),
	"interrupted":        look.Text("Connection lost"),
	"unavailable":        look.Text("Provider reported an error"),
	"contract_violation": look.Text("Invalid response"),
}

func (c console) showHealth(v *web.Visit) error {
	health := c.Health(v.Context())
	page := healthPage{healthState: stateOfHealth(health), Every: span(health.Audit.Every)}
	if len(health.WaitingJobs) > 0 {
		names, err := c.operatorNames(v)
		if err != nil {
			return err
		}
		for _, job := range health.WaitingJobs {
			page.Jobs = append(page.Jobs, waitingJob{job, cmp.Or(names[job.OperatorID], number(job.OperatorID))})
		}
	}
	for _, one := range health.Provider.Recent {
		if one.What == "probe" && one.Cause == "undecided" {
			// It asks about an order that does not exist, so this is the answer it expects.
			one.Cause, one.Answered = "answered", true
		}
		page.Answers = append(page.Answers, providerAnswer{
			one, questionName(one.What), cmp.Or(causeNames[one.Cause], one.Cause),
		})
	}
	if v.ByHTMX() {
		return v.ShowPart("console/health", "state", page)
	}
	return v.Show("console/health", page)
}

// failedCalls counts the calls that failed. "Undecided" is a reply: the provider was reached, and
// the order is asked about again.
func failedCalls(recent []admin.ProviderAnswer) (failed int) {
	for _, call := range recent {
		if !call.Answered && call.Cause != "undecided" {
			failed++
		}
	}
	return failed
}

// span formats a duration without zero parts: 1m, not 1m0s.
func span(d time.Duration) string {
	text := d.String()
	for _, rest := range []string{"m0s", "h0m"} {
		if n := len(text) - len(rest); n > 0 && text[n:] == rest {
			text = text[:n+1]
		}
	}
	return text
}
