package access

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/signing"
)

// timestampTolerance is how many seconds a caller's clock may be off, either way.
const timestampTolerance = 300

// decoySecret stands in for the secret of a key that nobody has.
var (
	decoySecret = secretPrefix + strings.Repeat("0", 2*secretBytes)
	decoySigner = signing.NewKey(decoySecret)
)

// judgeIdentity judges a claim on its key's record: key, clock, signature and
// the form of the nonce, in the contract's order. It only computes.
func judgeIdentity(who subject, c claim) error {
	if err := judgeKey(who, c); err != nil {
		return err
	}
	if err := judgeClock(c.timestamp, c.req.Now); err != nil {
		return err
	}
	if err := judgeSignature(who, c); err != nil {
		return err
	}
	return judgeNonce(c.nonce)
}

// judgeKey says the same of a malformed key and of one that nobody has.
func judgeKey(who subject, c claim) error {
	key := who.record.Credential
	switch {
	case !who.known():
		// Verified against nothing, so that a key that exists cannot be told
		// from one that does not by how long the answer takes.
		decoySigner.Verify(c.signed(), c.signature)
		return fault.New(fault.InvalidAPIKey,
			"X-API-Key is not a key of this service. Check that it was copied whole, or ask your administrator for a new one.")
	case !key.RevokedAt.IsZero():
		return fault.New(fault.CredentialRevoked,
			"This API key was revoked. Use the key that replaced it, or ask your administrator for a new one.")
	case !key.ExpiresAt.IsZero() && !c.req.Now.Before(key.ExpiresAt):
		return fault.New(fault.CredentialExpired,
			"This API key was replaced and its grace period is over. Use the key that replaced it.")
	}
	return nil
}

// judgeClock compares whole seconds, as the contract counts in them: a request
// that is 300.9 s old is 300 seconds old.
func judgeClock(timestamp string, now time.Time) error {
	ours := now.Unix()
	theirs, ok := parseTimestamp(timestamp)
	if ok && theirs >= ours-timestampTolerance && theirs <= ours+timestampTolerance {
		return nil
	}
	message := "X-Timestamp is more than %d seconds from our clock. Set your clock by data.server_time and sign the request anew."
	switch {
	case !ok:
		message = "X-Timestamp is not a number of seconds. Send the current Unix time in decimal digits, within %d seconds of data.server_time."
	case theirs >= 1e12 && theirs < 1e13:
		// Thirteen digits: milliseconds from 2001 to 2286, or seconds of the year 33658 and later.
		message = "X-Timestamp is in milliseconds. Send seconds: the current Unix time in ten digits, within %d seconds of data.server_time, " +
			"and sign the same value."
	}
	return fault.New(fault.TimestampExpired, message, timestampTolerance).With("server_time", ours)
}

// judgeSignature is the first step that needs the secret, and so the one that
// fails if it could not be opened. That is our fault, not the caller's.
func judgeSignature(who subject, c claim) error {
	if who.openErr != nil {
		return fault.From(fmt.Errorf("judge the signature of key %s: %w", who.record.Credential.Hint, who.openErr))
	}
	if !who.signer.Verify(c.signed(), c.signature) {
		return fault.New(fault.InvalidSignature,
			"X-Signature does not match the request. Sign its method, path, query, timestamp, nonce and body "+
				"with the whole API secret, send 64 lower-case hex characters, and leave the body as it was signed.")
	}
	return nil
}

// judgeNonce comes after the signature: until then the nonce may be anybody's.
func judgeNonce(nonce string) error {
	if !wellFormedNonce(nonce) {
		return fault.New(fault.InvalidNonce,
			"X-Nonce has to be %d to %d characters from A-Z, a-z, 0-9, _ and -, new for every request.", nonceLenMin, nonceLenMax)
	}
	return nil
}

// judgeStanding judges the account, then the address.
func judgeStanding(record Record, addr netip.Addr) error {
	if err := judgeAccount(record.Operator); err != nil {
		return err
	}
	return judgeAddress(record.Whitelist, addr)
}

// judgeAccount lets in only what it knows to be good: a status or a position of
// the switch that it has no word for is not consent.
func judgeAccount(operator subscription.Operator) error {
	switch {
	case operator.Status == subscription.OperatorDeleted:
		return fault.New(fault.LCONotFound, "The operator account of this API key no longer exists.")
	case operator.Status != subscription.OperatorActive:
		return fault.New(fault.LCOInactive, "The operator account is suspended or inactive. Ask your administrator to activate it.")
	case operator.API == subscription.APIBlocked:
		return fault.New(fault.APIAccessBlocked, "API access is blocked for this operator. Ask your administrator why.")
	case operator.API != subscription.APIEnabled:
		return fault.New(fault.APIDisabled, "API access is switched off for this operator. Ask your administrator to switch it on.")
	}
	return nil
}

func judgeAddress(whitelist []netip.Prefix, addr netip.Addr) error {
	if allowed(whitelist, addr) {
		return nil
	}
	seen := "unknown"
	if addr.IsValid() {
		seen = addr.Unmap().String()
	}
	return fault.New(fault.IPNotWhitelisted,
		"Requests from %s are not accepted. Ask your administrator to add the address in data.ip to the whitelist.", seen).
		With("ip", seen)
}

func judgePermission(has Permissions, needs Permission) error {
	if has.Has(needs) {
		return nil
	}
	return fault.New(fault.PermissionDenied,
		"This API key lacks the permission %q. Ask your administrator to enable it for the key.", needs)
}

// rateOf is where an operator stands in the minute that now falls in.
func rateOf(limit, used int, now time.Time) Rate {
	return Rate{
		Limit:     limit,
		Remaining: limit - used,
		ResetAt:   time.UnixMilli((subscription.RateWindowAt(now) + 1) * subscription.RateWindow.Milliseconds()).UTC(),
	}
}

func rateLimited(rate Rate, now time.Time) error {
	wait := time.Duration(rate.ResetAt.Unix()-now.Unix()) * time.Second
	return fault.New(fault.RateLimited,
		"The limit of %d requests per minute is reached. Retry in %d seconds with the same Idempotency-Key.",
		rate.Limit, int(wait.Seconds())).After(wait)
}

func tooManyFailures(wait time.Duration) error {
	seconds := max(int(math.Ceil(wait.Seconds())), 1)
	return fault.New(fault.TooManyFailedAttempts,
		"Too many requests from this address failed to authenticate. Put right what their answers named, and retry in %d seconds.", seconds).
		After(time.Duration(seconds) * time.Second)
}

func replayed() error {
	return fault.New(fault.ReplayDetected,
		"X-Nonce was used before with this API key. Every request, a retry too, needs a new nonce, timestamp and signature.")
}

func unavailable(cause error) error {
	return fault.New(fault.ServiceUnavailable,
		"The service is temporarily unavailable. Retry with backoff and the same Idempotency-Key.").Because(cause)
}

// failedAuthentication reports whether a refusal is one of those by which
// somebody guessing keys, secrets or nonces could be known: the contract's 401s.
func failedAuthentication(err error) bool {
	switch fault.CodeOf(err) {
	case fault.MissingAuthHeaders, fault.InvalidAPIKey, fault.CredentialRevoked, fault.CredentialExpired,
		fault.TimestampExpired, fault.InvalidNonce, fault.InvalidSignature, fault.ReplayDetected:
		return true
	}
	return false
}
