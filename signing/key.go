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

// Key is a secret made ready to sign and verify with: HMAC works on the secret
// before it comes to the message, and a Key keeps what came of that. It is safe
// for concurrent use, and does not show the secret when it is printed.
type Key struct {
	empty bool
	// tools lend a *tool each to whoever works. They know the secret as a
	// closure, which fmt cannot look into.
	tools sync.Pool
}

// tool is what one signature needs, kept for the next.
type tool struct {
	hmac hash.Hash
	used bool
	text []byte // the string to sign
	sum  [sha256.Size]byte
	hex  [signatureLen]byte
}

// NewKey returns the Key of a secret, whose every character counts.
func NewKey(secret string) *Key {
	k := &Key{empty: secret == ""}
	k.tools.New = func() any { return &tool{hmac: hmac.New(sha256.New, []byte(secret))} }
	return k
}

// Sign returns a request's signature, as Request.Sign does.
func (k *Key) Sign(r Request) string {
	t := k.tools.Get().(*tool)
	defer k.tools.Put(t)
	return string(t.mac(r))
}

// Verify reports whether signature is the request's, as Request.Verify does.
func (k *Key) Verify(r Request, signature string) bool {
	if k.empty || r.hasLineFeed() {
		return false
	}
	t := k.tools.Get().(*tool)
	defer k.tools.Put(t)
	// Texts are compared, not decoded bytes: being equal to 64 lower-case hex
	// characters is the format check, and decoding would let upper case pass.
	return subtle.ConstantTimeCompare(t.mac(r), []byte(signature)) == 1
}

// mac returns the lower-case hex HMAC-SHA256 of a request's string to sign. It
// is good until the tool is used again.
func (t *tool) mac(r Request) []byte {
	t.text = r.appendTo(t.text[:0])
	return t.macOf(t.text)
}

func (t *tool) macOf(message []byte) []byte {
	// The first Reset is where HMAC keeps its work on the secret, which costs
	// more than it saves whoever signs once.
	if t.used {
		t.hmac.Reset()
	}
	t.used = true
	t.hmac.Write(message)
	hex.Encode(t.hex[:], t.hmac.Sum(t.sum[:0]))
	return t.hex[:]
}
