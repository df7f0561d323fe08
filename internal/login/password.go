package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"
)

// parameters are the cost of a hash. They are stored with it, so that they can be raised.
type parameters struct {
	memoryKiB, passes uint32
	lanes             uint8
}

// currentParams are OWASP's minimum for argon2id. With them a sign-in takes some 30 ms of one
// core and 19 MiB.
var currentParams = parameters{memoryKiB: 19 * 1024, passes: 2, lanes: 1}

// Bounds of a stored hash's parameters: write access to the database must not be enough
// to make a sign-in take all memory.
const (
	maxMemoryKiB = 256 * 1024
	maxPasses    = 16
	maxLanes     = 8

	saltBytes = 16
	hashBytes = 32
)

const (
	// maxConcurrentHashes bounds the memory and CPU that a burst of sign-ins can take from
	// requests. It applies to the whole process.
	maxConcurrentHashes = 2
	// maxQueuedHashes bounds how many more may wait.
	maxQueuedHashes = 200
	// maxUnknownBrowserHashes is how many of these may be from unknown browsers.
	maxUnknownBrowserHashes = 150
)

var (
	hashSlots   = make(chan struct{}, maxConcurrentHashes)
	hashesInUse atomic.Int64
	errBusy     = errors.New("too many passwords are being checked")
)

// idKey is the hash function; tests count its calls.
var idKey = argon2.IDKey

// hash hashes a password once a slot is free.
func (p parameters) hash(ctx context.Context, password string, salt []byte, size uint32) ([]byte, error) {
	if hashesInUse.Add(1) > maxConcurrentHashes+maxQueuedHashes {
		hashesInUse.Add(-1)
		return nil, errBusy
	}
	defer hashesInUse.Add(-1)
	select {
	case hashSlots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-hashSlots }()
	return idKey([]byte(password), salt, p.passes, p.memoryKiB, p.lanes, size), nil
}

// HashPassword returns a password's hash, with its parameters.
func HashPassword(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	sum, err := currentParams.hash(ctx, password, salt, hashBytes)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return currentParams.encode(salt, sum), nil
}

const argon2Form = "$argon2id$v=%d$m=%d,t=%d,p=%d$"

func (p parameters) encode(salt, sum []byte) string {
	text := base64.RawStdEncoding
	return fmt.Sprintf(argon2Form, argon2.Version, p.memoryKiB, p.passes, p.lanes) + text.EncodeToString(salt) + "$" + text.EncodeToString(sum)
}

func decodeHash(encoded string) (p parameters, salt, sum []byte, err error) {
	bad := errors.New("a stored password is not an argon2id hash")
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 {
		return p, nil, nil, bad
	}
	var version int
	head := strings.Join(parts[:4], "$") + "$"
	if _, err := fmt.Sscanf(head, argon2Form, &version, &p.memoryKiB, &p.passes, &p.lanes); err != nil {
		return p, nil, nil, bad
	}
	if version != argon2.Version || p.memoryKiB < 8 || p.memoryKiB > maxMemoryKiB ||
		p.passes < 1 || p.passes > maxPasses || p.lanes < 1 || p.lanes > maxLanes {
		return p, nil, nil, bad
	}
	if salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil || len(salt) < 8 {
		return p, nil, nil, bad
	}
	if sum, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(sum) < 16 || len(sum) > 64 {
		return p, nil, nil, bad
	}
	return p, salt, sum, nil
}

// HashCheaply makes hashes cheap from now on, for tests that sign in many people. A hash
// has its own parameters, so that older ones stay valid.
func HashCheaply() {
	currentParams = parameters{memoryKiB: 64, passes: 1, lanes: 1}
	recoveryCost = currentParams
	dummyHash = currentParams.encode(make([]byte, saltBytes), make([]byte, hashBytes))
}

// dummyHash is a hash of no password, at the current cost: an unknown username must take as
// long as a wrong password.
var dummyHash = currentParams.encode(make([]byte, saltBytes), make([]byte, hashBytes))

// matches reports whether a password is the one that was hashed, and whether the hash has
// other parameters than the current ones.
func matches(ctx context.Context, encoded, password string) (same, old bool, err error) {
	p, salt, sum, err := decodeHash(encoded)
	if err != nil {
		return false, false, err
	}
	got, err := p.hash(ctx, password, salt, uint32(len(sum)))
	if err != nil {
		return false, false, fmt.Errorf("check a password: %w", err)
	}
	return subtle.ConstantTimeCompare(got, sum) == 1, p != currentParams, nil
}

// TemporaryFor is how long a temporary password is valid: one that somebody else has
// chosen and that its person has not replaced.
const TemporaryFor = 72 * time.Hour

// Ends is when the account's password expires; zero unless it is temporary.
func (a Account) Ends() time.Time {
	if !a.MustChangePassword {
		return time.Time{}
	}
	return a.PasswordChangedAt.Add(TemporaryFor)
}

// readable leaves out characters that are easily confused: i, l, o, 0 and 1.
const readable = "abcdefghjkmnpqrstuvwxyz23456789"

// NewPassword generates a password that can be read out over the telephone: 79 random bits
// in groups of four.
func NewPassword() string { return grouped(4) }

// grouped returns a number of random groups of four readable characters.
func grouped(groups int) string {
	var text strings.Builder
	for i := range groups * 4 {
		if i > 0 && i%4 == 0 {
			text.WriteByte('-')
		}
		text.WriteByte(readable[randomBelow(len(readable))])
	}
	return text.String()
}

// randomBelow discards values that would make the lower numbers likelier.
func randomBelow(n int) int {
	var b [1]byte
	for {
		rand.Read(b[:])
		if v := int(b[0]); v < 256/n*n {
			return v % n
		}
	}
}
