package client

import (
	"context"
	"errors"
	"net/http"
)

// followPolls is how often an operation that is under way is asked about before
// the caller is told that it still is: some minutes, in which the service ends
// what it can.
const followPolls = 15

// Await asks what has become of an operation until it is settled, and returns
// what the operation would have: the operation alone if it succeeded, and with an
// error if it failed. Pauses between questions grow up to Retry.MaxPause, and a
// service that is away for a while is waited for.
//
// An operation that the provider cannot say anything about is settled by a person,
// which may take long: let the context end, keep the key, and ask again
// later. The operation as it then stands is returned beside the error.
//
// TransactionNotFound says that nothing was reserved under the key so far. That is
// undecided, too: a request may still be on its way. Send the operation itself
// again, with the same key.
func (c *Client) Await(ctx context.Context, key IdempotencyKey) (*Operation, error) {
	if failure := key.check(lookingAt); failure != nil {
		return nil, failure
	}
	return c.follow(ctx, key, Status.Settled, 0)
}

// lookingAt is what following an operation asks.
var lookingAt = call{method: http.MethodGet, path: "transaction"}

// follow asks about an operation until its status is one to stop at, or as often
// as it may; 0 is without end. The operation is nil if it was never seen.
func (c *Client) follow(ctx context.Context, key IdempotencyKey, enough func(Status) bool, polls int) (*Operation, error) {
	var last *Operation
	for poll := 1; ; poll++ {
		op, err := c.TransactionByKey(ctx, key)
		var failure *Error
		switch {
		case err == nil:
			if last = op; enough(op.Status) || poll == polls {
				return op, outcome(op)
			}
		case !errors.As(err, &failure) || polls > 0 || !failure.worthRepeating():
			return last, openStill(err, last)
		}
		if !wait(ctx, c.retry.pause(poll)) {
			if last == nil {
				return nil, openStill(&Error{Call: lookingAt.String(), Attempts: poll, Err: patienceEnded(ctx)}, nil)
			}
			return last, outOfPatience(ctx, last)
		}
	}
}

// openStill marks an error of a look-up as one that leaves the operation open.
func openStill(err error, last *Operation) error {
	var failure *Error
	if errors.As(err, &failure) {
		failure.Operation, failure.Undecided = last, true
	}
	return err
}

// outOfPatience is what an operation stands at when nobody waits any longer.
func outOfPatience(ctx context.Context, op *Operation) error {
	err := outcome(op)
	var failure *Error
	if errors.As(err, &failure) {
		failure.Err = patienceEnded(ctx)
	}
	return err
}

// patienceEnded is why a wait was not begun or not ended.
func patienceEnded(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// outcome is what an operation would be answered with now. Only what is known to
// have succeeded is a success: a status from a later version is not.
func outcome(op *Operation) error {
	failure := &Error{
		Call: lookingAt.String(), Status: http.StatusOK, Code: op.ResultCode, Message: op.ResultMessage, Operation: op,
		Undecided: op.Status != Failed,
	}
	switch op.Status {
	case Success:
		return nil
	case Failed:
		failure.Status, failure.Code = http.StatusBadGateway, ProviderError
	case NeedsReview:
		failure.Status, failure.Code = http.StatusAccepted, PendingReview
	case Processing:
		failure.Status, failure.Code = http.StatusConflict, RequestInProgress
	}
	return failure
}
