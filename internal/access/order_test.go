package access

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// wrongs is everything that can be wrong with a request, in the order in which
// it is noticed.
var wrongs = []struct {
	name  string
	code  fault.Code
	spoil func(*fixture, *draft)
}{
	{"a header twice", fault.MissingAuthHeaders, func(_ *fixture, d *draft) {
		d.sent = append(d.sent, func(r *Request) { r.Key = append(r.Key, r.Key[0]) })
	}},
	{"an unknown key", fault.InvalidAPIKey, func(_ *fixture, d *draft) { d.key, _ = NewKey() }},
	{"a revoked key", fault.CredentialRevoked, func(s *fixture, _ *draft) {
		s.store.change(s.hash, func(r *Record) { r.Credential.RevokedAt = now })
	}},
	{"an expired key", fault.CredentialExpired, func(s *fixture, _ *draft) {
		s.store.change(s.hash, func(r *Record) { r.Credential.ExpiresAt = now })
	}},
	{"a clock that is off", fault.TimestampExpired, func(_ *fixture, d *draft) { d.timestamp = fmt.Sprint(now.Unix() - 301) }},
	{"a wrong signature", fault.InvalidSignature, func(_ *fixture, d *draft) {
		d.sent = append(d.sent, func(r *Request) { r.Body = append(slices.Clone(r.Body), ' ') })
	}},
	{"a malformed nonce", fault.InvalidNonce, func(_ *fixture, d *draft) { d.nonce = "short" }},
	{"a used nonce", fault.ReplayDetected, func(s *fixture, d *draft) {
		s.store.nonces[usedNonce{testKeyID, d.nonce}] = "req_another"
	}},
	{"a deleted account", fault.LCONotFound, func(s *fixture, _ *draft) {
		s.store.change(s.hash, func(r *Record) { r.Operator.Status = subscription.OperatorDeleted })
	}},
	{"an inactive account", fault.LCOInactive, func(s *fixture, _ *draft) {
		s.store.change(s.hash, func(r *Record) { r.Operator.Status = subscription.OperatorInactive })
	}},
	{"a blocked API", fault.APIAccessBlocked, func(s *fixture, _ *draft) {
		s.store.change(s.hash, func(r *Record) { r.Operator.API = subscription.APIBlocked })
	}},
	{"a disabled API", fault.APIDisabled, func(s *fixture, _ *draft) {
		s.store.change(s.hash, func(r *Record) { r.Operator.API = subscription.APIDisabled })
	}},
	{"a foreign address", fault.IPNotWhitelisted, func(_ *fixture, d *draft) { d.req.Address = netip.MustParseAddr("198.51.100.1") }},
	{"a full minute", fault.RateLimited, func(s *fixture, _ *draft) {
		s.store.counters[rateWindow{testOperator, subscription.RateWindowAt(now)}] = testLimit
	}},
	{"a lacking permission", fault.PermissionDenied, func(s *fixture, _ *draft) {
		s.store.change(s.hash, func(r *Record) { r.Credential.Permissions = PermissionsOf(Activate, GetPlans) })
	}},
}

func wrong(code fault.Code) int {
	for i, w := range wrongs {
		if w.code == code {
			return i
		}
	}
	panic("no such wrong: " + code)
}

// Of two things that are wrong, the one that comes first in the contract's order
// is answered, whether or not the gate remembers the key from a better time, and
// with no more done than the order allows.
func TestAuthorize_FirstFailedCheckIsReported(t *testing.T) {
	for _, warm := range []bool{false, true} {
		for i, first := range wrongs {
			for j, second := range wrongs[i:] {
				name := fmt.Sprintf("%s and %s, remembered %t", first.name, second.name, warm)
				if j == 0 {
					name = fmt.Sprintf("%s, remembered %t", first.name, warm)
				}
				t.Run(name, func(t *testing.T) { firstIsAnswered(t, i, i+j, warm) })
			}
		}
	}
}

func firstIsAnswered(t *testing.T, i, j int, warm bool) {
	s := newFixture(t)
	if warm {
		s.warm()
	}
	d := s.draft()
	// The later wrong first: where both set one field, the earlier one stays.
	wrongs[j].spoil(s, d)
	if i != j {
		wrongs[i].spoil(s, d)
	}
	if i == wrong(fault.InvalidNonce) && j == wrong(fault.ReplayDetected) {
		wrongs[j].spoil(s, d) // once more: the nonce it burned has been replaced
	}
	counted := s.counted()

	caller, err := s.send(d)

	want := wrongs[i].code
	refusal := expect(t, err, want)
	if len(refusal.Message) < 20 {
		t.Errorf("message %q does not help", refusal.Message)
	}
	hides(t, s.secret, fmt.Sprintf("%v %+v %v", refusal.Message, caller, err))

	burns := i >= wrong(fault.LCONotFound)
	// That a remembered key was revoked or has expired is found out in the same
	// stroke that burns the nonce; nobody will miss it.
	late := warm && (want == fault.CredentialRevoked || want == fault.CredentialExpired)
	seeded := i == wrong(fault.ReplayDetected) || j == wrong(fault.ReplayDetected)
	if got := s.nonceUsed(d.nonce); got != burns && !late && !seeded {
		t.Errorf("nonce burned: %t; want %t", got, burns)
	}
	counts := 0
	if want == fault.PermissionDenied {
		counts = 1
	}
	if got := s.counted() - counted; got != counts {
		t.Errorf("the minute grew by %d; want %d", got, counts)
	}
	failures := 0
	if i <= wrong(fault.ReplayDetected) {
		failures = 1
	}
	if got := s.failures(d.req.Address.String()); got != failures {
		t.Errorf("%d failed authentications are held against the caller; want %d", got, failures)
	}

	known := i >= wrong(fault.CredentialRevoked)
	if (caller.Operator.ID == testOperator) != known || (caller.CredentialID == testKeyID) != known {
		t.Errorf("the log learns of operator %d and key %d; known %t", caller.Operator.ID, caller.CredentialID, known)
	}
	if rated := i >= wrong(fault.RateLimited); (caller.Rate.Limit == testLimit) != rated {
		t.Errorf("rate = %+v; want one: %t", caller.Rate, rated)
	}
	if i > 0 && caller.KeyHint != Hint(d.key) {
		t.Errorf("key hint = %q; want %q", caller.KeyHint, Hint(d.key))
	}
}

func TestAuthorize_OrderTestCoversEveryCode(t *testing.T) {
	unauthenticated := 0
	for _, code := range fault.Contract {
		if failedAuthentication(fault.New(code, "x")) {
			unauthenticated++
			wrong(code)
		}
	}
	if unauthenticated != 8 {
		t.Errorf("%d codes count as failed authentication; the contract has eight with status 401", unauthenticated)
	}
}
