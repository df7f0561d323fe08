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

// again is what the page asks for when somebody wants the failed rows tried again.
func (w *world) again(id string) (bulk.Job, error) {
	return w.service().TryAgain(w.Context(), id, bulk.Order{OperatorID: w.operator.ID, Actor: "web:ravi", Title: "again"})
}

// The provider refuses one row and the wallet another. Both are tried again as a list of
// their own, which is checked like any other; whoever was renewed meanwhile is left out.
func TestRowsThatFailedAreTriedAgainThroughTheOrdinaryCheck(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(600, "money")
		ids := w.subscribers(0, 1, 0, 0, 0) // the second is refused by the provider, if the money lasts that long
		order := w.order(ids...)
		order.Wishes = append(order.Wishes, bulk.Wish{SubscriberID: "999999"})
		job, err := w.service().Prepare(t.Context(), order)
		w.must(err)
		if _, err := w.again(job.ID); refusalText(err) == "" {
			t.Errorf("a draft is tried again: %v; want a refusal", err)
		}
		_, err = w.service().Start(t.Context(), w.operator.ID, job.ID)
		w.must(err)
		job = w.finish(job.ID, w.worker("node-1", w.store))
		if job.Progress.Done != 3 || job.Progress.Refused != 3 {
			t.Fatalf("%s; want three done and three refused", story(w.rows(job.ID)))
		}
		var left []string
		for _, row := range w.rows(job.ID) {
			if row.MayTryAgain() {
				left = append(left, row.SubscriberID)
			}
		}
		may, err := w.service().MayTryAgain(t.Context(), job)
		if err != nil || !may || len(left) != 2 {
			t.Fatalf("may be tried again: %v, %v, %v; want two", may, left, err)
		}

		// One of the two is renewed at the counter meanwhile.
		w.topUp(1000, "more")
		w.advance(10 * time.Minute)
		other := left[0]
		if other == ids[1] {
			other = left[1]
		}
		_, err = w.processor(w.store).Process(t.Context(), operation.Request{
			OperatorID: w.operator.ID, Channel: operation.Web, Actor: "web:asha", IdempotencyKey: "counter", Kind: operation.Renew,
			Fields: map[string]string{"subscriber_id": other, "plan_id": "BASIC-1"}, Content: []byte("counter"),
		})
		w.must(err)

		second, err := w.again(job.ID)
		w.must(err)
		if second.State != bulk.Draft || second.Actor != "web:ravi" || second.Progress.Rows != 2 || second.Progress.Queued != 1 {
			t.Errorf("the second try is %+v; want a draft in which one row is queued", second)
		}
		for _, row := range w.rows(second.ID) {
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

func TestWhatFailedForAReasonThatHasPassedIsDoneAtTheSecondTry(t *testing.T) {
	onBothStores(t, func(w *world) {
		w.topUp(100, "too little")
		job := w.started(w.subscribers(0, 0)...)
		worker := w.worker("node-1", w.store)
		job = w.finish(job.ID, worker)
		w.topUp(900, "enough")
		w.advance(time.Minute)
		second, err := w.again(job.ID)
		w.must(err)
		_, err = w.service().Start(t.Context(), w.operator.ID, second.ID)
		w.must(err)
		if second = w.finish(second.ID, worker); second.Progress.Done != 2 {
			t.Errorf("the second try: %s; want both done", story(w.rows(second.ID)))
		}
		// A third one finds that all was made good, and nothing to start.
		w.advance(time.Minute)
		third, err := w.again(job.ID)
		w.must(err)
		if _, err := w.service().Start(t.Context(), w.operator.ID, third.ID); refusalText(err) == "" || third.Progress.Queued != 0 {
			t.Errorf("the third try is %+v, started: %v; want nothing to be left", third.Progress, err)
		}
		if may, err := w.service().MayTryAgain(t.Context(), w.job(second.ID)); err != nil || may {
			t.Errorf("a job of which all is done may be tried again: %v, %v", may, err)
		}
		_, err = w.again(second.ID)
		if refusalText(err) == "" {
			t.Errorf("a job of which all is done is tried again: %v; want a refusal", err)
		}
		if _, err := w.service().TryAgain(t.Context(), job.ID, bulk.Order{OperatorID: w.operator.ID + 1}); !errors.Is(err, bulk.ErrNoJob) {
			t.Errorf("by another operator: %v; want that there is none", err)
		}
		w.balanced(money.Paise(1000_00), job.ID, second.ID)
	})
}

func refusalText(err error) string {
	var refusal *bulk.Refusal
	if errors.As(err, &refusal) {
		return refusal.Text
	}
	return ""
}
