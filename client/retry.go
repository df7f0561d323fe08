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

// Retry is how patient a client is. Each zero stands for a good value.
type Retry struct {
	// Attempts is how often a call is sent at most, the first time included: 6
	// if 0; 1 never retries.
	Attempts int
	// Pause is the wait after the first attempt, and doubles with each further
	// one: half a second if 0. A part of each pause is left to chance, so that
	// many clients do not come back at once.
	Pause time.Duration
	// MaxPause is the longest such wait: 30 seconds if 0.
	MaxPause time.Duration
	// MaxRetryAfter is the longest wait that the service may ask for; told to
	// wait longer, the call ends instead: 2 minutes if 0.
	MaxRetryAfter time.Duration
}

// busyPause is the least wait while another operation of the same customer runs.
const busyPause = 2 * time.Second

func (r Retry) withDefaults() (Retry, error) {
	if r.Attempts < 0 || r.Pause < 0 || r.MaxPause < 0 || r.MaxRetryAfter < 0 {
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
	return r, nil
}

// pause is how long to wait after the n-th attempt.
func (r Retry) pause(n int) time.Duration {
	longest := r.Pause
	for ; n > 1 && longest < r.MaxPause; n-- {
		longest *= 2
	}
	longest = min(longest, r.MaxPause)
	return longest/2 + rand.N(longest/2+1)
}

// call is one thing to ask of the service, however often it takes.
type call struct {
	method string
	path   string
	query  string
	body   []byte
	key    IdempotencyKey // of an operation; empty for look-ups
	// read takes the data of a success; an answer that it cannot read counts
	// as none.
	read func(envelope, http.Header) error
}

// String leaves the query out, which may hold a customer's number.
func (c call) String() string { return c.method + " " + c.path }

func (c call) target() string {
	if c.query == "" {
		return c.path
	}
	return c.path + "?" + c.query
}

// exchange sends a call until there is an answer to keep, or no sense in going
// on. Each attempt is signed anew; what it asks for stays the same, byte for byte.
func (c *Client) exchange(ctx context.Context, asked call) *Error {
	corrected, undecided := false, false
	if err := ctx.Err(); err != nil {
		return &Error{Call: asked.String(), Err: err} // nothing was sent
	}
	for attempt := 1; ; attempt++ {
		failure := c.attempt(ctx, asked)
		if failure == nil {
			return nil
		}
		undecided = undecided || failure.leavesOpen(asked)
		failure.Call, failure.Attempts = asked.String(), attempt
		failure.Undecided = undecided && !failure.closes()

		var pause time.Duration
		switch {
		case failure.Code == TimestampExpired && !corrected && !failure.ServerTime.IsZero():
			// The service counts a wrong clock as a failed attempt to get in, so
			// this is done once.
			c.correctClock(failure.ServerTime)
			corrected = true
		case !failure.worthRepeating() || failure.RetryAfter > c.retry.MaxRetryAfter:
			return failure
		default:
			pause = c.pauseAfter(failure, attempt)
		}
		if attempt >= c.retry.Attempts || !wait(ctx, pause) {
			return failure
		}
	}
}

// attempt signs, sends and reads once. Nil is a success that was read.
func (c *Client) attempt(ctx context.Context, asked call) *Error {
	header := http.Header{}
	if asked.key != "" {
		header.Set("Idempotency-Key", string(asked.key))
	}
	response, err := c.send(ctx, asked.method, asked.target(), asked.body, header)
	if err != nil {
		return &Error{Err: err}
	}
	var answer envelope
	if json.Unmarshal(response.Body, &answer) != nil || answer.Code == "" {
		return &Error{Status: response.Status, RetryAfter: readRetryAfter(response.Header)}
	}
	if response.Status != http.StatusOK || !answer.Success {
		failure := readRefusal(response.Status, response.Header, answer)
		if failure.Operation != nil && !failure.Operation.is(asked.key) {
			return &Error{Status: response.Status, Err: errOtherOperation}
		}
		failure.completeOperation(asked.key)
		return failure
	}
	if err := asked.read(answer, response.Header); err != nil {
		return &Error{Status: response.Status, Err: err}
	}
	return nil
}

var (
	errOtherOperation = errors.New("it is about another operation")
	errNoOperation    = errors.New("it is no operation")
)

// completeOperation sees to it that the codes that say what has become of an
// operation come with one, as callers were promised, if only with what is sure.
func (e *Error) completeOperation(key IdempotencyKey) {
	status, says := map[Code]Status{PendingReview: NeedsReview, ProviderError: Failed}[e.Code]
	if says && key != "" && e.Operation == nil {
		e.Operation = &Operation{IdempotencyKey: key, Status: status}
	}
}

// is reports whether an operation is the one that has this key; a look-up may be
// about any.
func (o *Operation) is(key IdempotencyKey) bool {
	return key == "" || o.IdempotencyKey == "" || o.IdempotencyKey == key
}

// worthRepeating is the contract's advice on retrying, with the same key.
func (e *Error) worthRepeating() bool {
	switch {
	case e.Status == 0:
		return !untrusted(e.Err) // who is not to be trusted now will not be in a second
	case e.Code == "":
		// Somebody in between answered: what the service did is not known.
		return e.Status == http.StatusTooManyRequests || e.Status >= 500 || e.Status < 300
	case e.Code == ReplayDetected:
		// The nonce is new each time, so the network delivered a request twice,
		// and this is the answer to the copy.
		return true
	case e.Code == OperationInProgress:
		return true
	}
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusInternalServerError ||
		e.Status == http.StatusServiceUnavailable
}

// neverLeft reports whether a request provably reached nobody: there was no
// connection, or none to be trusted with it.
func neverLeft(err error) bool {
	var failed *net.OpError
	return untrusted(err) || errors.As(err, &failed) && failed.Op == "dial"
}

func untrusted(err error) bool {
	var refused *tls.CertificateVerificationError
	return errors.As(err, &refused)
}

// leavesOpen reports whether this attempt may have started the operation, or may
// yet, without our knowing what it came to.
func (e *Error) leavesOpen(asked call) bool {
	switch {
	case asked.key == "":
		return false
	case e.Status == 0:
		return !neverLeft(e.Err)
	case e.Code == "":
		return true
	case e.Code == PendingReview || e.Code == RequestInProgress || e.Code == ReplayDetected:
		return true
	case e.Code == PlansUnavailable || e.Code == ProviderError:
		return false
	}
	return e.Status >= 500 || e.Status < 300
}

// closes reports whether an answer is the last word on its key, whatever earlier
// attempts left open.
func (e *Error) closes() bool { return e.Code == ProviderError || e.Code == IdempotencyKeyReused }

// pauseAfter is how long to wait before the next attempt.
func (c *Client) pauseAfter(failure *Error, attempt int) time.Duration {
	pause := c.retry.pause(attempt)
	switch {
	case failure.Status == http.StatusTooManyRequests && failure.RetryAfter > 0:
		return failure.RetryAfter
	case failure.Code == OperationInProgress:
		return max(pause, busyPause)
	}
	return pause
}

// wait waits, unless the caller's patience would end before; then there is no
// point in beginning to.
func wait(ctx context.Context, pause time.Duration) bool {
	deadline, limited := ctx.Deadline()
	if ctx.Err() != nil || limited && time.Until(deadline) <= pause {
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
