package operation

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// Transaction looks up one of an operator's operations by its id or, if that is empty, by its
// idempotency key.
func (p *Processor) Transaction(ctx context.Context, operatorID int64, id, key string) (Operation, error) {
	find := func() (Operation, bool, error) { return p.store.OperationByID(ctx, operatorID, id) }
	if id == "" {
		find = func() (Operation, bool, error) { return p.operationOf(ctx, operatorID, key) }
	}
	op, found, err := find()
	if err != nil {
		return op, unavailable(fmt.Errorf("look up a transaction: %w", err))
	}
	if !found {
		return op, fault.New(fault.TransactionNotFound, "There is no such transaction under this account.")
	}
	if id == "" {
		op.IdempotencyKey = key // an adopted operation has learned it now
	}
	return op, nil
}

// Subscription looks up one of an operator's subscribers by id or, if that is empty, by mobile.
func (p *Processor) Subscription(ctx context.Context, operatorID int64, id, mobile string) (Subscription, error) {
	s, found, err := p.store.SubscriptionOf(ctx, operatorID, id, mobile)
	if err != nil {
		return s, unavailable(fmt.Errorf("look up a subscriber: %w", err))
	}
	if !found || subscription.IsForgotten(s.Mobile) {
		return s, fault.New(fault.SubscriberNotFound, "There is no such subscriber under this account.")
	}
	return s, nil
}
