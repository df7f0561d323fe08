package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// recoveryCodes is how many there are, each good once, for a telephone that was lost.
const recoveryCodes = 10

// recoveryCost is what hashing one recovery code costs: less than half of a password's,
// because a code is 79 random bits and ten of them are hashed at once when they are made.
var recoveryCost = parameters{memoryKiB: 8 * 1024, passes: 2, lanes: 1}

// newRecoveryCodes makes the codes, and what is kept of them. All have one salt, so that
// checking a code takes one hash, whichever of the ten it is. The salt is kept as a hash
// is, with the parameters and without the sum.
func newRecoveryCodes(ctx context.Context) (codes []string, kept RecoveryCodes, err error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	kept.Salt = recoveryCost.encode(salt, make([]byte, hashBytes))
	for range recoveryCodes {
		code := grouped(4)
		sum, err := recoveryCost.inTurn(ctx, plain(code), salt, hashBytes)
		if err != nil {
			return nil, kept, fmt.Errorf("hash a recovery code: %w", err)
		}
		codes, kept.Hashes = append(codes, code), append(kept.Hashes, sum)
	}
	return codes, kept, nil
}

// recoveryProof hashes a recovery code as the person's codes are. Those from before they
// were hashed slowly have no salt and stay good until they are used or replaced.
func (d *Service) recoveryProof(ctx context.Context, account Account, plain string) (Proof, error) {
	encoded, err := d.store.RecoverySalt(ctx, account.ID)
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
	sum, err := cost.inTurn(ctx, plain, salt, hashBytes)
	if err != nil {
		return Proof{}, busy(fmt.Errorf("check a recovery code: %w", err))
	}
	return Proof{Recovery: sum}, nil
}
