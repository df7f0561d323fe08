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

// fakeStore keeps in maps what a store keeps in tables. Its Admit follows the
// words of Store and Admission.
type fakeStore struct {
	mu       sync.Mutex
	records  map[KeyHash]Record
	nonces   map[usedNonce]string // the request that used it
	counters map[minuteOf]int

	reads      int
	admissions []Admission

	readErr, admitErr error
	// beforeAdmit, if set, happens right before the next Admit: what others do
	// between a judgement and its commit.
	beforeAdmit func()
	// quiet keeps neither admissions nor nonces, for benchmarks.
	quiet bool
}

type usedNonce struct {
	credentialID int64
	nonce        string
}

type minuteOf struct {
	operatorID int64
	minute     int64
}

func newFakeStore() *fakeStore {
	return &fakeStore{records: map[KeyHash]Record{}, nonces: map[usedNonce]string{}, counters: map[minuteOf]int{}}
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
	if happen := s.takeBeforeAdmit(); happen != nil {
		happen()
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
	minute := minuteOf{a.OperatorID, a.Minute()}
	if !a.Count || s.counters[minute] >= a.Limit {
		return Admitted{Used: s.counters[minute]}, nil
	}
	s.counters[minute]++
	return Admitted{Counted: true, Used: s.counters[minute]}, nil
}

func (s *fakeStore) takeBeforeAdmit() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	happen := s.beforeAdmit
	s.beforeAdmit = nil
	return happen
}

func (s *fakeStore) PurgeAdmissions(context.Context, time.Time, int64, int) (int, error) {
	panic("purge has a fake of its own")
}

// recordOf finds a record by its credential; a row that is gone is a zero one.
func (s *fakeStore) recordOf(id int64) Record {
	for _, record := range s.records {
		if record.Credential.ID == id {
			return record
		}
	}
	return Record{}
}

// change edits a record as an act of staff would: both versions move on.
func (s *fakeStore) change(hash KeyHash, edit func(*Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record := s.records[hash]
	edit(&record)
	record.Credential.Version++
	record.Operator.Version++
	s.records[hash] = record
}

// scene is an operator with a key in front of a gate.
type scene struct {
	t      testing.TB
	gate   *Authorizer
	store  *fakeStore
	vault  *Vault
	key    string
	secret Secret
	hash   KeyHash
	sent   int
}

const (
	home       = "203.0.113.7"
	sceneLimit = 10
	sceneKeyID = 31
	sceneOwner = 7
)

// now is a little after a whole minute.
var now = noon.Add(5*time.Second + 250*time.Millisecond)

func newScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{t: t, store: newFakeStore(), vault: newTestVault(t)}
	s.key, s.secret = NewKey()
	s.hash = HashKey(s.key)
	sealed, err := s.vault.Seal(s.secret, sceneOwner, s.hash)
	if err != nil {
		t.Fatal(err)
	}
	s.store.records[s.hash] = Record{
		Credential: Credential{
			ID: sceneKeyID, OperatorID: sceneOwner, KeyHash: s.hash, Hint: Hint(s.key),
			SealedSecret: sealed, Permissions: AllPermissions, Version: 1,
		},
		Operator: subscription.Operator{
			ID: sceneOwner, Name: "Sagar Cable", Status: subscription.OperatorActive, API: subscription.APIEnabled,
			RateLimit: sceneLimit, Version: 1,
		},
		Whitelist: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}
	s.gate = NewAuthorizer(s.store, s.vault, AuthorizerConfig{FailedAuthPerMinute: 5})
	return s
}

// draft is a request before it is signed.
type draft struct {
	req       Request
	key       string
	secret    string
	timestamp string
	nonce     string
	// sent happens to the request after it was signed.
	sent []func(*Request)
}

// draft returns a good request, new with each call, for the caller to spoil.
func (s *scene) draft() *draft {
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
	for _, happen := range d.sent {
		happen(&req)
	}
	return req
}

// send authorises a request, signed as it now stands.
func (s *scene) send(d *draft) (Caller, error) {
	return s.gate.Authorize(context.Background(), d.sign())
}

// warm lets one good request in, so that the key is remembered.
func (s *scene) warm() {
	s.t.Helper()
	if _, err := s.send(s.draft()); err != nil {
		s.t.Fatalf("a good request was refused: %v", err)
	}
}

// expect asserts a refusal by its code; fault.OK means that there is none.
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

func (s *scene) counted() int {
	return s.store.counters[minuteOf{sceneOwner, subscription.RateWindowAt(now)}]
}

func (s *scene) burned(nonce string) bool {
	_, used := s.store.nonces[usedNonce{sceneKeyID, nonce}]
	return used
}

// failures is how many failed authentications are held against the caller.
func (s *scene) failures(addr string) int {
	element, found := s.gate.throttle.failures[netip.MustParseAddr(addr)]
	if !found {
		return 0
	}
	return len(element.Value.(*offender).failed)
}
