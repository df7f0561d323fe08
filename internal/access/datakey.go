package access

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
)

// A data key is what the keys for fingerprints, client keys and MACs are derived from. A store that
// was never rotated has none: there the ring's keys are the data keys, by their pseudorandom keys
// (RFC 5869), which reveal nothing about them. The first rotation puts those into the store, with
// their ids, so that everything made with them can be verified without the master keys that they
// came from. Every rotation adds a random one for what is new.

// SealedDataKey is a data key as a store has it.
type SealedDataKey struct {
	ID     uint32
	Sealed []byte
}

// StoreKeys are the keys that a store has; zero if it was never rotated.
type StoreKeys struct {
	// Primary is the master key that seals.
	Primary uint32
	// DataKeys are in the order in which they were made: the first makes client keys, the last is for
	// what is new.
	DataKeys []SealedDataKey
}

// MissingKeyError says that a node's ring lacks a master key.
type MissingKeyError struct{ ID uint32 }

func (e *MissingKeyError) Error() string {
	return fmt.Sprintf("the master key at hand has no key %d: put the ring that has it in place (coax admin masterkey list), and send SIGHUP or restart", e.ID)
}

// UseStoreKeys takes the keys that the store has. If the ring cannot open them, the vault stays as
// it is.
func (v *Vault) UseStoreKeys(keys StoreKeys) error {
	v.changing.Lock()
	defer v.changing.Unlock()
	changed, err := v.now.Load().with(keys)
	if err != nil {
		return err
	}
	v.now.Store(changed)
	return nil
}

// Reload takes the ring from a new text. If that is no ring, or one that cannot open the store's keys,
// the vault stays as it is.
func (v *Vault) Reload(text []byte) error {
	ring, err := readRing(text)
	if err != nil {
		return err
	}
	v.changing.Lock()
	defer v.changing.Unlock()
	if ring, err = ring.with(v.now.Load().store); err != nil {
		return err
	}
	v.now.Store(ring)
	return nil
}

// OnUnknownKey sets what is called before a data key counts as unknown: it may read the store's keys
// again.
func (v *Vault) OnUnknownKey(reread func()) { v.reread.Store(&reread) }

// with returns the ring's keys together with those of a store.
func (k *vaultKeys) with(keys StoreKeys) (*vaultKeys, error) {
	changed := *k
	changed.store = keys
	changed.data, changed.dataOrder = map[uint32][]byte{}, nil
	if changed.primary = keys.Primary; keys.Primary == 0 {
		changed.primary, changed.current = k.ringPrimary, k.ringPrimary
		changed.dataOrder = k.order
		for id, key := range k.keys {
			changed.data[id] = pseudorandom(key)
		}
	}
	for _, sealed := range keys.DataKeys {
		key, err := k.open(sealed.Sealed, dataKeyContext(sealed.ID))
		if err != nil {
			return nil, fmt.Errorf("open data key %d of the store: %w", sealed.ID, err)
		}
		changed.data[sealed.ID] = key
		changed.dataOrder = append(changed.dataOrder, sealed.ID)
		changed.current = sealed.ID
	}
	sealer, err := k.sealerOf(changed.primary)
	changed.sealer = sealer
	return &changed, err
}

// pseudorandom extracts from a master key what keys are derived from. It needs no salt: its input is
// uniformly random.
func pseudorandom(key *aesgcm.Key) []byte {
	extracted, err := hkdf.Extract(sha256.New, key.KeyBytes().Data(insecuresecretdataaccess.Token{}), nil)
	if err != nil {
		panic(err) // only unapproved hashes are refused
	}
	return extracted
}

func derive(dataKey []byte, info string, size int) []byte {
	derived, err := hkdf.Expand(sha256.New, dataKey, info, size)
	if err != nil {
		panic(err) // only sizes beyond 255 hashes are refused
	}
	return derived
}

// dataKeyContext is the additional data of a data key; see KeyContext.
func dataKeyContext(id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(dataKeySealContext), id)
}

// DataKeyID is the id of the data key for what is new.
func (v *Vault) DataKeyID() uint32 { return v.now.Load().current }

// DeriveKey derives 32 bytes from one data key for one purpose. They reveal nothing about the key or
// about another purpose's bytes.
func (v *Vault) DeriveKey(id uint32, purpose string) ([]byte, error) {
	key, ok := v.find(id).data[id]
	if !ok {
		return nil, fmt.Errorf("there is no data key %d: is a master key missing from the ring?", id)
	}
	return derive(key, derivePrefix+purpose, derivedBytes), nil
}

// DeriveSealed is DeriveKey for a data key as a store has it.
func (v *Vault) DeriveSealed(id uint32, sealed []byte, purpose string) ([]byte, error) {
	key, err := v.now.Load().open(sealed, dataKeyContext(id))
	if err != nil {
		return nil, err
	}
	return derive(key, derivePrefix+purpose, derivedBytes), nil
}

// find returns the keys as they are now, after rereading them if a data key is not known.
func (v *Vault) find(id uint32) *vaultKeys {
	k := v.now.Load()
	if reread := v.reread.Load(); k.data[id] == nil && reread != nil {
		(*reread)()
		k = v.now.Load()
	}
	return k
}

// Derive is DeriveKey for every data key.
func (v *Vault) Derive(purpose string) map[uint32][]byte { return v.now.Load().derive(purpose) }

func (k *vaultKeys) derive(purpose string) map[uint32][]byte {
	all := make(map[uint32][]byte, len(k.data))
	for id, key := range k.data {
		all[id] = derive(key, derivePrefix+purpose, derivedBytes)
	}
	return all
}

// DeriveInOrder is Derive as a list, from the oldest data key to the newest.
func (v *Vault) DeriveInOrder(purpose string) [][]byte {
	k := v.now.Load()
	all := make([][]byte, len(k.dataOrder))
	for i, id := range k.dataOrder {
		all[i] = derive(k.data[id], derivePrefix+purpose, derivedBytes)
	}
	return all
}

// PurposeKeys are the keys for one purpose, as they are at any time. They are derived once for each
// change of the data keys.
type PurposeKeys struct {
	redacted
	vault   *Vault
	purpose string
	derived *atomic.Pointer[purposeKeys]
}

type purposeKeys struct {
	of   *vaultKeys
	keys map[uint32][]byte
}

// KeysFor returns the keys for a purpose.
func (v *Vault) KeysFor(purpose string) *PurposeKeys {
	return &PurposeKeys{vault: v, purpose: purpose, derived: &atomic.Pointer[purposeKeys]{}}
}

// CurrentID is the id of the key for what is new.
func (p *PurposeKeys) CurrentID() uint32 { return p.vault.DataKeyID() }

// Key returns the key with an id.
func (p *PurposeKeys) Key(id uint32) (key []byte, known bool) {
	now := p.vault.find(id)
	derived := p.derived.Load()
	if derived == nil || derived.of != now {
		derived = &purposeKeys{now, now.derive(p.purpose)}
		p.derived.Store(derived)
	}
	key, known = derived.keys[id]
	return key, known
}

// RotatedKeys are what a store has after a rotation: its keys, and the proof of the primary one.
type RotatedKeys struct {
	StoreKeys
	Proof []byte
}

// Rotate returns what a store with the vault's present keys is to have when a key of the ring becomes
// the primary one: all data keys sealed under that, and a new random one. The vault stays as it is.
func (v *Vault) Rotate(primary uint32) (RotatedKeys, error) {
	k := v.now.Load()
	sealer, err := k.sealerOf(primary)
	if err != nil {
		return RotatedKeys{}, err
	}
	data, order := maps.Clone(k.data), slices.Clone(k.dataOrder)
	fresh := make([]byte, dataKeyBytes+4)
	rand.Read(fresh)
	id := binary.BigEndian.Uint32(fresh[dataKeyBytes:])
	for data[id] != nil || k.keys[id] != nil || id == 0 {
		id++
	}
	if k.store.Primary == 0 && primary != k.ringPrimary {
		// It has made nothing yet.
		order = slices.DeleteFunc(order, func(id uint32) bool { return id == primary })
	}
	data[id], order = fresh[:dataKeyBytes], append(order, id)
	rotated := RotatedKeys{StoreKeys: StoreKeys{Primary: primary}, Proof: derive(pseudorandom(k.keys[primary]), checkValueInfo, checkValueBytes)}
	for _, id := range order {
		sealed, err := sealer.Encrypt(data[id], dataKeyContext(id))
		if err != nil {
			return RotatedKeys{}, fmt.Errorf("seal data key %d: %w", id, err)
		}
		rotated.DataKeys = append(rotated.DataKeys, SealedDataKey{ID: id, Sealed: sealed})
	}
	return rotated, nil
}
