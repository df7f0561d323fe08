// Package access says who is calling, and lets them in or not: by a signed
// request's key, clock, signature and nonce, then by the account's standing, the
// address, the rate and the key's permissions, in that order. It also holds what
// those rest on: keys and their sealed secrets, whitelists, trusted proxies.
//
// It knows no HTTP. It is handed what a request says, never the request itself,
// and answers with a Caller or a fault. It neither reads bodies nor routes, and it
// believes nothing about a caller longer than one request.
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

// admitRounds bounds how often one request is judged anew because its record
// changed in the meantime. Each round takes one more change at that very moment.
const admitRounds = 5

// Request is what a request says about itself. The four header fields hold all
// values of their header, so that a header sent twice is noticed.
type Request struct {
	ID  string
	Now time.Time
	// Address is the caller's, as TrustedProxies.Caller found it.
	Address netip.Addr

	Method, Path, RawQuery string
	Body                   []byte

	Key, Timestamp, Nonce, Signature []string

	// Needs is what the key must be permitted to do.
	Needs Permission
}

// Caller is who a request comes from. Beside an error it holds what had become
// known by then, for the log and the rate headers; the operator is then the one
// whose key was named, and nothing proves that it was they who called.
type Caller struct {
	Operator     subscription.Operator
	CredentialID int64
	KeyHint      string
	Rate         Rate
}

// Rate is where an operator stands in the present minute. If Limit is zero the
// request never got as far as being counted.
type Rate struct {
	Limit     int
	Remaining int
	ResetAt   time.Time
}

// AuthorizerConfig holds what may be tuned. The zero value is what the service ships
// with.
type AuthorizerConfig struct {
	// FailedAuthPerMinute is how many failed authentications an address has
	// in a minute before it is made to wait; 30 if zero.
	FailedAuthPerMinute int
	// Throttling is told of an address that has failed so often that it has to wait, when
	// that begins, with whose failures they were. Nil tells nobody.
	Throttling func(addr netip.Addr, failing FailingAddress)
}

// Authorizer is where every request is let in or turned away. It may be used by many
// requests at once.
type Authorizer struct {
	store    Store
	vault    *Vault
	cache    *cache
	throttle *throttle
	// throttling is told of an address that has to wait from now on; may be nil.
	throttling func(addr netip.Addr, failing FailingAddress)
}

// NewAuthorizer returns a gate to what is in store, whose secrets are sealed in vault.
func NewAuthorizer(store Store, vault *Vault, config AuthorizerConfig) *Authorizer {
	return &Authorizer{
		store:      store,
		vault:      vault,
		cache:      newCache(),
		throttle:   newThrottle(config.FailedAuthPerMinute),
		throttling: config.Throttling,
	}
}

// Throttled refuses an address that failed to authenticate too often. It costs
// next to nothing and comes before everything else about a request.
func (g *Authorizer) Throttled(addr netip.Addr, now time.Time) error {
	wait, throttled := g.throttle.Check(addr, now)
	if !throttled {
		return nil
	}
	return tooManyFailures(wait)
}

// Authorize lets a request in, or says why not. A failure to authenticate is
// held against the address it came from.
func (g *Authorizer) Authorize(ctx context.Context, req Request) (Caller, error) {
	caller, err := g.decide(ctx, req)
	if failedAuthentication(err) {
		by := attempt{code: fault.CodeOf(err)}
		if caller.CredentialID != 0 {
			by.key = NamedKey{caller.Operator.ID, caller.CredentialID, caller.KeyHint}
		}
		if began := g.throttle.Failed(req.Address, req.Now, by); began && g.throttling != nil {
			failing, _ := g.throttle.failing(req.Address, req.Now)
			g.throttling(req.Address, failing)
		}
	}
	return caller, err
}

// decide is the order of checks. Every later step rests on the earlier ones.
func (g *Authorizer) decide(ctx context.Context, req Request) (caller Caller, err error) {
	// Headers: all four, each once.
	c, err := readClaim(req)
	if err != nil {
		g.attribute(ctx, req, &caller)
		return caller, err
	}
	caller.KeyHint = Hint(c.key)

	// Key, clock, signature and the nonce's form: is it really they?
	who, err := g.identify(ctx, c)
	caller.recognise(who)
	if err != nil {
		return caller, err
	}

	// Nonce, account, address: may they call at all? The nonce is used up from
	// here on, whatever is answered.
	who, admitted, err := g.admit(ctx, c, who)
	caller.recognise(who)
	if err != nil {
		return caller, err
	}

	// Rate: counted already, in the same stroke as the nonce.
	caller.Rate = rateOf(who.record.Operator.RateLimit, admitted.Used, req.Now)
	if !admitted.Counted {
		caller.Rate.Remaining = 0 // not below, if the limit was lowered within the minute
		return caller, rateLimited(caller.Rate, req.Now)
	}

	// Permission: may this key do this?
	return caller, judgePermission(who.record.Credential.Permissions, req.Needs)
}

// attribute notes whose key a request named that did not have all four headers, so that
// its failure counts under that key. The answer does not depend on it: if the key cannot be
// read, nothing is noted.
func (g *Authorizer) attribute(ctx context.Context, req Request, caller *Caller) {
	if len(req.Key) != 1 || !wellFormedKey(req.Key[0]) {
		return
	}
	c := claim{req: req, key: req.Key[0], hash: HashKey(req.Key[0])}
	caller.KeyHint = Hint(c.key)
	who, found := g.cache.recall(c.hash)
	if !found {
		who, _ = g.read(ctx, c)
	}
	caller.recognise(who)
}

// identify finds the key's record and judges key, clock, signature and the form
// of the nonce on it. What is remembered can only be out of date: it may let a
// caller go on, because admit asks for the record's version, but a refusal is
// judged again on the record as it stands now before it is answered.
func (g *Authorizer) identify(ctx context.Context, c claim) (subject, error) {
	if who, found := g.cache.recall(c.hash); found && judgeIdentity(who, c) == nil {
		return who, nil
	}
	return g.identifyAfresh(ctx, c)
}

func (g *Authorizer) identifyAfresh(ctx context.Context, c claim) (subject, error) {
	who, err := g.read(ctx, c)
	if err != nil {
		return who, err
	}
	return who, judgeIdentity(who, c)
}

// admit burns the nonce, counts the request and makes sure that the record it
// was judged on still holds. Where it does not, everything is judged again on
// the record that the store hands back.
//
// Account and address come after the nonce but decide whether the request is
// counted, so they are judged before the store is asked and answered after.
func (g *Authorizer) admit(ctx context.Context, c claim, who subject) (subject, Admitted, error) {
	if c.req.ID == "" {
		// Requests without an id could not be told apart, and replays would pass.
		return who, Admitted{}, fault.From(errors.New("admit a request that has no id"))
	}
	for range admitRounds {
		refusal := judgeStanding(who.record, c.req.Address)

		err := failpoint.Hit("N.before")
		var admitted Admitted
		if err == nil {
			admitted, err = g.store.Admit(ctx, admissionOf(c, who.record, refusal == nil))
		}
		if err == nil {
			err = failpoint.Hit("N.after")
		}
		if err != nil {
			// Whatever it was, the next request starts from a fresh read.
			g.cache.forget(c.hash)
			return who, Admitted{}, unavailable(fmt.Errorf("admit request %s: %w", c.req.ID, err))
		}

		switch {
		case admitted.Fresh != nil:
			who = g.remember(c.hash, *admitted.Fresh)
			err = judgeIdentity(who, c)
		case admitted.Replayed && !who.fresh:
			// A used nonce is all the store looks at, but a key that was revoked
			// since it was remembered has the first word.
			who, err = g.identifyAfresh(ctx, c)
		}
		if err != nil {
			return who, Admitted{}, err
		}

		switch {
		case admitted.Replayed:
			return who, Admitted{}, replayed()
		case admitted.Fresh != nil:
			continue
		case refusal != nil:
			return who, Admitted{}, refusal
		}
		return who, admitted, nil
	}
	return who, Admitted{}, unavailable(errors.New("the caller's record changed faster than it could be judged"))
}

// admissionOf asks the store to let a claim in, as the record it was judged on.
func admissionOf(c claim, record Record, count bool) Admission {
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

// recognise notes whose key was named.
func (caller *Caller) recognise(who subject) {
	if who.known() {
		caller.Operator = who.record.Operator
		caller.CredentialID = who.record.Credential.ID
	}
}
