package console

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
)

func (c console) keyRoutes() []web.Route {
	const (
		keys = "/console/operators/{id}/keys"
		key  = keys + "/{key}"
	)
	return []web.Route{
		{Method: http.MethodGet, Path: keys, Area: web.Console, Allow: everyone, Handle: c.showKeys},
		guarded(admin.KeyIssue, keys, "", c.issueKey),
		{Method: http.MethodGet, Path: key, Area: web.Console, Allow: everyone, Handle: c.showKey},
		guarded(admin.KeyRotate, key+"/rotate", key, c.rotateKey),
		actionRoute(admin.KeyPermit, key+"/permissions", key, c.permitKey),
		actionRoute(admin.KeyRevoke, key+"/revoke", key, c.revokeKey),
	}
}

// number formats an id for a URL.
func number(id int64) string { return strconv.FormatInt(id, 10) }

// shownKey is a key with its state.
type shownKey struct {
	access.Credential
	// State is active, grace, expired or revoked.
	State    string
	LastUsed time.Time
}

func (k shownKey) Path() string { return operatorPath(k.OperatorID) + "/keys/" + number(k.ID) }

// Ended reports whether the key is revoked or expired, and cannot be changed.
func (k shownKey) Ended() bool { return k.State == "revoked" || k.State == "expired" }

func keyAt(k access.Credential, now, lastUsed time.Time) shownKey {
	state := "active"
	switch {
	case !k.RevokedAt.IsZero():
		state = "revoked"
	case !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt):
		state = "expired"
	case !k.ExpiresAt.IsZero():
		state = "grace"
	}
	return shownKey{Credential: k, State: state, LastUsed: lastUsed}
}

// choice is a permission, and whether a key has it.
type choice struct {
	Name string
	On   bool
}

// permissionChoices lists all permissions for a form, checked as posted if it was posted.
func permissionChoices(v *web.Visit, name string, has access.Permissions) []choice {
	if sent := v.FormValues("permission"); v.FormValue("form", "") == name {
		has, _ = access.ParsePermissions(sent) // unknown permissions are not on the form
	}
	var list []choice
	for _, p := range access.AllPermissions.List() {
		list = append(list, choice{p.String(), has.Has(p)})
	}
	return list
}

// permissions parses the chosen permissions.
func (f *form) permissions() access.Permissions {
	chosen, err := access.ParsePermissions(f.v.R.PostForm["permission"])
	if err != nil || chosen == 0 {
		f.wrong("permission", f.v.T("Choose at least one."))
	}
	return chosen
}

type keysPage struct {
	Head        operatorHead
	Form        *form
	Keys        []shownKey
	Permissions []choice
}

func (c console) showKeys(v *web.Visit) error { return c.keysPage(v, newForm(v, "")) }

func (c console) keysPage(v *web.Visit, f *form) error {
	head, err := c.head(v, "keys")
	if err != nil {
		return err
	}
	keys, used, err := c.keysOf(v, head.ID)
	if err != nil {
		return err
	}
	data := keysPage{Head: head, Form: f, Permissions: permissionChoices(v, "issue", access.AllPermissions)}
	for i := len(keys) - 1; i >= 0; i-- { // the newest first
		data.Keys = append(data.Keys, keyAt(keys[i], v.Now, used[keys[i].ID]))
	}
	if !f.ok() {
		return again(v, "console/keys", data)
	}
	return v.Show("console/keys", data)
}

func (c console) keysOf(v *web.Visit, operatorID int64) ([]access.Credential, map[int64]time.Time, error) {
	keys, err := c.service(v).Keys(v.Context(), operatorID)
	if err != nil {
		return nil, nil, err
	}
	used, err := c.Requests.LastUse(v.Context(), operatorID)
	return keys, used, err
}

// secretPage shows a key and its secret, once.
type secretPage struct {
	Head   operatorHead
	Key    string
	Secret string
	// File is both as a data: URL to download, FileName its name.
	File     template.URL
	FileName string
	// OldUntil is until when the replaced key stays valid; zero if none was replaced.
	OldUntil time.Time
	Rotated  bool
}

// showSecret responds to the POST itself, because the secret is not stored for another
// page.
func showSecret(v *web.Visit, head operatorHead, issued admin.IssuedKey, rotated bool, oldUntil time.Time) error {
	file := fmt.Sprintf("operator: %d\nissued: %s\napi_key: %s\napi_secret: %s\n",
		head.ID, v.Now.In(subscription.IST).Format(time.RFC3339), issued.Key, issued.Secret.Reveal())
	return v.Show("console/secret", secretPage{
		Head: head, Key: issued.Key, Secret: issued.Secret.Reveal(), Rotated: rotated, OldUntil: oldUntil,
		File:     template.URL("data:text/plain;charset=utf-8," + url.PathEscape(file)),
		FileName: fmt.Sprintf("coax-key-%d.txt", issued.ID),
	})
}

func (c console) issueKey(v *web.Visit) error {
	head, err := c.head(v, "keys")
	if err != nil {
		return err
	}
	f := newForm(v, "issue")
	permissions := f.permissions()
	service := c.service(v).WithVoucher(f.once())
	if !f.ok() {
		return c.keysPage(v, f)
	}
	issued, err := service.IssueKey(lasting(v), head.ID, permissions)
	if err != nil {
		return c.undone(v, service, f, err, func() error { return c.keysPage(v, f) })
	}
	return showSecret(v, head, issued, false, time.Time{})
}

type keyPage struct {
	Head        operatorHead
	Form        *form
	Key         shownKey
	Permissions []choice
	MaxGrace    int
}

// key returns the key in the path, which must belong to the operator in the path.
func (c console) key(v *web.Visit) (operatorHead, shownKey, error) {
	head, err := c.head(v, "keys")
	if err != nil {
		return head, shownKey{}, err
	}
	id, err := pathID(v, "key")
	if err != nil {
		return head, shownKey{}, err
	}
	keys, used, err := c.keysOf(v, head.ID)
	if err != nil {
		return head, shownKey{}, err
	}
	for _, k := range keys {
		if k.ID == id {
			return head, keyAt(k, v.Now, used[id]), nil
		}
	}
	return head, shownKey{}, web.NotFound()
}

func (c console) showKey(v *web.Visit) error { return c.keyPage(v, newForm(v, "")) }

func (c console) keyPage(v *web.Visit, f *form) error {
	head, key, err := c.key(v)
	if err != nil {
		return err
	}
	data := keyPage{
		Head: head, Form: f, Key: key, MaxGrace: int(admin.MaxGrace / time.Hour),
		Permissions: permissionChoices(v, "permissions", key.Permissions),
	}
	if !f.ok() {
		return again(v, "console/key", data)
	}
	return v.Show("console/key", data)
}

// onKey runs an action on the key in the path, and shows its page again after a refusal.
func (c console) onKey(v *web.Visit, f *form, do func(operatorHead, shownKey) error) error {
	head, key, err := c.key(v)
	if err != nil {
		return err
	}
	if !f.ok() {
		return c.keyPage(v, f)
	}
	if err := do(head, key); err != nil {
		if err := f.refused(err); err != nil {
			return err
		}
		return c.keyPage(v, f)
	}
	return nil
}

func (c console) rotateKey(v *web.Visit) error {
	f := newForm(v, "rotate")
	hours := f.number("grace", 0, int(admin.MaxGrace/time.Hour))
	service := c.service(v).WithVoucher(f.once())
	return c.onKey(v, f, func(head operatorHead, key shownKey) error {
		grace := time.Duration(hours) * time.Hour
		issued, err := service.RotateKey(lasting(v), key.ID, grace)
		if err != nil {
			return c.undone(v, service, f, err, func() error { return c.keyPage(v, f) })
		}
		return showSecret(v, head, issued, true, v.Now.Add(grace))
	})
}

func (c console) permitKey(v *web.Visit) error {
	f := newForm(v, "permissions")
	permissions := f.permissions()
	return c.onKey(v, f, func(_ operatorHead, key shownKey) error {
		if err := c.service(v).PermitKey(lasting(v), key.ID, permissions); err != nil {
			return err
		}
		return v.Redirect(key.Path(), v.Success("Changed. The key's new permissions apply immediately."))
	})
}

func (c console) revokeKey(v *web.Visit) error {
	return c.onKey(v, newForm(v, "revoke"), func(head operatorHead, key shownKey) error {
		if err := c.service(v).RevokeKey(lasting(v), key.ID); err != nil {
			return err
		}
		return v.Redirect(head.Path()+"/keys", v.Success("Key %s is revoked and no longer works.", key.Hint))
	})
}
