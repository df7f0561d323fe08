package postgres

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// A settlement says what the operation has become without reading it back, whether
// the operation was looked at before or not.
func TestSettle_ReturnsStoredOperation(t *testing.T) {
	t.Parallel()
	address := migrated(t)
	db, conn := open(t, address), raw(t, address)
	customers := customersOf(t, db, conn, 2, 40)
	to := map[string]func(*operation.Settlement){
		"confirmed": func(*operation.Settlement) {},
		"confirmed, without a number": func(s *operation.Settlement) {
			s.ProviderTransaction, s.Calls = "", nil
		},
		"confirmed, its add-on not": func(s *operation.Settlement) {
			s.AddonState, s.AddonAttempt, s.AddonNextAt = operation.AddonFailed, 1, noon.Add(time.Minute)
		},
		"refused": func(s *operation.Settlement) {
			s.To, s.Reason, s.ProviderMessage, s.ProviderTransaction = operation.Failed, operation.ProviderRejected, "no such box", ""
		},
		"refunded by staff": func(s *operation.Settlement) {
			s.To, s.Reason, s.Actor, s.NextCheckAt = operation.Failed, operation.RejectedByReview, "test:asha", noon.Add(time.Hour)
		},
		"not known": func(s *operation.Settlement) {
			s.To, s.NextCheckAt, s.ProviderTransaction = operation.NeedsReview, noon.Add(time.Minute), ""
		},
	}
	n := 0
	for name, change := range to {
		for _, addon := range []string{"", "EXTRA"} {
			for _, held := range []bool{true, false} {
				n++
				t.Run(fmt.Sprintf("%s, add-on %q, held %v", name, addon, held), func(t *testing.T) {
					draft := customers[n].renewal(keyOf(n), 1)
					draft.ExpiryPrevious = noon
					if addon != "" {
						draft.Addon, draft.AddonState = addon, operation.AddonWaiting
					}
					op, err := db.Reserve(t.Context(), draft)
					ok(t, err)
					s := confirmed(op)
					change(&s)
					if !held {
						s.LastRead = nil
					}
					got, did, err := db.Settle(t.Context(), s)
					if err != nil || !did {
						t.Fatalf("settled %v, %v", did, err)
					}
					kept, found, err := db.OperationByID(t.Context(), op.OperatorID, op.ID)
					if err != nil || !found {
						t.Fatalf("found %v, %v", found, err)
					}
					if !reflect.DeepEqual(got, kept) {
						t.Errorf("it returned\n%+v\nand kept\n%+v", got, kept)
					}
					if s.To == operation.NeedsReview {
						// Once more, out of review, with what was held there.
						s = confirmed(kept)
						s.At = noon.Add(time.Hour)
						got, did, err := db.Settle(t.Context(), s)
						ok(t, err)
						kept, _, err := db.OperationByID(t.Context(), op.OperatorID, op.ID)
						ok(t, err)
						if !did || !reflect.DeepEqual(got, kept) {
							t.Errorf("after review it returned\n%+v\nand kept\n%+v", got, kept)
						}
					}
				})
			}
		}
	}
}

// A node that slept settles what others have taken over meanwhile, in one batch with
// what is still its own.
func TestSettle_StaleEpochKeepsBatch(t *testing.T) {
	t.Parallel()
	s := newStall(t, migrated(t))
	customers := customersOf(t, s.db, s.watch, 2, 8)
	var ops []operation.Operation
	for i, c := range customers {
		op, err := s.db.Reserve(t.Context(), c.renewal(keyOf(i), 1))
		ok(t, err)
		ops = append(ops, op)
	}
	const lost = 4
	taken, refunding := ops[lost], confirmed(ops[lost])
	exec(t, s.watch, `UPDATE operations SET epoch = 2 WHERE id = $1`, taken.ID)
	refunding.LastRead, refunding.Epoch, refunding.To, refunding.Reason, refunding.Calls = nil, 2, operation.Failed, operation.NotConfirmed, nil
	if _, did, err := s.db.Settle(t.Context(), refunding); err != nil || !did {
		t.Fatalf("settled %v, %v", did, err)
	}

	var ahead sync.WaitGroup
	ahead.Add(1)
	s.hold("ledger", func() {
		defer ahead.Done()
		if _, _, err := s.db.Settle(t.Context(), confirmed(ops[0])); err != nil {
			t.Errorf("the one ahead: %v", err)
		}
	})
	var others []func()
	for i, op := range ops[1:] {
		others = append(others, func() {
			got, did, err := s.db.Settle(t.Context(), confirmed(op))
			want := operation.Success
			if i+1 == lost {
				want = operation.Failed
			}
			if err != nil || did != (want == operation.Success) || got.State != want {
				t.Errorf("operation %d: settled %v as %s, %v; want %s", i+1, did, got.State, err, want)
			}
		})
	}
	behind := s.queue(others...)
	s.release()
	ahead.Wait()
	behind.Wait()
	if s.sizes.largest() != len(others) {
		t.Fatalf("batches of %v were made; want one of %d", s.sizes.all, len(others))
	}
	if n := count(t, s.watch, `SELECT count(*) FROM exceptions WHERE operation_id = $1 AND kind = 'LATE_SUCCESS'`, taken.ID); n != 1 {
		t.Errorf("%d exceptions were raised; want one: it was refunded, and done", n)
	}
	if n := count(t, s.watch, `SELECT count(*) FROM provider_calls`); n != len(ops) {
		t.Errorf("%d calls are written down; want %d, the late one as well", n, len(ops))
	}
	booksAreWhole(t, s.watch)
}
