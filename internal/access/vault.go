package access

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/insecuresecretdataaccess"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

const (
	derivedBytes    = 32
	checkValueBytes = 16

	// Different prefixes separate the derived keys from the check values, which are stored
	// in the database.
	derivePrefix   = "coax/derived/"
	checkValueInfo = "coax/proof"

	// sealContext begins the additional data of every sealed API secret, so that nothing
	// sealed for another purpose is accepted as one.
	sealContext = "coax/secret/1"

	// totpSealContext is the same for the secrets of second factors.
	totpSealContext = "coax/totp/1"
)

// Vault seals the secrets of API keys and of second factors under the master key, which is not in
// the database. The master key is a ring: the primary key seals, all keys open, so that it can be
// rotated while the service runs.
type Vault struct {
	redacted
	ring    tink.AEAD
	primary uint32
	keys    map[uint32]*aesgcm.Key
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

	v := &Vault{keys: map[uint32]*aesgcm.Key{}}
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
		v.keys[entry.KeyID()] = key
		if entry.IsPrimary() {
			v.primary = entry.KeyID()
		}
	}
	if v.ring, err = aead.New(handle); err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	return v, nil
}

// isSupported reports whether a key is AES-256-GCM with ciphertexts that begin with the key's id,
// by which Open finds the key.
func isSupported(key *aesgcm.Key) bool {
	p, ok := key.Parameters().(*aesgcm.Parameters)
	return ok && p.KeySizeInBytes() == 32 && p.Variant() == aesgcm.VariantTink
}

// PrimaryID is the id of the key that seals.
func (v *Vault) PrimaryID() uint32 { return v.primary }

// Seal encrypts the secret of one API key of one operator.
func (v *Vault) Seal(secret Secret, operatorID int64, hash KeyHash) ([]byte, error) {
	sealed, err := v.ring.Encrypt([]byte(secret.Reveal()), keyContext(operatorID, hash))
	if err != nil {
		return nil, fmt.Errorf("seal a secret of operator %d: %w", operatorID, err)
	}
	return sealed, nil
}

// Open decrypts what Seal encrypted, for the same API key of the same operator only.
func (v *Vault) Open(sealed []byte, operatorID int64, hash KeyHash) (Secret, error) {
	text, err := v.ring.Decrypt(sealed, keyContext(operatorID, hash))
	if err != nil {
		return Secret{}, fmt.Errorf("open a secret of operator %d: sealed under another master key, or for another row: %w", operatorID, err)
	}
	return newSecret(string(text)), nil
}

// keyContext is the additional data of a sealed secret. Without it, anyone who can write to the
// database could move a secret that they know into another operator's row.
func keyContext(operatorID int64, hash KeyHash) []byte {
	row := make([]byte, 0, len(sealContext)+8+len(hash))
	row = append(row, sealContext...)
	row = binary.BigEndian.AppendUint64(row, uint64(operatorID))
	return append(row, hash[:]...)
}

// SealTOTP encrypts the secret of a person's second factor.
func (v *Vault) SealTOTP(secret []byte, personID int64) ([]byte, error) {
	sealed, err := v.ring.Encrypt(secret, totpContext(personID))
	if err != nil {
		return nil, fmt.Errorf("seal a second factor of login %d: %w", personID, err)
	}
	return sealed, nil
}

// OpenTOTP decrypts what SealTOTP encrypted, for the same person only.
func (v *Vault) OpenTOTP(sealed []byte, personID int64) ([]byte, error) {
	secret, err := v.ring.Decrypt(sealed, totpContext(personID))
	if err != nil {
		return nil, fmt.Errorf("open a second factor of login %d: sealed under another master key, or for another person: %w", personID, err)
	}
	return secret, nil
}

// totpContext is the additional data of a second factor; see keyContext.
func totpContext(id int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(totpSealContext), uint64(id))
}

// DeriveKey derives 32 bytes from one key of the ring for one purpose. They reveal nothing about the
// key or about another purpose's bytes.
func (v *Vault) DeriveKey(id uint32, purpose string) ([]byte, error) {
	key, ok := v.keys[id]
	if !ok {
		return nil, fmt.Errorf("the master key has no key %d", id)
	}
	return derive(key, derivePrefix+purpose, derivedBytes), nil
}

// Derive is DeriveKey for every key of the ring.
func (v *Vault) Derive(purpose string) map[uint32][]byte {
	return v.deriveAll(derivePrefix+purpose, derivedBytes)
}

// CheckValues returns a key check value for each key of the ring. It is stored in the database, does
// not reveal the key, and shows at start whether the master key is the right one.
func (v *Vault) CheckValues() map[uint32][]byte { return v.deriveAll(checkValueInfo, checkValueBytes) }

func (v *Vault) deriveAll(info string, size int) map[uint32][]byte {
	all := make(map[uint32][]byte, len(v.keys))
	for id, key := range v.keys {
		all[id] = derive(key, info, size)
	}
	return all
}

// derive needs no salt: its input is a uniformly random key.
func derive(key *aesgcm.Key, info string, size int) []byte {
	raw := key.KeyBytes().Data(insecuresecretdataaccess.Token{})
	derived, err := hkdf.Key(sha256.New, raw, nil, info, size)
	if err != nil {
		panic(err) // only sizes beyond 255 hashes are refused
	}
	return derived
}
