package access

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

const (
	derivedBytes    = 32
	dataKeyBytes    = 32
	checkValueBytes = 16

	// Different prefixes separate the derived keys from the check values, which are stored
	// in the database.
	derivePrefix   = "coax/derived/"
	checkValueInfo = "coax/proof"

	// sealContext begins the additional data of every sealed API secret, so that nothing
	// sealed for another purpose is accepted as one.
	sealContext = "coax/secret/1"

	// dataKeySealContext is the same for data keys.
	dataKeySealContext = "coax/data key/1"

	// totpSealContext is the same for the secrets of second factors.
	totpSealContext = "coax/totp/1"

	// acmeSealContext is the same for the private keys of ACME accounts and certificates.
	acmeSealContext = "coax/acme/1"
)

// Vault seals the secrets of API keys and of second factors, and the keys of TLS certificates, under
// the master key, which is not in the database. The master key is a ring: one key seals, all keys
// open, so that it can be rotated while the service runs. A vault is used by many goroutines while
// ring and data keys are replaced.
type Vault struct {
	redacted
	now *atomic.Pointer[vaultKeys]
	// changing is held while now is replaced.
	changing *sync.Mutex
	// reread is called if a data key is not known; nil for nothing.
	reread *atomic.Pointer[func()]
}

// vaultKeys are the keys of a vault at one time. They are never changed.
type vaultKeys struct {
	redacted
	handle       *keyset.Handle
	ring, sealer tink.AEAD
	// primary is the key of sealer, ringPrimary the one that the ring names.
	primary, ringPrimary uint32
	keys                 map[uint32]*aesgcm.Key
	order                []uint32 // the ids of keys, as in the ring

	// store are the keys that the store has; zero if it has none. Data keys are then those, and else
	// the pseudorandom keys of the ring's.
	store     StoreKeys
	data      map[uint32][]byte
	dataOrder []uint32
	current   uint32
}

// NewMasterKey generates a ring of one key, as text for a file that only the service can read.
func NewMasterKey() (text []byte, err error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("make a master key: %w", err)
	}
	return writeRing(handle)
}

func writeRing(handle *keyset.Handle) ([]byte, error) {
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)); err != nil {
		return nil, fmt.Errorf("write the master key: %w", err)
	}
	text.WriteByte('\n')
	return text.Bytes(), nil
}

// OpenVault parses a master key. Its errors never repeat the input, which may be another secret that
// was configured by mistake.
func OpenVault(text []byte) (*Vault, error) {
	k, err := readRing(text)
	if err != nil {
		return nil, err
	}
	v := &Vault{now: &atomic.Pointer[vaultKeys]{}, changing: &sync.Mutex{}, reread: &atomic.Pointer[func()]{}}
	if k, err = k.with(StoreKeys{}); err != nil {
		return nil, err
	}
	v.now.Store(k)
	return v, nil
}

func readRing(text []byte) (*vaultKeys, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, errors.New("the master key is empty")
	}
	if !json.Valid(text) {
		return nil, errors.New("the master key is not JSON; it should be a Tink keyset in JSON, not encrypted")
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("the master key is not a usable Tink keyset in JSON, not encrypted: %w", err)
	}

	k := &vaultKeys{handle: handle, keys: map[uint32]*aesgcm.Key{}}
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return nil, fmt.Errorf("read the master key: %w", err)
		}
		if entry.KeyStatus() != keyset.Enabled {
			continue // disabled in the ring; Tink does not use it either
		}
		key, ok := entry.Key().(*aesgcm.Key)
		if !ok || !isSupported(key) {
			return nil, fmt.Errorf("key %d of the master key is not of type AES256_GCM with Tink's prefix", entry.KeyID())
		}
		k.keys[entry.KeyID()] = key
		k.order = append(k.order, entry.KeyID())
		if entry.IsPrimary() {
			k.ringPrimary = entry.KeyID()
		}
	}
	if k.ring, err = aead.New(handle); err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	return k, nil
}

// isSupported reports whether a key is AES-256-GCM with ciphertexts that begin with the key's id,
// by which Open finds the key.
func isSupported(key *aesgcm.Key) bool {
	p, ok := key.Parameters().(*aesgcm.Parameters)
	return ok && p.KeySizeInBytes() == 32 && p.Variant() == aesgcm.VariantTink
}

// PrimaryID is the id of the key that seals.
func (v *Vault) PrimaryID() uint32 { return v.now.Load().primary }

// Seal encrypts the secret of one API key of one operator.
func (v *Vault) Seal(secret Secret, operatorID int64, hash KeyHash) ([]byte, error) {
	sealed, err := v.now.Load().sealer.Encrypt([]byte(secret.Reveal()), KeyContext(operatorID, hash))
	if err != nil {
		return nil, fmt.Errorf("seal a secret of operator %d: %w", operatorID, err)
	}
	return sealed, nil
}

// Open decrypts what Seal encrypted, for the same API key of the same operator only.
func (v *Vault) Open(sealed []byte, operatorID int64, hash KeyHash) (Secret, error) {
	text, err := v.now.Load().open(sealed, KeyContext(operatorID, hash))
	if err != nil {
		return Secret{}, fmt.Errorf("open a secret of operator %d: %w", operatorID, err)
	}
	return newSecret(string(text)), nil
}

// KeyContext is the additional data of a sealed secret. Without it, anyone who can write to the
// database could move a secret that they know into another operator's row.
func KeyContext(operatorID int64, hash KeyHash) []byte {
	row := make([]byte, 0, len(sealContext)+8+len(hash))
	row = append(row, sealContext...)
	row = binary.BigEndian.AppendUint64(row, uint64(operatorID))
	return append(row, hash[:]...)
}

// SealTOTP encrypts the secret of a person's second factor.
func (v *Vault) SealTOTP(secret []byte, personID int64) ([]byte, error) {
	sealed, err := v.now.Load().sealer.Encrypt(secret, TOTPContext(personID))
	if err != nil {
		return nil, fmt.Errorf("seal a second factor of login %d: %w", personID, err)
	}
	return sealed, nil
}

// OpenTOTP decrypts what SealTOTP encrypted, for the same person only.
func (v *Vault) OpenTOTP(sealed []byte, personID int64) ([]byte, error) {
	secret, err := v.now.Load().open(sealed, TOTPContext(personID))
	if err != nil {
		return nil, fmt.Errorf("open a second factor of login %d: %w", personID, err)
	}
	return secret, nil
}

// TOTPContext is the additional data of a second factor; see KeyContext.
func TOTPContext(id int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(totpSealContext), uint64(id))
}

// SealACME encrypts a private key that is stored under an id.
func (v *Vault) SealACME(secret []byte, id string) ([]byte, error) {
	sealed, err := v.now.Load().sealer.Encrypt(secret, ACMEContext(id))
	if err != nil {
		return nil, fmt.Errorf("seal the key of %s: %w", id, err)
	}
	return sealed, nil
}

// OpenACME decrypts what SealACME encrypted, for the same id only.
func (v *Vault) OpenACME(sealed []byte, id string) ([]byte, error) {
	secret, err := v.now.Load().open(sealed, ACMEContext(id))
	if err != nil {
		return nil, fmt.Errorf("open the key of %s: %w", id, err)
	}
	return secret, nil
}

// ACMEContext is the additional data of a certificate's or account's key; see KeyContext.
func ACMEContext(id string) []byte { return []byte(acmeSealContext + id) }

// CheckValues returns a key check value for each key of the ring. It is stored in the database, does
// not reveal the key, and shows at start whether the master key is the right one.
func (v *Vault) CheckValues() map[uint32][]byte {
	k := v.now.Load()
	all := make(map[uint32][]byte, len(k.keys))
	for id, key := range k.keys {
		all[id] = derive(pseudorandom(key), checkValueInfo, checkValueBytes)
	}
	return all
}
