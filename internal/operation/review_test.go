package operation_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// The provider does not know an operation. Its reply to the void decides; without a reply the
// money stays held.
func TestReviewer_VoidDecidesRefund(t *testing.T) {
	for name, row := range map[string]struct {
		void    operation.Reply
		want    operation.State
		reason  operation.Reason
		balance string
		person  bool
	}{
		"voided":             {operation.Reply{Outcome: operation.Rejected}, operation.Failed, operation.NotConfirmed, "1000.00 held 0.00", false},
		"carried out before": {operation.Reply{Outcome: operation.Confirmed, Transaction: "P-9"}, operation.Success, "", "801.00 held 0.00", false},
		"no answer":          {operation.Reply{}, operation.NeedsReview, "", "801.00 held 199.00", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.provider.silent, s.provider.status, s.provider.void = true, []operation.Reply{{NotFound: true}}, &row.void
			result, err := s.Process(t.Context(), s.request(operation.Activate, "void-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
			if err != nil || result.State != operation.NeedsReview {
				t.Fatalf("%s, %v; want it in review", result.State, err)
			}
			now := noon
			reviewer := operation.NewReviewer(s.store, s.provider, operation.ReviewConfig{
				Now: func() time.Time { return now }, Node: "node", Timeout: time.Second, FirstCheck: 10 * time.Second,
				MaxInterval: 10 * time.Minute, RefundAfter: 2 * time.Minute, OnError: func(err error) { t.Error(err) },
			})
			op := result.Operation
			for op.State.Open() && !op.NeedsPerson && now.Sub(noon) < time.Hour {
				now = now.Add(time.Second)
				if _, err := reviewer.RunOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
				if op, _, err = s.store.OperationByID(t.Context(), s.operator, op.ID); err != nil {
					t.Fatal(err)
				}
				if s.provider.voids > 0 && now.Sub(noon) < 2*time.Minute {
					t.Fatalf("voided after %s", now.Sub(noon))
				}
			}
			if op.State != row.want || op.Reason != row.reason || op.NeedsPerson != row.person || s.provider.voids != 1 {
				t.Errorf("%s (%s), for a person %v, after %d voids; want %s (%s), %v, after one",
					op.State, op.Reason, op.NeedsPerson, s.provider.voids, row.want, row.reason, row.person)
			}
			if got := s.balance(t); got != row.balance {
				t.Errorf("the wallet has %s; want %s", got, row.balance)
			}
		})
	}
}

// silentProvider replies with unknown outcomes, and counts the calls.
type silentProvider struct {
	status, apply, void int
	// voids are the replies to Void, one after the other; the last one is repeated.
	voids []operation.Reply
}

func (s *silentProvider) Apply(context.Context, operation.Order) operation.Reply {
	s.apply++
	return operation.Reply{}
}

func (s *silentProvider) Status(context.Context, operation.Order) operation.Reply {
	s.status++
	return operation.Reply{}
}

func (s *silentProvider) Void(context.Context, operation.Order) operation.Reply {
	s.void++
	if len(s.voids) > 0 {
		return s.voids[min(s.void, len(s.voids))-1]
	}
	return operation.Reply{}
}

// follow runs a reviewer once a second for the given length.
func (f *reviewFixture) follow(provider operation.Provider, from time.Time, length time.Duration) {
	f.Helper()
	now := from
	reviewer := operation.NewReviewer(f.db, provider, operation.ReviewConfig{
		Now: func() time.Time { return now }, Node: "node-2", Timeout: time.Second, FirstCheck: 5 * time.Second,
		MaxInterval: 10 * time.Minute, RefundAfter: 2 * time.Minute, OnError: func(err error) { f.Error(err) },
	})
	for ; now.Before(from.Add(length)); now = now.Add(time.Second) {
		_, err := reviewer.RunOnce(f.Context())
		f.must(err)
	}
}

func TestReviewer_UnknownAddonBacksOffAndIsListed(t *testing.T) {
	f, provider := newReviewFixture(t), &silentProvider{}
	op := f.missingAddons(f.operator("one"), 1)[0]
	listed := func() bool {
		missing, err := f.db.MissingAddons(t.Context())
		if err != nil || len(missing) != 1 || missing[0].ID != op.ID {
			t.Fatalf("missing %v, %v; want %s", missing, err, op.ID)
		}
		return missing[0].AddonNeedsPerson
	}
	f.follow(provider, noon, 5*time.Minute)
	if listed() {
		t.Error("listed for a person after five minutes, while the pauses still grow")
	}
	f.follow(provider, noon.Add(5*time.Minute), 55*time.Minute)
	// 0, 10, 30, 70, 150, 310 and 630 seconds, and then every ten minutes.
	if provider.status < 10 || provider.status > 13 || provider.apply != 0 {
		t.Errorf("asked %d times and ordered %d times in an hour; want some dozen questions and no order", provider.status, provider.apply)
	}
	if !listed() {
		t.Error("not listed for a person after an hour")
	}
	asked := provider.status
	f.follow(provider, noon.Add(time.Hour), time.Hour)
	if more := provider.status - asked; more < 5 || more > 7 {
		t.Errorf("asked %d times in the second hour; want once in ten minutes", more)
	}
}

// Every void after a refund is in the operation's record; there are three at most.
func TestReviewer_LateChecksAreRecordedAndBounded(t *testing.T) {
	confirmed := operation.Reply{Outcome: operation.Confirmed, Transaction: "P-9"}
	rejected := operation.Reply{Outcome: operation.Rejected}
	mismatch := operation.Reply{Mismatch: true, Detail: "it is about CX-OTHER"}
	for _, row := range []struct {
		name     string
		reason   operation.Reason
		voids    []operation.Reply
		outcomes string
		want     string // exceptions
	}{
		{"never answered, refunded by a person", operation.RejectedByReview, nil, "[unknown unknown unknown]", "[VOID_UNANSWERED]"},
		{"never answered, voided before", operation.NotConfirmed, nil, "[unknown unknown unknown]", "[]"},
		{"answered at last", operation.RejectedByReview, []operation.Reply{{}, rejected}, "[unknown rejected]", "[]"},
		{"carried out", operation.NotConfirmed, []operation.Reply{confirmed}, "[confirmed]", "[LATE_SUCCESS]"},
		{"answered about something else first", operation.RejectedByReview, []operation.Reply{mismatch, confirmed}, "[unknown confirmed]", "[WRONG_ANSWER LATE_SUCCESS]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f, provider := newReviewFixture(t), &silentProvider{voids: row.voids}
			op := f.reserve(f.operator("one"), 1, "")[0]
			f.settle(op, operation.Settlement{To: operation.Failed, Reason: row.reason, NextCheckAt: noon})
			f.follow(provider, noon, 2*time.Hour)
			history, err := f.db.OperationHistory(t.Context(), op.ID)
			f.must(err)
			outcomes := []string{}
			for _, call := range history.Calls {
				if call.What != "void" || call.Reference != op.ID || call.Node != "node-2" {
					t.Errorf("recorded %+v; want a void", call)
				}
				outcomes = append(outcomes, call.Outcome)
			}
			entries, err := f.db.Exceptions(t.Context(), false)
			f.must(err)
			kinds := []operation.ExceptionKind{}
			for _, e := range entries {
				kinds = append(kinds, e.Kind)
			}
			if fmt.Sprint(outcomes) != row.outcomes || fmt.Sprint(kinds) != row.want || provider.void != len(outcomes) {
				t.Errorf("%d voids recorded as %v with the exceptions %v; want %s with %s", provider.void, outcomes, kinds, row.outcomes, row.want)
			}
		})
	}
}
