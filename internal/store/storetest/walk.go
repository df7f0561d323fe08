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
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
)

// Beaten is what a walk goes by in a store that has been traded in.
type Beaten struct {
	OperatorID int64
	Key        access.KeyHash
	// Subscribers are some of the operator's with nothing open, each for one
	// errand.
	Subscribers []string
	// NeighbourID is another operator, and Neighbours are some of its subscribers.
	NeighbourID int64
	Neighbours  []string
	// Now is later than everything that is there.
	Now time.Time
}

// Walk goes every way that requests, the workers beside them and the readers of pages
// can go through a store: each method of what they ask of it, into each of its corners, so that
// whoever listens hears every statement that they can cause. A method that it does
// not know fails the test.
func Walk(t *testing.T, store Store, b Beaten) {
	t.Helper()
	w := &walk{T: t, Store: store, on: b}
	_, _, err := w.UseIntegrityKeys(t.Context(), testKeys(1, 1), b.Now)
	w.must(err)
	w.prepare()
	known := []string{}
	for _, way := range slices.Concat(ways, loginWays, reportWays) {
		known = append(known, way.method)
		way.run(w)
	}
	for _, asked := range []reflect.Type{
		reflect.TypeFor[access.Store](), reflect.TypeFor[catalogue.Store](), reflect.TypeFor[operation.ReviewStore](),
		reflect.TypeFor[login.Store](), reflect.TypeFor[requestlog.Store](), reflect.TypeFor[bulk.Store](), reflect.TypeFor[report.Store](),
		reflect.TypeFor[integrity.Store](),
	} {
		for i := range asked.NumMethod() {
			if name := asked.Method(i).Name; !slices.Contains(known, name) {
				t.Errorf("%s.%s was not walked: add it to the ways in walk.go", asked, name)
			}
		}
	}
}

// Errands is how many subscribers a walk needs, of either operator.
const Errands = 16 + 2*crowd

// crowd is how many come at the same moment, so that a store which lets facts share
// a commit does.
const crowd = 12

type walk struct {
	*testing.T
	Store
	on     Beaten
	plan   subscription.Plan
	record access.Record
	errand int
	people int
}

// way is one method, walked.
// way goes through a method of a store.
type way struct {
	method string
	run    func(*walk)
}

var ways = []way{
	{"CredentialByHash", func(w *walk) { w.must(second(w.CredentialByHash(w.Context(), access.KeyHash{}))) }},
	{"Admit", (*walk).admissions},
	{"PurgeAdmissions", func(w *walk) {
		w.must(first(w.PurgeAdmissions(w.Context(), w.on.Now, subscription.RateWindowAt(w.on.Now), 10)))
	}},
	{"SellablePlans", func(w *walk) { w.must(first(w.SellablePlans(w.Context()))) }},
	{"Compared", func(w *walk) { w.must(second(w.Compared(w.Context(), "simulator"))) }},
	{"RecordFailure", func(w *walk) { w.must(w.RecordFailure(w.Context(), "simulator", "no answer", w.on.Now)) }},
	{"RecordComparison", (*walk).comparison},
	{"OperationByKey", func(w *walk) { w.must(second(w.OperationByKey(w.Context(), w.on.OperatorID, "nobody's"))) }},
	{"OperationByID", func(w *walk) { w.must(second(w.OperationByID(w.Context(), w.on.OperatorID, "nobody's"))) }},
	{"SubscriptionOf", (*walk).lookups},
	{"Snapshot", (*walk).questions},
	{"Reserve", (*walk).reservations},
	{"Reserve", (*walk).crowds},
	{"Settle", (*walk).settlements},
	{"ExtendLease", (*walk).leases},
	{"TakeOver", (*walk).takeOver},
	{"Due", func(w *walk) { w.must(first(w.Due(w.Context(), w.on.Now))) }},
	{"ClaimReviews", (*walk).reviews},
	{"Postpone", (*walk).postponement},
	{"CountOverdueReviews", func(w *walk) { w.must(first(w.CountOverdueReviews(w.Context(), w.on.Now))) }},
	{"ClaimAddons", (*walk).addons},
	{"SettleAddon", (*walk).addonSettlement},
	{"ClaimLateChecks", (*walk).lateChecks},
	{"CloseLateCheck", (*walk).lateCheckClosed},
	{"RecordRequests", (*walk).requests},
	{"RequestBlocks", (*walk).requestSearch},
	{"RequestBlock", func(w *walk) { w.must(second(w.RequestBlock(w.Context(), w.on.OperatorID, 1))) }},
	{"LastKeyUses", func(w *walk) { w.must(first(w.LastKeyUses(w.Context(), w.on.OperatorID))) }},
	{"PurgeRequests", func(w *walk) { w.must(first(w.PurgeRequests(w.Context(), w.on.Now.Add(time.Minute), 10))) }},
	{"FindActs", (*walk).actSearch},
	{"ActUnder", func(w *walk) { w.must(second(w.AuditEntryByVoucher(w.Context(), "AAAA2222BBBB"))) }},
	{"SaveBulkJob", (*walk).bulkDrafts},
	{"StartBulkJob", (*walk).bulkStart},
	{"BulkJobsDue", func(w *walk) { w.must(first(w.BulkJobsDue(w.Context(), w.on.Now))) }},
	{"TakeOverBulkJobs", func(w *walk) { w.must(w.TakeOverBulkJobs(w.Context(), w.on.Now)) }},
	{"InterruptIdleBulkJobs", (*walk).bulkInterruptions},
	{"InterruptedBulkJobs", (*walk).bulkInterruptions},
	{"InterruptSuspendedBulkJobs", (*walk).bulkSuspension},
	{"ContinueBulkJob", (*walk).bulkInterruptions},
	{"ClaimBulkJob", (*walk).bulkWork},
	{"TakeBulkRows", (*walk).bulkWork},
	{"SettleBulkRow", (*walk).bulkWork},
	{"ReleaseBulkJob", (*walk).bulkWork},
	{"BulkJob", func(w *walk) { w.must(second(w.BulkJob(w.Context(), w.on.OperatorID, walkJob))) }},
	{"BulkJobs", func(w *walk) { w.must(first(w.BulkJobs(w.Context(), w.on.OperatorID, 20))) }},
	{"BulkRows", (*walk).bulkRows},
	{"OrphanedBulkRows", func(w *walk) { w.must(first(w.OrphanedBulkRows(w.Context(), w.on.OperatorID, walkJob, 10))) }},
	{"OpenBulkJobs", func(w *walk) { w.must(first(w.OpenBulkJobs(w.Context()))) }},
	{"CancelBulkJob", func(w *walk) { w.must(first(w.CancelBulkJob(w.Context(), w.on.OperatorID, walkJob, w.on.Now))) }},
	{"PurgeBulkDrafts", func(w *walk) { w.must(first(w.PurgeBulkDrafts(w.Context(), w.on.Now.Add(time.Hour), 1))) }},
	{"MovedAlone", func(w *walk) {
		w.must(first(w.MovedWithoutApproval(w.Context(), admin.MovedQuery{People: []string{"asha"}, OperatorID: w.on.OperatorID, After: w.on.Now.Add(-oneDay), Until: w.on.Now})))
	}},
	{"PlanComparison", func(w *walk) { w.must(first(w.PlanComparison(w.Context(), w.plan.ID))) }},
	{"Operator", func(w *walk) { w.must(first(w.Operator(w.Context(), w.on.OperatorID))) }},
	{"UseIntegrityKeys", func(w *walk) { w.must(second(w.UseIntegrityKeys(w.Context(), testKeys(1, 1), w.on.Now))) }},
	{"UnsealedOperators", (*walk).digests},
	{"LastDigest", (*walk).digests},
	{"LedgerLinesFrom", (*walk).digests},
	{"WalletEntriesFrom", (*walk).digests},
	{"AddDigests", (*walk).digests},
	{"IntegrityHead", func(w *walk) { w.must(first(w.IntegrityHead(w.Context()))) }},
	{"Wallet", func(w *walk) { w.must(first(w.Wallet(w.Context(), w.on.OperatorID))) }},
}

func first[A any](_ A, err error) error          { return err }
func second[A, B any](_ A, _ B, err error) error { return err }

func (w *walk) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *walk) prepare() {
	w.Helper()
	plans, err := w.SellablePlans(w.Context())
	if err != nil || len(plans) == 0 || len(w.on.Subscribers) < Errands || len(w.on.Neighbours) < Errands {
		w.Fatalf("%d plans (%v) and %d subscribers are too little to walk by", len(plans), err, len(w.on.Subscribers))
	}
	w.plan = plans[0]
	var found bool
	if w.record, found, err = w.CredentialByHash(w.Context(), w.on.Key); err != nil || !found {
		w.Fatalf("there is no such key: %v", err)
	}
}

// next is a subscriber for one errand more.
func (w *walk) next() string {
	w.Helper()
	if w.errand == Errands {
		w.Fatal("there are more errands than Errands says")
	}
	w.errand++
	return w.on.Subscribers[w.errand-1]
}

func (w *walk) admissions() {
	a := admission(w.record, "req_walk_1", "walk-nonce-1")
	a.Now = w.on.Now
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

// digests seals a few rows of the operator and of its neighbour, and finds both as a
// node does.
func (w *walk) digests() {
	w.must(first(w.UnsealedOperators(w.Context(), 0, 2)))
	for _, id := range []int64{w.on.OperatorID, w.on.NeighbourID} {
		last, err := w.LastDigest(w.Context(), id)
		w.must(err)
		lines, err := w.LedgerLinesFrom(w.Context(), id, last.LastLine+1, 3)
		w.must(err)
		entries, err := w.WalletEntriesFrom(w.Context(), id, last.LastEntry+1, 3)
		w.must(err)
		day := w.on.Now.AddDate(0, 0, int(last.Number)).Format(time.DateOnly)
		w.must(first(w.AddDigests(w.Context(), []integrity.Digest{{
			OperatorID: id, Day: day, FirstLine: last.LastLine + 1, LastLine: last.LastLine + int64(len(lines)),
			FirstEntry: last.LastEntry + 1, LastEntry: last.LastEntry + int64(len(entries)), LedgerHash: []byte{1}, WalletHash: []byte{1},
		}})))
	}
}

func (w *walk) comparison() {
	w.must(w.RecordComparison(w.Context(), catalogue.Comparison{Provider: "simulator", At: w.on.Now, Components: []catalogue.Component{
		{Code: "TV-BASIC", Name: "Basic television", Role: catalogue.Main},
		{Code: "TV-FAMILY", Name: "Family television", Role: catalogue.Main},
	}}))
}

func (w *walk) lookups() {
	found, is, err := w.SubscriptionOf(w.Context(), w.on.OperatorID, w.on.Subscribers[0], "")
	if err != nil || !is {
		w.Fatalf("subscriber %s: %v, %v", w.on.Subscribers[0], is, err)
	}
	if _, is, err = w.SubscriptionOf(w.Context(), w.on.OperatorID, "", found.Mobile); err != nil || !is {
		w.Fatalf("mobile %s: %v, %v", found.Mobile, is, err)
	}
}

func (w *walk) facts(kind operation.Kind, id, mobile string) operation.Snapshot {
	w.Helper()
	facts, err := w.Snapshot(w.Context(), operation.SnapshotQuery{
		OperatorID: w.on.OperatorID, Kind: kind, SubscriberID: id, Mobile: mobile, PlanID: w.plan.ID, DuplicatesSince: w.on.Now.Add(-2 * time.Minute),
	})
	w.must(err)
	return facts
}

func (w *walk) questions() {
	known := w.facts(operation.Renew, w.on.Subscribers[0], "")
	w.facts(operation.Renew, "", known.Subscriber.Mobile)
	w.facts(operation.Activate, "", known.Subscriber.Mobile)
	w.facts(operation.Activate, "123456", "7000000000")
	w.facts(operation.Activate, w.on.Subscribers[0], "7000000000")
}

// draft is an operation on a subscriber who is there, or on a new one.
func (w *walk) draft(kind operation.Kind) operation.Draft {
	w.Helper()
	n := w.errand + 1
	d := operation.Draft{
		Operation: operation.Operation{
			ID: fmt.Sprintf("CXWALK%022d", n), OperatorID: w.on.OperatorID, IdempotencyKey: fmt.Sprintf("walk-%d", n),
			Fingerprint: operation.Fingerprint{KeyID: 7, Sum: make([]byte, 32)}, Kind: kind, Channel: operation.API, Actor: "api:key 1",
			CustomerName: "Asha", PlanID: w.plan.ID, PlanVersion: w.plan.Version, PlanName: w.plan.Name, PlanMonths: 1, Main: w.plan.Main,
			Amount: w.plan.Price, ExpiryPlanned: w.on.Now.Add(30 * 24 * time.Hour), CycleStartsAt: w.on.Now, State: operation.Processing, Epoch: 1,
			Node: "node-1", LeaseUntil: w.on.Now.Add(25 * time.Second), Provider: "simulator", CreatedAt: w.on.Now,
		},
	}
	if kind == operation.Activate {
		w.next()
		d.SubscriberID, d.Mobile = fmt.Sprintf("%06d", n), fmt.Sprintf("70%08d", n)
		d.Profile = operation.Profile{ConnectionType: "tv"}
		return d
	}
	who := w.facts(kind, w.next(), "").Subscriber
	d.SubscriberID, d.Mobile, d.SubscriberVersion, d.ExpiryPrevious = who.ID, who.Mobile, who.Version, who.Expires
	return d
}

func (w *walk) reserve(d operation.Draft) operation.Operation {
	w.Helper()
	op, err := w.Reserve(w.Context(), d)
	w.must(err)
	return op
}

func (w *walk) settle(op operation.Operation, to operation.State, change func(*operation.Settlement)) operation.Operation {
	w.Helper()
	st := settlement(op, to)
	st.At = w.on.Now.Add(time.Second)
	if to == operation.NeedsReview {
		st.NextCheckAt = w.on.Now.Add(time.Second)
	}
	if change != nil {
		change(&st)
	}
	settled, _, err := w.Settle(w.Context(), st)
	w.must(err)
	return settled
}

func (w *walk) reservations() {
	for _, kind := range []operation.Kind{operation.Activate, operation.Renew} {
		for _, end := range []operation.State{operation.Success, operation.Failed} {
			w.settle(w.reserve(w.draft(kind)), end, nil)
		}
	}
}

// crowds reserves and settles many at the same moment, with either end.
func (w *walk) crowds() {
	for _, end := range []operation.State{operation.Success, operation.Failed} {
		drafts, ops := make([]operation.Draft, crowd), make([]operation.Operation, crowd)
		for i := range drafts {
			if drafts[i] = w.draft(operation.Renew); i%2 == 1 {
				w.move(&drafts[i])
			}
		}
		errs := make([]error, crowd)
		together(crowd, func(i int) { ops[i], errs[i] = w.Reserve(w.Context(), drafts[i]) })
		w.must(errors.Join(errs...))
		together(crowd, func(i int) { errs[i] = second(w.Settle(w.Context(), settlement(ops[i], end))) })
		w.must(errors.Join(errs...))
	}
}

// move makes a draft the neighbour's.
func (w *walk) move(d *operation.Draft) {
	w.Helper()
	facts, err := w.Snapshot(w.Context(), operation.SnapshotQuery{
		OperatorID: w.on.NeighbourID, Kind: d.Kind, SubscriberID: w.on.Neighbours[w.errand-1], PlanID: w.plan.ID, DuplicatesSince: w.on.Now,
	})
	w.must(err)
	d.OperatorID, d.SubscriberID, d.Mobile = w.on.NeighbourID, facts.Subscriber.ID, facts.Subscriber.Mobile
	d.SubscriberVersion, d.ExpiryPrevious = facts.Subscriber.Version, facts.Subscriber.Expires
}

func (w *walk) settlements() {
	op := w.reserve(w.draft(operation.Renew))
	w.settle(op, operation.NeedsReview, nil)
	// A look-up and a question while something is under way.
	w.must(second(w.SubscriptionOf(w.Context(), w.on.OperatorID, op.SubscriberID, "")))
	w.settle(op, operation.Failed, nil)
	// The provider's word comes too late, and goes against what was settled.
	op.Epoch++
	w.settle(op, operation.Success, nil)
}

func (w *walk) leases() {
	op := w.reserve(w.draft(operation.Renew))
	w.must(first(w.ExtendLease(w.Context(), op.ID, op.Epoch, w.on.Now.Add(time.Minute))))
	w.settle(op, operation.Success, nil)
	// Somebody who was renewed just now is asked for again.
	if again := w.facts(operation.AdvanceRenew, op.SubscriberID, ""); again.Duplicate != op.ID || len(again.Cycles) == 0 {
		w.Fatalf("after %s the facts are %+v", op.ID, again)
	}
}

func (w *walk) takeOver() {
	w.reserve(w.draft(operation.Renew))
	w.must(w.TakeOver(w.Context(), w.on.Now))
}

func (w *walk) claim() operation.Claim {
	return operation.Claim{Now: w.on.Now.Add(time.Minute), Node: "node-2", Until: w.on.Now.Add(2 * time.Minute), Limit: 10}
}

// reviews claims one that was left behind, and one whose time has come.
func (w *walk) reviews() {
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

func (w *walk) postponement() {
	op := w.settle(w.reserve(w.draft(operation.Renew)), operation.NeedsReview, nil)
	held, err := w.Postpone(w.Context(), operation.Postponement{
		OperationID: op.ID, Epoch: op.Epoch, NextCheckAt: w.on.Now.Add(time.Hour), Node: "node-1",
		Calls: []operation.ProviderCall{{Reference: op.ID, What: "status", AskedAt: w.on.Now, AnsweredAt: w.on.Now}},
	})
	if err != nil || !held {
		w.Fatalf("postponed: %v, %v", held, err)
	}
	w.settle(op, operation.Success, nil)
}

// missingAddon is a success whose add-on is due.
func (w *walk) missingAddon() operation.Operation {
	w.Helper()
	d := w.draft(operation.Renew)
	d.Addon, d.AddonState = "OTT-PLUS", operation.AddonWaiting
	return w.settle(w.reserve(d), operation.Success, func(st *operation.Settlement) {
		st.AddonState, st.AddonNextAt = operation.AddonFailed, w.on.Now.Add(time.Second)
	})
}

func (w *walk) addons() {
	w.missingAddon()
	if claimed, err := w.ClaimAddons(w.Context(), w.claim()); err != nil || len(claimed) == 0 {
		w.Fatalf("%d add-ons were claimed: %v", len(claimed), err)
	}
}

func (w *walk) addonSettlement() {
	// Rejected and then confirmed; the last one finds it in other hands.
	op := w.missingAddon()
	settle := func(epoch int64, state operation.AddonState, next time.Time) {
		w.must(w.SettleAddon(w.Context(), operation.AddonSettlement{
			OperationID: op.ID, Epoch: epoch, State: state, Attempt: 1, NextAt: next, Node: "node-1",
			Calls: []operation.ProviderCall{{Reference: op.ID + "-2", What: "renew", AskedAt: w.on.Now, AnsweredAt: w.on.Now}},
		}))
	}
	settle(op.AddonEpoch, operation.AddonFailed, w.on.Now)
	settle(op.AddonEpoch, operation.AddonSuccess, time.Time{})
	settle(op.AddonEpoch+1, operation.AddonSuccess, time.Time{})
}

// lateCheck is a refund whose provider is still to be told.
func (w *walk) lateCheck() operation.Operation {
	w.Helper()
	return w.settle(w.reserve(w.draft(operation.Renew)), operation.Failed, func(st *operation.Settlement) { st.NextCheckAt = w.on.Now.Add(time.Second) })
}

func (w *walk) lateChecks() {
	w.lateCheck()
	if claimed, err := w.ClaimLateChecks(w.Context(), w.claim()); err != nil || len(claimed) == 0 {
		w.Fatalf("%d late checks were claimed: %v", len(claimed), err)
	}
}

func (w *walk) lateCheckClosed() {
	op := w.lateCheck()
	w.must(w.CloseLateCheck(w.Context(), operation.LateCheck{
		OperationID: op.ID, Node: "node-1",
		Calls:     []operation.ProviderCall{{Reference: op.ID, What: "void", AskedAt: w.on.Now, AnsweredAt: w.on.Now}},
		Exception: &operation.Exception{OperationID: op.ID, Kind: operation.LateSuccess, Detail: "late", At: w.on.Now},
	}))
}

// requests logs calls, of keys that were used before too.
func (w *walk) requests() {
	for n := range 3 {
		at := w.on.Now.Add(time.Duration(n) * time.Second)
		w.must(w.RecordRequests(w.Context(), requestlog.Batch{
			Blocks: []requestlog.Block{
				{OperatorID: w.on.OperatorID, From: at, Until: at, Packed: []byte{1}},
				{OperatorID: w.on.NeighbourID, From: at, Until: at, Refused: true, Packed: []byte{1}},
			},
			Uses: []requestlog.Use{{OperatorID: w.on.OperatorID, CredentialID: w.record.Credential.ID, At: at}},
		}))
	}
}

func (w *walk) requestSearch() {
	for _, refused := range []bool{false, true} {
		w.must(first(w.RequestBlocks(w.Context(), requestlog.BlockQuery{
			OperatorID: w.on.OperatorID, Before: requestlog.Position{Until: w.on.Now.Add(time.Hour), ID: 1 << 40}, Refused: refused, Limit: 10,
		})))
	}
}

// actSearch asks for acts by each filter.
func (w *walk) actSearch() {
	for _, q := range []admin.AuditQuery{
		{},
		{Below: 100, Above: 50},
		{OperatorID: w.on.OperatorID},
		{OperatorID: w.on.OperatorID, Actor: "cli:growth", Action: "lco create", Search: "one", From: w.on.Now.Add(-oneDay), Before: w.on.Now, Below: 1000},
		{Actor: "nobody"},
		{Action: "key revoke"},
		{Search: "nothing"},
		{From: w.on.Now, Before: w.on.Now.Add(oneDay)},
	} {
		q.Limit = 20
		w.must(first(w.FindAuditEntries(w.Context(), q)))
	}
}
