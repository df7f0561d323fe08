package operation

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"
)

// Request is a request for an operation. Its sender is authenticated; nothing else was checked.
type Request struct {
	OperatorID int64
	Channel    Channel
	Actor      string
	// IdempotencyKey is unique per operator and never expires.
	IdempotencyKey string
	Kind           Kind
	// Fields are the string fields of the body. NotText names known fields that are not
	// strings.
	Fields  map[string]string
	NotText []string
	// Content is the canonical form of the whole body, ignored fields included. Two bodies
	// are the same if their contents are equal.
	Content []byte
}

// Fingerprint is a keyed hash of a request. Bodies hold passwords, and a plain hash would let
// anyone who reads the database try some.
type Fingerprint struct {
	KeyID uint32
	Sum   []byte
}

// FingerprintPurpose is the purpose for which the keys of fingerprints are derived from data keys.
const FingerprintPurpose = "body fingerprint"

// FingerprintKeys are the keys that fingerprints are made with.
type FingerprintKeys interface {
	// CurrentID is the id of the key for new fingerprints.
	CurrentID() uint32
	// Key returns any key that was ever used.
	Key(id uint32) (key []byte, known bool)
}

// Fingerprints are keys that do not change.
type Fingerprints struct {
	Keys    map[uint32][]byte
	Current uint32
}

// CurrentID returns f.Current.
func (f Fingerprints) CurrentID() uint32 { return f.Current }

// Key returns one of f.Keys.
func (f Fingerprints) Key(id uint32) (key []byte, known bool) {
	key, known = f.Keys[id]
	return key, known
}

// fingerprint computes the fingerprint of a request. The kind is part of it, because renew and
// advance-renew have the same bodies.
func fingerprint(keys FingerprintKeys, r Request, keyID uint32) (Fingerprint, error) {
	key, ok := keys.Key(keyID)
	if !ok {
		return Fingerprint{}, fmt.Errorf("there is no fingerprint key %d: is a master key missing from the ring?", keyID)
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(r.Kind))
	sum.Write([]byte{'\n'})
	sum.Write(r.Content)
	return Fingerprint{KeyID: keyID, Sum: sum.Sum(nil)}, nil
}

// matches reports whether a request has the given fingerprint.
func matches(keys FingerprintKeys, r Request, known Fingerprint) (bool, error) {
	made, err := fingerprint(keys, r, known.KeyID)
	if err != nil {
		return false, err
	}
	return hmac.Equal(made.Sum, known.Sum), nil
}

// idAlphabet is Crockford's: it keeps the sort order and has no look-alikes.
var idAlphabet = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// newID returns a transaction id: CX, the time in milliseconds and 80 random bits. Ids sort by
// time and cannot be guessed.
func newID(now time.Time) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(now.UnixMilli())<<16)
	// crypto/rand never returns an error; it crashes the program instead.
	_, _ = rand.Read(raw[6:])
	return "CX" + idAlphabet.EncodeToString(raw[:])
}

// FirstID returns an id that sorts before those of all operations made at a time or later, and after
// all earlier ones.
func FirstID(at time.Time) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(at.UnixMilli())<<16)
	return "CX" + idAlphabet.EncodeToString(raw[:])
}

// passwordLetters has no look-alikes: no 0 and O, no 1, l and I.
const passwordLetters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// newPassword generates a customer's app password of 12 characters.
func newPassword() string {
	password := make([]byte, 0, 12)
	var random [1]byte
	for len(password) < cap(password) {
		_, _ = rand.Read(random[:])
		// Bytes beyond the last multiple of the alphabet are dropped: modulo would make the
		// first letters likelier.
		if n := int(random[0]); n < 256/len(passwordLetters)*len(passwordLetters) {
			password = append(password, passwordLetters[n%len(passwordLetters)])
		}
	}
	return string(password)
}
