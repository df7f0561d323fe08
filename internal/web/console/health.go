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
		{Method: http.MethodGet, Path: "/console/health", Area: web.Console, Allow: everyone, Menu: look.Text("Health"), Icon: "activity", Handle: c.showHealth},
	}
}

type healthPage struct {
	admin.Health
	// Well: nothing needs attention.
	Well    bool
	Answers []providerAnswer
	// Every is the pause between two audits, as text.
	Every string
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
	"reset_password": look.Text("Reset a password"),
	"status":         look.Text("What became of an order"),
	"void":           look.Text("Take an order back"),
	"catalogue":      look.Text("Price list"),
	"probe":          look.Text("Are you there"),
}

// questionName returns a call's name in English, or the stored name if it has none.
func questionName(what string) string { return cmp.Or(questionNames[what], what) }

// causeNames are the results of provider calls.
var causeNames = map[string]string{
	"answered":           look.Text("Answered"),
	"undecided":          look.Text("Cannot say yet"),
	"unreachable":        look.Text("Not reached"),
	"certificate":        look.Text("Certificate not accepted"),
	"timed_out":          look.Text("No answer in time"),
	"interrupted":        look.Text("Connection lost"),
	"unavailable":        look.Text("Out of order there"),
	"contract_violation": look.Text("Answer not understood"),
}

func (c console) showHealth(v *web.Visit) error {
	health := c.Health(v.Context())
	page := healthPage{Health: health, Every: span(health.Audit.Every)}
	page.Well = health.StoreProblem == "" && !health.Provider.Down && health.Provider.PricesVerified && health.OverdueReviews == 0 && !health.Maintenance.On &&
		health.Audit.Violations == 0 && health.Audit.Problem == "" &&
		!health.Certificate.Expired && !health.Certificate.Expiring && health.Certificate.OpenKeyMode == ""
	for _, one := range health.Provider.Recent {
		page.Answers = append(page.Answers, providerAnswer{
			one, questionName(one.What), cmp.Or(causeNames[one.Cause], one.Cause),
		})
	}
	if v.ByHTMX() {
		return v.ShowPart("console/health", "state", page)
	}
	return v.Show("console/health", page)
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
