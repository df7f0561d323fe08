package pages

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// An owner creates and changes a login, and revokes a key; then the operator is suspended,
// and the same pages are read only.
func TestBrowser_Owner(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me, ids := w.NewSubscribers(3)
	b := w.SignIn(t, w.Demo.Operator)
	list := b.Post("/panel/bulk", url.Values{"within": {"expired"}, "subscriber": ids}).Location
	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Operator)
	tab.Sees("Welcome")
	tab.Open(w.URL("/panel/people"))
	tab.Sees("A second factor is not required here.")
	tab.Fill("Name", "Ravi Kumar")
	tab.Fill("Username", "ravi")
	tab.Set("Role", "counter")
	tab.Check("panel-people")
	tab.Press("Create the login")
	tab.Sees("This is shown once.")
	tab.Check("panel-new-password")
	tab.Press("I have shared it")
	tab.Press("Ravi Kumar")
	tab.Sees("Lost password or phone")
	tab.Check("panel-person")
	tab.Set("Role", "readonly")
	tab.Click(`form[action$="/role"] button`)
	tab.Sees("It applies immediately, also where they are signed in.")
	tab.Open(w.URL(fmt.Sprintf("/panel/keys/%d", me.ID)))
	tab.Sees("Used from, last 7 days")
	tab.Check("panel-key")
	tab.Press("Revoke the key")
	tab.Sees("no longer works")
	tab.Check("panel-keys-revoked")

	w.ControlSimulator("status", `{"mode":"slow"}`)
	b.Post(list+"/start", nil).RedirectsTo(t, list)
	setStatus(t, w, me.OperatorID, subscription.OperatorInactive)
	w.ControlSimulator("status", `{"mode":"up"}`)
	tab.Open(w.URL("/panel/"))
	tab.Sees("Account suspended: view only.")
	tab.Check("panel-suspended-home")
	tab.Open(w.URL("/panel/subscribers/" + ids[0]))
	tab.Check("panel-suspended-subscriber")
	tab.Open(w.URL(list))
	tab.Sees("when this account was suspended")
	tab.Check("panel-suspended-bulk")
	tab.Open(w.URL("/panel/people"))
	tab.Check("panel-suspended-people")
	tab.Open(w.URL("/panel/activate"))
	tab.Sees("Ask your MSO to reactivate it")
	tab.Check("panel-suspended-refused")
	setStatus(t, w, me.OperatorID, subscription.OperatorActive)
	tab.Open(w.URL(list))
	tab.Press("Continue")
	tab.Sees("Finished")

	tab.Open(w.URL("/account/"))
	tab.Press("हिन्दी")
	tab.Sees("आपका खाता")
	tab.Open(w.URL("/panel/people"))
	tab.Sees("स्टाफ़")
	tab.Check("panel-people-hindi")

	console := looktest.New(t)
	tabSignIn(w, console, w.Demo.Admin)
	console.Sees("Open tasks")
	console.Open(w.URL(w.OperatorPage("")))
	console.Sees("Second factor of the operator's people")
	console.Check("console-operator-second-factor")
	console.Open(w.URL(w.OperatorPage("/logins")))
	console.Sees("Ravi Kumar")
	console.Check("console-operator-logins")
}
