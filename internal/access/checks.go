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

// timestampTolerance is how many seconds a caller's clock may be off, in both directions.
const timestampTolerance = 300

// decoySigner verifies signatures of keys that do not exist.
var (
	decoySecret = secretPrefix + strings.Repeat("0", 2*secretBytes)
	decoySigner = signing.NewKey(decoySecret)
)

// checkIdentity checks key, timestamp, signature and the form of the nonce, in the contract's
// order. It only computes.
func checkIdentity(key apiKey, c claim) error {
	if err := checkKey(key, c); err != nil {
		return err
	}
	if err := checkTimestamp(c.timestamp, c.req.Now); err != nil {
		return err
	}
	if err := checkSignature(key, c); err != nil {
		return err
	}
	return checkNonceForm(c.nonce)
}

// checkKey reports a malformed key and one that does not exist in the same way.
func checkKey(key apiKey, c claim) error {
	credential := key.record.Credential
	switch {
	case !key.exists():
		// The response time must not reveal whether a key exists.
		decoySigner.Verify(c.signed(), c.signature)
		return fault.New(fault.InvalidAPIKey,
			"X-API-Key is not a key of this service. Check that it was copied whole, or ask your administrator for a new one.")
	case !credential.RevokedAt.IsZero():
		return fault.New(fault.CredentialRevoked,
			"This API key was revoked. Use the key that replaced it, or ask your administrator for a new one.")
	case !credential.ExpiresAt.IsZero() && !c.req.Now.Before(credential.ExpiresAt):
		return fault.New(fault.CredentialExpired,
			"This API key was replaced and its grace period is over. Use the key that replaced it.")
	}
	return nil
}

// checkTimestamp compares whole seconds, as the contract does: 300.9 s count as 300.
func checkTimestamp(timestamp string, now time.Time) error {
	ours := now.Unix()
	theirs, ok := parseTimestamp(timestamp)
	if ok && theirs >= ours-timestampTolerance && theirs <= ours+timestampTolerance {
		return nil
	}
	message := "X-Timestamp is more than %d seconds from our clock. Set your clock by data.server_time and sign the request again."
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

// checkSignature is the first check that needs the secret. A secret that could not be opened is an
// internal error.
func checkSignature(key apiKey, c claim) error {
	if key.openErr != nil {
		return fault.From(fmt.Errorf("check the signature of key %s: %w", key.record.Credential.Hint, key.openErr))
	}
	if !key.signer.Verify(c.signed(), c.signature) {
		return fault.New(fault.InvalidSignature,
			"X-Signature does not match the request. Sign its method, path, query, timestamp, nonce and body "+
				"with the whole API secret, send 64 lower-case hex characters, and leave the body as it was signed.")
	}
	return nil
}

// checkNonceForm comes after the signature, which covers the nonce.
func checkNonceForm(nonce string) error {
	if !wellFormedNonce(nonce) {
		return fault.New(fault.InvalidNonce,
			"X-Nonce has to be %d to %d characters from A-Z, a-z, 0-9, _ and -, new for every request.", nonceLenMin, nonceLenMax)
	}
	return nil
}

func checkAccountAndAddress(record Record, addr netip.Addr) error {
	if err := checkAccount(record.Operator); err != nil {
		return err
	}
	return checkAddress(record.Whitelist, addr)
}

// checkAccount accepts only the states that it knows to be good; an unknown one is refused.
func checkAccount(operator subscription.Operator) error {
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

func checkAddress(whitelist []netip.Prefix, addr netip.Addr) error {
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

func checkPermission(has Permissions, needs Permission) error {
	if has.Has(needs) {
		return nil
	}
	return fault.New(fault.PermissionDenied,
		"This API key lacks the permission %q. Ask your administrator to enable it for the key.", needs)
}

// rateAt is the operator's use of the rate window that now falls in.
func rateAt(limit, used int, now time.Time) Rate {
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

// failedAuthentication reports whether an error counts for throttling: the contract's 401s, which
// guessing keys, secrets or nonces would cause.
func failedAuthentication(err error) bool {
	switch fault.CodeOf(err) {
	case fault.MissingAuthHeaders, fault.InvalidAPIKey, fault.CredentialRevoked, fault.CredentialExpired,
		fault.TimestampExpired, fault.InvalidNonce, fault.InvalidSignature, fault.ReplayDetected:
		return true
	}
	return false
}
