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

// Access reads an operator's API keys and whitelist.
type Access interface {
	Keys(ctx context.Context, operatorID int64) ([]access.Credential, error)
	Whitelist(ctx context.Context, operatorID int64) ([]netip.Prefix, error)
}

// integratorRoutes are the pages for the operator's developers.
func (p panel) integratorRoutes() []web.Route {
	const keyPath = "/panel/keys/{key}"
	return []web.Route{
		{Method: http.MethodGet, Path: "/panel/keys", Area: web.Panel, Allow: integrators, Keys: "g k", Menu: look.Text("API keys"), Icon: "key-round", Handle: p.showKeys},
		{Method: http.MethodGet, Path: keyPath, Area: web.Panel, Allow: integrators, Handle: p.showKey},
		{Method: http.MethodPost, Path: keyPath + "/revoke", Area: web.Panel, Allow: owners, Form: keyPath, Handle: p.revokeKey},
		{Method: http.MethodGet, Path: "/panel/requests", Area: web.Panel, Allow: integrators, Keys: "g r", Menu: look.Text("Request log"), Icon: "scroll-text", Handle: p.showRequests},
		{Method: http.MethodGet, Path: "/panel/requests/{id}", Area: web.Panel, Allow: integrators, Handle: p.showRequest},
		{Method: http.MethodPost, Path: "/panel/requests/{id}", Area: web.Panel, Allow: integrators, ReadOnly: true, Upload: comparedMost, Handle: p.compareRequest},
		{Method: http.MethodGet, Path: "/panel/signature", Area: web.Panel, Allow: integrators, Keys: "g i", Menu: look.Text("Signature helper"), Icon: "fingerprint", Handle: p.showSignature},
	}
}

// refusedFor is how far back refused addresses are shown.
const refusedFor = 7 * 24 * time.Hour

// keysPage lists the API keys.
type keysPage struct {
	Kept      kept
	Keys      []keyRow
	Whitelist []string
	Refused   []requestlog.RefusedAddress
	Failed    []failedAuthRow
}

// keyRow is a key, shown by its first characters only.
type keyRow struct {
	access.Credential
	State     string
	LastUse   time.Time
	May       []string
	Whole     bool // it has every permission
	Successor string
}

// keys returns the operator's keys with their last use.
func (p panel) keys(v *web.Visit) (list []keyRow, err error) {
	keys, err := p.Access.Keys(v.Context(), v.Operator())
	if err != nil {
		return nil, err
	}
	uses, err := p.Requests.LastUse(v.Context(), v.Operator())
	if err != nil {
		return nil, err
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
		list = append(list, one)
	}
	return list, nil
}

// keyPage is one key, with the addresses that used it.
type keyPage struct {
	Kept    kept
	Key     keyRow
	Ended   bool // it is revoked or expired
	Uses    []requestlog.AddressCalls
	Counted int // requests counted; Cut says that there were more
	Cut     bool
	Problem string
}

func (p panel) showKey(v *web.Visit) error { return p.keyForm(v, "") }

func (p panel) keyForm(v *web.Visit, problem string) error {
	id, err := number(v, "key")
	if err != nil {
		return err
	}
	keys, err := p.keys(v)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if key.ID != id {
			continue
		}
		page := keyPage{Kept: p.kept(v), Key: key, Ended: key.State == "revoked" || key.State == "expired", Problem: problem}
		if page.Uses, page.Cut, err = p.Requests.KeyAddresses(v.Context(), v.Operator(), id, v.Now.Add(-refusedFor)); err != nil {
			return err
		}
		for _, use := range page.Uses {
			page.Counted += use.Calls
		}
		if problem != "" {
			v.Status = http.StatusUnprocessableEntity
		}
		return v.Show("panel/key", page)
	}
	return web.NotFound()
}

// revokeKey revokes a key at once, on every node.
func (p panel) revokeKey(v *web.Visit) error {
	id, err := number(v, "key")
	if err != nil {
		return err
	}
	key, err := p.service(v).Key(v.Context(), id)
	if err != nil {
		return orNotFound(err)
	}
	if err := p.service(v).RevokeKey(lasting(v), id); err != nil {
		if why := told(v, err); why != "" {
			return p.keyForm(v, why)
		}
		return err
	}
	return v.Redirect("/panel/keys", v.Success("Key %s is revoked and no longer works.", key.Hint))
}

func (p panel) showKeys(v *web.Visit) error {
	ctx, operator := v.Context(), v.Operator()
	keys, err := p.keys(v)
	if err != nil {
		return err
	}
	page := keysPage{Kept: p.kept(v), Keys: keys}
	whitelist, err := p.Access.Whitelist(ctx, operator)
	if err != nil {
		return err
	}
	page.Whitelist = admin.WhitelistState(whitelist)
	page.Failed = p.failedAuth(v, whitelist)
	if page.Refused, err = p.Requests.RefusedAddresses(ctx, operator, v.Now.Add(-refusedFor)); err != nil {
		return err
	}
	return v.Show("panel/keys", page)
}

// keyState returns a key's state, as named by badges.
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
