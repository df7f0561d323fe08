package access

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/signing"
)

// fakeStore is a Store in memory.
type fakeStore struct {
	mu       sync.Mutex
	records  map[KeyHash]Record
	nonces   map[usedNonce]string // the request that used it
	counters map[rateWindow]int

	reads      int
	admissions []Admission

	readErr, admitErr error
	// beforeAdmit, if set, runs right before the next Admit, to change a record between the
	// checks and the commit.
	beforeAdmit func()
	// quiet: admissions and nonces are not recorded, for benchmarks.
	quiet bool
}

type usedNonce struct {
	credentialID int64
	nonce        string
}

type rateWindow struct {
	operatorID int64
	minute     int64
}

func newFakeStore() *fakeStore {
	return &fakeStore{records: map[KeyHash]Record{}, nonces: map[usedNonce]string{}, counters: map[rateWindow]int{}}
}

func (s *fakeStore) CredentialByHash(_ context.Context, hash KeyHash) (Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.readErr != nil {
		return Record{}, false, s.readErr
	}
	record, found := s.records[hash]
	return record, found, nil
}

func (s *fakeStore) Admit(_ context.Context, a Admission) (Admitted, error) {
	if change := s.takeBeforeAdmit(); change != nil {
		change()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.quiet {
		s.admissions = append(s.admissions, a)
	}
	if s.admitErr != nil {
		return Admitted{}, s.admitErr
	}

	nonce := usedNonce{a.CredentialID, a.Nonce}
	if by, used := s.nonces[nonce]; used && by != a.RequestID {
		return Admitted{Replayed: true}, nil
	}
	if !s.quiet {
		s.nonces[nonce] = a.RequestID
	}

	record := s.recordOf(a.CredentialID)
	if record.Credential.Version != a.CredentialVersion || record.Operator.Version != a.OperatorVersion {
		return Admitted{Fresh: &record}, nil
	}
	minute := rateWindow{a.OperatorID, a.Minute()}
	if !a.Count || s.counters[minute] >= a.Limit {
		return Admitted{Used: s.counters[minute]}, nil
	}
	s.counters[minute]++
	return Admitted{Counted: true, Used: s.counters[minute]}, nil
}

func (s *fakeStore) takeBeforeAdmit() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := s.beforeAdmit
	s.beforeAdmit = nil
	return change
}

func (s *fakeStore) PurgeAdmissions(context.Context, time.Time, int64, int) (int, error) {
	panic("the tests of Purge have their own fake")
}

// recordOf finds a record by its credential; zero if it was deleted.
func (s *fakeStore) recordOf(id int64) Record {
	for _, record := range s.records {
		if record.Credential.ID == id {
			return record
		}
	}
	return Record{}
}

// change edits a record as a staff action would: both versions grow.
func (s *fakeStore) change(hash KeyHash, edit func(*Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record := s.records[hash]
	edit(&record)
	record.Credential.Version++
	record.Operator.Version++
	s.records[hash] = record
}

// fixture is an Authorizer and an operator with a key.
type fixture struct {
	t          testing.TB
	authorizer *Authorizer
	store      *fakeStore
	vault      *Vault
	key        string
	secret     Secret
	hash       KeyHash
	sent       int
}

const (
	home         = "203.0.113.7"
	testLimit    = 10
	testKeyID    = 31
	testOperator = 7
)

// now is a little after a whole minute.
var now = noon.Add(5*time.Second + 250*time.Millisecond)

func newFixture(t testing.TB) *fixture {
	t.Helper()
	s := &fixture{t: t, store: newFakeStore(), vault: newTestVault(t)}
	s.key, s.secret = NewKey()
	s.hash = HashKey(s.key)
	sealed, err := s.vault.Seal(s.secret, testOperator, s.hash)
	if err != nil {
		t.Fatal(err)
	}
	s.store.records[s.hash] = Record{
		Credential: Credential{
			ID: testKeyID, OperatorID: testOperator, KeyHash: s.hash, Hint: Hint(s.key),
			SealedSecret: sealed, Permissions: AllPermissions, Version: 1,
		},
		Operator: subscription.Operator{
			ID: testOperator, Name: "Sagar Cable", Status: subscription.OperatorActive, API: subscription.APIEnabled,
			RateLimit: testLimit, Version: 1,
		},
		Whitelist: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}
	s.authorizer = NewAuthorizer(s.store, s.vault, AuthorizerConfig{FailedAuthPerMinute: 5})
	return s
}

// draft is a request before it is signed.
type draft struct {
	req       Request
	key       string
	secret    string
	timestamp string
	nonce     string
	// sent changes the request after it was signed.
	sent []func(*Request)
}

// draft returns a new valid request for the test to change.
func (s *fixture) draft() *draft {
	s.sent++
	return &draft{
		req: Request{
			ID: fmt.Sprintf("req_%d", s.sent), Now: now, Address: netip.MustParseAddr(home),
			Method: "POST", Path: "/api/v1/renew", Body: []byte(`{"subscriber_id":"100001"}`), Needs: Renew,
		},
		key: s.key, secret: s.secret.Reveal(), timestamp: fmt.Sprint(now.Unix()),
		nonce: fmt.Sprintf("nonce-%012d", s.sent),
	}
}

func (d *draft) sign() Request {
	req := d.req
	req.Key, req.Timestamp, req.Nonce = []string{d.key}, []string{d.timestamp}, []string{d.nonce}
	req.Signature = []string{signing.Request{
		Method: req.Method, Path: req.Path, RawQuery: req.RawQuery, Timestamp: d.timestamp, Nonce: d.nonce, Body: req.Body,
	}.Sign(d.secret)}
	for _, change := range d.sent {
		change(&req)
	}
	return req
}

// send signs a request and authorizes it.
func (s *fixture) send(d *draft) (Caller, error) {
	return s.authorizer.Authorize(context.Background(), d.sign())
}

// warm sends one valid request, so that the key is cached.
func (s *fixture) warm() {
	s.t.Helper()
	if _, err := s.send(s.draft()); err != nil {
		s.t.Fatalf("a good request was refused: %v", err)
	}
}

// expect asserts an error by its code; fault.OK is no error.
func expect(t testing.TB, err error, want fault.Code) *fault.Error {
	t.Helper()
	if got := fault.CodeOf(err); got != want {
		t.Errorf("answered %s (%v); want %s", got, err, want)
	}
	if err == nil {
		return &fault.Error{}
	}
	return fault.From(err)
}

func (s *fixture) counted() int {
	return s.store.counters[rateWindow{testOperator, subscription.RateWindowAt(now)}]
}

func (s *fixture) nonceUsed(nonce string) bool {
	_, used := s.store.nonces[usedNonce{testKeyID, nonce}]
	return used
}

// failures is the number of failed authentications counted for an address.
func (s *fixture) failures(addr string) int {
	element, found := s.authorizer.throttle.failures[netip.MustParseAddr(addr)]
	if !found {
		return 0
	}
	return len(element.Value.(*failingAddr).failed)
}
