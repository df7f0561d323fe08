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

	// hintDigits is how much of a key is shown: 32 of its 128 bits, which leaves the rest
	// beyond guessing.
	hintDigits = 8
)

// KeyHash is the SHA-256 of a whole API key. A key is 128 random bits, so neither salt nor a slow
// hash is needed.
type KeyHash [sha256.Size]byte

// NewKey generates an API key and its secret. Both are shown once.
func NewKey() (key string, secret Secret) {
	return keyPrefix + randomHex(keyBytes), newSecret(secretPrefix + randomHex(secretBytes))
}

// HashKey returns the hash by which a key is stored and looked up.
func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }

// Hint is the beginning of a key, by which people tell keys apart. A malformed key has no hint, so
// that arbitrary input is not repeated in logs.
func Hint(key string) string {
	if !wellFormedKey(key) {
		return ""
	}
	return key[:len(keyPrefix)+hintDigits]
}

// HintPrefix returns the part of a hint that a text gives, which is a key or the beginning of one;
// empty if it is neither.
func HintPrefix(text string) string {
	digits, found := strings.CutPrefix(strings.ToLower(text), keyPrefix)
	if !found || digits == "" || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return keyPrefix + digits[:min(len(digits), hintDigits)]
}

// wellFormedKey reports whether a text has the form of a key from NewKey.
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

// randomHex returns n random bytes in hex. rand.Read never returns an error; it crashes the program
// instead.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
