// Package console is the pages of the MSO's staff. It acts through admin, which
// writes down who did what; which role may open which page stands in its routes,
// and follows from what admin lets that role do.
package console

import (
	"context"
	"embed"
	"net/http"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// Files are the console's pages and their words.
//
//go:embed pages parts words
var Files embed.FS

// Operators lists the accounts there are.
type Operators interface {
	Operators(ctx context.Context) ([]subscription.Operator, error)
}

// Config is what the console reads and acts through.
type Config struct {
	Operators Operators
	// Acts are kept in Store, and secrets sealed by Vault; Limits are what one
	// person does not go beyond alone.
	Store  admin.Store
	Vault  admin.Sealer
	Limits admin.Limits
	// MaxMonths is the longest term that a plan is set to.
	MaxMonths int
	Reports   *report.Service
	// Requests knows when a key was used last, and who was refused.
	Requests *requestlog.Log
	// Provider is whose catalogue plans are made of.
	Provider string
	// Failures tells whose calls failed to authenticate at this node, whose name is Node.
	Failures FailedAuthentications
	Node     string
	// Health is how this node and the installation are, looked at anew.
	Health func(context.Context) admin.Health
	Now    func() time.Time
}

type console struct{ Config }

// Routes are the console's, for the site's one list. Those with a Menu stand in the
// navigation in this order, for whoever their rule lets in.
func Routes(config Config) []web.Route {
	c := console{config}
	return slices.Concat(
		[]web.Route{
			{Method: http.MethodGet, Path: "/console/", Area: web.Console, Allow: everyone, Menu: look.Text("Home"), Icon: "house", Handle: c.home},
		},
		c.operatorRoutes(),
		c.reviewRoutes(),
		c.approvalRoutes(),
		c.walletRoutes(),
		c.keyRoutes(),
		c.whitelistRoutes(),
		c.catalogueRoutes(),
		c.commissionRoutes(),
		c.loginRoutes(),
		c.auditLogRoutes(),
		c.failedAuthRoutes(),
		c.healthRoutes(),
	)
}

// everyone is all of the staff: a viewer looks at everything.
var everyone = web.Staff(web.StaffRoles...)

// whoMay lets in the roles that may do an act, and nobody else.
func whoMay(action admin.Action) web.Rule {
	var roles []login.Role
	for _, role := range web.StaffRoles {
		if admin.May(admin.Role(role), action) {
			roles = append(roles, role)
		}
	}
	return web.Staff(roles...)
}

// act is a route by which something is done that admin has a name for. Admin also says
// whether it needs a step-up: where that depends on the form, the service refuses the form
// with admin.ErrStepUp.
func act(action admin.Action, path, form string, handle func(*web.Visit) error) web.Route {
	return web.Route{
		Method: http.MethodPost, Path: path, Area: web.Console, Allow: whoMay(action), StepUp: admin.StepUpFor(action) == admin.StepUpAlways,
		Form: form, Handle: handle,
	}
}

// guarded is an act that needs a step-up whatever is in its form.
func guarded(action admin.Action, path, form string, handle func(*web.Visit) error) web.Route {
	route := act(action, path, form, handle)
	route.StepUp = true
	return route
}

// service is where the visitor acts: in their own name, with their role, from where
// they are.
func (c console) service(v *web.Visit) *admin.Service {
	service := admin.NewService(c.Store, c.Vault, v.Actor(), c.Now).WithMaxPlanMonths(c.MaxMonths).WithRole(admin.Role(v.Session.Person.Role), c.Limits).WithOrigin(v.Address)
	if !v.Session.Fresh(v.Now) {
		service = service.WithoutStepUp()
	}
	return service
}

// lasting is for acts: somebody who hangs up has not taken them back.
func lasting(v *web.Visit) context.Context { return context.WithoutCancel(v.Context()) }

// orNotFound says of something that was refused when it was looked up that it is
// not there.
func orNotFound(err error) error {
	if refused(err) {
		return web.NotFound()
	}
	return err
}

// rights says which acts the visitor may do, so that a page shows only those.
type rights struct{ role admin.Role }

func rightsOf(v *web.Visit) rights { return rights{admin.Role(v.Session.Person.Role)} }

// May reports whether an act, by its name in the log, is one of them.
func (r rights) May(action string) bool { return admin.May(r.role, admin.Action(action)) }

// Badges counts what waits behind an item of the navigation. One that cannot be
// counted now is shown without a number: the page itself says what is wrong.
func Badges(config Config) func(v *web.Visit, path string) int {
	c := console{config}
	return func(v *web.Visit, path string) int {
		switch path {
		case approvalsPath:
			open, err := c.service(v).Proposals(v.Context(), admin.ProposalFilter{Open: true, Limit: proposalRows})
			if err == nil {
				return len(open)
			}
		case "/console/review":
			totals, err := c.Reports.Totals(v.Context())
			if err == nil {
				return totals.InReview
			}
		}
		return 0
	}
}
