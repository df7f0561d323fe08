package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/httpapi"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
)

// requestFaults is a combination of things that are wrong with one request.
type requestFaults struct {
	transport string // plain, plain on the TLS port, or over TLS for a proxy that says http
	throttled bool
	path      bool
	method    bool
	big       bool
	missing   string
	key       string // malformed or unknown
	revoked   bool
	expired   bool
	timestamp string
	signature bool
	nonceForm bool
	replay    bool
	deleted   bool
	inactive  bool
	api       subscription.APIAccess
	address   bool
	rate      bool
	forbidden bool
}

// requestChecks is the contract's order of checks, each with every way to fail it. If two
// fail, the answer must be that of the one listed first.
var requestChecks = []struct {
	name string
	code fault.Code
	make func(*requestFaults)
}{
	{"plain HTTP", fault.HTTPSRequired, func(w *requestFaults) { w.transport = "plain" }},
	{"plain HTTP on the TLS port", fault.HTTPSRequired, func(w *requestFaults) { w.transport = "plain on TLS" }},
	{"a proxy that reports http", fault.HTTPSRequired, func(w *requestFaults) { w.transport = "proxy" }},
	{"throttled address", fault.TooManyFailedAttempts, func(w *requestFaults) { w.throttled = true }},
	{"unknown path", fault.NotFound, func(w *requestFaults) { w.path = true }},
	{"wrong method", fault.MethodNotAllowed, func(w *requestFaults) { w.method = true }},
	{"body too large", fault.PayloadTooLarge, func(w *requestFaults) { w.big = true }},
	{"no X-API-Key", fault.MissingAuthHeaders, func(w *requestFaults) { w.missing = "X-API-Key" }},
	{"no X-Timestamp", fault.MissingAuthHeaders, func(w *requestFaults) { w.missing = "X-Timestamp" }},
	{"no X-Nonce", fault.MissingAuthHeaders, func(w *requestFaults) { w.missing = "X-Nonce" }},
	{"no X-Signature", fault.MissingAuthHeaders, func(w *requestFaults) { w.missing = "X-Signature" }},
	{"malformed key", fault.InvalidAPIKey, func(w *requestFaults) { w.key = "malformed" }},
	{"unknown key", fault.InvalidAPIKey, func(w *requestFaults) { w.key = "unknown" }},
	{"revoked key", fault.CredentialRevoked, func(w *requestFaults) { w.revoked = true }},
	{"expired key", fault.CredentialExpired, func(w *requestFaults) { w.expired = true }},
	{"old timestamp", fault.TimestampExpired, func(w *requestFaults) { w.timestamp = "old" }},
	{"early timestamp", fault.TimestampExpired, func(w *requestFaults) { w.timestamp = "early" }},
	{"malformed timestamp", fault.TimestampExpired, func(w *requestFaults) { w.timestamp = "rubbish" }},
	{"wrong signature", fault.InvalidSignature, func(w *requestFaults) { w.signature = true }},
	{"malformed nonce", fault.InvalidNonce, func(w *requestFaults) { w.nonceForm = true }},
	{"used nonce", fault.ReplayDetected, func(w *requestFaults) { w.replay = true }},
	{"deleted account", fault.LCONotFound, func(w *requestFaults) { w.deleted = true }},
	{"inactive account", fault.LCOInactive, func(w *requestFaults) { w.inactive = true }},
	{"blocked API", fault.APIAccessBlocked, func(w *requestFaults) { w.api = subscription.APIBlocked }},
	{"disabled API", fault.APIDisabled, func(w *requestFaults) { w.api = subscription.APIDisabled }},
	{"foreign address", fault.IPNotWhitelisted, func(w *requestFaults) { w.address = true }},
	{"rate limit reached", fault.RateLimited, func(w *requestFaults) { w.rate = true }},
	{"missing permission", fault.PermissionDenied, func(w *requestFaults) { w.forbidden = true }},
}

// exclusive reports whether no request can fail both checks, because they set the same
// field to two values.
func exclusive(i, j int) bool {
	var there, back requestFaults
	requestChecks[i].make(&there)
	requestChecks[j].make(&there)
	requestChecks[j].make(&back)
	requestChecks[i].make(&back)
	return there != back
}

// matrix sends requests with chosen faults. It acts as a trusted proxy that gives every
// request its own client address, so that the failure throttle does not act.
type matrix struct {
	*e2e.Env
	callers map[string]e2e.Caller
	next    int
	// nonce is sent if it is set, for tests that send one twice.
	nonce string
}

const throttledAddress = "10.0.30.1"

func newMatrix(t *testing.T) *matrix {
	m := &matrix{Env: e2e.NewEnv(t, "server.trusted_proxies=127.0.0.1/32"), callers: map[string]e2e.Caller{}}
	for range 30 {
		m.Expect("an unknown key", e2e.Call{
			As: e2e.Caller{Key: "cxk_" + strings.Repeat("0", 32), Secret: "cxs_x"}, Path: "/api/v1/balance",
			Header: http.Header{"X-Forwarded-For": {throttledAddress}},
		}, fault.InvalidAPIKey)
	}
	return m
}

// freshAddress returns an unused address. Every whitelist here has 10.0.x.y and no other
// network.
func (m *matrix) freshAddress(network string) string {
	m.next++
	return fmt.Sprintf("%s.%d.%d", network, m.next/250%20, m.next%250)
}

// callerFor returns an operator and key with the wanted faults.
func (m *matrix) callerFor(w requestFaults) e2e.Caller {
	m.TB.Helper()
	name := fmt.Sprint(w.revoked, w.expired, w.deleted, w.inactive, w.api, w.rate, w.forbidden)
	if known, ok := m.callers[name]; ok {
		return known
	}
	ctx := context.Background()
	must := func(err error) {
		m.TB.Helper()
		if err != nil {
			m.TB.Fatal(err)
		}
	}
	// Enough for every request of the matrix, or already reached.
	limit := 1_000_000
	if w.rate {
		limit = 1
	}
	operator, err := m.Admin.CreateOperator(ctx, name, admin.OperatorChange{RateLimit: &limit})
	must(err)
	for i := range 20 {
		_, err := m.Admin.AllowAddress(ctx, operator.ID, fmt.Sprintf("10.0.%d.0/24", i))
		must(err)
	}
	permissions := access.AllPermissions
	if w.forbidden {
		permissions = access.Permissions(0)
	}
	made := m.NewKey(operator.ID, permissions)
	if w.rate {
		m.useNonce(made, "rate-"+client.NewNonce(), true)
	}
	if w.expired {
		_, err := m.Admin.RotateKey(ctx, made.ID, 0)
		must(err)
	}
	if w.revoked {
		must(m.Admin.RevokeKey(ctx, made.ID))
	}
	change := admin.OperatorChange{}
	if w.api != "" {
		change.API = &w.api
	}
	if w.inactive {
		status := subscription.OperatorInactive
		change.Status = &status
	}
	if change != (admin.OperatorChange{}) {
		_, err := m.Admin.ChangeOperator(ctx, operator.ID, change)
		must(err)
	}
	if w.deleted {
		must(m.Admin.DeleteOperator(ctx, operator.ID))
	}
	m.callers[name] = made
	return made
}

// useNonce records a nonce, and a request in the rate counter if count is set, as an
// earlier request would have.
func (m *matrix) useNonce(c e2e.Caller, nonce string, count bool) {
	m.TB.Helper()
	record, found, err := m.Node.Store.CredentialByHash(context.Background(), access.HashKey(c.Key))
	if err != nil || !found {
		m.TB.Fatalf("the key of the nonce: %v, %v", found, err)
	}
	_, err = m.Node.Store.Admit(context.Background(), access.Admission{
		RequestID: "earlier", CredentialID: c.ID, OperatorID: c.OperatorID, Nonce: nonce, Now: m.Now(),
		CredentialVersion: record.Credential.Version, OperatorVersion: record.Operator.Version,
		Count: count, Limit: record.Operator.RateLimit,
	})
	if err != nil {
		m.TB.Fatal(err)
	}
}

// try sends a request to an endpoint with the given faults.
func (m *matrix) try(method, path string, w requestFaults) e2e.Answer {
	m.TB.Helper()
	c := e2e.Call{As: m.callerFor(w), Method: method, Path: path, Header: http.Header{}, Nonce: m.nonce}
	if c.Nonce == "" {
		c.Nonce = client.NewNonce()
	}
	address := m.freshAddress("10.0")
	switch {
	case w.throttled:
		address = throttledAddress
	case w.address:
		address = m.freshAddress("10.1")
	}
	c.Header.Set("X-Forwarded-For", address)
	switch w.transport {
	case "plain":
		c.Base = m.Demo.PlainURL
	case "plain on TLS":
		c.Base = "http://" + server.Reachable(m.Node.APIAddr)
	case "proxy":
		c.Header.Set("X-Forwarded-Proto", "http")
	}
	if w.path {
		c.Path += "/"
	}
	if w.method {
		c.Method = map[string]string{"GET": "POST", "POST": "GET"}[method]
	}
	if w.big {
		c.Body = strings.Repeat("x", 16_385)
	}
	if w.nonceForm {
		c.Nonce = "short"
	}
	if w.replay {
		m.useNonce(c.As, c.Nonce, false)
	}
	switch w.timestamp {
	case "old":
		c.Timestamp = fmt.Sprint(m.Now().Unix() - 301)
	case "early":
		c.Timestamp = fmt.Sprint(m.Now().Unix() + 301)
	case "rubbish":
		c.Timestamp = "+" + fmt.Sprint(m.Now().Unix())
	}
	switch w.key {
	case "malformed":
		c.As.Key = strings.ToUpper(c.As.Key)
	case "unknown":
		c.As.Key = "cxk_" + strings.Repeat("f", 32)
	}
	if w.signature {
		c.Signature = strings.Repeat("0", 64)
	}
	if w.missing != "" {
		c.Drop = []string{w.missing}
	}
	return m.Send(c)
}

// served returns the code of a request without faults: OK, or the first complaint about
// its empty content.
func (m *matrix) served(method, path string) fault.Code {
	switch {
	case method == http.MethodPost:
		return fault.InvalidJSON
	case path == "/api/v1/balance" || path == "/api/v1/plans":
		return fault.OK
	}
	return fault.ValidationError
}

var endpoints = []struct{ method, path string }{
	{"POST", "/api/v1/activate"}, {"POST", "/api/v1/renew"}, {"POST", "/api/v1/advance-renew"},
	{"GET", "/api/v1/balance"}, {"GET", "/api/v1/plans"}, {"GET", "/api/v1/subscription"}, {"GET", "/api/v1/transaction"},
}

func TestRequestChecks_FirstFailureAnswers(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	codes := map[fault.Code]bool{}
	cases, skipped := 0, map[string]bool{}
	check := func(method, path, what string, w requestFaults, want fault.Code) {
		t.Helper()
		got := m.try(method, path, w)
		codes[got.Code] = true
		cases++
		if got.Code != want || got.Status != httpapi.StatusOf(want) {
			t.Errorf("%s %s, %s: %d %s (%s); want %s", method, path, what, got.Status, got.Code, got.Message, want)
		}
	}
	for _, endpoint := range endpoints {
		check(endpoint.method, endpoint.path, "nothing wrong", requestFaults{}, m.served(endpoint.method, endpoint.path))
		for i, earlier := range requestChecks {
			one := requestFaults{}
			earlier.make(&one)
			check(endpoint.method, endpoint.path, earlier.name, one, earlier.code)
			for j := i + 1; j < len(requestChecks); j++ {
				if exclusive(i, j) {
					skipped[earlier.name+" with "+requestChecks[j].name] = true
					continue
				}
				both := one
				requestChecks[j].make(&both)
				check(endpoint.method, endpoint.path, earlier.name+" with "+requestChecks[j].name, both, earlier.code)
			}
		}
	}
	t.Logf("%d cases; %d pairs are impossible", cases, len(skipped))
	// Impossible are only two values of the same field: 3 transports, 4 missing
	// headers, 2 keys, 3 timestamps, 2 values of API access.
	if want := 3 + 6 + 1 + 3 + 1; len(skipped) != want {
		t.Errorf("%d pairs were left out, want %d: %v", len(skipped), want, skipped)
	}
	// Every code of the contract's transport, authentication and authorisation
	// tables occurs here, except the service's own failures, which other tests cover.
	for _, code := range fault.Contract[:slices.Index(fault.Contract, fault.UnsupportedMediaType)] {
		if !codes[code] && code != fault.InternalError && code != fault.ServiceUnavailable {
			t.Errorf("%s was never answered", code)
		}
	}
}

// A request with a fault of its own (not of its key or account) leaves its nonce usable,
// unless the signature was valid.
func TestNonce_UsedOnlyByValidSignature(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	for _, state := range requestChecks {
		w := requestFaults{}
		if state.make(&w); !isRequestFault(w) || w.nonceForm || w.replay {
			continue
		}
		want := fault.OK
		if state.code == fault.IPNotWhitelisted {
			want = fault.ReplayDetected
		}
		m.nonce = client.NewNonce()
		m.try("GET", "/api/v1/balance", w)
		if got := m.try("GET", "/api/v1/balance", requestFaults{}); got.Code != want {
			t.Errorf("after %s the nonce gives %s; want %s", state.name, got.Code, want)
		}
	}
}

func TestRateLimit_RefusedRequestIsNotCounted(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	left := func() (remaining int) {
		t.Helper()
		got := m.try("GET", "/api/v1/balance", requestFaults{})
		if _, err := fmt.Sscan(got.Header.Get("X-RateLimit-Remaining"), &remaining); err != nil {
			t.Fatalf("no X-RateLimit-Remaining: %s", got.Raw)
		}
		return remaining
	}
	before := left()
	for _, state := range requestChecks {
		w := requestFaults{}
		if state.make(&w); isRequestFault(w) {
			m.try("GET", "/api/v1/balance", w)
		}
	}
	if after := left(); after != before-1 {
		t.Errorf("%d requests remained, then %d; want one less, for the second check", before, after)
	}
	// A request that lacks only the permission is counted.
	if got := m.try("GET", "/api/v1/balance", requestFaults{forbidden: true}); got.Header.Get("X-RateLimit-Remaining") != "999999" {
		t.Errorf("without permission %q requests remain; want 999999", got.Header.Get("X-RateLimit-Remaining"))
	}
	// A request over the limit is not counted; its answer says how long to wait.
	late := m.try("GET", "/api/v1/balance", requestFaults{rate: true})
	if late.Header.Get("X-RateLimit-Remaining") != "0" || late.Header.Get("X-RateLimit-Limit") != "1" ||
		late.Header.Get("Retry-After") != "50" || late.Header.Get("X-RateLimit-Reset") != fmt.Sprint(m.Now().Unix()+50) {
		t.Errorf("over the limit: %v", late.Header)
	}
}

// isRequestFault reports whether the faults are the request's, not its caller's.
func isRequestFault(w requestFaults) bool {
	return !w.revoked && !w.expired && !w.deleted && !w.inactive && w.api == "" && !w.rate && !w.forbidden
}
