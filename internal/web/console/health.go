package console

import (
	"net/http"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// healthRoutes show how the provider, the node that answers and the books are.
func (c console) healthRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: "/console/health", Area: web.Console, Who: everyone, Menu: look.Word("Health"), Icon: "activity", Handle: c.showHealth},
	}
}

type healthPage struct {
	admin.Health
	// Well: nothing here needs anybody.
	Well bool
	// Every is the pause between two audits, as people write it.
	Every string
}

func (c console) showHealth(v *web.Visit) error {
	health := c.Health(v.Context())
	page := healthPage{Health: health, Every: span(health.Audit.Every)}
	page.Well = health.StoreProblem == "" && !health.Provider.Out && health.Provider.PricesCount && health.OverdueReviews == 0 &&
		health.Audit.Violations == 0 && health.Audit.Problem == ""
	if v.ByHTMX() {
		return v.ShowPart("console/health", "state", page)
	}
	return v.Show("console/health", page)
}

// span writes a duration without the parts that are zero: 1m, not 1m0s.
func span(d time.Duration) string {
	text := d.String()
	for _, rest := range []string{"m0s", "h0m"} {
		if n := len(text) - len(rest); n > 0 && text[n:] == rest {
			text = text[:n+1]
		}
	}
	return text
}
