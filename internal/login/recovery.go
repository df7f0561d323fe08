package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// recoveryCodes is how many there are. Each works once, in place of a lost device.
const recoveryCodes = 10

// recoveryCost is the cost of hashing one recovery code: less than half of a password's,
// because a code is 79 random bits and ten of them are hashed when they are generated.
var recoveryCost = parameters{memoryKiB: 8 * 1024, passes: 2, lanes: 1}

// newRecoveryCodes generates the codes and their hashes. All have one salt, so that
// checking a code takes one hash. The salt is stored in the format of a hash, with the
// parameters and an empty sum.
func newRecoveryCodes(ctx context.Context) (codes []string, stored RecoveryCodes, err error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	stored.Salt = recoveryCost.encode(salt, make([]byte, hashBytes))
	for range recoveryCodes {
		code := grouped(4)
		sum, err := recoveryCost.hash(ctx, plain(code), salt, hashBytes)
		if err != nil {
			return nil, stored, fmt.Errorf("hash a recovery code: %w", err)
		}
		codes, stored.Hashes = append(codes, code), append(stored.Hashes, sum)
	}
	return codes, stored, nil
}

// recoveryProof hashes a recovery code with the person's salt. Codes of older releases
// have no salt and a fast hash; they stay valid until they are used or replaced.
func (svc *Service) recoveryProof(ctx context.Context, account Account, plain string) (Proof, error) {
	encoded, err := svc.store.RecoverySalt(ctx, account.ID)
	if err != nil {
		return Proof{}, fmt.Errorf("read how the recovery codes of login %d are hashed: %w", account.ID, err)
	}
	if encoded == "" {
		sum := sha256.Sum256([]byte(plain))
		return Proof{Recovery: sum[:]}, nil
	}
	cost, salt, _, err := decodeHash(encoded)
	if err != nil {
		return Proof{}, fmt.Errorf("read how the recovery codes of login %d are hashed: %w", account.ID, err)
	}
	sum, err := cost.hash(ctx, plain, salt, hashBytes)
	if err != nil {
		return Proof{}, busy(fmt.Errorf("check a recovery code: %w", err))
	}
	return Proof{Recovery: sum}, nil
}
