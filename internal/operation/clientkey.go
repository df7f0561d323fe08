package operation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// ClientKeyPurpose is the purpose for which the keys of ClientKeys are derived from data keys.
const ClientKeyPurpose = "provider client key"

// ClientKeys computes client keys under keys that are derived from the store's data keys, the oldest
// first. A store whose master key was never rotated has those of the ring, in its order.
//
// Every order carries a client key: a keyed hash of operator and idempotency key. If a restored
// backup lacks an operation that the provider has carried out, the request that comes again is
// recognised by it. It cannot be recognised by the reference, which is new for a new operation. Only
// who has the master key can compute a client key or test a guess. It is not stored, because the
// stored operation has what it is computed from.
//
// Orders carry the client key of the oldest data key, which is that of the ring's first key and stays
// in the store when that master key is retired. So the client key does not depend on the node, on the
// primary key, or on how old a backup is restored. The price is that a new master key does not make
// later client keys safe from someone who knows the first and has a copy of the store.
type ClientKeys [][]byte

// Of returns the client key that orders carry; empty without a master key, as in some tests.
func (k ClientKeys) Of(operatorID int64, idempotencyKey string) string {
	if len(k) == 0 {
		return ""
	}
	return clientKey(k[0], operatorID, idempotencyKey)
}

// All returns the client keys under every data key. Who looks for an order tries them all, so that a
// ring whose order was changed loses nothing.
func (k ClientKeys) All(operatorID int64, idempotencyKey string) []string {
	all := make([]string, len(k))
	for i, key := range k {
		all[i] = clientKey(key, operatorID, idempotencyKey)
	}
	return all
}

// clientKey hashes the operator in eight bytes and then the idempotency key: without a separator,
// because the first part has a fixed length. Providers keep the result, so it must never change.
func clientKey(key []byte, operatorID int64, idempotencyKey string) string {
	sum := hmac.New(sha256.New, key)
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(operatorID)))
	sum.Write([]byte(idempotencyKey))
	return hex.EncodeToString(sum.Sum(nil))
}
