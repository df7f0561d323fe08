package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

var keyringTests = []test{
	{"a rotation replaces the store's keys and is recorded", rotationStored},
	{"a rotation is refused while a node lacks the key", rotationNeedsNodes},
	{"of two rotations at once one is refused", rotationsAtOnce},
	{"everything that is sealed is sealed again", everythingResealed},
	{"a key is retired once nothing needs it", keyRetired},
	{"what a node seals with a retired key is refused", retiredKeyRefused},
	{"a retirement sees what is sealed at the same time", retirementRace},
}

// sealed is a value sealed with a key, as far as a store can tell.
func sealed(key uint32, text string) []byte { return append(access.SealedPrefix(key), text...) }

// rotatedKeys are keys of a store under a master key.
func rotatedKeys(primary uint32, ids ...uint32) access.RotatedKeys {
	keys := access.RotatedKeys{StoreKeys: access.StoreKeys{Primary: primary}, Proof: fmt.Appendf(nil, "proof %d", primary)}
	for _, id := range ids {
		keys.DataKeys = append(keys.DataKeys, access.SealedDataKey{ID: id, Sealed: sealed(primary, fmt.Sprint("data key ", id))})
	}
	return keys
}

func (h *harness) rotate(was, primary uint32, ids ...uint32) {
	h.Helper()
	h.must(h.RotateMasterKey(h.Context(), staffAction(string(admin.MasterKeyRotate)), was, rotatedKeys(primary, ids...)))
}

func (h *harness) requiredKeys() (ids []uint32) {
	h.Helper()
	keys, err := h.MasterKeys(h.Context())
	h.must(err)
	for _, key := range keys {
		ids = append(ids, key.ID)
	}
	return ids
}

// keyring makes a store that was opened with master key 1.
func (h *harness) keyring() {
	h.Helper()
	h.must(h.CheckMasterKeys(h.Context(), map[uint32][]byte{1: []byte("proof 1")}, 1, noon))
}

func rotationStored(h *harness) {
	h.keyring()
	if keys, err := h.StoreKeys(h.Context()); err != nil || keys.Primary != 0 || len(keys.DataKeys) != 0 {
		h.Errorf("a store that was never rotated has %+v, %v", keys, err)
	}
	if version, err := h.KeyringVersion(h.Context()); err != nil || version != 0 {
		h.Errorf("version %d, %v", version, err)
	}
	h.rotate(0, 2, 1, 70)
	before, err := h.KeyringVersion(h.Context())
	h.must(err)
	h.rotate(2, 3, 1, 70, 71)
	h.reopen()
	after, err := h.KeyringVersion(h.Context())
	if err != nil || after <= before || before == 0 {
		h.Errorf("version %d after %d, %v; want one that grows", after, before, err)
	}
	want := rotatedKeys(3, 1, 70, 71).StoreKeys
	if keys, err := h.StoreKeys(h.Context()); err != nil || fmt.Sprint(keys) != fmt.Sprint(want) {
		h.Errorf("keys %v, %v; want %v", keys, err, want)
	}
	if ids := h.requiredKeys(); !slices.Equal(ids, []uint32{1, 2, 3}) {
		h.Errorf("required: %d; want all three", ids)
	}
	entries := h.auditEntries()
	if len(entries) != 2 || entries[1].Subject != "master key 3" || entries[1].Before != `{"primary_key":2}` || entries[1].After != `{"primary_key":3}` {
		h.Errorf("logged %+v", entries)
	}
	// A node that has the ring's new key only is taken once the others are retired; a ring's own
	// primary key is no longer recorded.
	all := map[uint32][]byte{1: []byte("proof 1"), 2: []byte("proof 2"), 3: []byte("proof 3"), 4: []byte("proof 4")}
	h.must(h.CheckMasterKeys(h.Context(), all, 4, noon))
	if ids := h.requiredKeys(); len(ids) != 3 {
		h.Errorf("required: %d; want no more", ids)
	}
}

func (h *harness) report(name, keys string, sealing uint32, at time.Time) {
	h.Helper()
	h.must(h.ReportNode(h.Context(), admin.NodeKeys{Name: name, Release: "0.2.0", Keys: keys, Sealing: sealing, SeenAt: at}))
}

func rotationNeedsNodes(h *harness) {
	h.keyring()
	one, two := access.KeyToken(1, []byte("proof 1")), access.KeyToken(2, []byte("proof 2"))
	h.report("node-a", one, 1, noon)
	rotate := func() error {
		return h.RotateMasterKey(h.Context(), staffAction(string(admin.MasterKeyRotate)), 0, rotatedKeys(2, 1, 70))
	}
	err := rotate()
	h.refused("a node without the key", err)
	if err != nil && !strings.Contains(err.Error(), "node-a") {
		h.Errorf("%v; want the node named", err)
	}
	h.report("node-a", one+" "+access.KeyToken(2, []byte("other")), 1, noon)
	h.refused("a node with another key of that id", rotate())
	if keys, err := h.StoreKeys(h.Context()); err != nil || keys.Primary != 0 || len(h.auditEntries()) != 0 {
		h.Errorf("a refused rotation left %v, %v", keys, err)
	}
	h.report("node-a", one+" "+two, 1, noon)
	live, _, err := h.LiveNodes(h.Context(), noon)
	if err != nil || len(live) != 1 || live[0].Name != "node-a" || !live[0].Holds(two) || live[0].Sealing != 1 {
		h.Errorf("live: %+v, %v", live, err)
	}
	h.must(rotate())
	h.must(h.ForgetNode(h.Context(), "node-a"))
	if live, _, err := h.LiveNodes(h.Context(), noon); err != nil || len(live) != 0 {
		h.Errorf("live: %+v, %v; want none", live, err)
	}
}

func rotationsAtOnce(h *harness) {
	h.keyring()
	errs := make([]error, 4)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			errs[i] = h.RotateMasterKey(h.Context(), staffAction(string(admin.MasterKeyRotate)), 0, rotatedKeys(2, 1, uint32(70+i)))
		})
	}
	group.Wait()
	done := 0
	for _, err := range errs {
		var refusal *admin.Refusal
		switch {
		case err == nil:
			done++
		case !errors.As(err, &refusal):
			h.Error(err)
		}
	}
	keys, err := h.StoreKeys(h.Context())
	if err != nil || done != 1 || len(keys.DataKeys) != 2 {
		h.Errorf("%d rotations were done, with the keys %v, %v; want one", done, keys, err)
	}
}

// sealedKey issues an API key whose secret is sealed with a master key.
func (h *harness) sealedKey(operatorID int64, master uint32) (access.Credential, error) {
	key, _ := access.NewKey()
	return h.IssueKey(h.Context(), staffAction("key issue"), access.Credential{
		OperatorID: operatorID, KeyHash: access.HashKey(key), Hint: access.Hint(key), SealedSecret: sealed(master, key), Permissions: access.AllPermissions, CreatedAt: noon,
	})
}

// reseal seals all rows again under a key, as a rotation does.
func (h *harness) reseal(primary uint32) (contexts []string) {
	h.Helper()
	for cursor := (admin.SealedCursor{}); ; {
		rows, next, err := h.SealedRows(h.Context(), primary, cursor, 2)
		h.must(err)
		if len(rows) == 0 {
			return contexts
		}
		cursor = next
		var fresh []admin.ResealedRow
		for _, row := range rows {
			contexts = append(contexts, string(row.Context))
			fresh = append(fresh, admin.ResealedRow{SealedRow: row, New: append(access.SealedPrefix(primary), row.Sealed[5:]...)})
		}
		changed, err := h.Reseal(h.Context(), primary, fresh)
		if err != nil || changed != len(fresh) {
			h.Fatalf("%d of %d changed, %v", changed, len(fresh), err)
		}
		if _, err := h.Reseal(h.Context(), primary+1, fresh); !errors.As(err, new(*admin.Refusal)) {
			h.Errorf("rows are sealed again with a key that does not seal: %v", err)
		}
		if changed, err = h.Reseal(h.Context(), primary, fresh); err != nil || changed != 0 {
			h.Fatalf("%d rows changed that are not as they were read, %v", changed, err)
		}
	}
}

func (h *harness) sealedWith() map[uint32]int64 {
	h.Helper()
	counts, err := h.SealedWith(h.Context())
	h.must(err)
	return counts
}

func everythingResealed(h *harness) {
	h.keyring()
	operator := h.operator("one")
	var want []string
	for range 5 {
		key, err := h.sealedKey(operator.ID, 1)
		h.must(err)
		want = append(want, string(access.KeyContext(operator.ID, key.KeyHash)))
	}
	asha := h.account(newAccount("asha"))
	session, _ := h.session(h.signIn(asha, noon))
	for _, kind := range []login.ChallengeKind{login.ChallengeTOTP, login.ChallengeUse} {
		h.must(h.SaveChallenge(h.Context(), login.Challenge{
			ChallengeRef: login.ChallengeRef{SessionID: session.ID, Kind: kind, Ticket: login.HashToken("ticket")}, State: sealed(1, "offered"), ExpiresAt: noon.Add(time.Hour),
		}))
	}
	binu := h.account(newAccount("binu"))
	token := h.signIn(binu, noon)
	h.must(h.ChangeFactors(h.Context(), login.OwnAction{Actor: "web:binu", Action: "totp set", At: noon}, login.FactorChange{
		PersonID: binu.ID, Version: binu.Version, Old: token, New: login.HashToken("another"), At: noon, SetTOTP: &login.NewTOTP{Sealed: sealed(1, "app"), Step: 1},
	}))
	h.must(h.SaveACMESecret(h.Context(), "account", sealed(1, "account key")))
	want = append(want, string(access.ACMEContext("account")), string(access.TOTPContext(asha.ID)), string(access.TOTPContext(binu.ID)))
	h.rotate(0, 2, 1, 70)
	if counts := h.sealedWith(); counts[1] != 8 || counts[2] != 2 {
		h.Errorf("sealed: %v; want eight rows with 1, and two data keys with 2", counts)
	}
	before, err := h.Keys(h.Context(), operator.ID)
	h.must(err)
	if got := h.reseal(2); !sameElements(got, want) {
		h.Errorf("sealed again for %q; want %q", got, want)
	}
	if counts := h.sealedWith(); counts[1] != 0 || counts[2] != 10 {
		h.Errorf("sealed: %v; want everything with 2", counts)
	}
	after, err := h.Keys(h.Context(), operator.ID)
	h.must(err)
	for i := range after {
		if after[i].Version != before[i].Version {
			h.Errorf("key %d has version %d; want %d: it is the same secret", after[i].ID, after[i].Version, before[i].Version)
		}
	}
}

func sameElements(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

func keyRetired(h *harness) {
	h.keyring()
	retire := func(id uint32) error {
		return h.RetireMasterKey(h.Context(), staffAction(string(admin.MasterKeyRetire)), id)
	}
	operator := h.operator("one")
	_, err := h.sealedKey(operator.ID, 1)
	h.must(err)
	h.refused("before the first rotation", retire(1))
	h.rotate(0, 2, 1, 70)
	h.refused("the one that seals", retire(2))
	h.refused("something is sealed with it", retire(1))
	h.reseal(2)
	h.report("node-a", "", 1, noon)
	h.refused("a node seals with it", retire(1))
	h.report("node-a", "", 2, noon)
	h.must(retire(1))
	if ids := h.requiredKeys(); !slices.Equal(ids, []uint32{2}) {
		h.Errorf("required: %d; want 2", ids)
	}
	h.must(h.CheckMasterKeys(h.Context(), map[uint32][]byte{2: []byte("proof 2")}, 2, noon))
	if h.CheckMasterKeys(h.Context(), map[uint32][]byte{1: []byte("proof 1")}, 1, noon) == nil {
		h.Error("the retired ring was taken")
	}
	if entries := h.auditEntries(); entries[len(entries)-1].Action != "masterkey retire" || entries[len(entries)-1].Subject != "master key 1" {
		h.Errorf("logged %+v", entries[len(entries)-1])
	}
}

func retiredKeyRefused(h *harness) {
	h.keyring()
	operator := h.operator("one")
	h.rotate(0, 2, 1, 70)
	_, err := h.sealedKey(operator.ID, 1) // not told of the rotation yet
	h.must(err)
	h.reseal(2)
	h.must(h.RetireMasterKey(h.Context(), staffAction(string(admin.MasterKeyRetire)), 1))
	if _, err := h.sealedKey(operator.ID, 1); err == nil {
		h.Error("a secret was stored that is sealed with a retired key")
	}
	_, err = h.sealedKey(operator.ID, 2)
	h.must(err)
	if counts := h.sealedWith(); counts[1] != 0 {
		h.Errorf("sealed: %v", counts)
	}
}

// Either the retirement is refused, or the secrets are.
func retirementRace(h *harness) {
	h.keyring()
	operator := h.operator("one")
	h.rotate(0, 2, 1, 70)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { _, _ = h.sealedKey(operator.ID, 1) })
	}
	var retired error
	group.Go(func() {
		retired = h.RetireMasterKey(h.Context(), staffAction(string(admin.MasterKeyRetire)), 1)
	})
	group.Wait()
	if n := h.sealedWith()[1]; retired == nil && n > 0 {
		h.Errorf("retired, and %d secrets are sealed with it", n)
	}
}
