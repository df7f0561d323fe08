package access

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestARememberedKeyIsNotReadAgain(t *testing.T) {
	s := newScene(t)
	for range 5 {
		s.warm()
	}
	if s.store.reads != 1 || len(s.store.admissions) != 5 {
		t.Errorf("%d reads and %d admissions for five requests; want 1 and 5", s.store.reads, len(s.store.admissions))
	}
}

func TestAChangeIsSeenByTheVeryNextRequest(t *testing.T) {
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
			s := newScene(t)
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

func TestAChangeBetweenJudgementAndCommitIsSeenToo(t *testing.T) {
	s := newScene(t)
	s.store.beforeAdmit = func() { s.store.change(s.hash, func(r *Record) { r.Credential.RevokedAt = now }) }
	_, err := s.send(s.draft())
	expect(t, err, fault.CredentialRevoked)
	if s.counted() != 0 {
		t.Error("a request with a revoked key was counted")
	}
}

func TestARefusalThatNoLongerHoldsIsNotAnsweredAndTheRequestCountsOnce(t *testing.T) {
	s := newScene(t)
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

func TestASecretThatWasReplacedCountsAtOnceAndTheOldOneNoMore(t *testing.T) {
	s := newScene(t)
	s.warm()
	_, replacement := NewKey()
	sealed, err := s.vault.Seal(replacement, sceneOwner, s.hash)
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
func TestARowMovedToAnotherOperatorDoesNotKeepItsSecret(t *testing.T) {
	s := newScene(t)
	s.warm()
	s.store.change(s.hash, func(r *Record) { r.Credential.OperatorID, r.Operator.ID = 8, 8 })
	_, err := s.send(s.draft())
	expect(t, err, fault.InternalError)
}

func TestARowThatIsGoneIsAnUnknownKey(t *testing.T) {
	t.Run("found out by the admission", func(t *testing.T) {
		s := newScene(t)
		s.warm()
		delete(s.store.records, s.hash)
		_, err := s.send(s.draft())
		expect(t, err, fault.InvalidAPIKey)
		if _, found := s.gate.cache.recall(s.hash); found {
			t.Error("it is still remembered")
		}
	})
	t.Run("found out after another refusal", func(t *testing.T) {
		s := newScene(t)
		s.warm()
		delete(s.store.records, s.hash)
		d := s.draft()
		d.secret = "guess"
		_, err := s.send(d)
		expect(t, err, fault.InvalidAPIKey)
	})
	t.Run("found out although every admission fails", func(t *testing.T) {
		s := newScene(t)
		s.warm()
		delete(s.store.records, s.hash)
		s.store.admitErr = errors.New("foreign key constraint failed")
		_, err := s.send(s.draft())
		expect(t, err, fault.ServiceUnavailable)
		_, err = s.send(s.draft())
		expect(t, err, fault.InvalidAPIKey)
	})
}

func TestAKeyThatIsIssuedAfterItWasTriedWorks(t *testing.T) {
	s := newScene(t)
	record := s.store.records[s.hash]
	delete(s.store.records, s.hash)
	_, err := s.send(s.draft())
	expect(t, err, fault.InvalidAPIKey)
	s.store.records[s.hash] = record
	_, err = s.send(s.draft())
	expect(t, err, fault.OK)
}

func TestReplays(t *testing.T) {
	t.Run("the same request twice", func(t *testing.T) {
		s := newScene(t)
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
	t.Run("a nonce is used up by a request that the account refused", func(t *testing.T) {
		s := newScene(t)
		s.store.change(s.hash, func(r *Record) { r.Operator.Status = subscription.OperatorInactive })
		first := s.draft()
		_, err := s.send(first)
		expect(t, err, fault.LCOInactive)
		again := s.draft()
		again.nonce = first.nonce
		_, err = s.send(again)
		expect(t, err, fault.ReplayDetected) // the nonce comes before the account
	})
	t.Run("a nonce is not used up by a wrong signature", func(t *testing.T) {
		s := newScene(t)
		first := s.draft()
		first.secret = "guess"
		_, err := s.send(first)
		expect(t, err, fault.InvalidSignature)
		again := s.draft()
		again.nonce = first.nonce
		_, err = s.send(again)
		expect(t, err, fault.OK)
	})
	t.Run("after the key was revoked, its replays are revoked", func(t *testing.T) {
		s := newScene(t)
		first := s.draft()
		_, err := s.send(first)
		expect(t, err, fault.OK)
		s.store.change(s.hash, func(r *Record) { r.Credential.RevokedAt = now })
		again := s.draft()
		again.nonce = first.nonce
		_, err = s.send(again)
		expect(t, err, fault.CredentialRevoked)
	})
	t.Run("the store fails while a replay is looked into", func(t *testing.T) {
		s := newScene(t)
		first := s.draft()
		s.send(first)
		s.store.readErr = errors.New("disk I/O error")
		again := s.draft()
		again.nonce = first.nonce
		_, err := s.send(again)
		expect(t, err, fault.ServiceUnavailable)
	})
}

func TestARecordThatNeverHoldsStillMakesTheServiceUnavailable(t *testing.T) {
	s := newScene(t)
	rounds := 0
	var restless func()
	restless = func() {
		rounds++
		s.store.change(s.hash, func(*Record) {})
		s.store.mu.Lock()
		s.store.beforeAdmit = restless
		s.store.mu.Unlock()
	}
	s.store.beforeAdmit = restless
	_, err := s.send(s.draft())
	expect(t, err, fault.ServiceUnavailable)
	if rounds != admitRounds || s.counted() != 0 {
		t.Errorf("%d rounds, counted %d; want %d and 0", rounds, s.counted(), admitRounds)
	}

	// One change fewer, and it is let in.
	s = newScene(t)
	rounds = 0
	restless = func() {
		rounds++
		s.store.change(s.hash, func(*Record) {})
		if rounds < admitRounds-1 {
			s.store.mu.Lock()
			s.store.beforeAdmit = restless
			s.store.mu.Unlock()
		}
	}
	s.store.beforeAdmit = restless
	_, err = s.send(s.draft())
	expect(t, err, fault.OK)
	if s.counted() != 1 {
		t.Errorf("counted %d; want 1", s.counted())
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	c := newCache()
	c.capacity = 100
	for i := range 1000 {
		hash := HashKey(fmt.Sprint(i))
		c.keep(hash, subject{record: Record{Credential: Credential{ID: int64(i + 1)}}})
		if _, found := c.recall(hash); !found {
			t.Fatalf("key %d was not kept", i)
		}
		c.keep(hash, subject{}) // again, and nobody has to make room
		if want := min(i+1, 100); len(c.subjects) != want {
			t.Fatalf("%d subjects are remembered; want %d", len(c.subjects), want)
		}
	}
}
