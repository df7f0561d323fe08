package api_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/retention"
	"github.com/coaxhq/coax/internal/server"
)

// Of a subscriber that was forgotten no row and no log has the name, the number, the email or the
// address, and all else goes on: keys are replayed, the books are proved, the number is free.
func TestForget_LeavesNoTrace(t *testing.T) {
	w := e2e.NewEnv(t, "log.level=debug")
	me := w.LiftRateLimit(w.NewOperator("one", access.AllPermissions))
	w.TopUp(me, "2000.00")
	const name, mobile = "Zubeida Quarkwright", "9844455566"
	order := e2e.Order{"full_name": name, "mobile": mobile, "plan_id": "BASIC-1", "email": "zq@quark.example", "address": "77 Xylophone Street"}
	w.ScriptProvider(mobile, "reject")
	w.Operate(me, "activate", "refused-key", order)
	first := w.Operate(me, "activate", "bought-key", order)
	if first.Code != fault.OK {
		t.Fatalf("activate: %s", first.Raw)
	}
	id := first.Text("customer.subscriber_id")
	w.Advance(time.Hour)
	renewal := e2e.Order{"mobile": mobile, "plan_id": "FAMILY-1"}
	if got := w.Operate(me, "renew", "renewed-key", renewal); got.Code != fault.OK {
		t.Fatalf("renew: %s", got.Raw)
	}
	w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=" + mobile})
	contacts := admin.NewContacts(w.Node.Store, toldProvider{}, w.Now)
	for i, contact := range []operation.Contact{
		{Name: "Zubeida Vortexian", Email: "zv@quark.example", Area: "Plumbago Ward", Address: "5 Dulcimer Lane", BoxNumber: "BOX-700311", Notes: "barking whippet"},
		{Name: "Zubeida Quarkwright", Area: "Elsewhere Ward", Address: "6 Zither Row", BoxNumber: "BOX-700312", Notes: "green shutters"},
	} {
		record, _, err := contacts.Record(t.Context(), me.OperatorID, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := contacts.Change(t.Context(), "web:staff", admin.ContactEdit{OperatorID: me.OperatorID, SubscriberID: id, Seen: record.Version, Contact: contact}); err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
	}
	data := []string{
		"Quarkwright", "quarkwright", mobile, "zq@quark", "Xylophone", "xylophone", "Vortexian", "vortexian", "zv@quark", "Plumbago", "plumbago",
		"Dulcimer", "dulcimer", "700311", "113007", "whippet", "Elsewhere", "elsewhere", "Zither", "zither", "700312", "213007", "shutters", "6655544489",
	}
	dump := e2e.DumpStore(t, w.Node.Config.Store)
	for _, part := range data {
		// Old words of names and addresses are not searched by any more.
		if lower := strings.ToLower(part) == part && part >= "a"; !lower && part != "113007" && !strings.Contains(dump, part) {
			t.Fatalf("the store never had %q", part)
		}
	}
	if _, err := w.Admin.ForgetSubscriber(t.Context(), id, 0, "asked for it"); err == nil || !strings.Contains(err.Error(), "runs until") {
		t.Errorf("while the subscription runs: %v", err)
	}

	w.Advance(100 * 24 * time.Hour)
	if got, err := w.Admin.ForgetSubscriber(t.Context(), id, 0, "asked for it"); err != nil || got.Operations != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	w.CheckAudit()
	exported, err := w.Admin.ExportSubscriber(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(exported)
	if err != nil {
		t.Fatal(err)
	}
	for what, found := range map[string]string{"the store": e2e.DumpStore(t, w.Node.Config.Store), "the log": w.Log.String(), "the export": string(text)} {
		for _, part := range data {
			if strings.Contains(found, part) {
				t.Errorf("%s still has %q", what, part)
			}
		}
	}

	before := w.WalletPaise(me)
	for key, sent := range map[string]struct {
		endpoint string
		order    e2e.Order
	}{"bought-key": {"activate", order}, "renewed-key": {"renew", renewal}} {
		again := w.Operate(me, sent.endpoint, key, sent.order)
		if again.Code != fault.OK || again.Text("customer.subscriber_id") != id || again.Text("customer.name") != "(forgotten)" || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s again: %s", key, again.Raw)
		}
		if key == "bought-key" && (again.Text("transaction_id") != first.Text("transaction_id") || again.Text("wallet.charged") != first.Text("wallet.charged")) {
			t.Errorf("the replay is %s; want the money facts of %s", again.Raw, first.Raw)
		}
	}
	if got := w.Operate(me, "activate", "refused-key", order); got.Code != fault.ProviderError {
		t.Errorf("the refused one again: %s", got.Raw)
	}
	for what, got := range map[string]e2e.Answer{
		"a renewal by id":     w.Operate(me, "renew", "late-key", e2e.Order{"subscriber_id": id, "plan_id": "BASIC-1"}),
		"a renewal by number": w.Operate(me, "renew", "late-key-2", e2e.Order{"mobile": mobile, "plan_id": "BASIC-1"}),
		"a look-up by id":     w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?subscriber_id=" + id}),
		"a look-up by number": w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?mobile=" + mobile}),
	} {
		if got.Code != fault.SubscriberNotFound {
			t.Errorf("%s: %s; want %s", what, got.Raw, fault.SubscriberNotFound)
		}
	}
	if after := w.WalletPaise(me); after != before {
		t.Errorf("the wallet went from %v to %v", before, after)
	}
	anew := w.Operate(me, "activate", "anew-key", order)
	if anew.Code != fault.OK || anew.Text("customer.subscriber_id") == id {
		t.Errorf("the same number anew: %s; want a new subscriber", anew.Raw)
	}
	w.CheckAudit()
}

// toldProvider takes contact data, and quotes it in its reply.
type toldProvider struct{}

func (toldProvider) UpdateContact(_ context.Context, u operation.ContactUpdate) (operation.Reply, bool) {
	return operation.Reply{Outcome: operation.Rejected, Message: u.Name + " of " + u.Address + " has no " + u.BoxNumber}, true
}

// Old rows are removed in the background, and nothing that a caller sees changes.
func TestRetention_KeepsAnswersAndBooks(t *testing.T) {
	w := e2e.NewEnv(t, "retention.provider_calls=2160h", "retention.operation_events=2400h")
	me := w.LiftRateLimit(w.NewOperator("one", access.AllPermissions))
	w.TopUp(me, "5000.00")
	order := e2e.Activation("9844455567")
	first := w.Operate(me, "activate", "bought-key", order)
	w.ScriptProvider("9844455568", "reject")
	w.Operate(me, "activate", "refused-key", e2e.Activation("9844455568"))
	w.Advance(95 * 24 * time.Hour)
	young := w.Operate(me, "activate", "young-key", e2e.Activation("9844455569"))
	rows := func(table string) int {
		t.Helper()
		db := e2e.OpenReadOnly(t, w.Node.Config.Store)
		defer db.Close()
		return len(e2e.QueryRows(t, db, `SELECT * FROM `+table))
	}
	calls, events := rows("provider_calls"), rows("operation_events")
	w.Node.RemoveOldRows(t.Context())
	if got := rows("provider_calls"); got != 1 || calls != 3 {
		t.Errorf("%d of %d provider calls are left; want 1 of 3", got, calls)
	}
	if got := rows("operation_events"); got != events {
		t.Errorf("%d of %d events are left; want all for 100 days", got, events)
	}
	if got := w.Metric(`coax_purged_rows_total{table="provider_calls"}`); got != 2 {
		t.Errorf("coax_purged_rows_total is %v for provider_calls; want 2", got)
	}
	w.Advance(10 * 24 * time.Hour)
	w.Node.RemoveOldRows(t.Context())
	if got := rows("operation_events"); got != 2 {
		t.Errorf("%d events are left; want the young operation's two", got)
	}
	again := w.Operate(me, "activate", "bought-key", order)
	if again.Code != fault.OK || again.Text("transaction_id") != first.Text("transaction_id") {
		t.Errorf("the key gives %s; want what it gave first, %s", again.Raw, first.Raw)
	}
	history, err := w.Admin.OperationHistory(t.Context(), first.Text("transaction_id"))
	if err != nil || history.CallsRemoved.IsZero() || history.EventsRemoved.IsZero() {
		t.Errorf("removed at %v and %v, %v; want to be told when", history.CallsRemoved, history.EventsRemoved, err)
	}
	if history, err := w.Admin.OperationHistory(t.Context(), young.Text("transaction_id")); err != nil || len(history.Calls) != 1 || len(history.Events) != 2 {
		t.Errorf("the young operation has %d calls and %d events, %v", len(history.Calls), len(history.Events), err)
	}
	w.CheckAudit()
}

// A finished bulk renewal is removed with its rows; renewals go on from what it did.
func TestRetention_RemovesBulkJobs(t *testing.T) {
	w := e2e.NewEnv(t, "retention.bulk_jobs=720h")
	me := w.LiftRateLimit(w.NewFundedOperator("me", "10000"))
	ids := []string{w.Activate(me, "9844455571", "BASIC-1"), w.Activate(me, "9844455572", "BASIC-1")}
	jobs := bulk.NewService(w.Node.Store, w.Node.Operations, w.Now)
	job, err := jobs.Prepare(t.Context(), bulk.Order{
		OperatorID: me.OperatorID, Actor: "web:asha", Title: "list", Kind: operation.Renew, Selections: bulk.SelectSubscribers(ids),
	})
	if err == nil {
		_, err = jobs.Start(t.Context(), me.OperatorID, job.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.WaitUntil("the job is finished", func() bool {
		job, err := jobs.Job(t.Context(), me.OperatorID, job.ID)
		return err == nil && job.State == bulk.Finished && job.Progress.Done == len(ids)
	})
	lookUp := func() e2e.Answer {
		t.Helper()
		return w.Send(e2e.Call{As: me, Path: "/api/v1/subscription?subscriber_id=" + ids[0]})
	}
	before := lookUp().Text("expiry_date")
	w.Advance(29 * 24 * time.Hour)
	w.Node.RemoveOldRows(t.Context())
	if _, err := jobs.Job(t.Context(), me.OperatorID, job.ID); err != nil {
		t.Errorf("the job after 29 days: %v; want it kept for 30", err)
	}
	w.Advance(2 * 24 * time.Hour)
	w.Node.RemoveOldRows(t.Context())
	if left, err := w.Node.Store.BulkJobs(t.Context(), me.OperatorID, time.Time{}, 10); err != nil || len(left) != 0 {
		t.Errorf("%d jobs are left, %v", len(left), err)
	}
	if got := w.Metric(`coax_purged_rows_total{table="bulk_jobs"}`); got != 3 {
		t.Errorf("coax_purged_rows_total is %v for bulk_jobs; want the job and its two rows", got)
	}
	if got := lookUp().Text("expiry_date"); got != before || got == "" {
		t.Errorf("the subscription ends on %q; before the removal on %q", got, before)
	}
	renewal := e2e.Order{"subscriber_id": ids[0], "plan_id": "BASIC-1"}
	first := w.Operate(me, "renew", "after-removal", renewal)
	until, err := time.Parse(time.DateTime, before)
	if err != nil {
		t.Fatal(err)
	}
	if want := until.AddDate(0, 0, 30).Format(time.DateTime); first.Code != fault.OK || first.Text("expiry.previous") != before || first.Text("expiry.new") != want {
		t.Errorf("a renewal after the removal: %s; want it from %s until %s", first.Raw, before, want)
	}
	if again := w.Operate(me, "renew", "after-removal-2", renewal); again.Code != fault.DuplicateRequest || again.Text("previous_transaction_id") != first.Text("transaction_id") {
		t.Errorf("the same renewal again: %s; want %s", again.Raw, fault.DuplicateRequest)
	}
	w.CheckAudit()

	damaged := func() []string {
		t.Helper()
		snapshot, done, err := server.OpenSnapshot(t.Context(), w.Node.Config.Store)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		report, err := audit.Settings{Keys: server.AuditKeys(w.Node.Vault)}.Run(t.Context(), snapshot, w.Now(), nil)
		if err != nil || report.Counts.Closings != 1 || report.Counts.Removed != 2 {
			t.Errorf("%+v, %v; want one closing of two rows", report.Counts, err)
		}
		var found []string
		for _, v := range report.Violations {
			found = append(found, v.Invariant+" "+v.Subject)
		}
		return found
	}
	if found := damaged(); len(found) != 0 {
		t.Errorf("the audit finds %v", found)
	}
	e2e.ExecOnStore(t, w.Node.Config.Store, `UPDATE retention_closings SET charged_paise = charged_paise - 1 WHERE what = 'bulk_jobs'`)
	if found := damaged(); !slices.Equal(found, []string{"R1 closing 1 of bulk_jobs"}) {
		t.Errorf("the audit finds %v of a closing with another amount", found)
	}
}

// A node removes nothing unless it is told to.
func TestRetention_KeepsAllByDefault(t *testing.T) {
	w := e2e.NewEnv(t)
	if keep := w.Node.Config.Retention; keep != (retention.Config{}) {
		t.Errorf("rows are kept for %+v by default; want for good", keep)
	}
}
