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

// callContext accompanies a client's action in the context, down to the store: it has
// the history's record and the fault to inject.
type callContext struct {
	*record
	client int
	body   string
	injectedFault
	met       atomic.Bool
	admission admissionResult
}

// admissionResult is what the store did for a request's admission, whether or not the
// reply arrived. A request is admitted more than once if the operator's terms change.
type admissionResult struct {
	burned, replayed, counted bool
	limit, used               int
	// unsure: the store reported an unknown outcome.
	unsure bool
}

// injectedFault makes one store call fail, once.
type injectedFault struct {
	at faultPoint
	// late: the call took effect, and only the reply is lost.
	late bool
	err  error
}

type faultPoint string

const (
	noPoint   faultPoint = ""
	atReserve faultPoint = "reserve"
	atSettle  faultPoint = "settle"
	atClaim   faultPoint = "claim"
	atAdmit   faultPoint = "admit"
	atCredit  faultPoint = "credit"
)

// errGone is a connection error of no known class.
var errGone = errors.New("the connection is gone")

type callContextKey struct{}

func (e *callContext) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, callContextKey{}, e)
}

func callContextOf(ctx context.Context) *callContext {
	e, _ := ctx.Value(callContextKey{}).(*callContext)
	if e == nil {
		panic("a store call that belongs to no history")
	}
	return e
}

// fails returns the error to inject before a store call, or after it.
func (e *callContext) fails(at faultPoint, late bool) error {
	if e.injectedFault.at == at && e.late == late && e.met.CompareAndSwap(false, true) {
		return e.err
	}
	return nil
}

// recordingStore is a node's store: it records what is written, and injects faults
// before and after calls.
type recordingStore struct{ storetest.Store }

// observe runs one store call with the injected fault, if any, and records its time.
func observe(ctx context.Context, at faultPoint, call func() error, done func(*callContext, span, error)) error {
	e := callContextOf(ctx)
	if err := e.fails(at, false); err != nil {
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
	return e.fails(at, true)
}

func (w recordingStore) Reserve(ctx context.Context, d operation.Draft) (op operation.Operation, err error) {
	err = observe(ctx, atReserve, func() (err error) {
		op, err = w.Store.Reserve(ctx, d)
		return err
	}, func(e *callContext, when span, err error) {
		if !errors.Is(err, operation.ErrStale) {
			note(e.record, &e.storeWrites, storeWrite{span: when, id: d.ID, to: operation.Processing, body: e.body, certain: err == nil})
		}
	})
	return op, err
}

func (w recordingStore) Settle(ctx context.Context, s operation.Settlement) (op operation.Operation, settled bool, err error) {
	err = observe(ctx, atSettle, func() (err error) {
		op, settled, err = w.Store.Settle(ctx, s)
		return err
	}, func(e *callContext, when span, err error) {
		if settled || err != nil {
			note(e.record, &e.storeWrites, storeWrite{span: when, id: s.OperationID, to: s.To, certain: err == nil})
		} else {
			note(e.record, &e.tooLate, s.OperationID)
		}
	})
	return op, settled, err
}

func (w recordingStore) ClaimReviews(ctx context.Context, c operation.Claim) (claimed []operation.Operation, err error) {
	err = observe(ctx, atClaim, func() (err error) {
		claimed, err = w.Store.ClaimReviews(ctx, c)
		return err
	}, func(e *callContext, when span, err error) {
		note(e.record, &e.claims, leaseCheck{span: when, at: c.Now.UnixMilli(), certain: err == nil})
	})
	return claimed, err
}

func (w recordingStore) SettleReview(ctx context.Context, act admin.StaffAction, s operation.Settlement) (op operation.Operation, err error) {
	err = observe(ctx, atSettle, func() (err error) {
		op, err = w.Store.SettleReview(ctx, act, s)
		return err
	}, func(e *callContext, when span, err error) {
		if refusal := (*admin.Refusal)(nil); !errors.As(err, &refusal) {
			note(e.record, &e.storeWrites, storeWrite{span: when, id: s.OperationID, to: s.To, certain: err == nil})
		}
	})
	return op, err
}

func (w recordingStore) Admit(ctx context.Context, a access.Admission) (admitted access.Admitted, err error) {
	err = observe(ctx, atAdmit, func() (err error) {
		admitted, err = w.Store.Admit(ctx, a)
		return err
	}, func(e *callContext, _ span, err error) {
		e.admission.burned = e.admission.burned || err == nil && !admitted.Replayed
		e.admission.replayed = err == nil && admitted.Replayed
		e.admission.unsure = err != nil
		if err == nil && admitted.Counted {
			e.admission.counted, e.admission.limit, e.admission.used = true, a.Limit, admitted.Used
		}
	})
	return admitted, err
}

func (w recordingStore) TopUp(ctx context.Context, act admin.StaffAction, topUp admin.TopUp) (wallet subscription.Wallet, credited bool, err error) {
	err = observe(ctx, atCredit, func() (err error) {
		wallet, credited, err = w.Store.TopUp(ctx, act, topUp)
		return err
	}, nil)
	return wallet, credited, err
}

func (w recordingStore) Adjust(ctx context.Context, act admin.StaffAction, adjustment admin.Adjustment) (wallet subscription.Wallet, booked bool, err error) {
	err = observe(ctx, atCredit, func() (err error) {
		wallet, booked, err = w.Store.Adjust(ctx, act, adjustment)
		return err
	}, nil)
	return wallet, booked, err
}
