package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
)

func settlementReadBack(h *harness) {
	s := h.fixture("10000")
	n := 0
	for _, known := range []bool{true, false} {
		for _, to := range []operation.State{operation.Success, operation.Failed, operation.NeedsReview} {
			for _, addon := range []string{"", "OTT-PLUS"} {
				n++
				d := s.activation(name("key", n), fmt.Sprintf("98%08d", n), fmt.Sprintf("1%05d", n))
				if d.Addon = addon; addon != "" {
					d.AddonState = operation.AddonWaiting
				}
				op := s.reserve(d)
				st := settlement(op, to)
				st.At = st.At.Add(1234 * time.Microsecond) // finer than what is kept
				if addon != "" {
					st.AddonState, st.AddonAttempt, st.AddonNextAt = operation.AddonFailed, 1, noon.Add(time.Minute)
				}
				if !known {
					st.LastRead = nil
				}
				settled, did, err := s.Settle(s.Context(), st)
				s.must(err)
				read, _, err := s.OperationByID(s.Context(), op.OperatorID, op.ID)
				s.must(err)
				if !did || fmt.Sprint(settled) != fmt.Sprint(read) {
					s.Errorf("%s, known %v: settled %v as\n%+v\nread back\n%+v", to, known, did, settled, read)
				}
				// The same again, by a caller that did not get the first reply.
				again, did, err := s.Settle(s.Context(), st)
				if s.must(err); did || fmt.Sprint(again) != fmt.Sprint(read) {
					s.Errorf("%s, known %v: again settled %v as\n%+v\nwant\n%+v", to, known, did, again, read)
				}
			}
		}
	}
}

func successIsWhole(h *harness) {
	s := h.fixture("1000")
	op := s.subscriber("100001", "9800000001")
	s.money("after an activation", "801", "0")
	if !op.CompletedAt.Equal(noon.Add(time.Second)) || op.ProviderTransaction != "P-"+op.ID || !op.LeaseUntil.IsZero() {
		s.Errorf("the operation is %+v", op)
	}
	renewed := s.settle(s.reserve(s.renewal("renew-1", "100001")), operation.Success)
	s.money("after a renewal", "602", "0")

	lines, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID})
	s.must(err)
	var got []string
	for _, line := range lines {
		got = append(got, fmt.Sprintf("%v %s %s %s %s", line.Credit, line.Amount, line.BalanceAfter, line.Description, line.TransactionID))
	}
	want := []string{
		"true 1000.00 1000.00 Top-up money-001 of 1 ",
		"false 199.00 801.00 Activation of 100001, Plan BASIC-1 [API] " + op.ID,
		"false 199.00 602.00 Renewal of 100001, Plan BASIC-1 [API] " + renewed.ID,
	}
	if !slices.Equal(got, want) {
		s.Errorf("the ledger is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	sub, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", "")
	if err != nil || !found || !sub.Expires.Equal(renewed.ExpiryPlanned) || !sub.RenewedAt.Equal(noon.Add(time.Second)) ||
		!sub.CreatedAt.Equal(noon.Add(time.Second)) || sub.LastProviderTransaction != "P-"+renewed.ID || len(sub.Cycles) != 2 {
		s.Errorf("the subscriber is %+v, %v, %v", sub, found, err)
	}
}

func failureRefunds(h *harness) {
	s := h.fixture("1000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	s.money("while it runs", "801", "199")
	failed := s.settle(op, operation.Failed)
	s.money("after it failed", "1000", "0")
	if failed.Reason != operation.ProviderRejected || failed.ProviderMessage != "No." || failed.CompletedAt.IsZero() {
		s.Errorf("the operation is %+v", failed)
	}
	if _, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", ""); found || err != nil {
		s.Errorf("the customer is still there: %v, %v", found, err)
	}
	if lines, err := s.LedgerPage(s.Context(), admin.ListQuery{OperatorID: s.operator.ID}); err != nil || len(lines) != 1 {
		s.Errorf("the ledger has %d lines, %v; want the top-up alone", len(lines), err)
	}
	// Number and id are free again; a failed renewal keeps its customer.
	s.subscriber("100001", "9800000001")
	s.settle(s.reserve(s.renewal("renew-1", "100001")), operation.Failed)
	if sub, found, err := s.SubscriptionOf(s.Context(), s.operator.ID, "100001", ""); err != nil || !found || !sub.Expires.Equal(noon.Add(30*24*time.Hour)) || sub.OpenOperation != "" {
		s.Errorf("after a failed renewal: %+v, %v, %v", sub, found, err)
	}
}

func reviewHolds(h *harness) {
	s := h.fixture("1000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	held := s.settle(op, operation.NeedsReview)
	if held.ReviewSince.IsZero() || held.NextCheckAt.IsZero() || !held.CompletedAt.IsZero() {
		s.Errorf("in review: %+v", held)
	}
	s.money("in review", "801", "199")
	h.reopen()
	s.settle(held, operation.Success)
	s.money("confirmed later", "801", "0")

	other := s.settle(s.reserve(s.activation("key-2", "9800000002", "100002")), operation.NeedsReview)
	s.settle(other, operation.Failed)
	s.money("not confirmed", "801", "0")
}

func settledOnce(h *harness) {
	s := h.fixture("1000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	var did, not atomic.Int32
	concurrently(16, func(i int) {
		to := []operation.State{operation.Success, operation.Failed}[i%2]
		_, settled, err := s.Settle(s.Context(), settlement(op, to))
		switch {
		case err != nil:
			s.Errorf("settle: %v", err)
		case settled:
			did.Add(1)
		default:
			not.Add(1)
		}
	})
	if did.Load() != 1 || not.Load() != 15 {
		s.Errorf("settled %d times, found settled %d; want 1 and 15", did.Load(), not.Load())
	}
	final, _, err := s.OperationByID(s.Context(), s.operator.ID, op.ID)
	s.must(err)
	if final.State == operation.Success {
		s.money("settled as a success", "801", "0")
	} else {
		s.money("settled as a failure", "1000", "0")
	}
}

func staleEpochSettlesNothing(h *harness) {
	s := h.fixture("1000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	stale := settlement(op, operation.Failed)
	stale.Epoch = 0
	now, settled, err := s.Settle(s.Context(), stale)
	if err != nil || settled || now.State != operation.Processing {
		s.Errorf("with an old epoch: %v, %v, %s; want nothing done", settled, err, now.State)
	}
	s.money("after a stale settlement", "801", "199")
	if _, _, err := s.Settle(s.Context(), operation.Settlement{OperationID: "CX-none", Epoch: 1, To: operation.Failed, Reason: operation.NotConfirmed, At: noon}); err == nil {
		s.Error("an unknown operation was settled")
	}
}

func leases(h *harness) {
	s := h.fixture("1000")
	op := s.reserve(s.activation("key-1", "9800000001", "100001"))
	until := noon.Add(time.Minute)
	for _, row := range []struct {
		what  string
		id    string
		epoch int64
		want  bool
	}{{"its holder", op.ID, 1, true}, {"another epoch", op.ID, 2, false}, {"another operation", "CX-none", 1, false}} {
		if held, err := s.ExtendLease(s.Context(), row.id, row.epoch, until); err != nil || held != row.want {
			s.Errorf("%s: %v, %v; want %v", row.what, held, err, row.want)
		}
	}
	s.settle(op, operation.Success)
	if held, err := s.ExtendLease(s.Context(), op.ID, 1, until); err != nil || held {
		s.Errorf("after the settlement: %v, %v; want it refused", held, err)
	}
}
