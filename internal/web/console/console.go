// Package console has the pages of the MSO's staff. It acts through admin, which records
// every action in the audit log. Its routes say which role may open a page; that follows
// from what admin allows the role.
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

// Files are the console's pages and their translations.
//
//go:embed pages parts words
var Files embed.FS

// Operators lists the operators' accounts.
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
	// MaxMonths is the longest term of a plan.
	MaxMonths int
	// ReversalAge is until how long after its success an operation can be reversed.
	ReversalAge time.Duration
	// ReversalWait is how long the provider is asked about a reversal before staff can settle it.
	ReversalWait time.Duration
	Reports      *report.Service
	// Requests reads when a key was used last, and which requests were refused.
	Requests *requestlog.Log
	// Provider is the provider of the catalogue.
	Provider string
	// Failures returns the requests that failed to authenticate at this node, Node.
	Failures FailedAuthentications
	Node     string
	// Compare compares the provider's orders with the store's.
	Compare Comparer
	// Health checks this node and the installation.
	Health func(context.Context) admin.Health
	Now    func() time.Time
}

type console struct{ Config }

// Routes returns the console's routes, in the order of the navigation.
func Routes(config Config) []web.Route {
	c := console{config}
	return slices.Concat(
		[]web.Route{
			{Method: http.MethodGet, Path: "/console/", Area: web.Console, Allow: everyone, Keys: "g h", Menu: look.Text("Home"), Icon: "house", Handle: c.home},
		},
		c.operatorRoutes(),
		c.reviewRoutes(),
		c.reversalRoutes(),
		c.approvalRoutes(),
		c.paymentRoutes(),
		c.walletRoutes(),
		c.keyRoutes(),
		c.whitelistRoutes(),
		c.catalogueRoutes(),
		c.commissionRoutes(),
		c.reconcileRoutes(),
		c.loginRoutes(),
		c.auditLogRoutes(),
		c.failedAuthRoutes(),
		c.healthRoutes(),
		c.searchRoutes(),
	)
}

// everyone allows all staff roles: a viewer may see every page.
var everyone = web.Staff(web.StaffRoles...)

// whoMay allows the roles that may do an action.
func whoMay(action admin.Action) web.Rule {
	var roles []login.Role
	for _, role := range web.StaffRoles {
		if admin.May(admin.Role(role), action) {
			roles = append(roles, role)
		}
	}
	return web.Staff(roles...)
}

// actionRoute returns the route of an action of admin. Admin decides whether it needs a step-up: if
// that depends on the form, the service returns admin.ErrStepUp.
func actionRoute(action admin.Action, path, form string, handle func(*web.Visit) error) web.Route {
	return web.Route{
		Method: http.MethodPost, Path: path, Area: web.Console, Allow: whoMay(action), StepUp: admin.StepUpFor(action) == admin.StepUpAlways,
		Form: form, Handle: handle,
	}
}

// guarded returns the route of an action that always needs a step-up.
func guarded(action admin.Action, path, form string, handle func(*web.Visit) error) web.Route {
	route := actionRoute(action, path, form, handle)
	route.StepUp = true
	return route
}

// service returns the admin service for the visitor, with their name, role and address.
func (c console) service(v *web.Visit) *admin.Service {
	service := admin.NewService(c.Store, c.Vault, v.Actor(), c.Now).WithMaxPlanMonths(c.MaxMonths).WithReversalAge(c.ReversalAge).WithReversalWait(c.ReversalWait).WithRole(admin.Role(v.Session.Person.Role), c.Limits).WithOrigin(v.Address)
	if !v.Session.Fresh(v.Now) {
		service = service.WithoutStepUp()
	}
	return service
}

// lasting returns a context for actions, which must not be cancelled when the visitor hangs
// up.
func lasting(v *web.Visit) context.Context { return context.WithoutCancel(v.Context()) }

// orNotFound turns a refused look-up into a 404.
func orNotFound(err error) error {
	if refused(err) {
		return web.NotFound()
	}
	return err
}

// rights says which actions the visitor may do, so that a page shows only those.
type rights struct{ role admin.Role }

func rightsOf(v *web.Visit) rights { return rights{admin.Role(v.Session.Person.Role)} }

// May reports whether the visitor may do an action, by its name in the audit log.
func (r rights) May(action string) bool { return admin.May(r.role, admin.Action(action)) }

// Badges returns the number beside an item of the navigation. If it cannot be counted, no
// number is shown: the page itself reports the error.
func Badges(config Config) func(v *web.Visit, path string) int {
	c := console{config}
	return func(v *web.Visit, path string) int {
		switch path {
		case approvalsPath:
			open, err := c.service(v).Proposals(v.Context(), admin.ProposalFilter{Open: true, Limit: proposalRows})
			if err == nil {
				return len(open)
			}
		case paymentsPath:
			open, _, err := c.service(v).OpenAnnouncements(v.Context())
			if err == nil {
				return open
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
