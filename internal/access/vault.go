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
	derivedBytes = 32
	proofBytes   = 16

	// Different beginnings keep what is derived for use apart from the proofs,
	// which anyone who reads the database may see.
	derivedFor = "coax/derived/"
	provedAs   = "coax/proof"

	// sealedAs begins the additional data of every sealed secret, so that
	// nothing sealed for another use can pass for one.
	sealedAs = "coax/secret/1"

	// totpSealedAs is the same for the secrets of second factors.
	totpSealedAs = "coax/totp/1"
)

// Vault seals the secrets of API keys and of second factors under the master key,
// which comes from outside the database. The master key is a ring: one key seals, all of them
// open, so that it can be replaced while the service runs.
type Vault struct {
	hushed
	ring    tink.AEAD
	primary uint32
	keys    map[uint32]*aesgcm.Key
}

// NewMasterKey makes a ring of one fresh key, as text to keep in a file that
// only the service can read.
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

// OpenVault reads a master key. Its errors never repeat what they were given:
// it may be some other secret that was put in the wrong place.
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
			continue // switched off by whoever keeps the ring; Tink does not use it either
		}
		key, ok := entry.Key().(*aesgcm.Key)
		if !ok || !sealsAsWeDo(key) {
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

// sealsAsWeDo reports whether a key is AES-256-GCM whose ciphertexts begin with
// the key's id. Without the id, two keys of a ring could not be told apart.
func sealsAsWeDo(key *aesgcm.Key) bool {
	p, ok := key.Parameters().(*aesgcm.Parameters)
	return ok && p.KeySizeInBytes() == 32 && p.Variant() == aesgcm.VariantTink
}

// PrimaryID names the key that seals.
func (v *Vault) PrimaryID() uint32 { return v.primary }

// Seal encrypts a secret for one key of one operator.
func (v *Vault) Seal(secret Secret, operatorID int64, hash KeyHash) ([]byte, error) {
	sealed, err := v.ring.Encrypt([]byte(secret.Reveal()), rowOf(operatorID, hash))
	if err != nil {
		return nil, fmt.Errorf("seal a secret of operator %d: %w", operatorID, err)
	}
	return sealed, nil
}

// Open decrypts what Seal sealed, for the same key of the same operator only.
func (v *Vault) Open(sealed []byte, operatorID int64, hash KeyHash) (Secret, error) {
	text, err := v.ring.Decrypt(sealed, rowOf(operatorID, hash))
	if err != nil {
		return Secret{}, fmt.Errorf("open a secret of operator %d: sealed under another master key, or for another row: %w", operatorID, err)
	}
	return newSecret(string(text)), nil
}

// rowOf is a sealed secret's additional data. Whoever can write to the database
// could otherwise put a secret that they know into somebody else's row.
func rowOf(operatorID int64, hash KeyHash) []byte {
	row := make([]byte, 0, len(sealedAs)+8+len(hash))
	row = append(row, sealedAs...)
	row = binary.BigEndian.AppendUint64(row, uint64(operatorID))
	return append(row, hash[:]...)
}

// SealTOTP encrypts the secret of one person's second factor.
func (v *Vault) SealTOTP(secret []byte, personID int64) ([]byte, error) {
	sealed, err := v.ring.Encrypt(secret, personOf(personID))
	if err != nil {
		return nil, fmt.Errorf("seal a second factor of login %d: %w", personID, err)
	}
	return sealed, nil
}

// OpenTOTP decrypts what SealTOTP sealed, for the same person only.
func (v *Vault) OpenTOTP(sealed []byte, personID int64) ([]byte, error) {
	secret, err := v.ring.Decrypt(sealed, personOf(personID))
	if err != nil {
		return nil, fmt.Errorf("open a second factor of login %d: sealed under another master key, or for another person: %w", personID, err)
	}
	return secret, nil
}

// personOf is the additional data of a second factor, for the reason that rowOf has.
func personOf(id int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(totpSealedAs), uint64(id))
}

// DeriveKey returns 32 bytes that belong to one key of the ring and one
// purpose. They tell nothing about the key, nor about another purpose's bytes.
func (v *Vault) DeriveKey(id uint32, purpose string) ([]byte, error) {
	key, ok := v.keys[id]
	if !ok {
		return nil, fmt.Errorf("the master key has no key %d", id)
	}
	return derive(key, derivedFor+purpose, derivedBytes), nil
}

// Derive does what DeriveKey does for every key of the ring.
func (v *Vault) Derive(purpose string) map[uint32][]byte {
	return v.deriveAll(derivedFor+purpose, derivedBytes)
}

// Proofs returns a proof for each key of the ring by which the key can be known
// again. A proof does not lead back to its key and may be kept beside what the
// key seals, so that a start under the wrong master key is noticed.
func (v *Vault) Proofs() map[uint32][]byte { return v.deriveAll(provedAs, proofBytes) }

func (v *Vault) deriveAll(info string, size int) map[uint32][]byte {
	all := make(map[uint32][]byte, len(v.keys))
	for id, key := range v.keys {
		all[id] = derive(key, info, size)
	}
	return all
}

// derive takes no salt: its input is a uniformly random key already.
func derive(key *aesgcm.Key, info string, size int) []byte {
	raw := key.KeyBytes().Data(insecuresecretdataaccess.Token{})
	derived, err := hkdf.Key(sha256.New, raw, nil, info, size)
	if err != nil {
		panic(err) // only a size beyond 255 sums is refused, and the sizes are ours
	}
	return derived
}
