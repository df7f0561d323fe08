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

// wrongs is everything that can be wrong with one request at once.
type wrongs struct {
	transport string // plain, plain on the TLS port, or over TLS for a proxy that says http
	throttled bool
	path      bool
	method    bool
	big       bool
	missing   string
	key       string // malformed or unknown; revoked and expired are the credential's
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

// states is the contract's order of checks, each with every way to fail it. Of
// two that fail, the one further up here must answer.
var states = []struct {
	name string
	code fault.Code
	make func(*wrongs)
}{
	{"plain HTTP", fault.HTTPSRequired, func(w *wrongs) { w.transport = "plain" }},
	{"plain HTTP on the TLS port", fault.HTTPSRequired, func(w *wrongs) { w.transport = "plain on TLS" }},
	{"a proxy's word that it was http", fault.HTTPSRequired, func(w *wrongs) { w.transport = "proxy" }},
	{"throttled address", fault.TooManyFailedAttempts, func(w *wrongs) { w.throttled = true }},
	{"unknown path", fault.NotFound, func(w *wrongs) { w.path = true }},
	{"wrong method", fault.MethodNotAllowed, func(w *wrongs) { w.method = true }},
	{"body too large", fault.PayloadTooLarge, func(w *wrongs) { w.big = true }},
	{"no X-API-Key", fault.MissingAuthHeaders, func(w *wrongs) { w.missing = "X-API-Key" }},
	{"no X-Timestamp", fault.MissingAuthHeaders, func(w *wrongs) { w.missing = "X-Timestamp" }},
	{"no X-Nonce", fault.MissingAuthHeaders, func(w *wrongs) { w.missing = "X-Nonce" }},
	{"no X-Signature", fault.MissingAuthHeaders, func(w *wrongs) { w.missing = "X-Signature" }},
	{"malformed key", fault.InvalidAPIKey, func(w *wrongs) { w.key = "malformed" }},
	{"unknown key", fault.InvalidAPIKey, func(w *wrongs) { w.key = "unknown" }},
	{"revoked key", fault.CredentialRevoked, func(w *wrongs) { w.revoked = true }},
	{"expired key", fault.CredentialExpired, func(w *wrongs) { w.expired = true }},
	{"old timestamp", fault.TimestampExpired, func(w *wrongs) { w.timestamp = "old" }},
	{"early timestamp", fault.TimestampExpired, func(w *wrongs) { w.timestamp = "early" }},
	{"rubbish for a timestamp", fault.TimestampExpired, func(w *wrongs) { w.timestamp = "rubbish" }},
	{"wrong signature", fault.InvalidSignature, func(w *wrongs) { w.signature = true }},
	{"malformed nonce", fault.InvalidNonce, func(w *wrongs) { w.nonceForm = true }},
	{"used nonce", fault.ReplayDetected, func(w *wrongs) { w.replay = true }},
	{"deleted account", fault.LCONotFound, func(w *wrongs) { w.deleted = true }},
	{"inactive account", fault.LCOInactive, func(w *wrongs) { w.inactive = true }},
	{"blocked API", fault.APIAccessBlocked, func(w *wrongs) { w.api = subscription.APIBlocked }},
	{"disabled API", fault.APIDisabled, func(w *wrongs) { w.api = subscription.APIDisabled }},
	{"foreign address", fault.IPNotWhitelisted, func(w *wrongs) { w.address = true }},
	{"used-up minute", fault.RateLimited, func(w *wrongs) { w.rate = true }},
	{"missing permission", fault.PermissionDenied, func(w *wrongs) { w.forbidden = true }},
}

// exclusive tells pairs that no request can have both of: two values of the same
// thing, where the one made last replaces the other.
func exclusive(i, j int) bool {
	var there, back wrongs
	states[i].make(&there)
	states[j].make(&there)
	states[j].make(&back)
	states[i].make(&back)
	return there != back
}

// matrix sends requests with chosen wrongs. A proxy that the service trusts
// gives every request an address of its own, so that failures do not add up.
type matrix struct {
	*e2e.Env
	callers map[string]e2e.Caller
	next    int
	// nonce is the one to send, where a test wants to send it again.
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

// freshAddress is one that nothing came from before: 10.0.x.y is on every
// whitelist here, any other network on none.
func (m *matrix) freshAddress(network string) string {
	m.next++
	return fmt.Sprintf("%s.%d.%d", network, m.next/250%20, m.next%250)
}

// callerFor makes, or finds, an operator and key that are wrong in the wanted
// ways.
func (m *matrix) callerFor(w wrongs) e2e.Caller {
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
	// Enough for every request of the matrix, or one that is used up.
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
		m.burn(made, "rate-"+client.NewNonce(), true)
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

// burn uses up a nonce, and a place in the minute if asked to, as an earlier
// request would have.
func (m *matrix) burn(c e2e.Caller, nonce string, count bool) {
	m.TB.Helper()
	record, found, err := m.Node.Store.CredentialByHash(context.Background(), access.HashKey(c.Key))
	if err != nil || !found {
		m.TB.Fatalf("the key to burn for: %v, %v", found, err)
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

// try sends a request to an endpoint with the given wrongs.
func (m *matrix) try(method, path string, w wrongs) e2e.Answer {
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
		m.burn(c.As, c.Nonce, false)
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

// served is what a request with no wrongs gets from an endpoint: its answer, or
// the first thing that it has to say about a request without content.
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
	check := func(method, path, what string, w wrongs, want fault.Code) {
		t.Helper()
		got := m.try(method, path, w)
		codes[got.Code] = true
		cases++
		if got.Code != want || got.Status != httpapi.StatusOf(want) {
			t.Errorf("%s %s, %s: %d %s (%s); want %s", method, path, what, got.Status, got.Code, got.Message, want)
		}
	}
	for _, endpoint := range endpoints {
		check(endpoint.method, endpoint.path, "nothing wrong", wrongs{}, m.served(endpoint.method, endpoint.path))
		for i, earlier := range states {
			one := wrongs{}
			earlier.make(&one)
			check(endpoint.method, endpoint.path, earlier.name, one, earlier.code)
			for j := i + 1; j < len(states); j++ {
				if exclusive(i, j) {
					skipped[earlier.name+" with "+states[j].name] = true
					continue
				}
				both := one
				states[j].make(&both)
				check(endpoint.method, endpoint.path, earlier.name+" with "+states[j].name, both, earlier.code)
			}
		}
	}
	t.Logf("%d cases; %d pairs cannot meet", cases, len(skipped))
	// Only two values of the same thing cannot meet: 3 transports, 4 missing
	// headers, 2 keys, 3 timestamps, 2 positions of the switch.
	if want := 3 + 6 + 1 + 3 + 1; len(skipped) != want {
		t.Errorf("%d pairs were left out, want %d: %v", len(skipped), want, skipped)
	}
	// Every code of the contract's transport, authentication and authorisation
	// tables is seen here but the two that are our own failures, which have
	// tests of their own.
	for _, code := range fault.Contract[:slices.Index(fault.Contract, fault.UnsupportedMediaType)] {
		if !codes[code] && code != fault.InternalError && code != fault.ServiceUnavailable {
			t.Errorf("%s was never answered", code)
		}
	}
}

// What is wrong with the caller's key or account stays wrong, so these look at
// what is wrong with the request: its nonce must be as good as new afterwards,
// unless the signature was right.
func TestNonce_UsedOnlyByValidSignature(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	for _, state := range states {
		w := wrongs{}
		if state.make(&w); !ofTheRequest(w) || w.nonceForm || w.replay {
			continue
		}
		want := fault.OK
		if state.code == fault.IPNotWhitelisted {
			want = fault.ReplayDetected
		}
		m.nonce = client.NewNonce()
		m.try("GET", "/api/v1/balance", w)
		if got := m.try("GET", "/api/v1/balance", wrongs{}); got.Code != want {
			t.Errorf("after %s the nonce gives %s; want %s", state.name, got.Code, want)
		}
	}
}

func TestRateLimit_RefusedRequestIsNotCounted(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	left := func() (places int) {
		t.Helper()
		got := m.try("GET", "/api/v1/balance", wrongs{})
		if _, err := fmt.Sscan(got.Header.Get("X-RateLimit-Remaining"), &places); err != nil {
			t.Fatalf("no places told: %s", got.Raw)
		}
		return places
	}
	before := left()
	for _, state := range states {
		w := wrongs{}
		if state.make(&w); ofTheRequest(w) {
			m.try("GET", "/api/v1/balance", w)
		}
	}
	if after := left(); after != before-1 {
		t.Errorf("%d places were left, then %d; want one less, for the asking", before, after)
	}
	// One that lacks only the permission is counted.
	if got := m.try("GET", "/api/v1/balance", wrongs{forbidden: true}); got.Header.Get("X-RateLimit-Remaining") != "999999" {
		t.Errorf("without permission %q places are left; want 999999", got.Header.Get("X-RateLimit-Remaining"))
	}
	// One that comes too late is not, and is told how long to wait.
	late := m.try("GET", "/api/v1/balance", wrongs{rate: true})
	if late.Header.Get("X-RateLimit-Remaining") != "0" || late.Header.Get("X-RateLimit-Limit") != "1" ||
		late.Header.Get("Retry-After") != "50" || late.Header.Get("X-RateLimit-Reset") != fmt.Sprint(m.Now().Unix()+50) {
		t.Errorf("over the limit: %v", late.Header)
	}
}

// ofTheRequest reports whether a wrong is the request's own, not its caller's.
func ofTheRequest(w wrongs) bool {
	return !w.revoked && !w.expired && !w.deleted && !w.inactive && w.api == "" && !w.rate && !w.forbidden
}
