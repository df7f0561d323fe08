package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	keyPrefix    = "cxk_"
	keyBytes     = 16
	keyLen       = len(keyPrefix) + 2*keyBytes
	secretPrefix = "cxs_"
	secretBytes  = 32

	// hintDigits is how much of a key people get to see. 32 of its 128 bits
	// tell an operator's keys apart and leave the rest beyond guessing.
	hintDigits = 8
)

// KeyHash is the SHA-256 of a whole API key. It needs neither salt nor a slow
// function: a key is 128 random bits, and there is nothing to guess from.
type KeyHash [sha256.Size]byte

// NewKey makes an API key and its secret. Both are shown to a person once.
func NewKey() (key string, secret Secret) {
	return keyPrefix + randomHex(keyBytes), newSecret(secretPrefix + randomHex(secretBytes))
}

// HashKey returns what a key is stored and looked up by.
func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }

// Hint is the beginning of a key, to tell keys apart in lists and logs. What is
// no key has no hint: whatever a stranger sent is not repeated anywhere.
func Hint(key string) string {
	if !wellFormedKey(key) {
		return ""
	}
	return key[:len(keyPrefix)+hintDigits]
}

// wellFormedKey reports whether a text looks like a key that NewKey made, in
// lower case and without anything around it.
func wellFormedKey(key string) bool {
	digits, found := strings.CutPrefix(key, keyPrefix)
	if !found || len(key) != keyLen {
		return false
	}
	for i := range len(digits) {
		if c := digits[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// randomHex returns n random bytes in hex. rand.Read never fails: where the
// system has no randomness to give, the program ends.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
