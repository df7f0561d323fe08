package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// store wraps the store for a process: every call waits at a gate before it, and a
// write also after it, where its reply may be lost.
type store struct {
	env     *environment
	process *process
	db      backend
}

var (
	_ operation.ReviewStore = store{}
	_ access.Store          = store{}
	_ catalogue.Store       = store{}
)

// backend is a real store, as internal/server opens one.
type backend interface {
	access.Store
	admin.Store
	catalogue.Store
	operation.ReviewStore
	Close() error
}

var errInjected = errors.New("injected store failure")

func (s store) task(ctx context.Context, about string) string {
	who := taskOf(ctx)
	if who == "" {
		who = s.process.name() + " " + "unnamed"
	}
	if about != "" {
		who += "/" + s.env.nickname(about)
	}
	return who
}

// reads waits at the gate of a read and returns an injected failure.
func (s store) reads(ctx context.Context, what, about string) error {
	switch s.env.gates.pass(s.task(ctx, about), "read "+what, s.process, false) {
	case failUnavailable:
		return fmt.Errorf("%w: %w", operation.ErrUnavailable, errInjected)
	case failAmbiguous, failPlain:
		return errInjected
	}
	return nil
}

// writes runs a write between two gates. It may fail before the write, or report an
// unknown commit after it.
func (s store) writes(ctx context.Context, what, about string, do func() error) error {
	who := s.task(ctx, about)
	switch s.env.gates.pass(who, "before "+what, s.process, true) {
	case failUnavailable:
		return fmt.Errorf("%w: %w", operation.ErrUnavailable, errInjected)
	case failAmbiguous:
		return fmt.Errorf("%w: %w", operation.ErrCommitUnknown, errInjected)
	case failPlain:
		return errInjected
	}
	err := do()
	switch s.env.gates.pass(who, "after "+what, s.process, true) {
	case failUnavailable, failAmbiguous, failPlain:
		return fmt.Errorf("%w: %w", operation.ErrCommitUnknown, errInjected)
	}
	return err
}

func reading[T any](s store, ctx context.Context, what, about string, do func() (T, error)) (T, error) {
	if err := s.reads(ctx, what, about); err != nil {
		var none T
		return none, err
	}
	return do()
}

func writing[T any](s store, ctx context.Context, what, about string, do func() (T, error)) (got T, err error) {
	err = s.writes(ctx, what, about, func() (err error) {
		got, err = do()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return got, nil
}

type found[T any] struct {
	value T
	found bool
}

func find[T any](do func() (T, bool, error)) func() (found[T], error) {
	return func() (f found[T], err error) {
		f.value, f.found, err = do()
		return f, err
	}
}

// What access asks for.

func (s store) CredentialByHash(ctx context.Context, hash access.KeyHash) (access.Record, bool, error) {
	f, err := reading(s, ctx, "credential", "", find(func() (access.Record, bool, error) { return s.db.CredentialByHash(ctx, hash) }))
	return f.value, f.found, err
}

func (s store) Admit(ctx context.Context, a access.Admission) (access.Admitted, error) {
	return writing(s, ctx, "admit", "", onRows(s, ctx, "admit", a.OperatorID, "", func() (access.Admitted, error) { return s.db.Admit(ctx, a) }))
}

func (s store) PurgeAdmissions(ctx context.Context, noncesBefore time.Time, minutesBefore int64, most int) (int, error) {
	return writing(s, ctx, "purge", "", func() (int, error) { return s.db.PurgeAdmissions(ctx, noncesBefore, minutesBefore, most) })
}

// What the catalogue asks for.

func (s store) SellablePlans(ctx context.Context, provider string) (plans []subscription.Plan, verified time.Time, err error) {
	if err := s.reads(ctx, "plans", ""); err != nil {
		return nil, time.Time{}, err
	}
	return s.db.SellablePlans(ctx, provider)
}

func (s store) RecordComparison(ctx context.Context, c catalogue.Comparison) error {
	return s.writes(ctx, "comparison", "", func() error { return s.db.RecordComparison(ctx, c) })
}

func (s store) RecordFailure(ctx context.Context, provider, problem string, at time.Time) error {
	return s.writes(ctx, "no comparison", "", func() error { return s.db.RecordFailure(ctx, provider, problem, at) })
}

func (s store) Compared(ctx context.Context, provider string) (good, tried time.Time, err error) {
	if err := s.reads(ctx, "compared", ""); err != nil {
		return time.Time{}, time.Time{}, err
	}
	return s.db.Compared(ctx, provider)
}

// What operations ask for.

func (s store) Wallet(ctx context.Context, operatorID int64) (subscription.Wallet, error) {
	return reading(s, ctx, "wallet", "", func() (subscription.Wallet, error) { return s.db.Wallet(ctx, operatorID) })
}

func (s store) OperationByKey(ctx context.Context, operatorID int64, key string) (operation.Operation, bool, error) {
	f, err := reading(s, ctx, "key", "", find(func() (operation.Operation, bool, error) { return s.db.OperationByKey(ctx, operatorID, key) }))
	return f.value, f.found, err
}

func (s store) AdoptedByKey(ctx context.Context, operatorID int64, adopted []string) (operation.Operation, bool, error) {
	f, err := reading(s, ctx, "adopted key", "", find(func() (operation.Operation, bool, error) { return s.db.AdoptedByKey(ctx, operatorID, adopted) }))
	return f.value, f.found, err
}

func (s store) ClaimAdopted(ctx context.Context, claim operation.KeyClaim) (operation.Operation, error) {
	return writing(s, ctx, "claim key", claim.OperationID, func() (operation.Operation, error) { return s.db.ClaimAdopted(ctx, claim) })
}

func (s store) Snapshot(ctx context.Context, q operation.SnapshotQuery) (operation.Snapshot, error) {
	return reading(s, ctx, "facts", "", func() (operation.Snapshot, error) { return s.db.Snapshot(ctx, q) })
}

func (s store) Reserve(ctx context.Context, d operation.Draft) (operation.Operation, error) {
	s.env.reserves(d.ID, taskOf(ctx))
	if s.env.realTime {
		// In fake time the journal has named it before anybody is asked about it.
		s.env.name(d.ID, d.IdempotencyKey)
	}
	s.env.locks.owns(d.ID, d.OperatorID)
	return writing(s, ctx, "reserve", "", onRows(s, ctx, "reserve", d.OperatorID, "", func() (operation.Operation, error) { return s.db.Reserve(ctx, d) }))
}

func (s store) Settle(ctx context.Context, st operation.Settlement) (operation.Operation, bool, error) {
	f, err := writing(s, ctx, "settle", st.OperationID, onRows(s, ctx, "settle", s.env.locks.ownerOf(st.OperationID), st.OperationID,
		find(func() (operation.Operation, bool, error) { return s.db.Settle(ctx, st) })))
	return f.value, f.found, err
}

func (s store) OperationByID(ctx context.Context, operatorID int64, id string) (operation.Operation, bool, error) {
	f, err := reading(s, ctx, "operation", "", find(func() (operation.Operation, bool, error) { return s.db.OperationByID(ctx, operatorID, id) }))
	return f.value, f.found, err
}

func (s store) SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error) {
	f, err := reading(s, ctx, "subscription", "", find(func() (operation.Subscription, bool, error) { return s.db.SubscriptionOf(ctx, operatorID, id, mobile) }))
	return f.value, f.found, err
}

func (s store) ExtendLease(ctx context.Context, id string, epoch int64, until time.Time) (bool, error) {
	return writing(s, ctx, "extend", id, onRows(s, ctx, "extend", s.env.locks.ownerOf(id), id, func() (bool, error) { return s.db.ExtendLease(ctx, id, epoch, until) }))
}

// What following up asks for.

func (s store) TakeOver(ctx context.Context, now time.Time) error {
	return s.writes(ctx, "take over", "", func() error { return s.db.TakeOver(ctx, now) })
}

func (s store) Due(ctx context.Context, now time.Time) (operation.Due, error) {
	return reading(s, ctx, "due", "", func() (operation.Due, error) { return s.db.Due(ctx, now) })
}

func (s store) ClaimReviews(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return writing(s, ctx, "claim reviews", "", func() ([]operation.Operation, error) { return s.db.ClaimReviews(ctx, c) })
}

func (s store) Postpone(ctx context.Context, p operation.Postponement) (bool, error) {
	return writing(s, ctx, "postpone", p.OperationID, onRows(s, ctx, "postpone", s.env.locks.ownerOf(p.OperationID), p.OperationID,
		func() (bool, error) { return s.db.Postpone(ctx, p) }))
}

func (s store) ClaimAddons(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return writing(s, ctx, "claim addons", "", func() ([]operation.Operation, error) { return s.db.ClaimAddons(ctx, c) })
}

func (s store) SettleAddon(ctx context.Context, a operation.AddonSettlement) error {
	return s.writes(ctx, "settle addon", a.OperationID, func() error { return s.db.SettleAddon(ctx, a) })
}

func (s store) ClaimLateChecks(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return writing(s, ctx, "claim late checks", "", func() ([]operation.Operation, error) { return s.db.ClaimLateChecks(ctx, c) })
}

func (s store) CloseLateCheck(ctx context.Context, c operation.LateCheck) error {
	return s.writes(ctx, "close late check", c.OperationID, func() error { return s.db.CloseLateCheck(ctx, c) })
}

func (s store) ClaimReversals(ctx context.Context, c operation.Claim) ([]operation.Operation, error) {
	return writing(s, ctx, "claim reversals", "", func() ([]operation.Operation, error) { return s.db.ClaimReversals(ctx, c) })
}

func (s store) PendingReversal(ctx context.Context, id string) (operation.Reversal, bool, error) {
	f, err := reading(s, ctx, "reversal", id, find(func() (operation.Reversal, bool, error) { return s.db.PendingReversal(ctx, id) }))
	return f.value, f.found, err
}

func (s store) SettleReversal(ctx context.Context, a operation.ReversalAnswer) error {
	return s.writes(ctx, "settle reversal", a.OperationID, func() error { return s.db.SettleReversal(ctx, a) })
}
