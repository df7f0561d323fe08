// Package panel is the pages of an operator's people: what they see of their own
// operator's world, and what they do in it. Every question it asks carries the
// operator of whoever is signed in, which no address and no form can name.
package panel

import (
	"context"
	"embed"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
)

// Files are the panel's pages and their words.
//
//go:embed pages parts words
var Files embed.FS

// Operators tells how an operator stands.
type Operators interface {
	Operator(ctx context.Context, id int64) (subscription.Operator, error)
}

// Histories tells what an operation went through. It does not ask whose it is:
// only what was found to be the operator's own is asked for.
type Histories interface {
	OperationHistory(ctx context.Context, id string) (admin.OperationHistory, error)
}

// Config is what the panel reads, and what it acts through.
type Config struct {
	Report     *report.Service
	Operations *operation.Processor
	Plans      *catalogue.Catalogue
	Passwords  *admin.Passwords
	Operators  Operators
	Histories  Histories
	Bulk       *bulk.Service
	Requests   *requestlog.Log
	// StatusOf is what the API answers with, for orders that are in the request log
	// beside the API's.
	StatusOf func(fault.Code) int
	Access   Access
	// Failures tells which calls failed to authenticate at this node.
	Failures FailedAuthentications
	// Store is where an owner's actions on the operator's own people and keys are kept.
	Store admin.Store
	Now   func() time.Time
}

type panel struct{ Config }

// Who may use the panel's routes. The counter sells and looks after subscribers; API keys
// and the log of the operator's programs are for the owner, and for who looks at the whole.
var (
	everyone    = web.Operators(web.OperatorRoles...)
	counters    = web.Operators(login.Owner, login.Counter)
	integrators = web.Operators(login.Owner, login.ReadOnly)
	owners      = web.Operators(login.Owner)
)

// Badges counts what waits behind an item of the navigation: bulk renewals that were
// interrupted. One that cannot be counted now is shown without a number.
func Badges(config Config) func(v *web.Visit, path string) int {
	return func(v *web.Visit, path string) int {
		if path != "/panel/bulk" {
			return 0
		}
		waiting, err := config.Bulk.Interrupted(v.Context(), v.Operator())
		if err != nil {
			return 0
		}
		return waiting
	}
}

// Routes are the panel's, for the site's one list. The navigation has them in this
// order.
func Routes(config Config) []web.Route {
	p := panel{config}
	return slices.Concat(
		p.homeRoutes(),
		p.subscriberRoutes(),
		p.orderRoutes(),
		p.operationRoutes(),
		p.bulkRoutes(),
		p.booksRoutes(),
		p.integratorRoutes(),
		p.peopleRoutes(),
	)
}
