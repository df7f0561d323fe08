package login

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"
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
	sum, err := p.hash(context.Background(), password, salt, hashBytes)
	if err != nil {
		panic(err)
	}
	return p.encode(salt, sum)
}

// CheapHashing makes hashes cheap while a test runs that needs many.
func CheapHashing(t *testing.T) {
	t.Helper()
	dear, dearNobodys := currentParams, dummyHash
	currentParams = parameters{memoryKiB: 32, passes: 1, lanes: 1} // not those of CheapHash
	dummyHash = currentParams.encode(make([]byte, saltBytes), make([]byte, hashBytes))
	t.Cleanup(func() { currentParams, dummyHash = dear, dearNobodys })
}

// CountHashes counts the passwords that are hashed from now on, and what each cost.
func CountHashes(t *testing.T) *[]string {
	t.Helper()
	var costs []string
	idKey = func(password, salt []byte, passes, memory uint32, lanes uint8, size uint32) []byte {
		costs = append(costs, fmt.Sprintf("%d KiB, %d passes, %d lanes", memory, passes, lanes))
		return argon2.IDKey(password, salt, passes, memory, lanes, size)
	}
	t.Cleanup(func() { idKey = argon2.IDKey })
	return &costs
}

// OldRecoveryHash is what older releases kept of a recovery code.
func OldRecoveryHash(code string) []byte {
	sum := sha256.Sum256([]byte(plain(code)))
	return sum[:]
}

func init() { recoveryCost = parameters{memoryKiB: 64, passes: 1, lanes: 1} }
