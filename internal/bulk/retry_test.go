package bulk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// retry is what the panel calls to retry the failed rows.
func (env *testEnv) retry(id string) (bulk.Job, error) {
	return env.service().Retry(env.Context(), id, bulk.Order{OperatorID: env.operator.ID, Actor: "web:ravi", Title: "again"})
}

// The provider refuses one row and the wallet another. Both are retried as a new draft,
// which is checked like any other; a subscriber renewed meanwhile is refused.
func TestRetry_ChecksRowsAgain(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(600, "money")
		ids := env.subscribers(0, 1, 0, 0, 0) // the second is refused by the provider, if the money lasts that long
		order := env.order(ids...)
		order.Selections = append(order.Selections, bulk.Selection{SubscriberID: "999999"})
		job, err := env.service().Prepare(t.Context(), order)
		env.must(err)
		if _, err := env.retry(job.ID); refusalText(err) == "" {
			t.Errorf("a draft is retried: %v; want a refusal", err)
		}
		_, err = env.service().Start(t.Context(), env.operator.ID, job.ID)
		env.must(err)
		job = env.finish(job.ID, env.worker("node-1", env.store))
		if job.Progress.Done != 3 || job.Progress.Refused != 3 {
			t.Fatalf("%s; want three done and three refused", summary(env.rows(job.ID)))
		}
		var left []string
		for _, row := range env.rows(job.ID) {
			if row.CanRetry() {
				left = append(left, row.SubscriberID)
			}
		}
		may, err := env.service().CanRetry(t.Context(), job)
		if err != nil || !may || len(left) != 2 {
			t.Fatalf("may be tried again: %v, %v, %v; want two", may, left, err)
		}

		// One of the two is renewed at the counter meanwhile.
		env.topUp(1000, "more")
		env.advance(10 * time.Minute)
		other := left[0]
		if other == ids[1] {
			other = left[1]
		}
		_, err = env.processor(env.store).Process(t.Context(), operation.Request{
			OperatorID: env.operator.ID, Channel: operation.Web, Actor: "web:asha", IdempotencyKey: "counter", Kind: operation.Renew,
			Fields: map[string]string{"subscriber_id": other, "plan_id": "BASIC-1"}, Content: []byte("counter"),
		})
		env.must(err)

		second, err := env.retry(job.ID)
		env.must(err)
		if second.State != bulk.Draft || second.Actor != "web:ravi" || second.Progress.Rows != 2 || second.Progress.Queued != 1 {
			t.Errorf("the second try is %+v; want a draft in which one row is queued", second)
		}
		for _, row := range env.rows(second.ID) {
			want := fault.Code("")
			if row.SubscriberID == other {
				want = fault.DuplicateRequest
			}
			if row.Code != want || row.PlanID != "BASIC-1" || row.Kind != operation.Renew {
				t.Errorf("row %d of %s is %s %s; want %q", row.Number, row.SubscriberID, row.State, row.Code, want)
			}
		}
	})
}

func TestRetry_TransientFailuresSucceed(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(100, "too little")
		job := env.started(env.subscribers(0, 0)...)
		worker := env.worker("node-1", env.store)
		job = env.finish(job.ID, worker)
		env.topUp(900, "enough")
		env.advance(time.Minute)
		second, err := env.retry(job.ID)
		env.must(err)
		_, err = env.service().Start(t.Context(), env.operator.ID, second.ID)
		env.must(err)
		if second = env.finish(second.ID, worker); second.Progress.Done != 2 {
			t.Errorf("the second try: %s; want both done", summary(env.rows(second.ID)))
		}
		// A third one finds that all was made good, and nothing to start.
		env.advance(time.Minute)
		third, err := env.retry(job.ID)
		env.must(err)
		if _, err := env.service().Start(t.Context(), env.operator.ID, third.ID); refusalText(err) == "" || third.Progress.Queued != 0 {
			t.Errorf("the third try is %+v, started: %v; want nothing to be left", third.Progress, err)
		}
		if may, err := env.service().CanRetry(t.Context(), env.job(second.ID)); err != nil || may {
			t.Errorf("a complete job can be retried: %v, %v", may, err)
		}
		_, err = env.retry(second.ID)
		if refusalText(err) == "" {
			t.Errorf("a complete job is retried: %v; want a refusal", err)
		}
		if _, err := env.service().Retry(t.Context(), job.ID, bulk.Order{OperatorID: env.operator.ID + 1}); !errors.Is(err, bulk.ErrNoJob) {
			t.Errorf("by another operator: %v; want that there is none", err)
		}
		env.checkBooks(money.Paise(1000_00), job.ID, second.ID)
	})
}

// counterRenewal is a renewal outside any bulk renewal.
func (env *testEnv) counterRenewal(id string) operation.Operation {
	env.Helper()
	result, err := env.processor(env.store).Process(env.Context(), operation.Request{
		OperatorID: env.operator.ID, Channel: operation.Web, Actor: "web:asha", IdempotencyKey: "counter-" + id, Kind: operation.Renew,
		Fields: map[string]string{"subscriber_id": id, "plan_id": "BASIC-1"}, Content: []byte("counter"),
	})
	env.must(err)
	return result.Operation
}

// A retry list that is checked again, however late, does not charge a subscriber who was renewed
// since the first try: neither one whom the list had refused for it nor one renewed since.
func TestCheckAgain_KeepsGuardOfRetry(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		ids := env.subscribers(0, 0, 0)
		job := env.started(ids...)
		worker := env.worker("node-1", env.store)
		if job = env.finish(job.ID, worker); job.Progress.Refused != 3 {
			env.Fatalf("%s; want all refused for lack of money", summary(env.rows(job.ID)))
		}
		env.topUp(2000, "money")
		env.advance(24 * time.Hour)
		env.counterRenewal(ids[0])
		env.advance(72 * time.Hour)
		draft, err := env.retry(job.ID)
		env.must(err)
		env.advance(time.Minute)
		env.counterRenewal(ids[1])
		env.advance(26 * time.Hour)
		for try := 1; try <= 2; try++ {
			draft, err = env.service().CheckAgain(env.Context(), draft, "web:ravi")
			env.must(err)
			if got, want := summary(env.rows(draft.ID)), "refused DUPLICATE_REQUEST, refused DUPLICATE_REQUEST, queued"; got != want {
				env.Errorf("check %d is %s; want %s", try, got, want)
			}
			env.advance(2 * time.Hour)
		}
	})
}

// A row that a retry refuses because another operation is in progress is tried once more later: by
// then that operation may have renewed the subscriber.
func TestRetry_KeepsGuardOfRefusedRow(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		ids := env.subscribers(0, 2) // the provider confirms the second only in a review
		first := env.started(ids...)
		worker := env.worker("node-1", env.store)
		first = env.finish(first.ID, worker)
		env.topUp(2000, "money")
		env.advance(time.Hour)
		counter := env.counterRenewal(ids[1])
		second, err := env.retry(first.ID)
		env.must(err)
		if got, want := summary(env.rows(second.ID)), "queued, refused OPERATION_IN_PROGRESS"; got != want {
			env.Fatalf("the retry is %s; want %s", got, want)
		}
		_, err = env.service().Start(env.Context(), env.operator.ID, second.ID)
		env.must(err)
		env.finish(second.ID, worker)
		for tries := 0; counter.State.Open() && tries < 10; tries++ {
			env.advance(time.Minute)
			_, err = env.reviewer().RunOnce(env.Context())
			env.must(err)
			counter, err = env.processor(env.store).Transaction(env.Context(), env.operator.ID, counter.ID, "")
			env.must(err)
		}
		if counter.State != operation.Success {
			env.Fatalf("the renewal at the counter is %s; want a success", counter.State)
		}
		env.advance(time.Hour)
		third, err := env.retry(second.ID)
		env.must(err)
		if got, want := summary(env.rows(third.ID)), "refused DUPLICATE_REQUEST"; got != want {
			env.Errorf("the second retry is %s; want %s", got, want)
		}
	})
}

// A list that was checked again and discarded can be checked again; one that was not discarded is
// not made twice.
func TestCheckAgain_AfterDiscarding(t *testing.T) {
	onBothStores(t, func(env *testEnv) {
		env.topUp(2000, "money")
		first, err := env.service().Prepare(env.Context(), env.order(env.subscribers(0)...))
		env.must(err)
		env.advance(2 * time.Hour)
		seen := map[string]bool{first.ID: true}
		for range 3 {
			again, err := env.service().CheckAgain(env.Context(), first, "web:asha")
			env.must(err)
			repeated, err := env.service().CheckAgain(env.Context(), first, "web:asha")
			env.must(err)
			if again.State != bulk.Draft || seen[again.ID] || repeated.ID != again.ID {
				env.Errorf("checked again as %s %s, and repeated as %s; want one new draft", again.State, again.ID, repeated.ID)
			}
			seen[again.ID] = true
			_, err = env.service().Cancel(env.Context(), env.operator.ID, again.ID)
			env.must(err)
		}
	})
}

func refusalText(err error) string {
	var refusal *bulk.Refusal
	if errors.As(err, &refusal) {
		return refusal.Text
	}
	return ""
}
