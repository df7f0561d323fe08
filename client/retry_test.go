package client_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/signing"
)

// script is a transport that returns its responses in order, and then repeats the
// last one. The client is tested with the real service in the examples.
type script struct {
	t       *testing.T
	answers []reply
	got     []sent
}

type reply struct {
	status int
	body   string
	header http.Header
	err    error
}

// sent is a request as it was sent, and when.
type sent struct {
	at                          time.Time
	method, target, body, key   string
	nonce, timestamp, signature string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	if len(s.got) == 1000 {
		s.t.Fatal("the client does not stop")
	}
	request := sent{
		at: time.Now(), method: r.Method, target: r.URL.RequestURI(), body: string(body), key: r.Header.Get("Idempotency-Key"),
		nonce: r.Header.Get("X-Nonce"), timestamp: r.Header.Get("X-Timestamp"), signature: r.Header.Get("X-Signature"),
	}
	signed := signing.Request{
		Method: r.Method, Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery,
		Timestamp: request.timestamp, Nonce: request.nonce, Body: body,
	}
	if !signed.Verify(secret, request.signature) {
		s.t.Errorf("%s %s does not verify", r.Method, request.target)
	}
	s.got = append(s.got, request)
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if next.err != nil {
		return nil, next.err
	}
	header := next.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: next.status, Header: header, Body: io.NopCloser(strings.NewReader(next.body)), Request: r}, nil
}

// client calls through the script.
func (s *script) client(retry client.Retry) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{
		BaseURL: "https://coax.example/api/v1", Key: "cxk_00000000000000000000000000000000", Secret: secret,
		HTTP: &http.Client{Transport: s}, Retry: retry,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func answer(status int, code client.Code, data string) reply {
	return reply{status: status, body: fmt.Sprintf(`{"success":%v,"request_id":"req_1","code":%q,"message":"So it is.","data":%s}`,
		status == http.StatusOK, code, data)}
}

func operation(status client.Status) string {
	return fmt.Sprintf(`{"transaction_id":"CX1","idempotency_key":"order-4711","operation":"renew","status":%q,"amount":199.00}`, status)
}

var (
	done    = answer(200, client.OK, operation(client.Success))
	renewal = client.Renewal{SubscriberID: "100001", PlanID: "BASIC-1"}
)

// renewThrough runs a renewal against a script, in simulated time.
func renewThrough(t *testing.T, retry client.Retry, answers ...reply) (wire *script, op *client.Operation, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		wire = &script{t: t, answers: answers}
		op, err = wire.client(retry).Renew(t.Context(), "order-4711", renewal)
	})
	return wire, op, err
}

// The contract's table: which responses are retried, for every code and for unknown
// codes.
func TestRetry_FollowsContract(t *testing.T) {
	statuses := map[client.Code]int{
		client.OK: 200, client.PendingReview: 202, client.ProviderError: 502,
		client.HTTPSRequired: 403, client.NotFound: 404, client.MethodNotAllowed: 405, client.MissingAuthHeaders: 401,
		client.InvalidAPIKey: 401, client.CredentialRevoked: 401, client.CredentialExpired: 401, client.TimestampExpired: 401,
		client.InvalidNonce: 401, client.InvalidSignature: 401, client.ReplayDetected: 401, client.PayloadTooLarge: 413,
		client.TooManyFailedAttempts: 429, client.InternalError: 500, client.ServiceUnavailable: 503, client.LCONotFound: 403,
		client.LCOInactive: 403, client.APIAccessBlocked: 403, client.APIDisabled: 403, client.IPNotWhitelisted: 403,
		client.PermissionDenied: 403, client.RateLimited: 429, client.UnsupportedMediaType: 415, client.InvalidJSON: 400,
		client.MissingIdempotencyKey: 400, client.InvalidIdempotencyKey: 400, client.ValidationError: 422, client.InvalidPlan: 422,
		client.IdempotencyKeyReused: 422, client.InsufficientBalance: 402, client.SubscriberExists: 409,
		client.SubscriberNotFound: 404, client.TransactionNotFound: 404, client.PlanAlreadyActive: 409,
		client.DuplicateRequest: 409, client.OperationInProgress: 409, client.PlansUnavailable: 503,
		client.RequestInProgress: 409, client.BadRequest: 400,
	}
	repeated := map[client.Code]bool{
		client.ReplayDetected: true, client.TooManyFailedAttempts: true, client.RateLimited: true, client.InternalError: true,
		client.ServiceUnavailable: true, client.PlansUnavailable: true, client.OperationInProgress: true,
	}
	// Codes that leave the operation undecided.
	open := map[client.Code]bool{
		client.PendingReview: true, client.RequestInProgress: true, client.ReplayDetected: true,
		client.InternalError: true, client.ServiceUnavailable: true,
	}
	for _, code := range client.Codes() {
		if code == client.OK || code == client.RequestInProgress || code == client.PendingReview {
			continue // a success, and operations to poll: tested separately
		}
		t.Run(string(code), func(t *testing.T) {
			status, known := statuses[code]
			if !known {
				t.Fatal("is not in this table")
			}
			wire, _, err := renewThrough(t, client.Retry{Attempts: 3}, answer(status, code, `{}`))
			want := 1
			if repeated[code] {
				want = 3
			}
			if len(wire.got) != want {
				t.Errorf("sent %d times; want %d", len(wire.got), want)
			}
			var failure *client.Error
			if !errors.Is(err, code) || !errors.As(err, &failure) || failure.Status != status || failure.Attempts != want {
				t.Errorf("came back as %#v", err)
			}
			if client.Undecided(err) != open[code] {
				t.Errorf("undecided: %v; want %v", client.Undecided(err), open[code])
			}
		})
	}
	for status, again := range map[int]bool{
		202: false, 400: false, 401: false, 402: false, 403: false, 404: false, 405: false, 409: false, 413: false,
		415: false, 422: false, 429: true, 500: true, 501: false, 502: false, 503: true, 504: false,
	} {
		t.Run(fmt.Sprintf("an unknown code with status %d", status), func(t *testing.T) {
			wire, _, err := renewThrough(t, client.Retry{Attempts: 3}, answer(status, "NEW_CODE", `{}`))
			if sent := len(wire.got); (sent == 3) != again || sent != 1 && sent != 3 {
				t.Errorf("sent %d times; again: %v", sent, again)
			}
			if !errors.Is(err, client.Code("NEW_CODE")) || errors.Is(err, client.OK) {
				t.Errorf("came back as %v; want the code as it is", err)
			}
		})
	}
}

func TestRetry_SignsEachAttempt(t *testing.T) {
	lost := reply{err: io.ErrUnexpectedEOF}
	wire, op, err := renewThrough(t, client.Retry{Pause: 4 * time.Second},
		lost, answer(503, client.ServiceUnavailable, `{}`), lost, answer(500, client.InternalError, `{}`), done)
	if err != nil || op.TransactionID != "CX1" || op.Amount != 199_00 {
		t.Fatalf("came to %+v, %v", op, err)
	}
	nonces, stamps := map[string]bool{}, map[string]bool{}
	for _, attempt := range wire.got {
		nonces[attempt.nonce], stamps[attempt.timestamp] = true, true
		if attempt.key != "order-4711" || attempt.body != `{"plan_id":"BASIC-1","subscriber_id":"100001"}` ||
			attempt.method != "POST" || attempt.target != "/api/v1/renew" {
			t.Errorf("an attempt asked for something else: %+v", attempt)
		}
	}
	if len(wire.got) != 5 || len(nonces) != 5 || len(stamps) != 5 {
		t.Errorf("%d attempts with %d nonces and %d timestamps; want 5 of each", len(wire.got), len(nonces), len(stamps))
	}
}

func TestRetry_BackoffHasJitter(t *testing.T) {
	wire, _, err := renewThrough(t, client.Retry{Attempts: 9, Pause: time.Second, MaxPause: 20 * time.Second},
		answer(503, client.ServiceUnavailable, `{}`))
	if !errors.Is(err, client.ServiceUnavailable) {
		t.Fatal(err)
	}
	var pauses []time.Duration
	for i := 1; i < len(wire.got); i++ {
		pause := wire.got[i].at.Sub(wire.got[i-1].at)
		longest := min(time.Second<<(i-1), 20*time.Second)
		if pause < longest/2 || pause > longest {
			t.Errorf("pause %d was %v; want between %v and %v", i, pause, longest/2, longest)
		}
		pauses = append(pauses, pause)
	}
	if len(pauses) != 8 || pauses[6] == 20*time.Second && pauses[7] == 20*time.Second {
		t.Errorf("pauses %v; want eight, and not all at their longest", pauses)
	}
}

func TestRetry_ObeysRetryAfter(t *testing.T) {
	limited := answer(429, client.RateLimited, `{}`)
	limited.header = http.Header{"Retry-After": {"37"}}
	wire, _, err := renewThrough(t, client.Retry{}, limited, done)
	if err != nil || len(wire.got) != 2 {
		t.Fatalf("%v after %v; want two attempts", err, wire.got)
	}
	if pause := wire.got[1].at.Sub(wire.got[0].at); pause <= 37*time.Second || pause > 41*time.Second {
		t.Errorf("waited %v; want the 37 seconds of Retry-After and at most a tenth more", pause)
	}

	limited.header = http.Header{"Retry-After": {"3600"}}
	wire, _, err = renewThrough(t, client.Retry{}, limited, done)
	var failure *client.Error
	if !errors.As(err, &failure) || failure.RetryAfter != time.Hour || len(wire.got) != 1 {
		t.Errorf("told to wait an hour: %d attempts, %v; want the error at once", len(wire.got), err)
	}
	if client.Undecided(err) {
		t.Error("a request refused by the rate limit is undecided")
	}
}

func TestRetry_OperationInProgress(t *testing.T) {
	wire, _, err := renewThrough(t, client.Retry{}, answer(409, client.OperationInProgress, `{}`), done)
	if err != nil || len(wire.got) != 2 || wire.got[1].at.Sub(wire.got[0].at) < 2*time.Second {
		t.Errorf("%v after %v", err, wire.got)
	}
}

func TestRetry_CorrectsClockOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serverTime := time.Now().Add(40 * time.Minute).Unix()
		late := answer(401, client.TimestampExpired, fmt.Sprintf(`{"server_time":%d}`, serverTime))
		wire := &script{t: t, answers: []reply{late, done}}
		c := wire.client(client.Retry{})
		if _, err := c.Renew(t.Context(), "order-4711", renewal); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // of the bubble's time
		if _, err := c.Renew(t.Context(), "order-4711", renewal); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int64{serverTime - 40*60, serverTime, serverTime + 10} {
			if got := wire.got[i].timestamp; got != strconv.FormatInt(want, 10) {
				t.Errorf("request %d was stamped %s; want %d", i, got, want)
			}
		}

		wire.answers, wire.got = []reply{late}, nil
		if _, err := c.Renew(t.Context(), "order-4711", renewal); !errors.Is(err, client.TimestampExpired) || len(wire.got) != 2 {
			t.Errorf("a clock that stays wrong: %d attempts, %v; want one correction and the error", len(wire.got), err)
		}
	})
}

func TestRetry_Undecided(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, row := range map[string]struct {
		answers   []reply
		sent      int
		undecided bool
	}{
		"lost":                              {[]reply{{err: io.EOF}}, 3, true},
		"a proxy's own answer":              {[]reply{{status: 502, body: "<html>"}}, 3, true},
		"a proxy's own refusal":             {[]reply{{status: 403, body: "<html>"}}, 1, true},
		"a page in place of an answer":      {[]reply{{status: 200, body: "<html>"}}, 3, true},
		"JSON of another service":           {[]reply{{status: 200, body: `{"ok":true}`}}, 3, true},
		"an answer about another operation": {[]reply{answer(200, client.OK, strings.Replace(operation(client.Success), "order-4711", "order-4712", 1))}, 3, true},
		"a refusal about another operation": {[]reply{answer(502, client.ProviderError, strings.Replace(operation(client.Failed), "order-4711", "order-4712", 1))}, 3, true},
		"a success without an operation":    {[]reply{answer(200, client.OK, `{}`)}, 3, true},
		"an invalid amount":                 {[]reply{answer(200, client.OK, strings.Replace(operation(client.Success), "199.00", "1e99", 1))}, 3, true},
		"not sent":                          {[]reply{{err: refused}}, 3, false},
		"untrusted":                         {[]reply{{err: &tls.CertificateVerificationError{Err: errors.New("expired")}}}, 1, false},
		"lost, then refused by the rate":    {[]reply{{err: io.EOF}, answer(429, client.RateLimited, `{}`)}, 3, true},
		"lost, then no balance":             {[]reply{{err: io.EOF}, answer(402, client.InsufficientBalance, `{}`)}, 2, true},
		"lost, then failed at the provider": {[]reply{{err: io.EOF}, answer(502, client.ProviderError, operation(client.Failed))}, 2, false},
		"lost, then the key is reused":      {[]reply{{err: io.EOF}, answer(422, client.IdempotencyKeyReused, `{}`)}, 2, false},
		"prices unavailable":                {[]reply{answer(503, client.PlansUnavailable, `{}`)}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			wire, _, err := renewThrough(t, client.Retry{Attempts: 3}, row.answers...)
			if err == nil || client.Undecided(err) != row.undecided || len(wire.got) != row.sent {
				t.Errorf("sent %d times, undecided %v: %v; want %d times, %v", len(wire.got), client.Undecided(err), err, row.sent, row.undecided)
			}
			if says := strings.Contains(fmt.Sprint(err), "same idempotency key"); says != row.undecided {
				t.Errorf("the error does not say what to do: %v", err)
			}
		})
	}
}

func TestRetry_LookupIsNeverUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := &script{t: t, answers: []reply{{err: io.EOF}}}
		_, err := wire.client(client.Retry{}).Balance(t.Context())
		if err == nil || client.Undecided(err) || len(wire.got) != 6 || !errors.Is(err, io.EOF) {
			t.Errorf("%d attempts: %v", len(wire.got), err)
		}
	})
}

func TestRetry_EndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wire := &script{t: t, answers: []reply{answer(503, client.ServiceUnavailable, `{}`)}}
		c := wire.client(client.Retry{Attempts: 100, Pause: 10 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Renew(ctx, "order-4711", renewal)
		if !errors.Is(err, client.ServiceUnavailable) || len(wire.got) != 2 {
			t.Errorf("%d attempts: %v; want the service's last response", len(wire.got), err)
		}
		if time.Since(began) > 10*time.Second {
			t.Errorf("ended after %v: it waited although the deadline was before the next attempt", time.Since(began))
		}

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err = c.Renew(ctx, "order-4711", renewal); !errors.Is(err, client.ServiceUnavailable) || len(wire.got) != 3 {
			t.Errorf("%d attempts: %v; want the end at once", len(wire.got), err)
		}
	})
}

func TestRenew_FollowsRequestInProgress(t *testing.T) {
	underWay := answer(409, client.RequestInProgress, `{}`)
	as := func(status client.Status, code client.Code) reply {
		found := strings.TrimSuffix(operation(status), "}") + fmt.Sprintf(`,"result_code":%q,"result_message":"So it went."}`, code)
		return answer(200, client.OK, found)
	}
	running := as(client.Processing, client.RequestInProgress)
	inReview := as(client.NeedsReview, client.PendingReview)
	pending := answer(202, client.PendingReview, operation(client.NeedsReview))
	minute := client.Retry{Total: time.Minute, Pause: 16 * time.Second, MaxPause: 16 * time.Second}
	for name, row := range map[string]struct {
		retry   client.Retry
		answers []reply
		sent    int // at least
		code    client.Code
		status  client.Status
		open    bool
	}{
		"to its success":              {client.Retry{}, []reply{underWay, running, running, as(client.Success, client.OK)}, 4, "", client.Success, false},
		"to its failure":              {client.Retry{}, []reply{underWay, running, as(client.Failed, client.ProviderError)}, 3, client.ProviderError, client.Failed, false},
		"through review":              {client.Retry{}, []reply{underWay, running, inReview, inReview, as(client.Success, client.OK)}, 5, "", client.Success, false},
		"after 202":                   {client.Retry{}, []reply{pending, inReview, as(client.Success, client.OK)}, 3, "", client.Success, false},
		"after 202, to its failure":   {client.Retry{}, []reply{pending, as(client.Failed, client.ProviderError)}, 2, client.ProviderError, client.Failed, false},
		"for the total time":          {minute, []reply{underWay, running}, 4, client.RequestInProgress, client.Processing, true},
		"after 202, for that time":    {minute, []reply{pending, inReview}, 4, client.PendingReview, client.NeedsReview, true},
		"through failed polls":        {client.Retry{}, []reply{pending, answer(503, client.ServiceUnavailable, `{}`), as(client.Success, client.OK)}, 3, "", client.Success, false},
		"until a poll is refused":     {client.Retry{}, []reply{pending, answer(403, client.PermissionDenied, `{}`)}, 2, client.PendingReview, client.NeedsReview, true},
		"with a status of the future": {minute, []reply{underWay, as("new_status", "NEW_CODE")}, 4, "NEW_CODE", "new_status", true},
	} {
		t.Run(name, func(t *testing.T) {
			wire, op, err := renewThrough(t, row.retry, row.answers...)
			if sent := len(wire.got); sent < row.sent || sent > row.sent+4 || row.retry.Total == 0 && sent != row.sent || op == nil || op.Status != row.status {
				t.Fatalf("%d requests, %+v; want %d and %s", len(wire.got), op, row.sent, row.status)
			}
			if (err == nil) != (row.code == "") || err != nil && !errors.Is(err, row.code) || client.Undecided(err) != row.open {
				t.Errorf("came to %v, undecided %v; want %q, %v", err, client.Undecided(err), row.code, row.open)
			}
			for _, request := range wire.got[1:] {
				if request.method != "GET" || request.target != "/api/v1/transaction?idempotency_key=order-4711" {
					t.Errorf("followed by %s %s", request.method, request.target)
				}
			}
		})
	}
}

func TestAwait_PollsUntilSettled(t *testing.T) {
	review := answer(200, client.OK, operation(client.NeedsReview))
	synctest.Test(t, func(t *testing.T) {
		wire := &script{t: t}
		for range 40 {
			wire.answers = append(wire.answers, review)
		}
		for range 20 { // an upgrade
			wire.answers = append(wire.answers, reply{err: io.EOF})
		}
		another := strings.Replace(operation(client.Success), "order-4711", "order-9999", 1)
		wire.answers = append(wire.answers, answer(200, client.OK, another), answer(200, client.OK, `{}`), answer(200, client.OK, operation(client.Success)))
		op, err := wire.client(client.Retry{}).Await(t.Context(), "order-4711")
		if err != nil || op.Status != client.Success || op.IdempotencyKey != "order-4711" || len(wire.got) != 63 {
			t.Errorf("%d polls: %+v, %v", len(wire.got), op, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		wire := &script{t: t, answers: []reply{review}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		op, err := wire.client(client.Retry{}).Await(ctx, "order-4711")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, client.PendingReview) || !client.Undecided(err) || op == nil || op.Status != client.NeedsReview {
			t.Errorf("%+v, %v; want the operation's state and an undecided error", op, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		wire := &script{t: t, answers: []reply{answer(404, client.TransactionNotFound, `{}`)}}
		op, err := wire.client(client.Retry{}).Await(t.Context(), "order-4711")
		// The request may still arrive.
		if !errors.Is(err, client.TransactionNotFound) || !client.Undecided(err) || op != nil || len(wire.got) != 1 {
			t.Errorf("%+v, %v; want not found, and undecided", op, err)
		}
	})
}

func TestCalls_InvalidInputIsNotSent(t *testing.T) {
	wire := &script{t: t, answers: []reply{done}}
	c := wire.client(client.Retry{})
	for name, row := range map[string]struct {
		key     client.IdempotencyKey
		renewal client.Renewal
		code    client.Code
	}{
		"no key":          {"", renewal, client.MissingIdempotencyKey},
		"a short key":     {"order-4", renewal, client.InvalidIdempotencyKey},
		"a long key":      {client.IdempotencyKey(strings.Repeat("k", 101)), renewal, client.InvalidIdempotencyKey},
		"a key with more": {"order-4711\n", renewal, client.InvalidIdempotencyKey},
		"no text":         {"order-4711", client.Renewal{SubscriberID: "100\xff01", PlanID: "BASIC-1"}, client.ValidationError},
	} {
		if op, err := c.Renew(t.Context(), row.key, row.renewal); !errors.Is(err, row.code) || op != nil || client.Undecided(err) {
			t.Errorf("%s: %v; want %s", name, err, row.code)
		}
	}
	if op, err := c.Await(t.Context(), ""); !errors.Is(err, client.MissingIdempotencyKey) || op != nil {
		t.Errorf("Await without a key: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Renew(ended, "order-4711", renewal); !errors.Is(err, context.Canceled) || client.Undecided(err) {
		t.Errorf("a call with a canceled context: %v, undecided %v", err, client.Undecided(err))
	}
	if len(wire.got) > 0 {
		t.Errorf("sent %+v", wire.got)
	}
}

// PendingReview and ProviderError always come with an operation.
func TestError_HasOperation(t *testing.T) {
	for code, status := range map[client.Code]int{client.PendingReview: 202, client.ProviderError: 502} {
		if _, op, err := renewThrough(t, client.Retry{}, answer(status, code, `{}`)); !errors.Is(err, code) || op == nil || op.IdempotencyKey != "order-4711" {
			t.Errorf("%s: %+v, %v", code, op, err)
		}
	}
}

// Without the permission for look-ups, the operation stays in progress.
func TestRenew_FollowWithoutPermission(t *testing.T) {
	_, op, err := renewThrough(t, client.Retry{}, answer(409, client.RequestInProgress, `{}`), answer(403, client.PermissionDenied, `{}`))
	if !errors.Is(err, client.RequestInProgress) || !errors.Is(err, client.PermissionDenied) || !client.Undecided(err) || op != nil {
		t.Errorf("%+v, %v", op, err)
	}
}

func TestError_OmitsCustomer(t *testing.T) {
	wire := &script{t: t, answers: []reply{answer(404, client.SubscriberNotFound, `{}`)}}
	if _, err := wire.client(client.Retry{}).Subscription(t.Context(), client.Subscriber{Mobile: "9812345678"}); err == nil || strings.Contains(err.Error(), "9812345678") {
		t.Errorf("it says %v", err)
	}
}

func TestLookups_CheckTheResult(t *testing.T) {
	for name, ask := range map[string]func(*client.Client) error{
		"balance": func(c *client.Client) error { _, err := c.Balance(t.Context()); return err },
		"plans":   func(c *client.Client) error { _, err := c.Plans(t.Context()); return err },
		"subscription": func(c *client.Client) error {
			_, err := c.Subscription(t.Context(), client.Subscriber{ID: "1"})
			return err
		},
		"transaction": func(c *client.Client) error { _, err := c.Transaction(t.Context(), "CX9"); return err },
	} {
		wire := &script{t: t, answers: []reply{answer(200, client.OK, `{"transaction_id":"CX1","status":"success"}`)}}
		if err := ask(wire.client(client.Retry{Attempts: 1})); err == nil {
			t.Errorf("%s accepted another resource", name)
		}
	}
}

func TestError_HasDetailsOfCode(t *testing.T) {
	ask := func(status int, code client.Code, data string) *client.Error {
		t.Helper()
		_, _, err := renewThrough(t, client.Retry{Attempts: 1}, answer(status, code, data))
		var failure *client.Error
		if !errors.As(err, &failure) {
			t.Fatalf("%s came back as %v", code, err)
		}
		if (failure.Operation == nil) != json.Valid(failure.Data) || failure.RequestID != "req_1" || failure.Message != "So it is." {
			t.Errorf("%s lost something: %+v", code, failure)
		}
		return failure
	}
	if got := ask(402, client.InsufficientBalance, `{"wallet_balance":1.05,"required_amount":199.00,"shortfall":197.95,"currency":"INR"}`); got.Shortfall == nil ||
		*got.Shortfall != (client.Shortfall{WalletBalance: 1_05, RequiredAmount: 199_00, Missing: 197_95, Currency: "INR"}) {
		t.Errorf("the shortfall is %+v", got.Shortfall)
	}
	if got := ask(422, client.ValidationError, `{"fields":{"mobile":"It is too short."}}`); got.Fields["mobile"] != "It is too short." ||
		!strings.Contains(got.Error(), "mobile: It is too short") {
		t.Errorf("the fields are %v, and it says %q", got.Fields, got)
	}
	if got := ask(409, client.DuplicateRequest, `{"previous_transaction_id":"CX0"}`); got.PreviousTransactionID != "CX0" {
		t.Errorf("the earlier operation is %q", got.PreviousTransactionID)
	}
	// The customer's open operation is not the requested one.
	if got := ask(409, client.OperationInProgress, `{"transaction_id":"CX0"}`); got.OpenTransactionID != "CX0" || got.Operation != nil || got.Undecided {
		t.Errorf("the open operation is %q, and that of the call %+v, undecided %v", got.OpenTransactionID, got.Operation, got.Undecided)
	}
	if got := ask(403, client.IPNotWhitelisted, `{"ip":"192.0.2.7"}`); got.IP != "192.0.2.7" {
		t.Errorf("the address is %q", got.IP)
	}
	if got := ask(502, client.ProviderError, operation(client.Failed)); got.Operation == nil || got.Operation.Status != client.Failed {
		t.Errorf("the operation is %+v", got.Operation)
	}
	// A later version may send more, and other things under the same names.
	if got := ask(422, client.ValidationError, `{"fields":["mobile"],"hint":{"deep":[1]}}`); got.Fields != nil || got.Code != client.ValidationError {
		t.Errorf("unknown details came back as %+v", got)
	}
}

func TestOnAttempt_SeesEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := answer(429, client.RateLimited, `{}`)
		limited.header = http.Header{"Retry-After": {"7"}}
		wire := &script{t: t, answers: []reply{{err: io.ErrUnexpectedEOF}, limited, done}}
		var seen []client.Attempt
		c, err := client.New(client.Config{
			BaseURL: "https://coax.example/api/v1", Key: "k", Secret: secret, HTTP: &http.Client{Transport: wire},
			OnAttempt: func(a client.Attempt) { seen = append(seen, a) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Renew(t.Context(), "order-4711", renewal); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 3 {
			t.Fatalf("%d attempts were reported; want 3", len(seen))
		}
		for i, a := range seen {
			if a.Call != "POST renew" || a.Number != i+1 || a.Last != (i == 2) {
				t.Errorf("attempt %d was reported as %+v", i+1, a)
			}
		}
		if !errors.Is(seen[0].Err, io.ErrUnexpectedEOF) || seen[0].Status != 0 || seen[0].Pause <= 0 {
			t.Errorf("a lost answer was reported as %+v", seen[0])
		}
		if seen[1].Status != 429 || seen[1].Code != client.RateLimited || seen[1].Pause < 7*time.Second {
			t.Errorf("a limit was reported as %+v", seen[1])
		}
		if seen[2].Status != 200 || seen[2].Code != client.OK || seen[2].Err != nil {
			t.Errorf("a success was reported as %+v", seen[2])
		}
	})
}
