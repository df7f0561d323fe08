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

// Request is a wish to operate, before anything of it was judged but who sends
// it.
type Request struct {
	OperatorID int64
	Channel    Channel
	Actor      string
	// IdempotencyKey belongs to the operator, for good.
	IdempotencyKey string
	Kind           Kind
	// Fields are the texts that were given, by the contract's names. NotText
	// names known fields that were given as something else.
	Fields  map[string]string
	NotText []string
	// Content is the whole body in one canonical form, ignored fields
	// included: two bodies are the same if their contents are.
	Content []byte
}

// Fingerprint tells one body from another without giving it away: bodies hold
// passwords, and a plain hash would let anyone who reads the database try some.
type Fingerprint struct {
	KeyID uint32
	Sum   []byte
}

// Fingerprints makes fingerprints, under keys that come from the master key.
type Fingerprints struct {
	// Keys has every key that was ever in use; Current is the one for new
	// fingerprints.
	Keys    map[uint32][]byte
	Current uint32
}

// of makes the fingerprint of a request. The kind is part of it: renew and
// advance-renew have the same bodies and different meanings.
func (f Fingerprints) of(r Request, keyID uint32) (Fingerprint, error) {
	key, ok := f.Keys[keyID]
	if !ok {
		return Fingerprint{}, fmt.Errorf("there is no fingerprint key %d: is a master key missing from the ring?", keyID)
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(r.Kind))
	sum.Write([]byte{'\n'})
	sum.Write(r.Content)
	return Fingerprint{KeyID: keyID, Sum: sum.Sum(nil)}, nil
}

// matches reports whether a request is the one that a fingerprint was made of.
func (f Fingerprints) matches(r Request, known Fingerprint) (bool, error) {
	made, err := f.of(r, known.KeyID)
	if err != nil {
		return false, err
	}
	return hmac.Equal(made.Sum, known.Sum), nil
}

// idAlphabet sorts like the numbers it stands for and has no look-alikes.
var idAlphabet = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// newID makes a transaction id: CX, the millisecond, and eighty random bits, so
// that ids sort by time and cannot be guessed.
func newID(now time.Time) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(now.UnixMilli())<<16)
	// crypto/rand does not fail; it ends the program instead.
	_, _ = rand.Read(raw[6:])
	return "CX" + idAlphabet.EncodeToString(raw[:])
}

// passwordLetters has no look-alikes: no 0 and O, no 1, l and I.
const passwordLetters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// newPassword makes a customer's app password of 12 characters.
func newPassword() string {
	password := make([]byte, 0, 12)
	var random [1]byte
	for len(password) < cap(password) {
		_, _ = rand.Read(random[:])
		// What is beyond the last whole round is thrown away: taking it
		// modulo would make the first letters likelier.
		if n := int(random[0]); n < 256/len(passwordLetters)*len(passwordLetters) {
			password = append(password, passwordLetters[n%len(passwordLetters)])
		}
	}
	return string(password)
}
