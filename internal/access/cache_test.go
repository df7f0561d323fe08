package access

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestCache_KeyIsReadOnce(t *testing.T) {
	s := newFixture(t)
	for range 5 {
		s.warm()
	}
	if s.store.reads != 1 || len(s.store.admissions) != 5 {
		t.Errorf("%d reads and %d admissions for five requests; want 1 and 5", s.store.reads, len(s.store.admissions))
	}
}

func TestCache_ChangeSeenByNextRequest(t *testing.T) {
	tests := []struct {
		name   string
		before func(*Record) // how it is remembered
		change func(*Record)
		want   fault.Code
	}{
		{"revoked", nil, func(r *Record) { r.Credential.RevokedAt = now }, fault.CredentialRevoked},
		{"given a grace that is over", nil, func(r *Record) { r.Credential.ExpiresAt = now }, fault.CredentialExpired},
		{"suspended", nil, func(r *Record) { r.Operator.Status = subscription.OperatorInactive }, fault.LCOInactive},
		{"blocked", nil, func(r *Record) { r.Operator.API = subscription.APIBlocked }, fault.APIAccessBlocked},
		{"whitelist emptied", nil, func(r *Record) { r.Whitelist = nil }, fault.IPNotWhitelisted},
		{"limit lowered to what is used", nil, func(r *Record) { r.Operator.RateLimit = 1 }, fault.RateLimited},
		{"permission taken", nil, func(r *Record) { r.Credential.Permissions = 0 }, fault.PermissionDenied},
		{
			"a revocation taken back",
			func(r *Record) { r.Credential.RevokedAt = now },
			func(r *Record) { r.Credential.RevokedAt = time.Time{} },
			fault.OK,
		},
		{
			"grace prolonged",
			func(r *Record) { r.Credential.ExpiresAt = now },
			func(r *Record) { r.Credential.ExpiresAt = now.Add(time.Hour) },
			fault.OK,
		},
		{
			"activated again",
			func(r *Record) { r.Operator.Status = subscription.OperatorInactive },
			func(r *Record) { r.Operator.Status = subscription.OperatorActive },
			fault.OK,
		},
		{
			"permission given",
			func(r *Record) { r.Credential.Permissions = 0 },
			func(r *Record) { r.Credential.Permissions = AllPermissions },
			fault.OK,
		},
		{
			"suspended and unblocked at once",
			func(r *Record) { r.Operator.API = subscription.APIBlocked },
			func(r *Record) {
				r.Operator.Status, r.Operator.API = subscription.OperatorInactive, subscription.APIEnabled
			},
			fault.LCOInactive,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newFixture(t)
			s.warm()
			if tt.before != nil {
				s.store.change(s.hash, tt.before)
				s.send(s.draft())
			}
			s.store.change(s.hash, tt.change)
			d := s.draft()
			caller, err := s.send(d)
			expect(t, err, tt.want)
			if caller.Operator != s.store.records[s.hash].Operator {
				t.Errorf("the caller is %+v; want the operator as it stands now", caller.Operator)
			}
			asked := s.store.admissions[len(s.store.admissions)-1]
			if asked.RequestID != d.req.ID {
				t.Errorf("the last admission was asked for %s; want %s, the same as before", asked.RequestID, d.req.ID)
			}
		})
	}
}

func TestCache_ChangeBetweenCheckAndAdmit(t *testing.T) {
	s := newFixture(t)
	s.store.beforeAdmit = func() { s.store.change(s.hash, func(r *Record) { r.Credential.RevokedAt = now }) }
	_, err := s.send(s.draft())
	expect(t, err, fault.CredentialRevoked)
	if s.counted() != 0 {
		t.Error("a request with a revoked key was counted")
	}
}

func TestCache_OutdatedRefusalIsCheckedAgain(t *testing.T) {
	s := newFixture(t)
	s.warm()
	s.store.change(s.hash, func(r *Record) { r.Operator.API = subscription.APIDisabled })
	_, err := s.send(s.draft())
	expect(t, err, fault.APIDisabled)
	s.store.change(s.hash, func(r *Record) { r.Operator.API = subscription.APIEnabled })

	_, err = s.send(s.draft())
	expect(t, err, fault.OK)
	asked := s.store.admissions[len(s.store.admissions)-2:]
	if asked[0].Count || !asked[1].Count || asked[0].RequestID != asked[1].RequestID {
		t.Errorf("asked %+v; want first without counting, then with, for one request", asked)
	}
	if s.counted() != 2 {
		t.Errorf("counted %d; want 2, the first request and the last", s.counted())
	}
}

func TestCache_ReplacedSecretCountsAtOnce(t *testing.T) {
	s := newFixture(t)
	s.warm()
	_, replacement := NewKey()
	sealed, err := s.vault.Seal(replacement, testOperator, s.hash)
	if err != nil {
		t.Fatal(err)
	}
	s.store.change(s.hash, func(r *Record) { r.Credential.SealedSecret = sealed })

	_, err = s.send(s.draft())
	expect(t, err, fault.InvalidSignature)
	d := s.draft()
	d.secret = replacement.Reveal()
	_, err = s.send(d)
	expect(t, err, fault.OK)
}

// A sealed secret copied into another operator's row must not work there, not
// even while it is remembered from its own.
func TestCache_MovedRowCannotBeOpened(t *testing.T) {
	s := newFixture(t)
	s.warm()
	s.store.change(s.hash, func(r *Record) { r.Credential.OperatorID, r.Operator.ID = 8, 8 })
	_, err := s.send(s.draft())
	expect(t, err, fault.InternalError)
}

func TestCache_DeletedKeyIsUnknown(t *testing.T) {
	t.Run("found by admission", func(t *testing.T) {
		s := newFixture(t)
		s.warm()
		delete(s.store.records, s.hash)
		_, err := s.send(s.draft())
		expect(t, err, fault.InvalidAPIKey)
		if _, found := s.authorizer.cache.get(s.hash); found {
			t.Error("it is still remembered")
		}
	})
	t.Run("found after another refusal", func(t *testing.T) {
		s := newFixture(t)
		s.warm()
		delete(s.store.records, s.hash)
		d := s.draft()
		d.secret = "guess"
		_, err := s.send(d)
		expect(t, err, fault.InvalidAPIKey)
	})
	t.Run("found although every admission fails", func(t *testing.T) {
		s := newFixture(t)
		s.warm()
		delete(s.store.records, s.hash)
		s.store.admitErr = errors.New("foreign key constraint failed")
		_, err := s.send(s.draft())
		expect(t, err, fault.ServiceUnavailable)
		_, err = s.send(s.draft())
		expect(t, err, fault.InvalidAPIKey)
	})
}

func TestCache_UnknownKeyIsNotCached(t *testing.T) {
	s := newFixture(t)
	record := s.store.records[s.hash]
	delete(s.store.records, s.hash)
	_, err := s.send(s.draft())
	expect(t, err, fault.InvalidAPIKey)
	s.store.records[s.hash] = record
	_, err = s.send(s.draft())
	expect(t, err, fault.OK)
}

func TestAuthorize_Replays(t *testing.T) {
	t.Run("the same request twice", func(t *testing.T) {
		s := newFixture(t)
		first := s.draft()
		_, err := s.send(first)
		expect(t, err, fault.OK)
		again := s.draft()
		again.nonce = first.nonce
		_, err = s.send(again)
		expect(t, err, fault.ReplayDetected)
		if s.counted() != 1 {
			t.Errorf("counted %d; want 1", s.counted())
		}
	})
	t.Run("refused account uses up the nonce", func(t *testing.T) {
		s := newFixture(t)
		s.store.change(s.hash, func(r *Record) { r.Operator.Status = subscription.OperatorInactive })
		first := s.draft()
		_, err := s.send(first)
		expect(t, err, fault.LCOInactive)
		again := s.draft()
		again.nonce = first.nonce
		_, err = s.send(again)
		expect(t, err, fault.ReplayDetected) // the nonce comes before the account
	})
	t.Run("wrong signature does not use up the nonce", func(t *testing.T) {
		s := newFixture(t)
		first := s.draft()
		first.secret = "guess"
		_, err := s.send(first)
		expect(t, err, fault.InvalidSignature)
		again := s.draft()
		again.nonce = first.nonce
		_, err = s.send(again)
		expect(t, err, fault.OK)
	})
	t.Run("replay with a revoked key", func(t *testing.T) {
		s := newFixture(t)
		first := s.draft()
		_, err := s.send(first)
		expect(t, err, fault.OK)
		s.store.change(s.hash, func(r *Record) { r.Credential.RevokedAt = now })
		again := s.draft()
		again.nonce = first.nonce
		_, err = s.send(again)
		expect(t, err, fault.CredentialRevoked)
	})
	t.Run("store error during a replay", func(t *testing.T) {
		s := newFixture(t)
		first := s.draft()
		s.send(first)
		s.store.readErr = errors.New("disk I/O error")
		again := s.draft()
		again.nonce = first.nonce
		_, err := s.send(again)
		expect(t, err, fault.ServiceUnavailable)
	})
}

func TestAuthorize_RecordChangesEveryAttempt(t *testing.T) {
	s := newFixture(t)
	rounds := 0
	var changing func()
	changing = func() {
		rounds++
		s.store.change(s.hash, func(*Record) {})
		s.store.mu.Lock()
		s.store.beforeAdmit = changing
		s.store.mu.Unlock()
	}
	s.store.beforeAdmit = changing
	_, err := s.send(s.draft())
	expect(t, err, fault.ServiceUnavailable)
	if rounds != admitAttempts || s.counted() != 0 {
		t.Errorf("%d rounds, counted %d; want %d and 0", rounds, s.counted(), admitAttempts)
	}

	// With one change less it is admitted.
	s = newFixture(t)
	rounds = 0
	changing = func() {
		rounds++
		s.store.change(s.hash, func(*Record) {})
		if rounds < admitAttempts-1 {
			s.store.mu.Lock()
			s.store.beforeAdmit = changing
			s.store.mu.Unlock()
		}
	}
	s.store.beforeAdmit = changing
	_, err = s.send(s.draft())
	expect(t, err, fault.OK)
	if s.counted() != 1 {
		t.Errorf("counted %d; want 1", s.counted())
	}
}

func TestCache_Capacity(t *testing.T) {
	c := newCache()
	c.capacity = 100
	for i := range 1000 {
		hash := HashKey(fmt.Sprint(i))
		c.put(hash, apiKey{record: Record{Credential: Credential{ID: int64(i + 1)}}})
		if _, found := c.get(hash); !found {
			t.Fatalf("key %d was not cached", i)
		}
		c.put(hash, apiKey{}) // replacing evicts nothing
		if want := min(i+1, 100); len(c.keys) != want {
			t.Fatalf("%d keys are cached; want %d", len(c.keys), want)
		}
	}
}
