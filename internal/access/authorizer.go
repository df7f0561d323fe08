// Package access authenticates API requests and decides whether they may proceed: key, timestamp,
// signature, nonce, account, address, rate and permission, in that order. It also has what the
// checks need: keys and their sealed secrets, whitelists, trusted proxies.
//
// It knows no HTTP: it is given the parts of a request and returns a Caller or a fault. It reads no
// bodies and does no routing. Nothing that it caches is trusted without asking the store whether it
// is current.
package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// admitAttempts limits how often one request is checked again because its record changed
// meanwhile. Each attempt takes one more change at that very moment.
const admitAttempts = 5

// Request is a request to authorize. The four header fields hold all values of their header, so
// that a header sent twice is noticed.
type Request struct {
	ID  string
	Now time.Time
	// Address is the caller's, as found by TrustedProxies.Caller.
	Address netip.Addr

	Method, Path, RawQuery string
	Body                   []byte

	Key, Timestamp, Nonce, Signature []string

	// Needs is the permission that the key must have.
	Needs Permission
}

// Caller is the operator and key of a request. Beside an error it holds what was known by then,
// for the log and the rate headers; the operator is then the owner of the named key, and may not
// be who called.
type Caller struct {
	Operator     subscription.Operator
	CredentialID int64
	KeyHint      string
	Rate         Rate
}

// Rate is an operator's use of the current rate window. Limit is zero if the request was refused
// before it was counted.
type Rate struct {
	Limit     int
	Remaining int
	ResetAt   time.Time
}

// AuthorizerConfig holds the optional settings of an Authorizer.
type AuthorizerConfig struct {
	// FailedAuthPerMinute is how many authentications from an address may fail in a minute
	// before the address is throttled; 30 if zero.
	FailedAuthPerMinute int
	// OnThrottled is called when an address begins to be throttled; may be nil.
	OnThrottled func(addr netip.Addr, failing FailingAddress)
}

// Authorizer authorizes requests. It is safe for concurrent use.
type Authorizer struct {
	store       Store
	vault       *Vault
	cache       *cache
	throttle    *throttle
	onThrottled func(addr netip.Addr, failing FailingAddress) // may be nil
}

// NewAuthorizer returns an Authorizer for the keys in store, whose secrets are sealed by vault.
func NewAuthorizer(store Store, vault *Vault, config AuthorizerConfig) *Authorizer {
	return &Authorizer{
		store:       store,
		vault:       vault,
		cache:       newCache(),
		throttle:    newThrottle(config.FailedAuthPerMinute),
		onThrottled: config.OnThrottled,
	}
}

// Throttled refuses an address from which too many authentications failed. It is cheap and comes
// before every other check.
func (a *Authorizer) Throttled(addr netip.Addr, now time.Time) error {
	wait, throttled := a.throttle.Check(addr, now)
	if !throttled {
		return nil
	}
	return tooManyFailures(wait)
}

// Authorize checks a request in the contract's order and returns its caller. A failed
// authentication is counted against the address.
func (a *Authorizer) Authorize(ctx context.Context, req Request) (Caller, error) {
	caller, err := a.check(ctx, req)
	if failedAuthentication(err) {
		by := attempt{code: fault.CodeOf(err)}
		if caller.CredentialID != 0 {
			by.key = NamedKey{caller.Operator.ID, caller.CredentialID, caller.KeyHint}
		}
		if began := a.throttle.Failed(req.Address, req.Now, by); began && a.onThrottled != nil {
			failing, _ := a.throttle.failing(req.Address, req.Now)
			a.onThrottled(req.Address, failing)
		}
	}
	return caller, err
}

// check runs the contract's checks in their order.
func (a *Authorizer) check(ctx context.Context, req Request) (caller Caller, err error) {
	// The four headers, each exactly once.
	c, err := readClaim(req)
	if err != nil {
		a.attribute(ctx, req, &caller)
		return caller, err
	}
	caller.KeyHint = Hint(c.key)

	// Key, timestamp, signature, form of the nonce.
	key, err := a.identify(ctx, c)
	caller.setKey(key)
	if err != nil {
		return caller, err
	}

	// Nonce, account, address. From here on the nonce is used up, whatever the result is.
	key, admitted, err := a.admit(ctx, c, key)
	caller.setKey(key)
	if err != nil {
		return caller, err
	}

	// Rate, which was counted in the same transaction as the nonce.
	caller.Rate = rateAt(key.record.Operator.RateLimit, admitted.Used, req.Now)
	if !admitted.Counted {
		caller.Rate.Remaining = 0 // not negative, if the limit was lowered within the window
		return caller, rateLimited(caller.Rate, req.Now)
	}

	// Permission.
	return caller, checkPermission(key.record.Credential.Permissions, req.Needs)
}

// attribute finds the key of a request that lacks a header, so that the failure counts under that
// key. It does not affect the result: a key that cannot be read is left out.
func (a *Authorizer) attribute(ctx context.Context, req Request, caller *Caller) {
	if len(req.Key) != 1 || !wellFormedKey(req.Key[0]) {
		return
	}
	c := claim{req: req, key: req.Key[0], hash: HashKey(req.Key[0])}
	caller.KeyHint = Hint(c.key)
	key, found := a.cache.get(c.hash)
	if !found {
		key, _ = a.readKey(ctx, c)
	}
	caller.setKey(key)
}

// identify checks key, timestamp, signature and the form of the nonce. A cached record may be out
// of date. It may let a request pass, because admit compares versions; but no request is refused
// on it without checking again on a fresh read.
func (a *Authorizer) identify(ctx context.Context, c claim) (apiKey, error) {
	if key, found := a.cache.get(c.hash); found && checkIdentity(key, c) == nil {
		return key, nil
	}
	return a.identifyFresh(ctx, c)
}

func (a *Authorizer) identifyFresh(ctx context.Context, c claim) (apiKey, error) {
	key, err := a.readKey(ctx, c)
	if err != nil {
		return key, err
	}
	return key, checkIdentity(key, c)
}

// admit uses up the nonce, counts the request and finds out whether the record that it was checked
// on is current, in one transaction. If the record has changed, everything is checked again on the
// one that the store returned.
//
// In the contract's order account and address come after the nonce, but they decide whether the
// request is counted. So they are checked before the store is called, and reported afterwards.
func (a *Authorizer) admit(ctx context.Context, c claim, key apiKey) (apiKey, Admitted, error) {
	if c.req.ID == "" {
		// Without ids a replay would pass for the request itself.
		return key, Admitted{}, fault.From(errors.New("admit a request that has no id"))
	}
	for range admitAttempts {
		refusal := checkAccountAndAddress(key.record, c.req.Address)

		err := failpoint.Hit("N.before")
		var admitted Admitted
		if err == nil {
			admitted, err = a.store.Admit(ctx, newAdmission(c, key.record, refusal == nil))
		}
		if err == nil {
			err = failpoint.Hit("N.after")
		}
		if err != nil {
			a.cache.remove(c.hash) // the next request reads the record again
			return key, Admitted{}, unavailable(fmt.Errorf("admit request %s: %w", c.req.ID, err))
		}

		switch {
		case admitted.Fresh != nil:
			key = a.cacheRecord(c.hash, *admitted.Fresh)
			err = checkIdentity(key, c)
		case admitted.Replayed && !key.fresh:
			// The store looks at the nonce first. A key that was revoked since it was cached
			// has precedence.
			key, err = a.identifyFresh(ctx, c)
		}
		if err != nil {
			return key, Admitted{}, err
		}

		switch {
		case admitted.Replayed:
			return key, Admitted{}, replayed()
		case admitted.Fresh != nil:
			continue
		case refusal != nil:
			return key, Admitted{}, refusal
		}
		return key, admitted, nil
	}
	return key, Admitted{}, unavailable(errors.New("the caller's record changed during every attempt"))
}

// newAdmission is the admission of a claim that was checked on a record.
func newAdmission(c claim, record Record, count bool) Admission {
	return Admission{
		RequestID:         c.req.ID,
		CredentialID:      record.Credential.ID,
		OperatorID:        record.Operator.ID,
		Nonce:             c.nonce,
		Now:               c.req.Now,
		CredentialVersion: record.Credential.Version,
		OperatorVersion:   record.Operator.Version,
		Count:             count,
		Limit:             record.Operator.RateLimit,
	}
}

func (caller *Caller) setKey(key apiKey) {
	if key.exists() {
		caller.Operator = key.record.Operator
		caller.CredentialID = key.record.Credential.ID
	}
}
