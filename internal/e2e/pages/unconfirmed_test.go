package pages

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// An activation that the provider has not confirmed: the pages hand over no password, say what is
// held, and the request log does not show success.
func TestPanel_UnconfirmedActivation(t *testing.T) {
	w := e2e.NewEnv(t, "provider.timeout=2s")
	w.Activate(w.DemoCaller(), "9812345670", "BASIC-1")
	b := w.SignIn(t, w.Demo.Operator)
	w.ScriptProvider("9812345678", "timeout_applied")
	form := b.Get("/panel/activate").HiddenFields()
	for name, value := range map[string]string{"full_name": "Asha Rao", "mobile": "9812345678", "plan_id": "BASIC-1", "step": "preview"} {
		form.Set(name, value)
	}
	confirm := b.Post("/panel/activate", form).Shows(t, http.StatusOK).HiddenFields()
	confirm.Set("step", "confirm")
	page := b.Post("/panel/activate", confirm).Shows(t, http.StatusOK, "The provider has not confirmed this yet.", "Do not give it to the customer yet",
		"Wallet after, without held money")
	if strings.Contains(page.Body, "Give it to the customer now") {
		t.Error("the page hands over the password of an unconfirmed activation")
	}

	id := w.LookUp(w.DemoCaller(), "activate-9812345670").Text("customer.subscriber_id")
	b.Get("/panel/subscribers/"+id+"/renew").Shows(t, http.StatusOK, "Another ₹199.00 is held for operations in progress")
	b.Get("/panel/statement").Shows(t, http.StatusOK, "including held money", "without the ₹199.00 held now")
	b.Get("/panel/requests").Shows(t, http.StatusOK, `<span class="badge badge-warn">202 PENDING_REVIEW</span>`, "Panel: Demo Operator")
	// The probe after it is answered: for an order that does not exist, "unknown" is the answer.
	admin := w.SignIn(t, w.Demo.Admin)
	w.WaitUntil("the provider answered a probe", func() bool {
		return strings.Contains(admin.Get("/console/health").Body, "Probe")
	})
	health := admin.Get("/console/health").Shows(t, http.StatusOK, "1 of the last ", " calls to the provider failed.", "Everything else is working.", "Timed out")
	if strings.Contains(health.Body, "Not known yet") {
		t.Error("a probe that was answered is shown as one that was not")
	}
}
