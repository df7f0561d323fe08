package console

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (c console) whitelistRoutes() []web.Route {
	const page = "/console/operators/{id}/whitelist"
	return []web.Route{
		{Method: http.MethodGet, Path: page, Area: web.Console, Allow: everyone, Handle: c.showWhitelist},
		actionRoute(admin.WhitelistAdd, page+"/add", page, c.allowAddress),
		actionRoute(admin.WhitelistRemove, page+"/remove", page, c.disallowAddress),
	}
}

// refusedDays is how far back refused addresses are searched.
const refusedDays = 7

type whitelistPage struct {
	Head    operatorHead
	Form    *form
	Entries []string
	Limit   int
	Refused []requestlog.RefusedAddress
}

func (c console) showWhitelist(v *web.Visit) error { return c.whitelistPage(v, newForm(v, "")) }

func (c console) whitelistPage(v *web.Visit, f *form) error {
	head, err := c.head(v, "whitelist")
	if err != nil {
		return err
	}
	entries, err := c.service(v).Whitelist(v.Context(), head.ID)
	if err != nil {
		return err
	}
	refused, err := c.Requests.RefusedAddresses(v.Context(), head.ID, v.Now.Add(-refusedDays*24*time.Hour))
	if err != nil {
		return err
	}
	data := whitelistPage{Head: head, Form: f, Entries: admin.WhitelistState(entries), Limit: access.MaxWhitelistEntries, Refused: refused}
	if !f.ok() {
		return again(v, "console/whitelist", data)
	}
	return v.Show("console/whitelist", data)
}

func (c console) allowAddress(v *web.Visit) error {
	return c.changeWhitelist(v, "add", (*admin.Service).AllowAddress, func(entry string) *look.Notice {
		return v.Success("Calls from %s are now accepted.", entry)
	})
}

func (c console) disallowAddress(v *web.Visit) error {
	return c.changeWhitelist(v, "remove", (*admin.Service).DisallowAddress, func(entry string) *look.Notice {
		return v.Success("Calls from %s are now refused.", entry)
	})
}

// changeWhitelist changes the whitelist of the operator in the path.
func (c console) changeWhitelist(
	v *web.Visit, name string, do func(*admin.Service, context.Context, int64, string) (netip.Prefix, error), done func(entry string) *look.Notice,
) error {
	operator, err := c.operator(v)
	if err != nil {
		return err
	}
	f := newForm(v, name)
	text := f.text("address")
	if !f.ok() {
		return c.whitelistPage(v, f)
	}
	entry, err := do(c.service(v), lasting(v), operator.ID, text)
	if err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.whitelistPage(v, f)
	}
	return v.Redirect(operatorPath(operator.ID)+"/whitelist", done(admin.EntryText(entry)))
}
