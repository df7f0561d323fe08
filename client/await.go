package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
)

// Await polls an operation until it is settled, and returns it, with an error if it
// failed. The pauses between polls grow up to Retry.MaxPause, and polling continues
// while the service is unavailable.
//
// An operation whose outcome the provider cannot report is settled by staff, which
// may take long: let the context end, store the key, and call Await again later.
// The operation's current state is then returned with the error.
//
// TransactionNotFound means that nothing was reserved under the key so far. That is
// undecided, too: a request may still arrive. Call the operation itself again, with
// the same key.
func (c *Client) Await(ctx context.Context, key IdempotencyKey) (*Operation, error) {
	if failure := key.check(lookupCall); failure != nil {
		return nil, failure
	}
	return c.follow(ctx, key, Status.Settled)
}

// lookupCall is the call that polls an operation.
var lookupCall = call{method: http.MethodGet, path: "transaction"}

// follow polls an operation until enough accepts its status or the context ends. The
// operation is nil if it was never found.
func (c *Client) follow(ctx context.Context, key IdempotencyKey, enough func(Status) bool) (*Operation, error) {
	var last *Operation
	for poll := 1; ; poll++ {
		pause := c.retry.pause(poll)
		op, err := c.TransactionByKey(ctx, key)
		var failure *Error
		switch {
		case err == nil:
			if last = op; enough(op.Status) {
				return op, outcome(op)
			}
		case !errors.As(err, &failure) || !failure.retryable():
			return last, markUndecided(err, last)
		default:
			pause = max(pause, failure.RetryAfter)
		}
		if !wait(ctx, pause) {
			if last == nil {
				return nil, markUndecided(&Error{Call: lookupCall.String(), Attempts: poll, Err: deadlineError(ctx)}, nil)
			}
			return last, waitEnded(ctx, last)
		}
	}
}

// markUndecided marks the operation as undecided in the error of a look-up.
func markUndecided(err error, last *Operation) error {
	var failure *Error
	if errors.As(err, &failure) {
		failure.Operation, failure.Undecided = last, true
	}
	return err
}

// waitEnded returns the error of an operation that was not settled before the
// context's deadline.
func waitEnded(ctx context.Context, op *Operation) error {
	err := outcome(op)
	var failure *Error
	if errors.As(err, &failure) {
		failure.Err = deadlineError(ctx)
	}
	return err
}

// deadlineError returns why a wait did not start or ended early.
func deadlineError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// outcome returns the error for an operation's status. Only Success is a success:
// an unknown status, of a later version, is undecided.
func outcome(op *Operation) error {
	failure := &Error{
		Call: lookupCall.String(), Status: http.StatusOK, Code: cmp.Or(op.ResultCode, OK), Message: op.ResultMessage, Operation: op,
		RequestID: op.RequestID,
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
