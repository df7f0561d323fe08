package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// Retry is the retry policy of a client. A zero field has a default.
type Retry struct {
	// Attempts is the limit of attempts of a call, including the first: 6 if 0; 1
	// never retries.
	Attempts int
	// Pause is the wait after the first attempt, and doubles with each further
	// one: half a second if 0. Each pause has random jitter, so that many clients
	// do not retry at the same time.
	Pause time.Duration
	// MaxPause is the longest such wait: 30 seconds if 0.
	MaxPause time.Duration
	// MaxRetryAfter is the longest Retry-After of the service that the client
	// waits; with a longer one the call ends: 2 minutes if 0.
	MaxRetryAfter time.Duration
	// Total limits a call with all its attempts, pauses and polls: 3 minutes if 0.
	// The call's context may end it sooner. Await is limited by its context only.
	Total time.Duration
}

// Attempt describes one attempt of a call, for logs and metrics. It holds neither the
// query, which may contain a customer's number, nor the body.
type Attempt struct {
	// Call is the method and the endpoint, such as "POST renew".
	Call string
	// Number counts the attempts of a call from 1.
	Number int
	// Status is the HTTP status, and 0 without a response; Code is the service's
	// result code, and empty if the response is not the service's.
	Status    int
	Code      Code
	RequestID string
	Duration  time.Duration
	// Last tells that no further attempt follows; otherwise Pause is the wait before
	// the next one.
	Last  bool
	Pause time.Duration
	// Err is why there was no valid response.
	Err error
}

// busyPause is the minimum wait while another operation of the same customer is in
// progress.
const busyPause = 2 * time.Second

func (r Retry) withDefaults() (Retry, error) {
	if r.Attempts < 0 || r.Pause < 0 || r.MaxPause < 0 || r.MaxRetryAfter < 0 || r.Total < 0 {
		return r, fmt.Errorf("nothing in Retry may be below zero: %+v", r)
	}
	set := func(value *time.Duration, standard time.Duration) {
		if *value == 0 {
			*value = standard
		}
	}
	if r.Attempts == 0 {
		r.Attempts = 6
	}
	set(&r.Pause, 500*time.Millisecond)
	set(&r.MaxPause, 30*time.Second)
	set(&r.MaxRetryAfter, 2*time.Minute)
	set(&r.Total, 3*time.Minute)
	return r, nil
}

// pause returns the wait after the n-th attempt.
func (r Retry) pause(n int) time.Duration {
	longest := r.Pause
	for ; n > 1 && longest < r.MaxPause; n-- {
		longest *= 2
	}
	longest = min(longest, r.MaxPause)
	return longest/2 + rand.N(longest/2+1)
}

// call is one API call, which may take several attempts.
type call struct {
	method string
	path   string
	query  string
	body   []byte
	key    IdempotencyKey // of an operation; empty for look-ups
	// read decodes the data of a success; a response that it cannot read counts as
	// no response.
	read func(envelope, http.Header) error
}

// String omits the query, which may contain a customer's number.
func (c call) String() string { return c.method + " " + c.path }

func (c call) target() string {
	if c.query == "" {
		return c.path
	}
	return c.path + "?" + c.query
}

// exchange sends a call until it succeeds or cannot be retried. Each attempt has a
// new signature and exactly the same body.
func (c *Client) exchange(ctx context.Context, req call) *Error {
	corrected, undecided := false, false
	if err := ctx.Err(); err != nil {
		return &Error{Call: req.String(), Err: err} // nothing was sent
	}
	for attempt := 1; ; attempt++ {
		began := time.Now()
		requestID, failure := c.attempt(ctx, req)
		seen := Attempt{
			Call: req.String(), Number: attempt, Status: http.StatusOK, Code: OK, RequestID: requestID,
			Duration: time.Since(began), Last: true,
		}
		if failure == nil {
			c.report(seen)
			return nil
		}
		seen.Status, seen.Code, seen.Err = failure.Status, failure.Code, failure.Err
		undecided = undecided || failure.leavesUndecided(req)
		failure.Call, failure.Attempts = req.String(), attempt
		failure.Undecided = undecided && !failure.isFinal()

		var pause time.Duration
		again := attempt < c.retry.Attempts
		switch {
		case failure.Code == TimestampExpired && !corrected && !failure.ServerTime.IsZero():
			// The service counts a wrong clock as a failed authentication, so the
			// clock is corrected only once.
			c.correctClock(failure.ServerTime)
			corrected = true
		case !failure.retryable() || failure.RetryAfter > c.retry.MaxRetryAfter:
			again = false
		default:
			pause = c.pauseAfter(failure, attempt)
		}
		if again = again && inTime(ctx, pause); again {
			seen.Last, seen.Pause = false, pause
		}
		c.report(seen)
		if !again || !wait(ctx, pause) {
			return failure
		}
	}
}

func (c *Client) report(attempt Attempt) {
	if c.onAttempt != nil {
		c.onAttempt(attempt)
	}
}

// attempt signs and sends a call once. It returns the request's id, and no error for a
// success that was read.
func (c *Client) attempt(ctx context.Context, req call) (requestID string, failure *Error) {
	header := http.Header{}
	if req.key != "" {
		header.Set("Idempotency-Key", string(req.key))
	}
	response, err := c.send(ctx, req.method, req.target(), req.body, header)
	if err != nil {
		return "", &Error{Err: err}
	}
	var answer envelope
	if json.Unmarshal(response.Body, &answer) != nil || answer.Code == "" {
		return "", &Error{Status: response.Status, RetryAfter: readRetryAfter(response.Header)}
	}
	if response.Status != http.StatusOK || !answer.Success {
		failure := readRefusal(response.Status, response.Header, answer)
		if failure.Operation != nil && !failure.Operation.is(req.key) {
			return answer.RequestID, &Error{Status: response.Status, Err: errOtherOperation}
		}
		failure.completeOperation(req.key)
		return answer.RequestID, failure
	}
	if err := req.read(answer, response.Header); err != nil {
		return answer.RequestID, &Error{Status: response.Status, Err: err}
	}
	return answer.RequestID, nil
}

var (
	errOtherOperation = errors.New("the response is about another operation")
	errNoOperation    = errors.New("the response has no operation")
)

// completeOperation ensures that PendingReview and ProviderError come with an
// operation, as documented, if only with its key and status.
func (e *Error) completeOperation(key IdempotencyKey) {
	status, says := map[Code]Status{PendingReview: NeedsReview, ProviderError: Failed}[e.Code]
	if says && key != "" && e.Operation == nil {
		e.Operation = &Operation{IdempotencyKey: key, Status: status}
	}
}

// is reports whether an operation has this key; an empty key matches any.
func (o *Operation) is(key IdempotencyKey) bool {
	return key == "" || o.IdempotencyKey == "" || o.IdempotencyKey == key
}

// retryable reports whether the contract allows a retry with the same key.
func (e *Error) retryable() bool {
	switch {
	case e.Status == 0:
		return !untrusted(e.Err) // an invalid certificate stays invalid
	case e.Code == "":
		// A proxy answered: it is unknown what the service did.
		return e.Status == http.StatusTooManyRequests || e.Status >= 500 || e.Status < 300
	case e.Code == ReplayDetected:
		// Each attempt has a new nonce, so the network delivered a request twice,
		// and this is the response to the copy.
		return true
	case e.Code == OperationInProgress:
		return true
	}
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusInternalServerError ||
		e.Status == http.StatusServiceUnavailable
}

// notSent reports whether a request was certainly not sent: the connection failed,
// or its certificate was invalid.
func notSent(err error) bool {
	var failed *net.OpError
	return untrusted(err) || errors.As(err, &failed) && failed.Op == "dial"
}

func untrusted(err error) bool {
	var refused *tls.CertificateVerificationError
	return errors.As(err, &refused)
}

// leavesUndecided reports whether this attempt may have started the operation, or
// may still start it, with an unknown result.
func (e *Error) leavesUndecided(req call) bool {
	switch {
	case req.key == "":
		return false
	case e.Status == 0:
		return !notSent(e.Err)
	case e.Code == "":
		return true
	case e.Code == PendingReview || e.Code == RequestInProgress || e.Code == ReplayDetected:
		return true
	case e.Code == PlansUnavailable || e.Code == ProviderError:
		return false
	}
	return e.Status >= 500 || e.Status < 300
}

// isFinal reports whether the response decides the key, even if earlier attempts
// were undecided.
func (e *Error) isFinal() bool { return e.Code == ProviderError || e.Code == IdempotencyKeyReused }

// pauseAfter returns the wait before the next attempt.
func (c *Client) pauseAfter(failure *Error, attempt int) time.Duration {
	pause := c.retry.pause(attempt)
	switch {
	case failure.Status == http.StatusTooManyRequests && failure.RetryAfter > 0:
		// Other clients of the operator were given the same time.
		return failure.RetryAfter + rand.N(failure.RetryAfter/10+1)
	case failure.Code == OperationInProgress:
		return min(max(pause, busyPause), c.retry.MaxPause)
	}
	return pause
}

// wait waits for a pause. It returns false if the context ends, and at once if its
// deadline is before the end of the pause.
func wait(ctx context.Context, pause time.Duration) bool {
	if !inTime(ctx, pause) {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// inTime reports whether a pause ends before the context does.
func inTime(ctx context.Context, pause time.Duration) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() == nil && !(limited && time.Until(deadline) <= pause)
}
