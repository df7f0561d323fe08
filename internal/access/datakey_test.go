package access

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// rotateTestRing adds a key to a ring and rotates to it, as a command does with a store.
func rotateTestRing(t *testing.T, text []byte, keys StoreKeys) ([]byte, StoreKeys) {
	t.Helper()
	before := openTestVault(t, text)
	if err := before.UseStoreKeys(keys); err != nil {
		t.Fatal(err)
	}
	text, id, err := before.WithNewKey()
	if err != nil {
		t.Fatal(err)
	}
	vault := openTestVault(t, text)
	if err := vault.UseStoreKeys(keys); err != nil {
		t.Fatal(err)
	}
	if vault.PrimaryID() != before.PrimaryID() {
		t.Errorf("key %d seals once another was added; want %d", vault.PrimaryID(), before.PrimaryID())
	}
	rotated, err := vault.Rotate(id)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rotated.Proof, vault.CheckValues()[id]) {
		t.Error("the proof is not that of the new key")
	}
	return text, rotated.StoreKeys
}

// retireTestKeys takes all keys but the primary one out of a ring.
func retireTestKeys(t *testing.T, text []byte, keys StoreKeys) []byte {
	t.Helper()
	for {
		vault := openTestVault(t, text)
		if err := vault.UseStoreKeys(keys); err != nil {
			t.Fatal(err)
		}
		ring := vault.RingKeys()
		at := slices.IndexFunc(ring, func(k RingKey) bool { return k.ID != vault.PrimaryID() })
		if at < 0 {
			return text
		}
		var err error
		if text, err = vault.WithoutKey(ring[at].ID); err != nil {
			t.Fatal(err)
		}
	}
}

// What was made before a rotation is verified after it, and after the key that it was made with
// is retired; client keys never change.
func TestVault_DataKeysOutliveMasterKeys(t *testing.T) {
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	text, _ = addKey(t, text)
	first := openTestVault(t, text)
	wanted := first.Derive("body")
	clientKey := first.DeriveInOrder("orders")[0]
	currents := []uint32{first.DataKeyID()}

	keys := StoreKeys{}
	for round := range 3 {
		if text, keys = rotateTestRing(t, text, keys); len(keys.DataKeys) != 3+round {
			t.Fatalf("round %d: %d data keys; want two of the ring and one for each rotation", round, len(keys.DataKeys))
		}
		for _, step := range []string{"rotated", "retired"} {
			if step == "retired" {
				text = retireTestKeys(t, text, keys)
			}
			vault := openTestVault(t, text)
			if err := vault.UseStoreKeys(keys); err != nil {
				t.Fatal(err)
			}
			for id, want := range wanted {
				if got, err := vault.DeriveKey(id, "body"); err != nil || !bytes.Equal(got, want) {
					t.Errorf("round %d, %s: key %d = %x, %v; want %x", round, step, id, got, err, want)
				}
			}
			if got := vault.DeriveInOrder("orders")[0]; !bytes.Equal(got, clientKey) {
				t.Errorf("round %d, %s: the key of client keys is %x; want %x", round, step, got, clientKey)
			}
			if vault.PrimaryID() != keys.Primary || vault.DataKeyID() != keys.DataKeys[len(keys.DataKeys)-1].ID {
				t.Errorf("round %d, %s: %d seals and %d is current", round, step, vault.PrimaryID(), vault.DataKeyID())
			}
			wanted = vault.Derive("body")
		}
		currents = append(currents, openAndUse(t, text, keys).DataKeyID())
	}
	if slices.Sort(currents); len(slices.Compact(currents)) != 4 {
		t.Errorf("the current data keys were %d; want another after each rotation", currents)
	}
	if only := openTestVault(t, text).RingKeys(); len(only) != 1 {
		t.Errorf("the ring has %v; want one key", only)
	}
}

func openAndUse(t *testing.T, text []byte, keys StoreKeys) *Vault {
	t.Helper()
	vault := openTestVault(t, text)
	if err := vault.UseStoreKeys(keys); err != nil {
		t.Fatal(err)
	}
	return vault
}

// A random data key is not derived from a master key, and sealed values can be moved to the new one.
func TestVault_Reseal(t *testing.T) {
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	key, secret := NewKey()
	hash := HashKey(key)
	old := openTestVault(t, text)
	sealed, err := old.Seal(secret, 7, hash)
	if err != nil {
		t.Fatal(err)
	}
	if SealedUnder(sealed) != old.PrimaryID() || !bytes.HasPrefix(sealed, SealedPrefix(old.PrimaryID())) || SealedUnder([]byte("sealed")) != 0 {
		t.Errorf("sealed under %d; want %d", SealedUnder(sealed), old.PrimaryID())
	}
	ringText, keys := rotateTestRing(t, text, StoreKeys{})
	vault := openAndUse(t, ringText, keys)
	if _, derived := vault.CheckValues()[vault.DataKeyID()]; derived {
		t.Error("the new data key has the id of a master key")
	}
	if _, err := vault.Reseal(sealed, KeyContext(8, hash)); err == nil {
		t.Error("sealed again for another operator")
	}
	fresh, err := vault.Reseal(sealed, KeyContext(7, hash))
	if err != nil || SealedUnder(fresh) != keys.Primary {
		t.Fatalf("sealed again under %d, %v; want %d", SealedUnder(fresh), err, keys.Primary)
	}
	if opened, err := openAndUse(t, retireTestKeys(t, ringText, keys), keys).Open(fresh, 7, hash); err != nil || opened.Reveal() != secret.Reveal() {
		t.Errorf("opened %v, %v", opened, err)
	}
	var missing *MissingKeyError
	if _, err := old.Open(fresh, 7, hash); !errors.As(err, &missing) || missing.ID != keys.Primary {
		t.Errorf("a ring without the key says %v", err)
	}
}

// A running vault takes a new ring and the store's keys, and keeps what it has if they do not fit.
func TestVault_Reload(t *testing.T) {
	text, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	running := openTestVault(t, text)
	prints := running.KeysFor("body")
	oldID := prints.CurrentID()
	oldKey, _ := prints.Key(oldID)
	ringText, keys := rotateTestRing(t, text, StoreKeys{})

	if err := running.UseStoreKeys(keys); err == nil || running.PrimaryID() != oldID || prints.CurrentID() != oldID {
		t.Errorf("keys sealed under a key that is not in the ring were taken: %v", err)
	}
	if err := running.Reload([]byte("hunter2")); err == nil {
		t.Error("a password was taken for a ring")
	}
	if err := running.Reload(ringText); err != nil || running.PrimaryID() != oldID {
		t.Errorf("the ring with one more: %v, %d seals", err, running.PrimaryID())
	}
	// A request meets what another node has made with the new data key.
	reread := 0
	running.OnUnknownKey(func() { reread++; _ = running.UseStoreKeys(keys) })
	newID := keys.DataKeys[len(keys.DataKeys)-1].ID
	if _, known := prints.Key(newID); !known || reread != 1 || prints.CurrentID() != newID {
		t.Errorf("known: %v after %d reads; %d is current, want %d", known, reread, prints.CurrentID(), newID)
	}
	if key, known := prints.Key(oldID); !known || !bytes.Equal(key, oldKey) || reread != 1 {
		t.Errorf("the old key is %x, %v, after %d reads; want %x", key, known, reread, oldKey)
	}
	if _, known := prints.Key(12345); known || reread != 2 {
		t.Errorf("a key that nobody has is known: %v", known)
	}
	if err := running.Reload(text); err == nil || running.PrimaryID() != keys.Primary {
		t.Errorf("the old ring was taken back: %v", err)
	}
	if err := running.Reload(retireTestKeys(t, ringText, keys)); err != nil || len(running.CheckValues()) != 1 {
		t.Errorf("the ring without the old key: %v", err)
	}
}
