package pages

import (
	"net/http"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// A reversal that the provider does not answer is in the review queue, and a person settles it.
func TestBrowser_ReversalSettled(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "provider.timeout=1s", "review.refund_after=2m")
	_, _, transaction := renewedByMistake(w, "FAMILY-1")
	tab, page := looktest.New(t), "/console/review/operations/"+transaction
	tabSignIn(w, tab, w.Demo.Admin)
	w.ControlSimulator("status", `{"mode":"down"}`)
	staff := w.SignIn(t, w.Demo.Admin)
	reverse(t, staff, transaction, "the operator renewed the neighbour")
	awaitText(w, staff, page, "The provider was asked to undo it.")
	w.Advance(2 * time.Minute)
	tab.Open(w.URL("/console/review"))
	tab.Sees("Reversals without an answer")
	tab.Check("console-review-reversals-open")
	tab.Open(w.URL(page))
	tab.Sees("Settle the reversal")
	tab.Check("console-reversal-settle")
	tab.Set("What did the provider do?", "undone")
	tab.Fill("Evidence", "ticket 4711: undone by hand")
	tab.Press("Settle it")
	tab.Sees("the money went back to the operator's wallet")
	tab.Sees("Staff found out from the provider that it was undone.")
	tab.Check("console-reversal-settled")
	tab.Open(w.URL("/console/review/reversals"))
	tab.Sees("Staff found out from the provider that it was undone.")
	tab.Check("console-reversals")
	tab.Open(w.URL("/console/commission"))
	tab.Sees("Reversed in this month")
	tab.Check("console-commission-reversals")
	staff.Get(page).Shows(t, http.StatusOK, "ticket 4711")
	w.CheckAudit()
}
