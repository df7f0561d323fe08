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

// parameters are what a hash costs. They are written into it, so that they can grow.
type parameters struct {
	memoryKiB, passes uint32
	lanes             uint8
}

// today's are OWASP's least for argon2id. A sign-in takes some 30 ms of one core and
// 19 MiB with them.
var today = parameters{memoryKiB: 19 * 1024, passes: 2, lanes: 1}

// Bounds on what a stored hash may ask for: whoever can write to the database must
// not be able to make a sign-in take all memory.
const (
	memoryKiBMost = 256 * 1024
	passesMost    = 16
	lanesMost     = 8

	saltBytes = 16
	hashBytes = 32
)

const (
	// hashesAtOnce bounds the memory and the cores that a burst of sign-ins can
	// take from requests. It is the process's, because these are.
	hashesAtOnce = 2
	// hashesWaiting bounds how many more may stand in line.
	hashesWaiting = 200
	// hashesOfStrangers is how many of these browsers may have that are not known.
	hashesOfStrangers = 150
)

var (
	hashing     = make(chan struct{}, hashesAtOnce)
	hashesInUse atomic.Int64
	errBusy     = errors.New("too many passwords are being checked")
)

// idKey is the hash itself; tests count its calls.
var idKey = argon2.IDKey

// inTurn hashes when it is this caller's turn.
func (p parameters) inTurn(ctx context.Context, password string, salt []byte, size uint32) ([]byte, error) {
	if hashesInUse.Add(1) > hashesAtOnce+hashesWaiting {
		hashesInUse.Add(-1)
		return nil, errBusy
	}
	defer hashesInUse.Add(-1)
	select {
	case hashing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-hashing }()
	return idKey([]byte(password), salt, p.passes, p.memoryKiB, p.lanes, size), nil
}

// HashPassword returns what is kept of a password.
func HashPassword(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	sum, err := today.inTurn(ctx, password, salt, hashBytes)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return today.encode(salt, sum), nil
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
	if version != argon2.Version || p.memoryKiB < 8 || p.memoryKiB > memoryKiBMost ||
		p.passes < 1 || p.passes > passesMost || p.lanes < 1 || p.lanes > lanesMost {
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

// HashCheaply makes hashes from now on take next to no time. It is for tests that sign in
// many people: a hash says what it cost, so that others stay good.
func HashCheaply() {
	today = parameters{memoryKiB: 64, passes: 1, lanes: 1}
	recoveryCost = today
	nobodys = today.encode(make([]byte, saltBytes), make([]byte, hashBytes))
}

// nobodys is a hash that no password has, at today's price: an unknown username must
// take as long as a wrong password.
var nobodys = today.encode(make([]byte, saltBytes), make([]byte, hashBytes))

// matches reports whether a password is the one that was hashed, and whether the
// hash is of other parameters than today's.
func matches(ctx context.Context, encoded, password string) (same, old bool, err error) {
	p, salt, sum, err := decodeHash(encoded)
	if err != nil {
		return false, false, err
	}
	got, err := p.inTurn(ctx, password, salt, uint32(len(sum)))
	if err != nil {
		return false, false, fmt.Errorf("check a password: %w", err)
	}
	return subtle.ConstantTimeCompare(got, sum) == 1, p != today, nil
}

// TemporaryFor is how long a password holds that somebody else has chosen and that its
// person has not replaced.
const TemporaryFor = 72 * time.Hour

// Ends is when the account's password ends: zero for one that its person has chosen.
func (a Account) Ends() time.Time {
	if !a.MustChangePassword {
		return time.Time{}
	}
	return a.PasswordChangedAt.Add(TemporaryFor)
}

// readable has no letters that are taken for others: no i, l, o, 0 and 1.
const readable = "abcdefghjkmnpqrstuvwxyz23456789"

// NewPassword makes one that can be read out over the telephone: 79 random bits in
// groups of four.
func NewPassword() string { return grouped(4) }

// grouped returns so many random groups of four readable characters.
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

// randomBelow throws away what would make the lower numbers likelier.
func randomBelow(n int) int {
	var b [1]byte
	for {
		rand.Read(b[:])
		if v := int(b[0]); v < 256/n*n {
			return v % n
		}
	}
}
