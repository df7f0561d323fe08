//go:build long

package linearizability_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/storetest"
	"github.com/coaxhq/coax/internal/subscription"
)

// errand is what a client is about, down to the store: whose history it belongs
// to, and what goes wrong on the way. It travels in the context, so that each
// call's mishap is drawn with the call.
type errand struct {
	*record
	client int
	body   string
	mishap
	met  atomic.Bool
	gate entry
}

// entry is what the store did for a request at the gate, whether or not the
// answer arrived. A request asks the store more than once where its terms have
// changed.
type entry struct {
	burned, replayed, counted bool
	limit, used               int
	// unsure: the store itself could not say.
	unsure bool
}

// mishap is one store call that goes wrong, once.
type mishap struct {
	at place
	// late: it took hold, and only the answer is lost.
	late bool
	err  error
}

type place string

const (
	nowhere   place = ""
	atReserve place = "reserve"
	atSettle  place = "settle"
	atClaim   place = "claim"
	atAdmit   place = "admit"
	atCredit  place = "credit"
)

// errGone is what a connection that is gone looks like to somebody who does not
// know better.
var errGone = errors.New("the connection is gone")

type errandKey struct{}

func (e *errand) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, errandKey{}, e)
}

func errandOf(ctx context.Context) *errand {
	e, _ := ctx.Value(errandKey{}).(*errand)
	if e == nil {
		panic("a store call that belongs to no history")
	}
	return e
}

// trips is the error that a store call meets before it begins, or after it is
// done.
func (e *errand) trips(at place, late bool) error {
	if e.mishap.at == at && e.late == late && e.met.CompareAndSwap(false, true) {
		return e.err
	}
	return nil
}

// watched is a node's way to the store: it notes what the store makes true, and
// now and then loses a question or an answer.
type watched struct{ storetest.Store }

// through runs one store call on an errand: with what may go wrong before and
// after, and the time it took.
func through(ctx context.Context, at place, call func() error, done func(*errand, span, error)) error {
	e := errandOf(ctx)
	if err := e.trips(at, false); err != nil {
		return err
	}
	when := span{client: e.client, begun: e.now()}
	err := call()
	when.ended = e.now()
	if done != nil {
		done(e, when, err)
	}
	if err != nil {
		return err
	}
	return e.trips(at, true)
}

func (w watched) Reserve(ctx context.Context, d operation.Draft) (op operation.Operation, err error) {
	err = through(ctx, atReserve, func() (err error) {
		op, err = w.Store.Reserve(ctx, d)
		return err
	}, func(e *errand, when span, err error) {
		if !errors.Is(err, operation.ErrMoved) {
			note(e.record, &e.facts, fact{span: when, id: d.ID, to: operation.Processing, body: e.body, certain: err == nil})
		}
	})
	return op, err
}

func (w watched) Settle(ctx context.Context, s operation.Settlement) (op operation.Operation, settled bool, err error) {
	err = through(ctx, atSettle, func() (err error) {
		op, settled, err = w.Store.Settle(ctx, s)
		return err
	}, func(e *errand, when span, err error) {
		if settled || err != nil {
			note(e.record, &e.facts, fact{span: when, id: s.OperationID, to: s.To, certain: err == nil})
		} else {
			note(e.record, &e.tooLate, s.OperationID)
		}
	})
	return op, settled, err
}

func (w watched) ClaimReviews(ctx context.Context, c operation.Claim) (claimed []operation.Operation, err error) {
	err = through(ctx, atClaim, func() (err error) {
		claimed, err = w.Store.ClaimReviews(ctx, c)
		return err
	}, func(e *errand, when span, err error) {
		note(e.record, &e.claims, leaseCheck{span: when, at: c.Now.UnixMilli(), certain: err == nil})
	})
	return claimed, err
}

func (w watched) SettleReview(ctx context.Context, act admin.StaffAction, s operation.Settlement) (op operation.Operation, err error) {
	err = through(ctx, atSettle, func() (err error) {
		op, err = w.Store.SettleReview(ctx, act, s)
		return err
	}, func(e *errand, when span, err error) {
		if refusal := (*admin.Refusal)(nil); !errors.As(err, &refusal) {
			note(e.record, &e.facts, fact{span: when, id: s.OperationID, to: s.To, certain: err == nil})
		}
	})
	return op, err
}

func (w watched) Admit(ctx context.Context, a access.Admission) (admitted access.Admitted, err error) {
	err = through(ctx, atAdmit, func() (err error) {
		admitted, err = w.Store.Admit(ctx, a)
		return err
	}, func(e *errand, _ span, err error) {
		e.gate.burned = e.gate.burned || err == nil && !admitted.Replayed
		e.gate.replayed = err == nil && admitted.Replayed
		e.gate.unsure = err != nil
		if err == nil && admitted.Counted {
			e.gate.counted, e.gate.limit, e.gate.used = true, a.Limit, admitted.Used
		}
	})
	return admitted, err
}

func (w watched) TopUp(ctx context.Context, act admin.StaffAction, topUp admin.TopUp) (wallet subscription.Wallet, credited bool, err error) {
	err = through(ctx, atCredit, func() (err error) {
		wallet, credited, err = w.Store.TopUp(ctx, act, topUp)
		return err
	}, nil)
	return wallet, credited, err
}

func (w watched) Adjust(ctx context.Context, act admin.StaffAction, adjustment admin.Adjustment) (wallet subscription.Wallet, booked bool, err error) {
	err = through(ctx, atCredit, func() (err error) {
		wallet, booked, err = w.Store.Adjust(ctx, act, adjustment)
		return err
	}, nil)
	return wallet, booked, err
}
