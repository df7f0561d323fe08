package access

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// What Tink seals begins with a version and the key's id.
const (
	sealedVersion     = 1
	sealedPrefixBytes = 5
)

// SealedUnder returns the id of the master key that something was sealed with; 0 if it was not sealed.
func SealedUnder(sealed []byte) uint32 {
	if len(sealed) < sealedPrefixBytes || sealed[0] != sealedVersion {
		return 0
	}
	return binary.BigEndian.Uint32(sealed[1:])
}

// SealedPrefix is what everything sealed with a master key begins with.
func SealedPrefix(id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{sealedVersion}, id)
}

// open decrypts what a key of the ring has sealed.
func (k *vaultKeys) open(sealed, context []byte) ([]byte, error) {
	text, err := k.ring.Decrypt(sealed, context)
	if id := SealedUnder(sealed); err != nil && id != 0 && k.keys[id] == nil {
		return nil, &MissingKeyError{id}
	}
	if err != nil {
		return nil, fmt.Errorf("sealed under another master key, or for another row: %w", err)
	}
	return text, nil
}

// sealerOf returns what seals with one key of the ring.
func (k *vaultKeys) sealerOf(id uint32) (tink.AEAD, error) {
	if k.keys[id] == nil {
		return nil, &MissingKeyError{id}
	}
	manager := keyset.NewManagerFromHandle(k.handle)
	if err := manager.SetPrimary(id); err != nil {
		return nil, fmt.Errorf("seal with key %d of the master key: %w", id, err)
	}
	handle, err := manager.Handle()
	if err != nil {
		return nil, fmt.Errorf("seal with key %d of the master key: %w", id, err)
	}
	return aead.New(handle)
}

// Reseal seals again under the primary key what any key of the ring has sealed.
func (v *Vault) Reseal(sealed, context []byte) ([]byte, error) {
	k := v.now.Load()
	text, err := k.open(sealed, context)
	if err != nil {
		return nil, err
	}
	return k.sealer.Encrypt(text, context)
}

// RingKey is a key of the ring.
type RingKey struct {
	ID uint32
	// Enabled: the key opens. A disabled one is not used at all.
	Enabled bool
}

// RingKeys lists the keys of the ring, those that were added last at the end.
func (v *Vault) RingKeys() []RingKey {
	handle := v.now.Load().handle
	keys := make([]RingKey, 0, handle.Len())
	for i := range handle.Len() {
		if entry, err := handle.Entry(i); err == nil {
			keys = append(keys, RingKey{entry.KeyID(), entry.KeyStatus() == keyset.Enabled})
		}
	}
	return keys
}

// KeyToken identifies a key of the ring by its id and check value, as nodes report it.
func KeyToken(id uint32, proof []byte) string {
	return fmt.Sprintf("%d:%s", id, hex.EncodeToString(proof))
}

// KeyTokens are the tokens of all keys of the ring, separated by spaces.
func (v *Vault) KeyTokens() string {
	var tokens []string
	proofs := v.CheckValues()
	for _, id := range slices.Sorted(maps.Keys(proofs)) {
		tokens = append(tokens, KeyToken(id, proofs[id]))
	}
	return strings.Join(tokens, " ")
}

// WithNewKey returns the ring's text with a new key at its end. The primary key stays: it is replaced
// once every node has the new one.
func (v *Vault) WithNewKey() (text []byte, id uint32, err error) {
	manager := keyset.NewManagerFromHandle(v.now.Load().handle)
	if id, err = manager.Add(aead.AES256GCMKeyTemplate()); err != nil {
		return nil, 0, fmt.Errorf("make a master key: %w", err)
	}
	text, err = ringText(manager)
	return text, id, err
}

// WithoutKey returns the ring's text without a key, which is not the one that seals.
func (v *Vault) WithoutKey(id uint32) (text []byte, err error) {
	k := v.now.Load()
	if id == k.primary {
		return nil, fmt.Errorf("key %d seals", id)
	}
	manager := keyset.NewManagerFromHandle(k.handle)
	if err := manager.SetPrimary(k.primary); err != nil {
		return nil, fmt.Errorf("name the primary key of the ring: %w", err)
	}
	if err := manager.Delete(id); err != nil {
		return nil, fmt.Errorf("take key %d out of the ring: %w", id, err)
	}
	return ringText(manager)
}

func ringText(manager *keyset.Manager) ([]byte, error) {
	handle, err := manager.Handle()
	if err != nil {
		return nil, fmt.Errorf("write the master key: %w", err)
	}
	return writeRing(handle)
}
