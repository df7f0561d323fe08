package server

import (
	"os"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
)

// Two rotations at once: the second has read the store before the first one rotated.
func TestRotate_AfterAnothersRotation(t *testing.T) {
	t.Parallel()
	p := newInstallation(t)
	config := p.withOperator()
	store, err := OpenStore(t.Context(), config, StoreOptions{Tool: true})
	p.must(err)
	defer store.Close()
	open := func() Ring {
		t.Helper()
		vault, err := OpenVault(config, nil)
		p.must(err)
		_, _, err = UnlockStore(t.Context(), store, vault, time.Now())
		p.must(err)
		return Ring{Config: config, Store: store, Vault: vault, Service: admin.NewService(store, vault, "test", time.Now), Now: time.Now}
	}
	first := open()
	operators, err := first.Store.Operators(t.Context())
	p.must(err)
	_, err = first.Service.IssueKey(t.Context(), operators[0].ID, access.AllPermissions)
	p.must(err)
	_, _, err = first.Add(t.Context())
	p.must(err)
	first, second := open(), open()
	before, err := os.ReadFile(config.Secrets.MasterKeyFile)
	p.must(err)
	for i, ring := range []Ring{first, second} {
		if got, err := ring.Rotate(t.Context(), nil); err != nil || got.Rotated != (i == 0) {
			t.Fatalf("rotation %d: %+v, %v", i, got, err)
		}
	}
	keys, err := open().List(t.Context())
	if err != nil || len(keys) != 2 || keys[0].Sealed != 0 || keys[1].Sealed == 0 || !keys[1].Primary {
		t.Errorf("the keys are %+v, %v; want everything sealed with the second", keys, err)
	}
	if after, err := os.ReadFile(config.Secrets.MasterKeyFile); err != nil || string(after) != string(before) {
		t.Errorf("a rotation changed the ring's file (%v)", err)
	}
}
