package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
)

func TestRollingSum_FourTimesTheLimitWaits(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	maker, checker := w.SignIn(t, w.NewLogin(t, "maker", login.Finance, 0)), w.SignIn(t, w.NewLogin(t, "checker", login.Finance, 0))
	var wallets []string
	for _, name := range []string{"One Cable", "Two Cable", "Three Cable", "Four Cable"} {
		operator, err := w.Admin.CreateOperator(t.Context(), name, admin.OperatorChange{})
		if err != nil {
			t.Fatal(err)
		}
		wallets = append(wallets, fmt.Sprintf("/console/operators/%d/wallet", operator.ID))
	}
	topUp := func(wallet string) url.Values {
		return url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"50,000.00"}, "reference": {"NEFT for " + wallet}}
	}
	maker.Post(wallets[0]+"/top-up", topUp(wallets[0])).RedirectsTo(t, wallets[0])
	maker.Get(wallets[0]).Shows(t, http.StatusOK, "₹50,000.00 credited.", "You have moved ₹50,000.00 alone in that time")
	for _, wallet := range wallets[1:] {
		maker.Post(wallet+"/top-up", topUp(wallet)).RedirectsTo(t, wallet)
		maker.Get(wallet).Shows(t, http.StatusOK,
			"Together with ₹50,000.00 that Name of maker moved alone within 24 hours this is above ₹50,000.00. It now needs a second approval.", "Why it needs approval")
	}
	// The sum also counts per operator, whoever moves the money.
	checker.Post(wallets[0]+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"0.01"}, "reference": {"NEFT-2"}}).RedirectsTo(t, wallets[0])
	checker.Get(wallets[0]).Shows(t, http.StatusOK, "Together with ₹50,000.00 that was moved alone for this operator within 24 hours this is above ₹50,000.00.")
	checker.Get("/console/approvals").Shows(t, http.StatusOK, "that Name of maker moved alone within 24 hours")
	checker.Post("/console/approvals/1/approve", nil).RedirectsTo(t, "/console/approvals")
	checker.Get(wallets[1]).Shows(t, http.StatusOK, "₹50,000.00", "You have moved ₹0.00 alone in that time")
	w.CheckAudit()
}

func TestRollingSum_CommandLineCounts(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=20000.00")
	fina := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0))
	wallet := w.OperatorPage("/wallet")
	// 10,000.00 were moved by coax admin.
	fina.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"10000"}, "reference": {"NEFT-1"}}).RedirectsTo(t, wallet)
	fina.Get(wallet).Shows(t, http.StatusOK, "credited", "₹20,000.00 was moved alone for this operator")
	fina.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"0.01"}, "reference": {"NEFT-2"}}).RedirectsTo(t, wallet)
	fina.Get(wallet).Shows(t, http.StatusOK, "Together with ₹20,000.00 that was moved alone for this operator")
	w.CheckAudit()
}

func TestPlanChange_TakesTwoAdministrators(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	asha, binu := w.SignIn(t, w.NewLogin(t, "asha", login.Administrator, 0)), w.SignIn(t, w.NewLogin(t, "binu", login.Administrator, 0))
	fina := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0))
	const page = "/console/catalogue/plans/BASIC-1"
	cheap := url.Values{
		"name": {"Basic, 1 month"}, "description": {"120 channels"}, "price": {"0.01"}, "months": {"24"}, "type": {"standard"}, "main": {"TV-BASIC"}, "version": {"1"},
	}
	asha.Post(page+"/preview", cheap).Shows(t, http.StatusOK, "This needs a second approval.", "₹0.01 (-99.9 %)", "active subscribers renew at this price", "Propose")
	asha.Post(page+"/edit", cheap).RedirectsTo(t, page)
	asha.Get(page).Shows(t, http.StatusOK, "Your proposal needs a second approval. The catalogue does not change until then.",
		"Needs a second approval", "₹0.01 (-99.9 %)", "₹199.00", "This is your own proposal")
	asha.Post(page+"/edit", cheap).RedirectsTo(t, page)
	asha.Get(page).Shows(t, http.StatusOK, "The same proposal already needs a second approval")
	asha.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "somebody else has to approve it")
	// Finance approves money, not prices.
	if seen := fina.Get("/console/approvals").Shows(t, http.StatusOK, "BASIC-1", "You cannot approve this"); strings.Contains(seen.Body, "/1/approve") {
		t.Error("finance is offered to approve a plan")
	}
	fina.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "does not allow")
	binu.Get("/console/").Shows(t, http.StatusOK, "Create or change a plan", "plan BASIC-1")
	binu.Get("/console/approvals").Shows(t, http.StatusOK, "Create or change a plan", "active subscribers renew at this price", "₹0.01 (-99.9 %)")
	binu.Post("/console/approvals/1/approve", nil).RedirectsTo(t, "/console/approvals")
	binu.Get("/console/approvals").Shows(t, http.StatusOK, "Approved and carried out.", "plan BASIC-1")
	binu.Get(page).Shows(t, http.StatusOK, "₹0.01", "24 months", "Name of binu")

	// Small changes, and names, need no approval.
	family := url.Values{
		"name": {"Family"}, "price": {"359.00"}, "months": {"1"}, "type": {"standard"}, "main": {"TV-FAMILY"}, "version": {"1"},
	}
	asha.Post("/console/catalogue/plans/FAMILY-1/edit", family).RedirectsTo(t, "/console/catalogue/plans/FAMILY-1")
	asha.Get("/console/catalogue/plans/FAMILY-1").Shows(t, http.StatusOK, "Plan saved.", "₹359.00")

	// A cheap new plan has no page until it is approved.
	made := url.Values{"id": {"CHEAP-12"}, "name": {"Cheap"}, "price": {"1.00"}, "months": {"12"}, "type": {"standard"}, "main": {"TV-FAMILY"}}
	asha.Post("/console/catalogue/new", made).RedirectsTo(t, "/console/approvals")
	asha.Get("/console/approvals").Shows(t, http.StatusOK, "CHEAP-12", "New plan", "This is your own proposal")
	if got := asha.Get("/console/catalogue/plans/CHEAP-12"); got.Status != http.StatusNotFound {
		t.Errorf("a plan that waits: %d; want 404", got.Status)
	}
	binu.Post("/console/approvals/2/approve", nil).RedirectsTo(t, "/console/approvals")
	binu.Get("/console/catalogue/plans/CHEAP-12").Shows(t, http.StatusOK, "₹1.00")

	made.Set("id", "LONG-25")
	made.Set("months", "25")
	asha.Post("/console/catalogue/new", made).Shows(t, http.StatusUnprocessableEntity, "Enter a number of months from 1 to 24.")
	w.CheckAudit()
}

// A proposal whose plan has changed meanwhile cannot be approved.
func TestPlanChange_OvertakenIsRefused(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	asha, binu := w.SignIn(t, w.NewLogin(t, "asha", login.Administrator, 0)), w.SignIn(t, w.NewLogin(t, "binu", login.Administrator, 0))
	const page = "/console/catalogue/plans/BASIC-1"
	change := func(price, version string) url.Values {
		return url.Values{"name": {"Basic"}, "price": {price}, "months": {"1"}, "type": {"standard"}, "main": {"TV-BASIC"}, "version": {version}}
	}
	asha.Post(page+"/edit", change("20", "1")).RedirectsTo(t, page)
	binu.Post(page+"/edit", change("195", "1")).RedirectsTo(t, page)
	binu.Get("/console/approvals").Shows(t, http.StatusOK, "The plan was changed after this was proposed.")
	binu.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "was changed meanwhile")
	binu.Get(page).Shows(t, http.StatusOK, "₹195.00")
}
