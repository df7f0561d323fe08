package receipt

import (
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
)

// A link outlives the master key under which it was made, also when that is taken out of the ring.
func TestLinks_SurviveNewMasterKey(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(text []byte, keys access.StoreKeys) *access.Vault {
		vault, err := access.OpenVault(text)
		must(err)
		must(vault.UseStoreKeys(keys))
		return vault
	}
	now := func() time.Time { return time.Date(2027, 3, 1, 6, 30, 0, 0, time.UTC) }
	linksOf := func(vault *access.Vault) *Links { return NewLinks(vault.KeysFor(LinkPurpose), now) }

	text, err := access.NewMasterKey()
	must(err)
	first := open(text, access.StoreKeys{})
	token, _, ok := linksOf(first).Make(transaction)
	if !ok {
		t.Fatal("no link was made")
	}
	text, added, err := first.WithNewKey()
	must(err)
	rotated, err := open(text, access.StoreKeys{}).Rotate(added)
	must(err)
	text, err = open(text, rotated.StoreKeys).WithoutKey(first.PrimaryID())
	must(err)
	second := open(text, rotated.StoreKeys)
	if second.PrimaryID() == first.PrimaryID() || second.DataKeyID() == first.DataKeyID() {
		t.Fatal("the keys were not replaced")
	}
	if id, _, ok := linksOf(second).Open(token); !ok || id != transaction {
		t.Errorf("after the rotation the link opens %q, %v", id, ok)
	}
	other, err := access.NewMasterKey()
	must(err)
	if _, _, ok := linksOf(open(other, access.StoreKeys{})).Open(token); ok {
		t.Error("another installation opens the link")
	}
}
