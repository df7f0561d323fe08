// Package panel has the pages of operators. Every read and action is limited to the operator
// of the signed-in user, which no URL and no form can change.
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
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
)

// Files are the panel's pages and their translations.
//
//go:embed pages parts words
var Files embed.FS

// Operators reads operators.
type Operators interface {
	Operator(ctx context.Context, id int64) (subscription.Operator, error)
}

// Histories reads an operation's events. It does not check the operator, so callers pass
// only ids of the operator's own operations.
type Histories interface {
	OperationHistory(ctx context.Context, id string) (admin.OperationHistory, error)
}

// Config is what the panel reads and acts through.
type Config struct {
	Report     *report.Service
	Operations *operation.Processor
	Plans      *catalogue.Catalogue
	Passwords  *admin.Passwords
	Contacts   *admin.Contacts
	Operators  Operators
	Histories  Histories
	Bulk       *bulk.Service
	Requests   *requestlog.Log
	// Payments announces payments to the MSO.
	Payments *admin.Payments
	Receipts receipt.Store
	// Links are those under which customers open their receipts.
	Links *receipt.Links
	// StatusOf returns the API's status for a code, for the panel's orders in the request
	// log.
	StatusOf func(fault.Code) int
	Access   Access
	// Failures returns the requests that failed to authenticate at this node.
	Failures FailedAuthentications
	// Store saves an owner's actions on the operator's own users and keys.
	Store admin.Store
	// ReversalAge is until how long after its success staff can reverse an operation.
	ReversalAge time.Duration
	Now         func() time.Time
}

type panel struct{ Config }

// Rules of the panel's routes. The counter role sells and manages subscribers; API keys and
// the request log are for owners and read-only users.
var (
	everyone    = web.Operators(web.OperatorRoles...)
	counters    = web.Operators(login.Owner, login.Counter)
	integrators = web.Operators(login.Owner, login.ReadOnly)
	owners      = web.Operators(login.Owner)
)

// Badges returns the number beside an item of the navigation: interrupted bulk renewals.
// If they cannot be counted, no number is shown.
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

// Routes returns the panel's routes, in the order of the navigation.
func Routes(config Config) []web.Route {
	p := panel{config}
	return slices.Concat(
		p.homeRoutes(),
		p.subscriberRoutes(),
		p.orderRoutes(),
		p.operationRoutes(),
		p.bulkRoutes(),
		p.booksRoutes(),
		p.paymentRoutes(),
		p.integratorRoutes(),
		p.peopleRoutes(),
		p.receiptRoutes(),
		p.searchRoutes(),
	)
}
