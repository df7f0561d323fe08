package operation_test

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// The provider keeps saying that it does not know an operation. What it says when
// it is told never to carry it out decides, and as long as it says nothing, the
// money stays where it is.
func TestTheVoidDecidesWhetherMoneyGoesBack(t *testing.T) {
	for name, row := range map[string]struct {
		void    operation.Answer
		want    operation.State
		reason  operation.Reason
		balance string
		person  bool
	}{
		"it never was and never will be": {operation.Answer{Verdict: operation.Rejected}, operation.Failed, operation.NotConfirmed, "1000.00 held 0.00", false},
		"it had been carried out":        {operation.Answer{Verdict: operation.Confirmed, Transaction: "P-9"}, operation.Success, "", "801.00 held 0.00", false},
		"no answer":                      {operation.Answer{}, operation.NeedsReview, "", "801.00 held 199.00", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.provider.silent, s.provider.status, s.provider.void = true, []operation.Answer{{NotFound: true}}, &row.void
			result, err := s.Process(t.Context(), s.request(operation.Activate, "void-key", map[string]string{"full_name": "A", "mobile": "9800000001", "plan_id": "P-1"}))
			if err != nil || result.State != operation.NeedsReview {
				t.Fatalf("%s, %v; want it in review", result.State, err)
			}
			now := noon
			reviewer := operation.NewReviewer(s.store, s.provider, operation.ReviewConfig{
				Now: func() time.Time { return now }, Node: "node", Timeout: time.Second, FirstCheck: 10 * time.Second,
				MaxInterval: 10 * time.Minute, RefundAfter: 2 * time.Minute, Problem: func(err error) { t.Error(err) },
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
