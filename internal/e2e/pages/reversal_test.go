package pages

import (
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/web"
)

const reversedMobile = "9812345670"

// renewedByMistake activates a customer and renews the customer with a plan.
func renewedByMistake(w *e2e.Env, plan string) (me e2e.Caller, subscriber, transaction string) {
	w.TB.Helper()
	me = w.DemoCaller()
	w.Activate(me, reversedMobile, "BASIC-1")
	subscriber = w.LookUp(me, "activate-"+reversedMobile).Text("customer.subscriber_id")
	renewed := w.Operate(me, "renew", "by-mistake", e2e.Order{"subscriber_id": subscriber, "plan_id": plan})
	if renewed.Code != fault.OK {
		w.TB.Fatalf("renew: %s", renewed.Code)
	}
	return me, subscriber, renewed.Text("transaction_id")
}

// reverse posts the form of an operation's page, and confirms it.
func reverse(t *testing.T, staff *e2e.Browser, transaction, reason string) {
	t.Helper()
	page := "/console/review/operations/" + transaction
	staff.Post(page+"/reverse", url.Values{"reverse_reason": {reason}, "step": {"confirm"}}).RedirectsTo(t, page)
}

// awaitText waits until a page shows a text. The provider is asked again by the service's clock, which
// only the test moves.
func awaitText(w *e2e.Env, staff *e2e.Browser, path, text string) {
	w.TB.Helper()
	polls := 0
	w.WaitUntil(path+" shows "+text, func() bool {
		if polls++; polls%20 == 0 {
			w.Advance(time.Second)
		}
		return strings.Contains(staff.Get(path).Body, text)
	})
}

func TestReversal_WrongCustomerRenewed(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me := w.DemoCaller()
	w.Activate(me, reversedMobile, "BASIC-1")
	subscriber := w.LookUp(me, "activate-"+reversedMobile).Text("customer.subscriber_id")
	look := e2e.Call{As: me, Path: "/api/v1/subscription?subscriber_id=" + subscriber}
	wallet, before := w.WalletPaise(me), w.Send(look)
	renewed := w.Operate(me, "renew", "by-mistake", e2e.Order{"subscriber_id": subscriber, "plan_id": "FAMILY-1"})
	transaction := renewed.Text("transaction_id")
	asked := w.LookUp(me, "by-mistake")

	operator, finance := w.SignIn(t, w.Demo.Operator), w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0))
	support := w.SignIn(t, w.NewLogin(t, "supi", login.Support, 0))
	operator.Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, "Wrong customer?", "staff to reverse it, and give them this number", transaction)
	page := "/console/review/operations/" + transaction
	finance.Get("/console/review/reversals?transaction="+transaction).RedirectsTo(t, page)
	finance.Get("/console/review/reversals?transaction=CX-nobody's").Shows(t, http.StatusUnprocessableEntity, "There is no transaction with this number.")
	finance.Get(page).Shows(t, http.StatusOK, "Reverse it", "₹349.00 return to the wallet")
	support.Post(page+"/reverse", url.Values{"reverse_reason": {"because"}}).Shows(t, http.StatusForbidden)
	finance.Post(page+"/reverse", nil).Shows(t, http.StatusUnprocessableEntity, "Write why it is reversed")
	form := url.Values{"reverse_reason": {"the operator renewed the neighbour"}}
	finance.Post(page+"/reverse", form).Shows(t, http.StatusOK, "Nothing is reversed yet", subscriber, "₹349.00", "Expiry now", "Expiry after the reversal", "the operator renewed the neighbour")
	form.Set("step", "edit")
	finance.Post(page+"/reverse", form).Shows(t, http.StatusOK, "the operator renewed the neighbour", "Reverse it")
	if calls := w.ProviderCalls(reversedMobile, "reverse"); calls != 0 {
		t.Errorf("the provider was asked to reverse %d times before the confirmation; want none", calls)
	}
	reverse(t, finance, transaction, "the operator renewed the neighbour")
	finance.Get(page).Shows(t, http.StatusOK, "The provider is being asked.")
	awaitText(w, finance, page, "was reversed already")
	finance.Get(page).Shows(t, http.StatusOK, "Reversed", "the operator renewed the neighbour", "Undo an order",
		"Reversal requested", "The provider was asked to undo it.", "The provider confirmed that it was undone.")
	finance.Get("/console/review/reversals").Shows(t, http.StatusOK, transaction, "the operator renewed the neighbour")
	finance.Get("/console/search?q="+subscriber).Shows(t, http.StatusOK, transaction, "Reversed")

	history, err := w.Admin.OperationHistory(t.Context(), transaction)
	if err != nil || len(history.Reversals) != 1 {
		t.Fatalf("%+v, %v; want one reversal", history, err)
	}
	reference := history.Reversals[0].Reference
	finance.Get(searched("console", reference)).RedirectsTo(t, page)
	operator.Get(searched("panel", strings.ToLower(reference))).RedirectsTo(t, "/panel/transactions/"+transaction)
	neighbour := w.SignIn(t, w.NewLogin(t, "nora", login.Owner, w.NewFundedOperator("Sagar Cable", "100").OperatorID))
	neighbour.Get(searched("panel", reference)).Shows(t, http.StatusOK, "Nothing found")

	if got := w.WalletPaise(me); got != wallet {
		t.Errorf("the wallet has %d; want %d as before the renewal", got, wallet)
	}
	after := w.Send(look)
	for _, field := range []string{"subscription.expiry_date", "subscription.status", "subscription.plan_id"} {
		if after.Text(field) != before.Text(field) {
			t.Errorf("%s is %q; want %q as before the renewal", field, after.Text(field), before.Text(field))
		}
	}
	// What the API has said about the renewal stays as it was.
	if again := w.LookUp(me, "by-mistake"); again.Code != asked.Code || !reflect.DeepEqual(again.Data, asked.Data) {
		t.Errorf("the transaction is\n%s\nwant as before\n%s", again.Raw, asked.Raw)
	}
	if calls := w.ProviderCalls(reversedMobile, "reverse"); calls != 1 {
		t.Errorf("the provider was asked to reverse %d times; want once", calls)
	}
	operator.Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, "It was reversed, and the amount was given back.", "Given back by the reversal", "Undone by the provider")
	receipt := operator.Get("/panel/transactions/"+transaction+"/receipt").Shows(t, http.StatusOK, "This receipt is void.")
	if strings.Contains(receipt.Body, "wa.me") {
		t.Error("a message to the customer is offered for a receipt that is void")
	}
	operator.Get("/panel/statement").Shows(t, http.StatusOK, "Reversal: renewal of "+subscriber)
	operator.Get("/panel/transactions").Shows(t, http.StatusOK, "Reversed")
	for state, shown := range map[string]bool{"success": false, "reversed": true} {
		if page := operator.Get("/panel/transactions?state=" + state); strings.Contains(page.Body, "/panel/transactions/"+transaction) != shown {
			t.Errorf("the transactions in state %s have the reversed one: %t; want %t", state, !shown, shown)
		}
	}
	operator.Get("/panel/subscribers/"+subscriber).Shows(t, http.StatusOK, "Reversed")
	finance.Get(w.OperatorPage("")).Shows(t, http.StatusOK)
	// The right renewal is no duplicate of the one that was undone.
	if right := w.Operate(me, "renew", "the-right-one", e2e.Order{"subscriber_id": subscriber, "plan_id": "FAMILY-1"}); right.Code != fault.OK {
		t.Errorf("the right renewal: %s", right.Code)
	}
	finance.Post(page+"/reverse", url.Values{"reverse_reason": {"again"}}).Shows(t, http.StatusUnprocessableEntity, "was reversed already")
	w.CheckAudit()
}

func TestReversal_AboveTheLimitTakesTwo(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=300.00")
	_, _, transaction := renewedByMistake(w, "FAMILY-1")
	asha, binu := w.SignIn(t, w.NewLogin(t, "asha", login.Finance, 0)), w.SignIn(t, w.NewLogin(t, "binu", login.Finance, 0))
	page := "/console/review/operations/" + transaction
	asha.Get(page).Shows(t, http.StatusOK, "It needs a second approval before anything changes.", "Propose the reversal")
	reverse(t, asha, transaction, "wrong customer")
	asha.Get(page).Shows(t, http.StatusOK, "The reversal needs a second approval.")
	asha.Post("/console/approvals/1/approve", nil).Shows(t, http.StatusUnprocessableEntity, "somebody else has to approve it")
	if calls := w.ProviderCalls(reversedMobile, "reverse"); calls != 0 {
		t.Errorf("the provider was asked to reverse %d times before the approval; want none", calls)
	}
	binu.Get("/console/approvals").Shows(t, http.StatusOK, "Reverse an operation", "₹349.00", "wrong customer")
	binu.Post("/console/approvals/1/approve", nil).RedirectsTo(t, "/console/approvals")
	awaitText(w, binu, page, "was reversed already")
	w.CheckAudit()
}

func TestReversal_ProviderAnswersTooLate(t *testing.T) {
	for _, outcome := range []string{"timeout_applied", "timeout_not_applied", "reset_applied", "wrong_reference"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			w := e2e.NewEnv(t, "panel.staff_totp=false", "provider.timeout=1s", "review.first_check=250ms")
			me, subscriber, transaction := renewedByMistake(w, "FAMILY-1")
			wallet := w.WalletPaise(me)
			finance, operator := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0)), w.SignIn(t, w.Demo.Operator)
			w.ScriptProvider(reversedMobile, outcome, outcome)
			reverse(t, finance, transaction, "wrong customer")
			// Meanwhile nothing else begins for the customer.
			if busy := w.Operate(me, "renew", "meanwhile-1", e2e.Order{"subscriber_id": subscriber, "plan_id": "BASIC-1"}); busy.Code == fault.OperationInProgress {
				if busy.Text("transaction_id") != transaction {
					t.Errorf("the operation in the way is %q; want %q", busy.Text("transaction_id"), transaction)
				}
				operator.Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, "Wrong customer?")
			}
			awaitText(w, finance, "/console/review/operations/"+transaction, "was reversed already")
			if got, want := w.WalletPaise(me), [2]int64{wallet[0] + 349_00, wallet[1]}; got != want {
				t.Errorf("the wallet has %d; want %d: the money back once", got, want)
			}
			applied := 0
			for _, call := range w.Simulator.Calls(reversedMobile) {
				if call.Kind == "reverse" && call.Applied {
					applied++
				}
			}
			if applied != 1 {
				t.Errorf("the provider carried the reversal out %d times; want once", applied)
			}
			if outcome == "wrong_reference" {
				return // its answer became an exception for a person
			}
			w.CheckAudit()
		})
	}
}

func TestReversal_SettledByPerson(t *testing.T) {
	for _, undone := range []bool{true, false} {
		t.Run(map[bool]string{true: "undone", false: "not undone"}[undone], func(t *testing.T) {
			t.Parallel()
			w := e2e.NewEnv(t, "panel.staff_totp=false", "provider.timeout=1s", "approval.above=300.00", "review.refund_after=2m")
			me, subscriber, transaction := renewedByMistake(w, "FAMILY-1")
			wallet := w.WalletPaise(me)
			asha, binu := w.SignIn(t, w.NewLogin(t, "asha", login.Finance, 0)), w.SignIn(t, w.NewLogin(t, "binu", login.Finance, 0))
			support := w.SignIn(t, w.NewLogin(t, "supi", login.Support, 0))
			page := "/console/review/operations/" + transaction
			w.ControlSimulator("status", `{"mode":"down"}`)
			reverse(t, asha, transaction, "wrong customer")
			binu.Post("/console/approvals/1/approve", nil).RedirectsTo(t, "/console/approvals")
			asha.Get("/console/review").Shows(t, http.StatusOK, "Reversals without an answer", transaction)
			if body := asha.Get(page).Body; strings.Contains(body, "Settle the reversal") {
				t.Error("it can be settled while the provider is still asked")
			}
			awaitText(w, asha, page, "The provider was asked to undo it.")
			if got := w.Metric("coax_reversals_waiting"); got != 0 {
				t.Errorf("coax_reversals_waiting is %v while the provider is asked; want 0", got)
			}
			w.Advance(2 * time.Minute)
			if got := w.Metric("coax_reversals_waiting"); got != 1 {
				t.Errorf("coax_reversals_waiting is %v; want 1", got)
			}
			asha.Get("/console/review").Shows(t, http.StatusOK, "Action needed")
			asha.Get("/console/").Shows(t, http.StatusOK, "A reversal is waiting for a decision.")
			reference := referenceIn(t, asha.Get(page).Shows(t, http.StatusOK, "Settle the reversal", "It needs a second approval before anything changes.").Body)
			support.Get(page).Shows(t, http.StatusOK, transaction)
			form := url.Values{"reference": {reference}}
			support.Post(page+"/reversal", form).Shows(t, http.StatusForbidden)
			asha.Post(page+"/reversal", form).Shows(t, http.StatusUnprocessableEntity, "Select what the provider did.", "Enter the evidence")
			form.Set("undone", map[bool]string{true: "undone", false: "not_undone"}[undone])
			form.Set("evidence", "ticket 4711")
			asha.Post(page+"/reversal", form).RedirectsTo(t, page)
			asha.Get(page).Shows(t, http.StatusOK, "The settlement needs a second approval.")
			binu.Get("/console/approvals").Shows(t, http.StatusOK, map[bool]string{true: "Settle a reversal: undone", false: "Settle a reversal: not undone"}[undone], "ticket 4711")
			asha.Get("/console/review/reversals?transaction="+reference).RedirectsTo(t, page)
			binu.Get("/console/approvals").Shows(t, http.StatusOK, "/console/review/reversals?transaction="+reference)
			asha.Post("/console/review/operations/"+reference+"/proposals/2/approve", nil).Shows(t, http.StatusNotFound)
			binu.Post("/console/approvals/2/approve", nil).RedirectsTo(t, "/console/approvals")
			want := wallet
			if undone {
				want[0] += 349_00
			}
			if got := w.WalletPaise(me); got != want {
				t.Errorf("the wallet has %d; want %d", got, want)
			}
			asha.Get(page).Shows(t, http.StatusOK, "Staff found out from the provider", "ticket 4711", "The provider was asked to undo it.")
			if body := asha.Get(page).Body; strings.Contains(body, "The provider confirmed that it was undone.") || strings.Contains(body, "The provider did not undo it.") {
				t.Error("the timeline says that the provider answered, and a person settled it")
			}
			asha.Post(page+"/reversal", form).RedirectsTo(t, page)
			asha.Get(page).Shows(t, http.StatusOK, "This reversal has an outcome.")
			w.ControlSimulator("status", `{"mode":"up"}`)
			if next := w.Operate(me, "renew", "the-next-one", e2e.Order{"subscriber_id": subscriber, "plan_id": "BASIC-1"}); next.Code != fault.OK {
				t.Errorf("a renewal afterwards: %s", next.Code)
			}
			w.CheckAudit()
		})
	}
}

// A person settles a reversal as not undone that the provider has carried out, without an answer. A new request
// has the same reference, and the provider's answer returns the money. If nobody asks again, the provider's
// answer to the void is an exception.
func TestReversal_CarriedOutAfterNotUndone(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(map[bool]string{true: "the provider was told", false: "the provider was not told yet"}[told], func(t *testing.T) {
			t.Parallel()
			w := e2e.NewEnv(t, "panel.staff_totp=false", "provider.timeout=1s", "review.refund_after=2m", "review.max_interval=10s")
			me, subscriber, transaction := renewedByMistake(w, "FAMILY-1")
			wallet := w.WalletPaise(me)
			finance := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0))
			page := "/console/review/operations/" + transaction
			w.ScriptProvider(reversedMobile, "reset_applied")
			reverse(t, finance, transaction, "wrong customer")
			w.WaitUntil("the provider has undone it", func() bool {
				return slices.ContainsFunc(w.Simulator.Calls(reversedMobile), func(c simulator.Call) bool { return c.Kind == "reverse" && c.Applied })
			})
			w.ControlSimulator("status", `{"mode":"down"}`)
			w.Advance(2 * time.Minute)
			awaitText(w, finance, page, "Settle the reversal")
			reference := referenceIn(t, finance.Get(page).Body)
			finance.Post(page+"/reversal", url.Values{"reference": {reference}, "undone": {"not_undone"}, "evidence": {"ticket 4711"}}).RedirectsTo(t, page)
			if got := w.WalletPaise(me); got != wallet {
				t.Errorf("settled as not undone, the wallet has %d; want %d as before", got, wallet)
			}
			if told {
				w.ControlSimulator("status", `{"mode":"up"}`)
				awaitText(w, finance, "/console/review/exceptions", reference+" was settled as not undone; the provider says that it was undone")
				finance.Get(page).Shows(t, http.StatusOK, "It cannot be reversed: exception 1 of transaction "+transaction+" is open")
				operator := w.SignIn(t, w.Demo.Operator)
				operator.Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, "It cannot be reversed at the moment. Ask your MSO.")
				if body := operator.Get("/panel/transactions/" + transaction).Body; strings.Contains(body, "exception 1") {
					t.Error("the operator reads of the MSO's exceptions")
				}
				finance.Post("/console/review/exceptions/1/close", url.Values{"reason": {"it is reversed again now"}})
			}
			reverse(t, finance, transaction, "the customer has no service")
			w.ControlSimulator("status", `{"mode":"up"}`)
			awaitText(w, finance, page, "was reversed already")
			if got, want := w.WalletPaise(me), [2]int64{wallet[0] + 349_00, wallet[1]}; got != want {
				t.Errorf("the wallet has %d; want %d: the money back once", got, want)
			}
			if effects := w.Simulator.Effects()[reference]; effects != 1 {
				t.Errorf("the provider carried %s out %d times; want once", reference, effects)
			}
			if next := w.Operate(me, "renew", "the-next-one", e2e.Order{"subscriber_id": subscriber, "plan_id": "BASIC-1"}); next.Code != fault.OK {
				t.Errorf("a renewal afterwards: %s", next.Code)
			}
			w.CheckAudit()
		})
	}
}

// referenceIn returns the reference of the reversal that a page offers to settle.
func referenceIn(t *testing.T, body string) string {
	t.Helper()
	found := regexp.MustCompile(`name="reference" value="(RV[0-9A-Z]+)"`).FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("no reversal can be settled on\n%s", body)
	}
	return found[1]
}

func TestReversal_ProviderRefusesOrCannot(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me, subscriber, transaction := renewedByMistake(w, "FAMILY-1")
	finance, operator := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0)), w.SignIn(t, w.Demo.Operator)
	page, wallet := "/console/review/operations/"+transaction, w.WalletPaise(me)
	w.ScriptProvider(reversedMobile, "reject")
	reverse(t, finance, transaction, "wrong customer")
	awaitText(w, finance, page, "The provider does not accept this order.")
	finance.Get(page).Shows(t, http.StatusOK, "Refused", "Reverse it")
	operator.Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, "The provider did not undo it", "staff to reverse it, and give them this number")

	w.ControlSimulator("status", `{"reversals":"missing"}`)
	reverse(t, finance, transaction, "wrong customer")
	awaitText(w, finance, page, "The provider cannot undo orders.")
	finance.Get(page).Shows(t, http.StatusOK, "It cannot be reversed: the provider cannot undo orders")
	operator.Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, "It cannot be reversed at the moment. Ask your MSO.")
	if got := w.WalletPaise(me); got != wallet {
		t.Errorf("the wallet has %d; want %d as before", got, wallet)
	}
	// The customer can be renewed again.
	if next := w.Operate(me, "renew", "the-next-one", e2e.Order{"subscriber_id": subscriber, "plan_id": "BASIC-1"}); next.Code != fault.OK {
		t.Errorf("a renewal afterwards: %s", next.Code)
	}
	operator.Get("/panel/transactions/"+transaction).Shows(t, http.StatusOK, "is not the latest of subscriber "+subscriber, "Reverse that one first.", `<a href="/panel/transactions/CX`)
	w.CheckAudit()
}

func TestReversal_ListHasPages(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	_, _, transaction := renewedByMistake(w, "FAMILY-1")
	const all = web.PageRows + 1
	w.ScriptProvider(reversedMobile, slices.Repeat([]string{"reject"}, all)...)
	var references []string
	for range all {
		outcome, err := w.Admin.SubmitReversal(t.Context(), transaction, "wrong customer")
		if err != nil {
			t.Fatal(err)
		}
		references = append(references, outcome.Reversal.Reference)
		w.WaitUntil("the provider refuses", func() bool {
			r, err := w.Admin.Reversal(t.Context(), outcome.Reversal.Reference)
			return err == nil && !r.State.Open()
		})
		w.Advance(time.Second)
	}
	staff := w.SignIn(t, w.Demo.Admin)
	first := staff.Get("/console/review/reversals").Shows(t, http.StatusOK, references[all-1], "25 reversals on this page").Body
	if strings.Contains(first, references[0]) {
		t.Error("the first page has the oldest reversal")
	}
	second := staff.Get("/console/review/reversals?after="+references[1]).Shows(t, http.StatusOK, references[0], "1 reversal on this page").Body
	if !strings.Contains(first, "after="+references[1]) || strings.Contains(second, references[all-1]) {
		t.Error("the first page does not lead to the second, or the second has the newest reversal")
	}
}

func TestReversal_ActivationFreesTheNumber(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	me := w.DemoCaller()
	wallet := w.WalletPaise(me)
	w.Activate(me, reversedMobile, "COMBO-1")
	transaction := w.LookUp(me, "activate-"+reversedMobile).Text("transaction_id")
	finance := w.SignIn(t, w.NewLogin(t, "fina", login.Finance, 0))
	page := "/console/review/operations/" + transaction
	finance.Get(page).Shows(t, http.StatusOK, "The new subscriber is removed.")
	reverse(t, finance, transaction, "wrong number")
	awaitText(w, finance, page, "was reversed already")
	if got := w.WalletPaise(me); got != wallet {
		t.Errorf("the wallet has %d; want %d as before the activation", got, wallet)
	}
	again := w.Operate(me, "activate", "once-more", e2e.Order{"full_name": "Asha Rao", "mobile": reversedMobile, "plan_id": "BASIC-1"})
	if again.Code != fault.OK {
		t.Errorf("the same number again: %s", again.Code)
	}
	w.CheckAudit()
}
