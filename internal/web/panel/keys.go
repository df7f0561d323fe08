package panel

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

// Access tells what an operator's programs are let in with, and from where.
type Access interface {
	Keys(ctx context.Context, operatorID int64) ([]access.Credential, error)
	Whitelist(ctx context.Context, operatorID int64) ([]netip.Prefix, error)
}

// integratorRoutes are for whoever writes the operator's programs.
func (p panel) integratorRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/keys", Area: web.Panel, Who: web.Operators, Menu: look.Word("API keys"), Icon: "key-round", Handle: p.showKeys},
		{Method: http.MethodGet, Path: "/panel/requests", Area: web.Panel, Who: web.Operators, Menu: look.Word("Request log"), Icon: "scroll-text", Handle: p.showRequests},
		{Method: http.MethodGet, Path: "/panel/requests/{id}", Area: web.Panel, Who: web.Operators, Handle: p.showRequest},
		{Method: http.MethodPost, Path: "/panel/requests/{id}", Area: web.Panel, Who: web.Operators, Upload: comparedMost, Handle: p.compareRequest},
		{Method: http.MethodGet, Path: "/panel/signature", Area: web.Panel, Who: web.Operators, Menu: look.Word("Signature helper"), Icon: "fingerprint", Handle: p.showSignature},
	}
}

// refusedFor is how far back refused addresses are shown.
const refusedFor = 7 * 24 * time.Hour

// keysPage is what programs are let in with.
type keysPage struct {
	Kept      kept
	Keys      []keyRow
	Whitelist []string
	Refused   []requestlog.RefusedAddress
}

// keyRow is a key as people may see it: by its beginning, never whole.
type keyRow struct {
	access.Credential
	State     string
	LastUse   time.Time
	May       []string
	Whole     bool // it may do everything
	Successor string
}

func (p panel) showKeys(v *web.Visit) error {
	ctx, operator := v.Context(), v.Operator()
	keys, err := p.Access.Keys(ctx, operator)
	if err != nil {
		return err
	}
	uses, err := p.Requests.LastUse(ctx, operator)
	if err != nil {
		return err
	}
	page := keysPage{Kept: p.kept(v)}
	whitelist, err := p.Access.Whitelist(ctx, operator)
	if err != nil {
		return err
	}
	page.Whitelist = admin.WhitelistState(whitelist)
	if page.Refused, err = p.Requests.RefusedAddresses(ctx, operator, v.Now.Add(-refusedFor)); err != nil {
		return err
	}
	hints := map[int64]string{}
	for _, key := range keys {
		hints[key.ID] = key.Hint
	}
	for _, key := range keys {
		one := keyRow{
			Credential: key, State: keyState(key, v.Now), LastUse: uses[key.ID],
			Whole: key.Permissions == access.AllPermissions, Successor: hints[key.ReplacedBy],
		}
		for _, permission := range key.Permissions.List() {
			one.May = append(one.May, permission.String())
		}
		page.Keys = append(page.Keys, one)
	}
	return v.Show("panel/keys", page)
}

// keyState is how a key stands, as badges know it.
func keyState(key access.Credential, now time.Time) string {
	switch {
	case !key.RevokedAt.IsZero():
		return "revoked"
	case key.ExpiresAt.IsZero():
		return "active"
	case key.ExpiresAt.After(now):
		return "grace"
	}
	return "expired"
}
