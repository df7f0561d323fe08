package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
)

// accessEnv is an Env with one administrator, signed in to the console.
type accessEnv struct {
	*e2e.Env
	t     *testing.T
	admin *e2e.Browser
}

func newAccess(t *testing.T) *accessEnv {
	t.Helper()
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	return &accessEnv{Env: w, t: t, admin: w.SignIn(t, w.Demo.Admin)}
}

// propose proposes a top-up, and returns the path of the proposal.
func (a *accessEnv) propose(b *e2e.Browser, reference string) string {
	a.t.Helper()
	wallet := a.OperatorPage("/wallet")
	b.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"900000"}, "reference": {reference}}).RedirectsTo(a.t, wallet)
	open, err := a.Admin.Proposals(a.t.Context(), admin.ProposalFilter{Open: true, Limit: 1})
	if err != nil || len(open) != 1 || open[0].Reference != reference {
		a.t.Fatalf("open are %+v, %v", open, err)
	}
	return fmt.Sprintf("/console/approvals/%d", open[0].ID)
}

var shownPassword = regexp.MustCompile(`<code class="copyable-value">(\w{4}-\w{4}-\w{4}-\w{4})</code>`)

// createLogin creates a staff login in the console, and returns it with the password shown.
func (a *accessEnv) createLogin(b *e2e.Browser, username string, role login.Role) demo.Login {
	a.t.Helper()
	return a.password(username, b.Post("/console/staff", url.Values{
		"form": {"create"}, "once": {voucherOn(a.t, b, "/console/staff")}, "name": {"Somebody"}, "username": {username}, "role": {string(role)},
	}))
}

func voucherOn(t *testing.T, b *e2e.Browser, page string) string {
	t.Helper()
	found := formVoucher.FindStringSubmatch(b.Get(page).Body)
	if found == nil {
		t.Fatalf("%s has no voucher", page)
	}
	return found[1]
}

// password reads the password from the page that shows it once.
func (a *accessEnv) password(username string, shown e2e.Page) demo.Login {
	a.t.Helper()
	shown.Shows(a.t, http.StatusOK, "This is shown once.", username)
	found := shownPassword.FindStringSubmatch(shown.Body)
	if found == nil {
		a.t.Fatalf("the page shows no password:\n%s", shown.Body)
	}
	return demo.Login{Username: username, Password: found[1]}
}

// firstSignIn signs in with a temporary password and replaces it.
func (a *accessEnv) firstSignIn(who demo.Login) *e2e.Browser {
	a.t.Helper()
	b := a.Browser(a.t)
	b.SignIn(who.Username, who.Password)
	own := "a kite over Kochi " + who.Username
	b.Post("/account/password", url.Values{"password": {who.Password}, "new_password": {own}, "repeated_password": {own}})
	b.Get("/console/").Shows(a.t, http.StatusOK, "Open tasks")
	return b
}

// checkRefused checks that approving is refused with a reason, and that no page offers it.
func (a *accessEnv) checkRefused(b *e2e.Browser, proposal, why string) {
	a.t.Helper()
	b.Post(proposal+"/approve", nil).Shows(a.t, http.StatusUnprocessableEntity, why)
	if page := b.Get("/console/approvals").Shows(a.t, http.StatusOK, why); strings.Contains(page.Body, proposal+"/approve") {
		a.t.Error("the page offers to approve it")
	}
	b.Get(a.OperatorPage("/wallet")).Shows(a.t, http.StatusOK, "₹10,000.00")
}

func (a *accessEnv) page(username string) string {
	a.t.Helper()
	person, err := a.Admin.LoginNamed(a.t.Context(), username)
	if err != nil {
		a.t.Fatal(err)
	}
	return fmt.Sprintf("/console/staff/%d", person.ID)
}

func TestApproval_CreatedLoginRefused(t *testing.T) {
	a := newAccess(t)
	proposal := a.propose(a.admin, "NEFT-1")
	own := a.firstSignIn(a.createLogin(a.admin, "puppet", login.Finance))
	a.checkRefused(own, proposal, "Demo Administrator created your login")
	a.CheckAudit()
}

func TestApproval_ResetLoginRefused(t *testing.T) {
	a := newAccess(t)
	proposal := a.propose(a.admin, "NEFT-1")
	page := a.page("finance")
	shown := a.admin.Post(page+"/reset-password", url.Values{"form": {"reset-password"}, "once": {voucherOn(t, a.admin, page)}})
	a.checkRefused(a.firstSignIn(a.password("finance", shown)), proposal, "Demo Administrator reset your password")
	a.CheckAudit()
}

func TestApproval_RaisedLoginRefused(t *testing.T) {
	a := newAccess(t)
	proposal := a.propose(a.admin, "NEFT-1")
	viewer := a.firstSignIn(a.createLogin(a.admin, "vani", login.Viewer))
	page := a.page("vani")
	a.admin.Post(page+"/role", url.Values{"form": {"role"}, "role": {"finance"}}).RedirectsTo(t, page)
	a.checkRefused(viewer, proposal, "Demo Administrator created your login")
	// The same for a viewer created by coax admin.
	ravi := a.SignIn(t, a.NewLogin(t, "ravi", login.Viewer, 0))
	page = a.page("ravi")
	a.admin.Post(page+"/role", url.Values{"form": {"role"}, "role": {"finance"}}).RedirectsTo(t, page)
	a.checkRefused(ravi, proposal, "Demo Administrator gave you your role")
	a.CheckAudit()
}

func TestApproval_SoleSponsorRefused(t *testing.T) {
	a := newAccess(t)
	puppet := a.firstSignIn(a.createLogin(a.admin, "puppet", login.Finance))
	a.checkRefused(a.admin, a.propose(puppet, "NEFT-1"), "you gave Somebody access without a second approval")
	other := a.firstSignIn(a.createLogin(a.admin, "other", login.Finance))
	open := "/console/approvals/1"
	a.checkRefused(other, open, "both come from Demo Administrator alone")
	// A finance login created by coax admin is independent.
	a.SignIn(t, a.Demo.Finance).Post(open+"/approve", nil).RedirectsTo(t, "/console/approvals")
	a.CheckAudit()
}

func TestApproval_NewLoginWaits(t *testing.T) {
	a := newAccess(t)
	finance := a.SignIn(t, a.Demo.Finance)
	created := a.createLogin(a.admin, "asha", login.Finance)
	from := a.Now().Add(24 * time.Hour)
	asha := a.firstSignIn(created)
	a.checkRefused(asha, a.propose(finance, "NEFT-1"), "it can approve from "+from.In(time.FixedZone("IST", 19800)).Format("2 Jan 2006, 15:04"))
	finance.Post("/console/approvals/1/withdraw", url.Values{"reason": {"too early"}}).RedirectsTo(t, "/console/approvals")

	a.Advance(24*time.Hour + time.Minute)
	finance = a.SignIn(t, a.Demo.Finance)
	asha = a.SignIn(t, demo.Login{Username: "asha", Password: "a kite over Kochi asha"})
	asha.Post(a.propose(finance, "NEFT-2")+"/approve", nil).RedirectsTo(t, "/console/approvals")
	asha.Get(a.OperatorPage("/wallet")).Shows(t, http.StatusOK, "₹9,10,000.00")
	a.CheckAudit()
}

// With two administrators the attack ends earlier: each step is itself a proposal.
func TestStaffLogins_SecondAdministratorApproves(t *testing.T) {
	a := newAccess(t)
	second := a.SignIn(t, a.NewLogin(t, "binu", login.Administrator, 0))
	a.admin.Get("/console/staff").Shows(t, http.StatusOK, "Another administrator has to approve a login of Finance or of an administrator.")
	a.admin.Get(a.page("finance")).Shows(t, http.StatusOK, "Another administrator has to approve this. The password is then shown to them.")

	a.admin.Post("/console/staff", url.Values{
		"form": {"create"}, "once": {voucherOn(t, a.admin, "/console/staff")}, "name": {"Ravi Kumar"}, "username": {"ravi"}, "role": {"finance"},
	}).RedirectsTo(t, "/console/approvals")
	a.admin.Get("/console/approvals").Shows(t, http.StatusOK, "Your proposal needs the approval of another administrator.", "Create a login", "Ravi Kumar", "This is your own proposal")
	a.admin.Get("/console/").Shows(t, http.StatusOK, "Create a login", "ravi · Demo Administrator")
	a.admin.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "somebody else has to approve it")
	a.SignIn(t, a.Demo.Finance).Get("/console/approvals").Shows(t, http.StatusOK, "does not allow")
	second.Get("/console/approvals").Shows(t, http.StatusOK, "Ravi Kumar", "A password is generated when you approve this", "/console/approvals/1/approve")
	made := a.password("ravi", second.Post("/console/approvals/1/approve", nil))
	second.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "was approved already")
	a.firstSignIn(made)

	for path, form := range map[string]url.Values{
		"/role":           {"form": {"role"}, "role": {"administrator"}},
		"/reset-password": {"form": {"reset-password"}, "once": {voucherOn(t, a.admin, a.page("finance"))}},
	} {
		a.admin.Post(a.page("finance")+path, form).RedirectsTo(t, "/console/approvals")
	}
	second.Get("/console/approvals").Shows(t, http.StatusOK, "Finance → Administrator", "Reset a login&#39;s password", "Recently decided")
	// Lowering a role and disabling a login need no approval.
	page := a.page("ravi")
	a.admin.Post(page+"/role", url.Values{"form": {"role"}, "role": {"viewer"}}).RedirectsTo(t, page)
	page = a.page("finance")
	a.admin.Post(page+"/access", url.Values{"form": {"access"}, "disabled": {"yes"}}).RedirectsTo(t, page)
	a.CheckAudit()
}

func TestProposals_LapseWithTheirMaker(t *testing.T) {
	a := newAccess(t)
	finance := a.SignIn(t, a.Demo.Finance)
	proposal := a.propose(finance, "NEFT-1")
	page := a.page("finance")
	for _, disabled := range []string{"yes", "no"} {
		a.admin.Post(page+"/access", url.Values{"form": {"access"}, "disabled": {disabled}}).RedirectsTo(t, page)
	}
	a.admin.Get("/console/approvals").Shows(t, http.StatusOK, "Nothing to approve", "Expired", "The login of the person who proposed it was disabled")
	a.admin.Post(proposal+"/approve", nil).Shows(t, http.StatusUnprocessableEntity, "the login of Demo Finance was disabled")
	a.admin.Get(a.OperatorPage("/wallet")).Shows(t, http.StatusOK, "₹10,000.00")
	a.CheckAudit()
}

func TestConsole_SingleAdministratorIsWarned(t *testing.T) {
	a := newAccess(t)
	const warning = "There is no second administrator"
	for _, page := range []string{"/console/", "/console/approvals"} {
		a.admin.Get(page).Shows(t, http.StatusOK, warning, "Finance can approve amounts above ₹50,000.00", "coax admin login create")
		if other := a.SignIn(t, a.Demo.Finance).Get(page); strings.Contains(other.Body, warning) {
			t.Errorf("%s warns a login that is not an administrator", page)
		}
	}
	a.NewLogin(t, "binu", login.Administrator, 0)
	if page := a.admin.Get("/console/"); strings.Contains(page.Body, warning) {
		t.Error("the page warns although there are two administrators")
	}
}
