package signing

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"sync"
)

// signatureLen is the length of a signature: a SHA-256 sum in hex.
const signatureLen = 2 * sha256.Size

// Key is a secret prepared for signing and verifying: it caches the part of HMAC
// that depends on the secret alone. It is safe for concurrent use, and does not
// reveal the secret when it is printed.
type Key struct {
	empty bool
	// states is a pool of *macState. The secret is in a closure, which fmt cannot
	// print.
	states sync.Pool
}

// macState is the reusable state of computing a signature.
type macState struct {
	hmac hash.Hash
	used bool
	text []byte // the string to sign
	sum  [sha256.Size]byte
	hex  [signatureLen]byte
}

// NewKey returns the Key of a secret, which includes its prefix.
func NewKey(secret string) *Key {
	k := &Key{empty: secret == ""}
	k.states.New = func() any { return &macState{hmac: hmac.New(sha256.New, []byte(secret))} }
	return k
}

// Sign returns a request's signature, as Request.Sign does.
func (k *Key) Sign(r Request) string {
	t := k.states.Get().(*macState)
	defer k.states.Put(t)
	return string(t.mac(r))
}

// Verify reports whether signature is the request's, as Request.Verify does.
func (k *Key) Verify(r Request, signature string) bool {
	if k.empty || r.hasLineFeed() {
		return false
	}
	t := k.states.Get().(*macState)
	defer k.states.Put(t)
	// Texts are compared, not decoded bytes: this also checks the format, 64
	// lower-case hex characters; decoding would accept upper case.
	return subtle.ConstantTimeCompare(t.mac(r), []byte(signature)) == 1
}

// mac returns the lower-case hex HMAC-SHA256 of a request's string to sign. It is
// valid until the macState is used again.
func (t *macState) mac(r Request) []byte {
	t.text = r.appendTo(t.text[:0])
	return t.macOf(t.text)
}

func (t *macState) macOf(message []byte) []byte {
	// The first Reset saves HMAC's state for the secret, which costs more than it
	// saves for a single signature.
	if t.used {
		t.hmac.Reset()
	}
	t.used = true
	t.hmac.Write(message)
	hex.Encode(t.hex[:], t.hmac.Sum(t.sum[:0]))
	return t.hex[:]
}
