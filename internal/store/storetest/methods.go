package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/retention"
	"github.com/coaxhq/coax/internal/subscription"
)

// FilledStore describes a store with data, for CallEveryMethod.
type FilledStore struct {
	OperatorID int64
	Key        access.KeyHash
	// Subscribers are the operator's, without open operations; each is used once.
	Subscribers []string
	// OtherOperatorID is another operator, and OtherSubscribers are some of its
	// subscribers.
	OtherOperatorID  int64
	OtherSubscribers []string
	// Now is later than all times in the store.
	Now time.Time
}

// CallEveryMethod calls each method that requests, workers and pages use, with
// arguments that reach every branch, so that an observer sees every SQL statement they
// can execute. A method that it does not know fails the test.
func CallEveryMethod(t *testing.T, store Store, b FilledStore) {
	t.Helper()
	w := &methodCaller{T: t, Store: store, filled: b}
	_, _, err := w.UseIntegrityKeys(t.Context(), testKeys(1, 1), b.Now)
	w.must(err)
	w.prepare()
	known := []string{}
	for _, methodCall := range slices.Concat(methodCalls, loginCalls, reportCalls, paymentCalls, receiptCalls) {
		known = append(known, methodCall.method)
		methodCall.run(w)
	}
	for _, iface := range []reflect.Type{
		reflect.TypeFor[access.Store](), reflect.TypeFor[catalogue.Store](), reflect.TypeFor[operation.ReviewStore](),
		reflect.TypeFor[login.Store](), reflect.TypeFor[requestlog.Store](), reflect.TypeFor[bulk.Store](), reflect.TypeFor[report.Store](),
		reflect.TypeFor[integrity.Store](), reflect.TypeFor[retention.Store](), reflect.TypeFor[admin.StatementStore](), reflect.TypeFor[receipt.Store](),
	} {
		for i := range iface.NumMethod() {
			if name := iface.Method(i).Name; !slices.Contains(known, name) {
				t.Errorf("%s.%s was not called: add it to methodCalls in methods.go", iface, name)
			}
		}
	}
}

// SubscribersNeeded is how many subscribers CallEveryMethod needs, of either operator.
const SubscribersNeeded = 28 + 2*concurrentCalls

// concurrentCalls is how many calls run concurrently, so that stores that batch writes
// do.
const concurrentCalls = 12

type methodCaller struct {
	*testing.T
	Store
	filled FilledStore
	plan   subscription.Plan
	record access.Record
	used   int
	logins int
	paid   bool // see paymentWalk
}

// methodCall calls a method of a store, in all its variants.
type methodCall struct {
	method string
	run    func(*methodCaller)
}

var methodCalls = []methodCall{
	{"CredentialByHash", func(w *methodCaller) { w.must(second(w.CredentialByHash(w.Context(), access.KeyHash{}))) }},
	{"Admit", (*methodCaller).admissions},
	{"PurgeAdmissions", func(w *methodCaller) {
		w.must(first(w.PurgeAdmissions(w.Context(), w.filled.Now, subscription.RateWindowAt(w.filled.Now), 10)))
	}},
	{"SellablePlans", func(w *methodCaller) { w.must(second(w.SellablePlans(w.Context(), "simulator"))) }},
	{"Compared", func(w *methodCaller) { w.must(second(w.Compared(w.Context(), "simulator"))) }},
	{"RecordFailure", func(w *methodCaller) { w.must(w.RecordFailure(w.Context(), "simulator", "no answer", w.filled.Now)) }},
	{"RecordComparison", (*methodCaller).comparison},
	{"AdoptedByKey", func(w *methodCaller) {
		w.must(second(w.AdoptedByKey(w.Context(), w.filled.OperatorID, []string{"adopted/a", "adopted/b"})))
	}},
	{"ClaimAdopted", func(w *methodCaller) {
		if _, err := w.ClaimAdopted(w.Context(), operation.KeyClaim{OperationID: "CX-nobody's", Adopted: "adopted/a", Fingerprint: operation.Fingerprint{Sum: []byte{1}}}); err == nil {
			w.Error("an operation that is not there was claimed")
		}
	}},
	{"OperationByKey", func(w *methodCaller) { w.must(second(w.OperationByKey(w.Context(), w.filled.OperatorID, "nobody's"))) }},
	{"OperationByID", func(w *methodCaller) { w.must(second(w.OperationByID(w.Context(), w.filled.OperatorID, "nobody's"))) }},
	{"SubscriptionOf", (*methodCaller).lookups},
	{"Snapshot", (*methodCaller).snapshots},
	{"Reserve", (*methodCaller).reservations},
	{"Reserve", (*methodCaller).concurrentReservations},
	{"Settle", (*methodCaller).settlements},
	{"ExtendLease", (*methodCaller).leases},
	{"TakeOver", (*methodCaller).takeOver},
	{"Due", func(w *methodCaller) { w.must(first(w.Due(w.Context(), w.filled.Now))) }},
	{"ClaimReviews", (*methodCaller).reviews},
	{"Postpone", (*methodCaller).postponement},
	{"CountOverdueReviews", func(w *methodCaller) { w.must(first(w.CountOverdueReviews(w.Context(), w.filled.Now))) }},
	{"Holds", func(w *methodCaller) { w.must(first(w.Holds(w.Context()))) }},
	{"ClaimAddons", (*methodCaller).addons},
	{"SettleAddon", (*methodCaller).addonSettlement},
	{"ClaimLateChecks", (*methodCaller).lateChecks},
	{"CloseLateCheck", (*methodCaller).lateCheckClosed},
	{"ClaimReversals", (*methodCaller).reversals},
	{"SettleReversal", (*methodCaller).reversals},
	{"PendingReversal", func(w *methodCaller) { w.must(second(w.PendingReversal(w.Context(), "nobody's"))) }},
	{"RecordRequests", (*methodCaller).requests},
	{"RequestBlocks", (*methodCaller).requestSearch},
	{"RequestBlock", func(w *methodCaller) { w.must(second(w.RequestBlock(w.Context(), w.filled.OperatorID, 1))) }},
	{"LastKeyUses", func(w *methodCaller) { w.must(first(w.LastKeyUses(w.Context(), w.filled.OperatorID))) }},
	{"PurgeRequests", func(w *methodCaller) { w.must(first(w.PurgeRequests(w.Context(), w.filled.Now.Add(time.Minute), 10))) }},
	{"FindAuditEntries", (*methodCaller).auditSearch},
	{"OperationsByID", func(w *methodCaller) { w.must(first(w.OperationsByID(w.Context(), []string{"CX-1", "CX-2"}))) }},
	{"SubscriberNames", func(w *methodCaller) { w.must(first(w.SubscriberNames(w.Context(), []string{"100001", "100002"}))) }},
	{"AuditEntryByVoucher", func(w *methodCaller) { w.must(second(w.AuditEntryByVoucher(w.Context(), "AAAA2222BBBB"))) }},
	{"SaveBulkJob", (*methodCaller).bulkDrafts},
	{"StartBulkJob", (*methodCaller).bulkStart},
	{"BulkJobsDue", func(w *methodCaller) { w.must(first(w.BulkJobsDue(w.Context(), w.filled.Now))) }},
	{"TakeOverBulkJobs", func(w *methodCaller) { w.must(w.TakeOverBulkJobs(w.Context(), w.filled.Now)) }},
	{"InterruptIdleBulkJobs", (*methodCaller).bulkInterruptions},
	{"InterruptedBulkJobs", (*methodCaller).bulkInterruptions},
	{"InterruptSuspendedBulkJobs", (*methodCaller).bulkSuspension},
	{"ContinueBulkJob", (*methodCaller).bulkInterruptions},
	{"ClaimBulkJob", (*methodCaller).bulkWork},
	{"TakeBulkRows", (*methodCaller).bulkWork},
	{"SettleBulkRow", (*methodCaller).bulkWork},
	{"ReleaseBulkJob", (*methodCaller).bulkWork},
	{"BulkJob", func(w *methodCaller) { w.must(second(w.BulkJob(w.Context(), w.filled.OperatorID, startedJob))) }},
	{"BulkDrafts", func(w *methodCaller) {
		w.must(first(w.BulkDrafts(w.Context(), w.filled.OperatorID, w.filled.Now.Add(-time.Hour), 20)))
	}},
	{"BulkJobs", func(w *methodCaller) { w.must(first(w.BulkJobs(w.Context(), w.filled.OperatorID, w.filled.Now, 20))) }},
	{"BulkRows", (*methodCaller).bulkRows},
	{"RecentlyRenewedRows", func(w *methodCaller) {
		w.must(first(w.RecentlyRenewedRows(w.Context(), w.filled.OperatorID, startedJob, w.filled.Now.Add(-oneDay))))
	}},
	{"OrphanedBulkRows", func(w *methodCaller) {
		w.must(first(w.OrphanedBulkRows(w.Context(), w.filled.OperatorID, startedJob, 10)))
	}},
	{"OpenBulkJobs", func(w *methodCaller) { w.must(first(w.OpenBulkJobs(w.Context()))) }},
	{"CancelBulkJob", func(w *methodCaller) {
		w.must(first(w.CancelBulkJob(w.Context(), w.filled.OperatorID, startedJob, w.filled.Now)))
	}},
	{"PurgeBulkDrafts", func(w *methodCaller) { w.must(first(w.PurgeBulkDrafts(w.Context(), w.filled.Now.Add(time.Hour), 1))) }},
	{"MovedWithoutApproval", func(w *methodCaller) {
		w.must(first(w.MovedWithoutApproval(w.Context(), admin.MovedQuery{People: []string{"asha"}, OperatorID: w.filled.OperatorID, After: w.filled.Now.Add(-oneDay), Until: w.filled.Now})))
	}},
	{"PlanComparison", func(w *methodCaller) { w.must(first(w.PlanComparison(w.Context(), w.plan.ID))) }},
	{"Operator", func(w *methodCaller) { w.must(first(w.Operator(w.Context(), w.filled.OperatorID))) }},
	{"UseIntegrityKeys", func(w *methodCaller) { w.must(second(w.UseIntegrityKeys(w.Context(), testKeys(1, 1), w.filled.Now))) }},
	{"UnsealedOperators", (*methodCaller).digests},
	{"LastDigest", (*methodCaller).digests},
	{"LedgerLinesFrom", (*methodCaller).digests},
	{"WalletEntriesFrom", (*methodCaller).digests},
	{"AddDigests", (*methodCaller).digests},
	{"RemoveOperationRows", func(w *methodCaller) {
		for _, what := range []retention.What{retention.ProviderCalls, retention.OperationEvents} {
			w.must(first(w.RemoveOperationRows(w.Context(), what, w.filled.Now.Add(time.Hour), w.filled.Now.Add(time.Hour), 20)))
		}
	}},
	{"RemoveBulkJob", (*methodCaller).bulkRemoval},
	{"IntegrityHead", func(w *methodCaller) { w.must(first(w.IntegrityHead(w.Context()))) }},
	{"Wallet", func(w *methodCaller) { w.must(first(w.Wallet(w.Context(), w.filled.OperatorID))) }},
}

func first[A any](_ A, err error) error          { return err }
func second[A, B any](_ A, _ B, err error) error { return err }

func (w *methodCaller) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *methodCaller) prepare() {
	w.Helper()
	plans, _, err := w.SellablePlans(w.Context(), "simulator")
	if err != nil || len(plans) == 0 || len(w.filled.Subscribers) < SubscribersNeeded || len(w.filled.OtherSubscribers) < SubscribersNeeded {
		w.Fatalf("%d plans (%v) and %d subscribers are too few", len(plans), err, len(w.filled.Subscribers))
	}
	w.plan = plans[0]
	var found bool
	if w.record, found, err = w.CredentialByHash(w.Context(), w.filled.Key); err != nil || !found {
		w.Fatalf("there is no such key: %v", err)
	}
}

// next returns an unused subscriber.
func (w *methodCaller) next() string {
	w.Helper()
	if w.used == SubscribersNeeded {
		w.Fatal("SubscribersNeeded is too small")
	}
	w.used++
	return w.filled.Subscribers[w.used-1]
}

func (w *methodCaller) admissions() {
	a := admission(w.record, "req_walk_1", "walk-nonce-1")
	a.Now = w.filled.Now
	stale, uncounted, late := a, a, a
	stale.RequestID, stale.Nonce, stale.OperatorVersion = "req_walk_2", "walk-nonce-2", 0
	uncounted.RequestID, uncounted.Nonce, uncounted.Count = "req_walk_3", "walk-nonce-3", false
	late.RequestID, late.Nonce, late.Limit = "req_walk_4", "walk-nonce-4", 1
	replay := a
	replay.RequestID = "req_walk_5"
	alone := replay // in its minute
	alone.Now = a.Now.Add(time.Minute)
	for _, one := range []access.Admission{a, a, replay, stale, uncounted, late, alone} {
		w.must(first(w.Admit(w.Context(), one)))
	}
}

// digests seals a few rows of both operators, and reads them as a node does.
func (w *methodCaller) digests() {
	w.must(first(w.UnsealedOperators(w.Context(), 0, 2)))
	for _, id := range []int64{w.filled.OperatorID, w.filled.OtherOperatorID} {
		last, err := w.LastDigest(w.Context(), id)
		w.must(err)
		lines, err := w.LedgerLinesFrom(w.Context(), id, last.LastLine+1, 3)
		w.must(err)
		entries, err := w.WalletEntriesFrom(w.Context(), id, last.LastEntry+1, 3)
		w.must(err)
		day := w.filled.Now.AddDate(0, 0, int(last.Number)).Format(time.DateOnly)
		w.must(first(w.AddDigests(w.Context(), []integrity.Digest{{
			OperatorID: id, Day: day, FirstLine: last.LastLine + 1, LastLine: last.LastLine + int64(len(lines)),
			FirstEntry: last.LastEntry + 1, LastEntry: last.LastEntry + int64(len(entries)), LedgerHash: []byte{1}, WalletHash: []byte{1},
		}})))
	}
}

func (w *methodCaller) comparison() {
	w.must(w.RecordComparison(w.Context(), catalogue.Comparison{Provider: "simulator", At: w.filled.Now, Components: []catalogue.Component{
		{Code: "TV-BASIC", Name: "Basic television", Role: catalogue.Main},
		{Code: "TV-FAMILY", Name: "Family television", Role: catalogue.Main},
	}}))
}

func (w *methodCaller) lookups() {
	found, is, err := w.SubscriptionOf(w.Context(), w.filled.OperatorID, w.filled.Subscribers[0], "")
	if err != nil || !is {
		w.Fatalf("subscriber %s: %v, %v", w.filled.Subscribers[0], is, err)
	}
	if _, is, err = w.SubscriptionOf(w.Context(), w.filled.OperatorID, "", found.Mobile); err != nil || !is {
		w.Fatalf("mobile %s: %v, %v", found.Mobile, is, err)
	}
}

func (w *methodCaller) snapshot(kind operation.Kind, id, mobile string) operation.Snapshot {
	w.Helper()
	snapshot, err := w.Snapshot(w.Context(), operation.SnapshotQuery{
		OperatorID: w.filled.OperatorID, Kind: kind, SubscriberID: id, Mobile: mobile, PlanID: w.plan.ID, DuplicatesSince: w.filled.Now.Add(-2 * time.Minute),
	})
	w.must(err)
	return snapshot
}

func (w *methodCaller) snapshots() {
	known := w.snapshot(operation.Renew, w.filled.Subscribers[0], "")
	w.snapshot(operation.Renew, "", known.Subscriber.Mobile)
	w.snapshot(operation.Activate, "", known.Subscriber.Mobile)
	w.snapshot(operation.Activate, "123456", "7000000000")
	w.snapshot(operation.Activate, w.filled.Subscribers[0], "7000000000")
}

// draft returns an operation on an existing subscriber, or on a new one.
func (w *methodCaller) draft(kind operation.Kind) operation.Draft {
	w.Helper()
	n := w.used + 1
	d := operation.Draft{
		Operation: operation.Operation{
			ID: fmt.Sprintf("CXWALK%022d", n), OperatorID: w.filled.OperatorID, IdempotencyKey: fmt.Sprintf("walk-%d", n),
			Fingerprint: operation.Fingerprint{KeyID: 7, Sum: make([]byte, 32)}, Kind: kind, Channel: operation.API, Actor: "api:key 1",
			CustomerName: "Asha", PlanID: w.plan.ID, PlanVersion: w.plan.Version, PlanName: w.plan.Name, PlanMonths: 1, Main: w.plan.Main,
			Amount: w.plan.Price, ExpiryPlanned: w.filled.Now.Add(30 * 24 * time.Hour), CycleStartsAt: w.filled.Now, State: operation.Processing, Epoch: 1,
			Node: "node-1", LeaseUntil: w.filled.Now.Add(25 * time.Second), Provider: "simulator", CreatedAt: w.filled.Now,
		},
	}
	if kind == operation.Activate {
		w.next()
		d.SubscriberID, d.Mobile = fmt.Sprintf("%06d", n), fmt.Sprintf("70%08d", n)
		d.Profile = operation.Profile{ConnectionType: "tv"}
		return d
	}
	who := w.snapshot(kind, w.next(), "").Subscriber
	d.SubscriberID, d.Mobile, d.SubscriberVersion, d.ExpiryPrevious = who.ID, who.Mobile, who.Version, who.Expires
	return d
}

func (w *methodCaller) reserve(d operation.Draft) operation.Operation {
	w.Helper()
	op, err := w.Reserve(w.Context(), d)
	w.must(err)
	return op
}

func (w *methodCaller) settle(op operation.Operation, to operation.State, change func(*operation.Settlement)) operation.Operation {
	w.Helper()
	st := settlement(op, to)
	st.At = w.filled.Now.Add(time.Second)
	if to == operation.NeedsReview {
		st.NextCheckAt = w.filled.Now.Add(time.Second)
	}
	if change != nil {
		change(&st)
	}
	settled, _, err := w.Settle(w.Context(), st)
	w.must(err)
	return settled
}

func (w *methodCaller) reservations() {
	for _, kind := range []operation.Kind{operation.Activate, operation.Renew} {
		for _, end := range []operation.State{operation.Success, operation.Failed} {
			w.settle(w.reserve(w.draft(kind)), end, nil)
		}
	}
}

// concurrentReservations reserves and settles many operations concurrently, with either
// result.
func (w *methodCaller) concurrentReservations() {
	for _, end := range []operation.State{operation.Success, operation.Failed} {
		drafts, ops := make([]operation.Draft, concurrentCalls), make([]operation.Operation, concurrentCalls)
		for i := range drafts {
			if drafts[i] = w.draft(operation.Renew); i%2 == 1 {
				w.move(&drafts[i])
			}
		}
		errs := make([]error, concurrentCalls)
		concurrently(concurrentCalls, func(i int) { ops[i], errs[i] = w.Reserve(w.Context(), drafts[i]) })
		w.must(errors.Join(errs...))
		concurrently(concurrentCalls, func(i int) { errs[i] = second(w.Settle(w.Context(), settlement(ops[i], end))) })
		w.must(errors.Join(errs...))
	}
}

// move assigns a draft to the other operator.
func (w *methodCaller) move(d *operation.Draft) {
	w.Helper()
	snapshot, err := w.Snapshot(w.Context(), operation.SnapshotQuery{
		OperatorID: w.filled.OtherOperatorID, Kind: d.Kind, SubscriberID: w.filled.OtherSubscribers[w.used-1], PlanID: w.plan.ID, DuplicatesSince: w.filled.Now,
	})
	w.must(err)
	d.OperatorID, d.SubscriberID, d.Mobile = w.filled.OtherOperatorID, snapshot.Subscriber.ID, snapshot.Subscriber.Mobile
	d.SubscriberVersion, d.ExpiryPrevious = snapshot.Subscriber.Version, snapshot.Subscriber.Expires
}

func (w *methodCaller) settlements() {
	op := w.reserve(w.draft(operation.Renew))
	w.settle(op, operation.NeedsReview, nil)
	// A lookup and a snapshot while an operation is open.
	w.must(second(w.SubscriptionOf(w.Context(), w.filled.OperatorID, op.SubscriberID, "")))
	w.settle(op, operation.Failed, nil)
	// The provider's reply comes too late, and contradicts the settlement.
	op.Epoch++
	w.settle(op, operation.Success, nil)
}

func (w *methodCaller) leases() {
	op := w.reserve(w.draft(operation.Renew))
	w.must(first(w.ExtendLease(w.Context(), op.ID, op.Epoch, w.filled.Now.Add(time.Minute))))
	w.settle(op, operation.Success, nil)
	// A subscriber that was just renewed is renewed again.
	if again := w.snapshot(operation.AdvanceRenew, op.SubscriberID, ""); again.Duplicate != op.ID || len(again.Cycles) == 0 {
		w.Fatalf("after %s the snapshot is %+v", op.ID, again)
	}
}

func (w *methodCaller) takeOver() {
	w.reserve(w.draft(operation.Renew))
	w.must(w.TakeOver(w.Context(), w.filled.Now))
}

func (w *methodCaller) claim() operation.Claim {
	return operation.Claim{Now: w.filled.Now.Add(time.Minute), Node: "node-2", Until: w.filled.Now.Add(2 * time.Minute), Limit: 10}
}

// reviews claims an abandoned operation, and one that is due.
func (w *methodCaller) reviews() {
	w.reserve(w.draft(operation.Renew))
	w.settle(w.reserve(w.draft(operation.Renew)), operation.NeedsReview, nil)
	claimed, err := w.ClaimReviews(w.Context(), w.claim())
	if err != nil || len(claimed) < 2 {
		w.Fatalf("%d operations were claimed: %v", len(claimed), err)
	}
	for _, op := range claimed {
		w.settle(op, operation.Success, nil)
	}
}

func (w *methodCaller) postponement() {
	op := w.settle(w.reserve(w.draft(operation.Renew)), operation.NeedsReview, nil)
	held, err := w.Postpone(w.Context(), operation.Postponement{
		OperationID: op.ID, Epoch: op.Epoch, NextCheckAt: w.filled.Now.Add(time.Hour), Node: "node-1",
		Calls: []operation.ProviderCall{{Reference: op.ID, What: "status", AskedAt: w.filled.Now, AnsweredAt: w.filled.Now}},
	})
	if err != nil || !held {
		w.Fatalf("postponed: %v, %v", held, err)
	}
	w.settle(op, operation.Success, nil)
}

// missingAddon returns a success whose add-on is due.
func (w *methodCaller) missingAddon() operation.Operation {
	w.Helper()
	d := w.draft(operation.Renew)
	d.Addon, d.AddonState = "OTT-PLUS", operation.AddonWaiting
	return w.settle(w.reserve(d), operation.Success, func(st *operation.Settlement) {
		st.AddonState, st.AddonNextAt = operation.AddonFailed, w.filled.Now.Add(time.Second)
	})
}

func (w *methodCaller) addons() {
	w.missingAddon()
	if claimed, err := w.ClaimAddons(w.Context(), w.claim()); err != nil || len(claimed) == 0 {
		w.Fatalf("%d add-ons were claimed: %v", len(claimed), err)
	}
}

func (w *methodCaller) addonSettlement() {
	// Rejected and then confirmed; the last call has a stale epoch.
	op := w.missingAddon()
	settle := func(epoch int64, state operation.AddonState, next time.Time) {
		w.must(w.SettleAddon(w.Context(), operation.AddonSettlement{
			OperationID: op.ID, Epoch: epoch, State: state, Attempt: 1, NextAt: next, Node: "node-1",
			Calls: []operation.ProviderCall{{Reference: op.ID + "-2", What: "renew", AskedAt: w.filled.Now, AnsweredAt: w.filled.Now}},
		}))
	}
	settle(op.AddonEpoch, operation.AddonFailed, w.filled.Now)
	settle(op.AddonEpoch, operation.AddonSuccess, time.Time{})
	settle(op.AddonEpoch+1, operation.AddonSuccess, time.Time{})
}

// lateCheck returns a refund whose void is still to be sent.
func (w *methodCaller) lateCheck() operation.Operation {
	w.Helper()
	return w.settle(w.reserve(w.draft(operation.Renew)), operation.Failed, func(st *operation.Settlement) { st.NextCheckAt = w.filled.Now.Add(time.Second) })
}

func (w *methodCaller) lateChecks() {
	w.lateCheck()
	if claimed, err := w.ClaimLateChecks(w.Context(), w.claim()); err != nil || len(claimed) == 0 {
		w.Fatalf("%d late checks were claimed: %v", len(claimed), err)
	}
}

func (w *methodCaller) lateCheckClosed() {
	op := w.lateCheck()
	w.must(w.CloseLateCheck(w.Context(), operation.LateCheck{
		OperationID: op.ID, Node: "node-1",
		Calls:     []operation.ProviderCall{{Reference: op.ID, What: "void", AskedAt: w.filled.Now, AnsweredAt: w.filled.Now}},
		Exception: &operation.Exception{OperationID: op.ID, Kind: operation.LateSuccess, Detail: "late", At: w.filled.Now},
	}))
}

// reversals asks for reversals with every outcome, and of an activation.
func (w *methodCaller) reversals() {
	for i, state := range []operation.ReversalState{operation.Reversed, operation.ReversalRefused, operation.ReversalAsked, operation.Reversed} {
		kind := operation.Renew
		if i == 3 {
			kind = operation.Activate
		}
		op := w.settle(w.reserve(w.draft(kind)), operation.Success, nil)
		action := staffAction(string(admin.OperationReverse))
		action.At = w.filled.Now.Add(time.Second)
		r, err := w.RequestReversal(w.Context(), action, admin.ReversalRequest{TransactionID: op.ID, Reference: "RV" + op.ID, MaxAge: time.Hour})
		w.must(err)
		c := w.claim()
		c.Now = action.At
		if claimed, err := w.ClaimReversals(w.Context(), c); err != nil || len(claimed) != 1 {
			w.Fatalf("%d reversals were claimed: %v", len(claimed), err)
		}
		answer := reversalAnswer(r, state)
		answer.At, answer.NextAt = action.At, action.At.Add(time.Hour)
		answer.Calls[0].Reply.Mismatch = state.Open()
		w.must(w.SettleReversal(w.Context(), answer))
		if state.Open() {
			w.contradicted(r, action, answer.At)
		}
	}
}

// contradicted settles a reversal as not undone, which the provider contradicts when it is told.
func (w *methodCaller) contradicted(r operation.Reversal, action admin.StaffAction, at time.Time) {
	action.Action, action.At = string(admin.ReversalSettle), at
	w.must(first(w.SettleReversalByReview(w.Context(), action, admin.ReversalSettlement{Reference: r.Reference})))
	c := w.claim()
	c.Now = at
	if claimed, err := w.ClaimReversals(w.Context(), c); err != nil || len(claimed) != 1 {
		w.Fatalf("%d reversals were claimed: %v", len(claimed), err)
	}
	w.must(w.SettleReversal(w.Context(), voidAnswer(r, operation.Reversed)))
}

// requests logs calls, also of keys that were used before.
func (w *methodCaller) requests() {
	for n := range 3 {
		at := w.filled.Now.Add(time.Duration(n) * time.Second)
		w.must(w.RecordRequests(w.Context(), requestlog.Batch{
			Blocks: []requestlog.Block{
				{OperatorID: w.filled.OperatorID, From: at, Until: at, Packed: []byte{1}},
				{OperatorID: w.filled.OtherOperatorID, From: at, Until: at, Refused: true, Packed: []byte{1}},
			},
			Uses: []requestlog.Use{{OperatorID: w.filled.OperatorID, CredentialID: w.record.Credential.ID, At: at}},
		}))
	}
}

func (w *methodCaller) requestSearch() {
	for _, refused := range []bool{false, true} {
		w.must(first(w.RequestBlocks(w.Context(), requestlog.BlockQuery{
			OperatorID: w.filled.OperatorID, Before: requestlog.Position{Until: w.filled.Now.Add(time.Hour), ID: 1 << 40}, Refused: refused, Limit: 10,
		})))
	}
}

// auditSearch searches audit entries by each filter.
func (w *methodCaller) auditSearch() {
	for _, q := range []admin.AuditQuery{
		{},
		{Below: 100, Above: 50},
		{OperatorID: w.filled.OperatorID},
		{OperatorID: w.filled.OperatorID, Actor: "cli:growth", Action: "lco create", Search: "one", From: w.filled.Now.Add(-oneDay), Before: w.filled.Now, Below: 1000},
		{Actor: "nobody"},
		{Action: "key revoke"},
		{Search: "nothing"},
		{From: w.filled.Now, Before: w.filled.Now.Add(oneDay)},
	} {
		q.Limit = 20
		w.must(first(w.FindAuditEntries(w.Context(), q)))
	}
}
