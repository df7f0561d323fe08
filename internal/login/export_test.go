package login

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"time"
)

// CodeAt is what an app shows that was given a secret.
func CodeAt(secret string, at time.Time) string {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		panic(err)
	}
	return codeOf(key, stepOf(at), totpDigits)
}

// CheapHash is a password's hash as an older release might have made it.
func CheapHash(password string) string {
	p, salt := parameters{memoryKiB: 64, passes: 1, lanes: 1}, []byte("0123456789abcdef")
	sum, err := p.inTurn(context.Background(), password, salt, hashBytes)
	if err != nil {
		panic(err)
	}
	return p.encode(salt, sum)
}

// OldRecoveryHash is what older releases kept of a recovery code.
func OldRecoveryHash(code string) []byte {
	sum := sha256.Sum256([]byte(plain(code)))
	return sum[:]
}

// ForgetAttempts forgets the wrong tries that were counted.
func (d *Desk) ForgetAttempts() { d.attempts = newAttempts(attemptsKept) }

func init() { recoveryCost = parameters{memoryKiB: 64, passes: 1, lanes: 1} }
