// Package panel is the pages of an operator's people: what they see of their own
// operator's world, and what they do in it. Every question it asks carries the
// operator of whoever is signed in, which no address and no form can name.
package panel

import (
	"context"
	"embed"
	"net/http"
	"slices"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// Files are the panel's pages and their words.
//
//go:embed pages parts words
var Files embed.FS

// Wallets tells what an operator has to spend.
type Wallets interface {
	Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error)
}

// Config is what the panel reads.
type Config struct {
	Wallets    Wallets
	Report     *report.Desk
	Operations *operation.Processor
	Bulk       *bulk.Desk
	Requests   *requestlog.Log
	Access     Access
}

type panel struct{ Config }

// Routes are the panel's, for the site's one list.
func Routes(config Config) []web.Route {
	p := panel{config}
	return slices.Concat([]web.Route{
		{Method: http.MethodGet, Path: "/panel/", Area: web.Panel, Who: web.Operators, Menu: look.Word("Home"), Icon: "house", Handle: p.home},
	}, p.bulkRoutes(), p.booksRoutes(), p.integratorRoutes())
}

type homePage struct {
	Name   string
	Wallet subscription.Wallet
}

func (p panel) home(v *web.Visit) error {
	wallet, err := p.Wallets.Wallet(v.Context(), v.Operator())
	if err != nil {
		return err
	}
	return v.Show("panel/home", homePage{Name: v.Session.Person.Name, Wallet: wallet})
}
