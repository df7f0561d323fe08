package access

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestAuthorize_ValidRequest(t *testing.T) {
	s := newFixture(t)
	caller, err := s.send(s.draft())
	expect(t, err, fault.OK)
	want := Caller{
		Operator: s.store.records[s.hash].Operator, CredentialID: testKeyID, KeyHint: s.key[:12],
		Rate: Rate{Limit: testLimit, Remaining: testLimit - 1, ResetAt: noon.Add(time.Minute)},
	}
	if caller != want {
		t.Errorf("caller = %+v; want %+v", caller, want)
	}
	if s.counted() != 1 || s.failures(home) != 0 {
		t.Errorf("counted %d, failures %d; want 1 and 0", s.counted(), s.failures(home))
	}

	get := s.draft()
	get.req.Method, get.req.Path, get.req.RawQuery, get.req.Body = "GET", "/api/v1/subscription", "mobile=9876543210", nil
	get.req.Needs = CheckSubscription
	_, err = s.send(get)
	expect(t, err, fault.OK)
}

func TestAuthorize_MalformedAndUnknownKeysAlike(t *testing.T) {
	s := newFixture(t)
	unknown, _ := NewKey()
	var messages []string
	for _, key := range []string{unknown, "cxk_short", s.key[4:], strings.ToUpper(s.key), s.key + "0", "x", s.secret.Reveal()} {
		d := s.draft()
		d.key = key
		d.req.Now = d.req.Now.Add(time.Duration(s.sent) * time.Hour) // not throttled, and the key comes before the clock
		_, err := s.send(d)
		refusal := expect(t, err, fault.InvalidAPIKey)
		messages = append(messages, refusal.Message)
		if strings.Contains(err.Error(), key) || len(refusal.Data) != 0 {
			t.Errorf("the answer to %q says more than it should: %v, %v", key, err, refusal.Data)
		}
	}
	for _, m := range messages {
		if m != messages[0] {
			t.Errorf("two messages for keys that do not exist: %q and %q", m, messages[0])
		}
	}
	if s.store.reads != 1 {
		t.Errorf("the store was read %d times; a malformed key needs no look", s.store.reads)
	}
}

func TestAuthorize_RevokedAndExpiredKeys(t *testing.T) {
	tests := []struct {
		name             string
		revoked, expires time.Time
		want             fault.Code
	}{
		{"neither", time.Time{}, time.Time{}, fault.OK},
		{"in its grace", time.Time{}, now.Add(time.Millisecond), fault.OK},
		{"at the end of its grace", time.Time{}, now, fault.CredentialExpired},
		{"past its grace", time.Time{}, now.Add(-72 * time.Hour), fault.CredentialExpired},
		{"revoked", now.Add(-time.Second), time.Time{}, fault.CredentialRevoked},
		{"revoked in its grace", now.Add(-time.Second), now.Add(time.Hour), fault.CredentialRevoked},
		{"revoked, and past its grace", now.Add(-time.Second), now.Add(-time.Hour), fault.CredentialRevoked},
		{"revoked by a node whose clock is ahead", now.Add(time.Second), time.Time{}, fault.CredentialRevoked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t)
			s.store.change(s.hash, func(r *Record) { r.Credential.RevokedAt, r.Credential.ExpiresAt = tt.revoked, tt.expires })
			_, err := s.send(s.draft())
			expect(t, err, tt.want)
		})
	}
}

func TestAuthorize_SignatureCoversRequest(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Request)
	}{
		{"another method", func(r *Request) { r.Method = "GET" }},
		{"another path", func(r *Request) { r.Path = "/api/v1/activate" }},
		{"another body", func(r *Request) { r.Body = []byte(`{}`) }},
		{"another timestamp", func(r *Request) { r.Timestamp = []string{fmt.Sprint(now.Unix() + 1)} }},
		{"another nonce", func(r *Request) { r.Nonce = []string{"0123456789abcdef"} }},
		{"upper-case hex", func(r *Request) { r.Signature = []string{strings.ToUpper(r.Signature[0])} }},
		{"cut short", func(r *Request) { r.Signature = []string{r.Signature[0][:63]} }},
		{"no signature at all", func(r *Request) { r.Signature = []string{"0"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t)
			s.warm()
			d := s.draft()
			d.sent = append(d.sent, tt.spoil)
			_, err := s.send(d)
			expect(t, err, fault.InvalidSignature)
		})
	}

	s := newFixture(t)
	d := s.draft()
	d.secret = strings.TrimPrefix(d.secret, "cxs_")
	_, err := s.send(d)
	expect(t, err, fault.InvalidSignature) // the prefix is part of the secret
	d = s.draft()
	d.secret = decoySecret
	_, err = s.send(d)
	expect(t, err, fault.InvalidSignature)
	d = s.draft()
	d.key, _ = NewKey()
	d.secret = decoySecret
	_, err = s.send(d)
	expect(t, err, fault.InvalidAPIKey) // the decoy opens nothing
}

func TestAuthorize_AccountStates(t *testing.T) {
	tests := []struct {
		status subscription.OperatorStatus
		api    subscription.APIAccess
		want   fault.Code
	}{
		{subscription.OperatorActive, subscription.APIEnabled, fault.OK},
		{subscription.OperatorDeleted, subscription.APIBlocked, fault.LCONotFound},
		{subscription.OperatorInactive, subscription.APIBlocked, fault.LCOInactive},
		{"dormant", subscription.APIEnabled, fault.LCOInactive},
		{"", subscription.APIEnabled, fault.LCOInactive},
		{subscription.OperatorActive, subscription.APIBlocked, fault.APIAccessBlocked},
		{subscription.OperatorActive, subscription.APIDisabled, fault.APIDisabled},
		{subscription.OperatorActive, "", fault.APIDisabled},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("status %q, API %q", tt.status, tt.api), func(t *testing.T) {
			got := checkAccount(subscription.Operator{Status: tt.status, API: tt.api})
			expect(t, got, tt.want)
		})
	}
}

func TestAuthorize_AddressNotWhitelisted(t *testing.T) {
	tests := []struct {
		name string
		addr netip.Addr
		want string
	}{
		{"IPv4", netip.MustParseAddr("198.51.100.1"), "198.51.100.1"},
		{"mapped IPv4", netip.MustParseAddr("::ffff:198.51.100.1"), "198.51.100.1"},
		{"IPv6", netip.MustParseAddr("2001:db8::1"), "2001:db8::1"},
		{"nobody knows", netip.Addr{}, "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t)
			d := s.draft()
			d.req.Address = tt.addr
			_, err := s.send(d)
			refusal := expect(t, err, fault.IPNotWhitelisted)
			if got := refusal.Data["ip"]; got != tt.want {
				t.Errorf("data.ip = %v; want %s", got, tt.want)
			}
		})
	}

	s := newFixture(t)
	d := s.draft()
	d.req.Address = netip.MustParseAddr("::ffff:203.0.113.200")
	_, err := s.send(d)
	expect(t, err, fault.OK)
}

func TestAuthorize_NoPermissionNamedIsDenied(t *testing.T) {
	s := newFixture(t)
	d := s.draft()
	d.req.Needs = 0
	_, err := s.send(d)
	expect(t, err, fault.PermissionDenied)
}

func TestAuthorize_RequestNeedsID(t *testing.T) {
	s := newFixture(t)
	d := s.draft()
	d.req.ID = ""
	_, err := s.send(d)
	expect(t, err, fault.InternalError)
	if s.nonceUsed(d.nonce) {
		t.Error("its nonce was burned, and a replay could not be told from it")
	}
}

func TestAuthorize_FailuresThrottleAddress(t *testing.T) {
	s := newFixture(t)
	home := netip.MustParseAddr(home)
	for i := range 5 { // the scene's limit
		if err := s.authorizer.Throttled(home, now); err != nil {
			t.Fatalf("throttled after %d failures: %v", i, err)
		}
		d := s.draft()
		d.req.Now = now.Add(time.Duration(i) * 100 * time.Millisecond)
		d.secret = "guess"
		s.send(d)
	}

	err := s.authorizer.Throttled(home, now.Add(time.Second))
	refusal := expect(t, err, fault.TooManyFailedAttempts)
	if refusal.RetryAfter != 59*time.Second {
		t.Errorf("retry after %v; want 59s", refusal.RetryAfter)
	}
	// Whole seconds, rounded up: whoever waits that long is let in.
	for at, want := range map[time.Duration]time.Duration{
		58900 * time.Millisecond: 2 * time.Second,
		59 * time.Second:         time.Second,
		59999 * time.Millisecond: time.Second,
	} {
		if got := fault.From(s.authorizer.Throttled(home, now.Add(at))).RetryAfter; got != want {
			t.Errorf("after %v: retry after %v; want %v", at, got, want)
		}
	}
	if err := s.authorizer.Throttled(home, now.Add(time.Minute)); err != nil {
		t.Errorf("a minute later: %v; want it free", err)
	}
	if err := s.authorizer.Throttled(netip.MustParseAddr("203.0.113.8"), now); err != nil {
		t.Errorf("a neighbour is throttled: %v", err)
	}
}

func TestAuthorize_StoreErrors(t *testing.T) {
	broken := errors.New("disk I/O error")
	for name, fail := range map[string]func(*fakeStore){
		"reading":   func(s *fakeStore) { s.readErr = broken },
		"admitting": func(s *fakeStore) { s.admitErr = broken },
		"admitting, with a refusal of its own": func(s *fakeStore) {
			s.admitErr = fault.New(fault.InternalError, "odd").Because(broken)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			fail(s.store)
			_, err := s.send(s.draft())
			refusal := expect(t, err, fault.ServiceUnavailable)
			if !errors.Is(err, broken) {
				t.Error("the cause is lost; the log needs it")
			}
			if strings.Contains(refusal.Message, "disk") {
				t.Errorf("message = %q; the cause is not for the caller", refusal.Message)
			}
			if s.failures(home) != 0 {
				t.Error("our own fault was held against the caller")
			}
		})
	}
}

func TestAuthorize_UnopenableSecretIsInternalError(t *testing.T) {
	s := newFixture(t)
	s.authorizer = NewAuthorizer(s.store, newTestVault(t), AuthorizerConfig{})
	for range 2 { // the second time as well: it is not remembered as good
		_, err := s.send(s.draft())
		refusal := expect(t, err, fault.InternalError)
		if refusal.Cause == nil || !strings.Contains(refusal.Cause.Error(), "master key") {
			t.Errorf("cause = %v; want one that names the master key", refusal.Cause)
		}
	}
	s.store.change(s.hash, func(r *Record) { r.Credential.RevokedAt = now })
	_, err := s.send(s.draft())
	expect(t, err, fault.CredentialRevoked) // the secret is not needed to say so
}
