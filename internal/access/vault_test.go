package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/mac"
	"github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
)

func newTestVault(t testing.TB) *Vault {
	t.Helper()
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	return openTestVault(t, text)
}

func openTestVault(t testing.TB, text []byte) *Vault {
	t.Helper()
	vault, err := OpenVault(text)
	if err != nil {
		t.Fatal(err)
	}
	return vault
}

// changeRing edits a master key the way an administrator's tool would.
func changeRing(t testing.TB, text []byte, change func(*keyset.Manager) error) []byte {
	t.Helper()
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	manager := keyset.NewManagerFromHandle(handle)
	if err := change(manager); err != nil {
		t.Fatal(err)
	}
	if handle, err = manager.Handle(); err != nil {
		t.Fatal(err)
	}
	changed, err := writeRing(handle)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func addKey(t testing.TB, text []byte) (changed []byte, id uint32) {
	t.Helper()
	changed = changeRing(t, text, func(m *keyset.Manager) (err error) {
		id, err = m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
	return changed, id
}

func TestVault_SecretOpensForItsRowOnly(t *testing.T) {
	vault := newTestVault(t)
	key, secret := NewKey()
	otherKey, _ := NewKey()
	hash, otherHash := HashKey(key), HashKey(otherKey)
	sealed, err := vault.Seal(secret, 7, hash)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte(secret.Reveal()[:8])) {
		t.Error("the secret can be read in what was sealed")
	}

	opened, err := vault.Open(sealed, 7, hash)
	if err != nil || opened.Reveal() != secret.Reveal() {
		t.Errorf("Open = %q, %v; want what was sealed", opened.Reveal(), err)
	}

	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-1] ^= 1
	refused := []struct {
		name     string
		sealed   []byte
		operator int64
		hash     KeyHash
	}{
		{"moved to another operator", sealed, 8, hash},
		{"moved to another key", sealed, 7, otherHash},
		{"changed by one bit", flipped, 7, hash},
		{"cut short", sealed[:len(sealed)-1], 7, hash},
		{"nothing", nil, 7, hash},
		{"never sealed", []byte(secret.Reveal()), 7, hash},
	}
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			got, err := vault.Open(tt.sealed, tt.operator, tt.hash)
			if err == nil || got.Reveal() != "" {
				t.Errorf("Open gave %q, %v; want an error", got.Reveal(), err)
			}
		})
	}

	again, err := vault.Seal(secret, 7, hash)
	if err != nil || bytes.Equal(again, sealed) {
		t.Errorf("sealed twice alike (%v); who reads the database could see equal secrets", err)
	}
}

func TestVault_ACMEKeyOpensForItsRowOnly(t *testing.T) {
	vault := newTestVault(t)
	key := []byte("a private key")
	sealed, err := vault.SealACME(key, "account a")
	if err != nil || bytes.Contains(sealed, key) {
		t.Fatalf("SealACME = %q, %v", sealed, err)
	}
	if got, err := vault.OpenACME(sealed, "account a"); err != nil || !bytes.Equal(got, key) {
		t.Errorf("OpenACME = %q, %v; want what was sealed", got, err)
	}
	totp, err := vault.SealTOTP(key, 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		sealed []byte
		id     string
	}{
		"moved to another row": {sealed, "account b"}, "nothing": {nil, "account a"}, "cut short": {sealed[:len(sealed)-1], "account a"},
		"sealed for something else": {totp, "account a"},
	} {
		if got, err := vault.OpenACME(row.sealed, row.id); err == nil {
			t.Errorf("%s: OpenACME = %q; want an error", name, got)
		}
	}
	if got, err := newTestVault(t).OpenACME(sealed, "account a"); err == nil {
		t.Errorf("another master key opens %q", got)
	}
}

func TestVault_MasterKeyRotation(t *testing.T) {
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	key, secret := NewKey()
	hash := HashKey(key)
	seal := func(v *Vault) []byte {
		t.Helper()
		sealed, err := v.Seal(secret, 1, hash)
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	opens := func(v *Vault, sealed []byte) bool {
		got, err := v.Open(sealed, 1, hash)
		return err == nil && got.Reveal() == secret.Reveal()
	}

	before := openTestVault(t, text)
	oldSealed := seal(before)

	// A second key is added first and seals only once every node has it.
	text, added := addKey(t, text)
	both := openTestVault(t, text)
	if both.PrimaryID() != before.PrimaryID() || !opens(both, oldSealed) || !opens(before, seal(both)) {
		t.Error("a key that was only added changes what seals, or what opens")
	}

	text = changeRing(t, text, func(m *keyset.Manager) error { return m.SetPrimary(added) })
	after := openTestVault(t, text)
	newSealed := seal(after)
	if after.PrimaryID() != added {
		t.Errorf("key %d seals; want %d", after.PrimaryID(), added)
	}
	if !opens(after, oldSealed) || !opens(after, newSealed) || !opens(both, newSealed) {
		t.Error("a secret does not open although its key is on the ring")
	}
	if opens(before, newSealed) {
		t.Error("a secret opens although its key is not on the ring")
	}

	disabled := changeRing(t, text, func(m *keyset.Manager) error { return m.Disable(before.PrimaryID()) })
	without := openTestVault(t, disabled)
	if opens(without, oldSealed) || !opens(without, newSealed) {
		t.Error("a key that was switched off still opens, or took the other with it")
	}
	if ids := slices.Collect(maps.Keys(without.CheckValues())); !slices.Equal(ids, []uint32{added}) {
		t.Errorf("proofs of %d; want of %d alone", ids, added)
	}
}

// Client keys rest on the first key of the ring, so it has to stay the first.
func TestVault_FirstKeyStaysFirstAfterRotation(t *testing.T) {
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	before := openTestVault(t, text)
	want := before.Derive("orders")[before.PrimaryID()]
	for keys := 1; keys < 6; keys++ {
		got := openTestVault(t, text).DeriveInOrder("orders")
		if len(got) != keys || !bytes.Equal(got[0], want) {
			t.Errorf("with %d keys, DeriveInOrder = %x; want %x first", keys, got, want)
		}
		var added uint32
		text, added = addKey(t, text)
		text = changeRing(t, text, func(m *keyset.Manager) error { return m.SetPrimary(added) })
	}
}

func TestVault_DerivedKeys(t *testing.T) {
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	text, added := addKey(t, text)
	vault, again := openTestVault(t, text), openTestVault(t, text)

	seen := map[string]string{}
	for _, purpose := range []string{"", "body", "body2", "proof"} {
		all := vault.Derive(purpose)
		if len(all) != 2 {
			t.Errorf("Derive(%q) has %d keys; want 2", purpose, len(all))
		}
		for _, id := range []uint32{vault.PrimaryID(), added} {
			one, err := again.DeriveKey(id, purpose)
			if err != nil || len(one) != 32 || !bytes.Equal(one, all[id]) {
				t.Errorf("DeriveKey(%d, %q) = %x, %v; want the same 32 bytes as ever: %x", id, purpose, one, err, all[id])
			}
			what := fmt.Sprintf("key %d for %q", id, purpose)
			if other, found := seen[string(one[:16])]; found {
				t.Errorf("%s is the same as %s", what, other)
			}
			seen[string(one[:16])] = what
		}
	}

	proofs := vault.CheckValues()
	if !maps.EqualFunc(proofs, again.CheckValues(), bytes.Equal) || len(proofs) != 2 {
		t.Errorf("proofs = %x; want two, the same each time", proofs)
	}
	for id, proof := range proofs {
		if len(proof) != 16 {
			t.Errorf("proof of %d has %d bytes; want 16", id, len(proof))
		}
		if other, found := seen[string(proof)]; found {
			t.Errorf("the proof of key %d, which is no secret, is %s", id, other)
		}
	}
	if bytes.Equal(proofs[added], proofs[vault.PrimaryID()]) {
		t.Error("two keys have one proof")
	}

	if key, err := vault.DeriveKey(added+1, "body"); err == nil {
		t.Errorf("DeriveKey of a key that is not there = %x; want an error", key)
	}
}

func TestOpenVault_Errors(t *testing.T) {
	ring := func(template *tink_go_proto.KeyTemplate) []byte {
		handle, err := keyset.NewHandle(template)
		if err != nil {
			t.Fatal(err)
		}
		text, err := writeRing(handle)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	mixed := changeRing(t, good, func(m *keyset.Manager) error {
		_, err := m.Add(aead.XChaCha20Poly1305KeyTemplate())
		return err
	})
	noPrimary := bytes.Replace(good, []byte(`"primaryKeyId":`), []byte(`"primaryKeyId":1`), 1)

	tests := []struct {
		name string
		text []byte
		want string
	}{
		{"empty", nil, "empty"},
		{"blank", []byte(" \n"), "empty"},
		{"a password by mistake", []byte("hunter2hunter2"), "not JSON"},
		{"cut short", good[:len(good)-10], "not JSON"},
		{"JSON, but no keyset", []byte(`{"password":"hunter2hunter2"}`), "not a usable Tink keyset"},
		{"a keyset without keys", []byte(`{"primaryKeyId":1,"key":[]}`), "not a usable Tink keyset"},
		{"a keyset that is encrypted", []byte(`{"encryptedKeyset":"aGk="}`), "not a usable Tink keyset"},
		{"a primary key that is not there", noPrimary, "not a usable Tink keyset"},
		{"AES-128", ring(aead.AES128GCMKeyTemplate()), "AES256_GCM"},
		{"without the key's id", ring(aead.AES256GCMNoPrefixKeyTemplate()), "AES256_GCM"},
		{"another cipher", ring(aead.ChaCha20Poly1305KeyTemplate()), "AES256_GCM"},
		{"a key for something else", ring(mac.HMACSHA256Tag256KeyTemplate()), "AES256_GCM"},
		{"one key of several is wrong", mixed, "AES256_GCM"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vault, err := OpenVault(tt.text)
			if err == nil || vault != nil {
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v; want one that says %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error = %v; repeats what it was given", err)
			}
		})
	}
}

func TestVault_IsRedacted(t *testing.T) {
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	vault := openTestVault(t, text)
	gate := NewAuthorizer(nil, vault, AuthorizerConfig{})
	var log bytes.Buffer
	for _, value := range []any{vault, *vault} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
			if got := fmt.Sprintf(verb, value); got != "[secret]" {
				t.Errorf("%s of %T prints %q; want [secret]", verb, value, got)
			}
		}
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value)
		out, err := json.Marshal(value)
		if err != nil || string(out) != `"[secret]"` {
			t.Errorf("JSON of %T = %s, %v", value, out, err)
		}
	}
	if strings.Count(log.String(), "[secret]") != 2 {
		t.Errorf("logged as %s", log.String())
	}
	if got := fmt.Sprintf("%+v", gate); strings.Contains(got, "AESGCM") || len(got) > 1000 {
		t.Errorf("a gate prints its vault: %s", got)
	}
}
