// Package console is the pages of the MSO's staff. It acts through admin, which
// writes down who did what; which role may open which page stands in its routes.
package console

import (
	"context"
	"embed"
	"net/http"

	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// Files are the console's pages and their words.
//
//go:embed pages words
var Files embed.FS

// Operators lists the accounts there are.
type Operators interface {
	Operators(ctx context.Context) ([]subscription.Operator, error)
}

// Config is what the console reads.
type Config struct {
	Operators Operators
}

type console struct{ Config }

// Routes are the console's, for the site's one list.
func Routes(config Config) []web.Route {
	c := console{config}
	return []web.Route{
		{Method: http.MethodGet, Path: "/console/", Area: web.Console, Who: web.Staff(web.StaffRoles...), Menu: look.Word("Home"), Icon: "house", Handle: c.home},
	}
}

type homePage struct {
	Name      string
	Operators int
}

func (c console) home(v *web.Visit) error {
	operators, err := c.Operators.Operators(v.Context())
	if err != nil {
		return err
	}
	open := 0
	for _, operator := range operators {
		if operator.Status != subscription.OperatorDeleted {
			open++
		}
	}
	return v.Show("console/home", homePage{Name: v.Session.Person.Name, Operators: open})
}
