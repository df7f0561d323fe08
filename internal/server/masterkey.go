package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/failpoint"
)

const (
	// resealAtOnce is how many rows one commit seals again.
	resealAtOnce = 100
	// rotationWait is how long a rotation waits for the nodes to seal with the new key.
	rotationWait = 15 * time.Second
	rotationPoll = 100 * time.Millisecond
	// reportWait is how long it waits for nodes that were sent SIGHUP just now.
	reportWait = 2 * time.Second
)

// Ring is what the commands for the master key work on.
type Ring struct {
	Config  Config
	Environ []string
	Store   Store
	Vault   *access.Vault
	Service *admin.Service
	Now     func() time.Time
}

// MasterKeyState is a master key as the ring and the store have it.
type MasterKeyState struct {
	ID uint32
	// Primary: it seals. InRing: this machine's ring has it, Enabled if it is not disabled there.
	// Required: no node starts without it.
	Primary, InRing, Enabled, Required bool
	AddedAt                            time.Time
	// Sealed counts what is sealed with it, and Nodes are those that hold it.
	Sealed int64
	Nodes  []string
}

// List lists the keys of this machine's ring, and those that the store requires.
func (r Ring) List(ctx context.Context) ([]MasterKeyState, error) {
	keys, errKeys := r.Store.StoreKeys(ctx)
	required, errRequired := r.Store.MasterKeys(ctx)
	sealed, errSealed := r.Store.SealedWith(ctx)
	live, _, errLive := r.Store.LiveNodes(ctx, r.Now())
	if err := errors.Join(errKeys, errRequired, errSealed, errLive); err != nil {
		return nil, err
	}
	primary := keys.Primary
	if primary == 0 {
		primary = r.Vault.PrimaryID()
	}
	proofs := r.Vault.CheckValues()
	var all []MasterKeyState
	for _, key := range r.Vault.RingKeys() {
		state := MasterKeyState{ID: key.ID, InRing: true, Enabled: key.Enabled}
		for _, node := range live {
			if node.Holds(access.KeyToken(key.ID, proofs[key.ID])) {
				state.Nodes = append(state.Nodes, node.Name)
			}
		}
		all = append(all, state)
	}
	for _, key := range required {
		at := slices.IndexFunc(all, func(s MasterKeyState) bool { return s.ID == key.ID })
		if at < 0 {
			at, all = len(all), append(all, MasterKeyState{ID: key.ID})
		}
		all[at].Required, all[at].AddedAt = true, key.AddedAt
	}
	for i := range all {
		all[i].Primary, all[i].Sealed = all[i].ID == primary, sealed[all[i].ID]
	}
	return all, nil
}

// Add writes a new key at the end of this machine's ring. It does not seal before a rotation.
func (r Ring) Add(ctx context.Context) (id uint32, file string, err error) {
	file, err = r.file()
	if err != nil {
		return 0, "", err
	}
	states, err := r.List(ctx)
	if err != nil {
		return 0, "", err
	}
	if last := states[len(r.Vault.RingKeys())-1]; !last.Required {
		return 0, "", admin.Refuse("key %d was added and does not seal yet: rotate to it, or take it out with coax admin masterkey retire --key %d", last.ID, last.ID)
	}
	text, id, err := r.Vault.WithNewKey()
	if err != nil {
		return 0, "", err
	}
	// The entry comes first: a key that nobody is recorded to have added is worse than an
	// entry of one that was not written.
	err = r.replace(file, text, func() error { return r.Service.LogMasterKey(ctx, id) })
	return id, file, err
}

// file returns the ring's file, which a command can write.
func (r Ring) file() (string, error) {
	if hasMasterKey(r.Environ) {
		return "", admin.Refuse("the master key is in %s, which this command cannot change: write its text to a file of mode 0400, run the command without the variable "+
			"and with --set secrets.master_key_file=FILE, then give every node the file's new text and restart it", MasterKeyVariable)
	}
	return r.Config.Secrets.MasterKeyFile, nil
}

// replace replaces the ring's file atomically. last is done before, once the new one is written.
func (r Ring) replace(file string, text []byte, last func() error) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("write the master key: %w", err)
	}
	draft, err := writeDraft(file, info.Mode().Perm(), text)
	if err != nil {
		return fmt.Errorf("write the master key: %w", err)
	}
	defer os.Remove(draft)
	if err := last(); err != nil {
		return err
	}
	if err := failpoint.Hit("K.write"); err != nil {
		return err
	}
	if err := os.Rename(draft, file); err != nil {
		return fmt.Errorf("write the master key: %w", err)
	}
	return nil
}

// Rotation is the result of a rotation.
type Rotation struct {
	Primary uint32
	// Rotated is false if the key was the primary one already.
	Rotated bool
	// Resealed counts what was sealed again; Unreadable names what no key of the ring opens.
	Resealed   int64
	Unreadable []string
	// Waiting are nodes that did not seal with the key in time.
	Waiting []string
	// Unused are the other keys that the store requires, with which nothing is sealed any more.
	Unused []uint32
}

// Rotate makes the ring's last key the one that seals, and seals again everything that was sealed
// with others. An interrupted rotation is continued by the next one. progress may be nil.
func (r Ring) Rotate(ctx context.Context, progress func(resealed int64)) (Rotation, error) {
	keys, err := r.Store.StoreKeys(ctx)
	if err != nil {
		return Rotation{}, err
	}
	ring := r.Vault.RingKeys()
	to := ring[len(ring)-1]
	result := Rotation{Primary: to.ID}
	switch {
	case !to.Enabled:
		return result, admin.Refuse("key %d, the last one of the ring, is disabled", to.ID)
	case keys.Primary == 0 && len(ring) == 1:
		return result, admin.Refuse("the ring has one key: add another with coax admin masterkey add, and put the ring on every node")
	case keys.Primary == 0:
		_, older, err := r.Store.LiveNodes(ctx, r.Now())
		if err != nil {
			return result, err
		}
		if len(older) > 0 {
			return result, admin.Refuse("coax of an older release uses the store, which cannot work with a rotated master key: %s; upgrade it first", strings.Join(older, ", "))
		}
	}
	if keys.Primary != to.ID {
		if err := r.makePrimary(ctx, keys.Primary, to.ID); err != nil {
			return result, err
		}
		result.Rotated = true
	} else if err := r.Vault.UseStoreKeys(keys); err != nil { // rotated since this command read the store
		return result, err
	}
	if result.Resealed, result.Unreadable, err = r.reseal(ctx, 0, progress); err != nil {
		return result, err
	}
	if result.Waiting, err = r.awaitNodes(ctx, rotationWait, func(n admin.NodeKeys) bool { return n.Sealing == to.ID }); err != nil {
		return result, err
	}
	// What nodes have sealed with the old key meanwhile.
	if result.Resealed, result.Unreadable, err = r.reseal(ctx, result.Resealed, progress); err != nil {
		return result, err
	}
	states, err := r.List(ctx)
	for _, state := range states {
		if state.Required && !state.Primary && state.Sealed == 0 {
			result.Unused = append(result.Unused, state.ID)
		}
	}
	return result, err
}

// makePrimary sets which key seals, in the store: from then on nodes seal with it.
func (r Ring) makePrimary(ctx context.Context, was, id uint32) error {
	keys, err := r.Vault.Rotate(id)
	if err != nil {
		return err
	}
	token := access.KeyToken(id, keys.Proof)
	if _, err := r.awaitNodes(ctx, reportWait, func(n admin.NodeKeys) bool { return n.Holds(token) }); err != nil {
		return err
	}
	if err := failpoint.Hit("K.rotate"); err != nil {
		return err
	}
	if err := r.Service.RotateMasterKey(ctx, was, keys); err != nil {
		return err
	}
	if err := failpoint.Hit("K.rotated"); err != nil {
		return err
	}
	return r.Vault.UseStoreKeys(keys.StoreKeys)
}

// reseal seals again what is sealed with another key than the primary one, until a run through
// everything has nothing to change.
func (r Ring) reseal(ctx context.Context, resealed int64, progress func(int64)) (total int64, unreadable []string, err error) {
	for changedAny := true; changedAny; {
		changedAny, unreadable = false, nil
		for cursor := (admin.SealedCursor{}); ; {
			rows, next, err := r.Store.SealedRows(ctx, r.Vault.PrimaryID(), cursor, resealAtOnce)
			if err != nil {
				return resealed, unreadable, err
			}
			if len(rows) == 0 {
				break
			}
			cursor = next
			batch := make([]admin.ResealedRow, 0, len(rows))
			for _, row := range rows {
				fresh, err := r.Vault.Reseal(row.Sealed, row.Context)
				if err != nil {
					unreadable = append(unreadable, row.Name)
					continue
				}
				batch = append(batch, admin.ResealedRow{SealedRow: row, New: fresh})
			}
			changed, err := r.Store.Reseal(ctx, r.Vault.PrimaryID(), batch)
			if err != nil {
				return resealed, unreadable, err
			}
			if err := failpoint.Hit("K.resealed"); err != nil {
				return resealed, unreadable, err
			}
			resealed += int64(changed)
			changedAny = changedAny || changed > 0
			if progress != nil {
				progress(resealed)
			}
		}
	}
	return resealed, unreadable, nil
}

// awaitNodes waits until a condition holds for every node, and returns those that do not meet it
// in time.
func (r Ring) awaitNodes(ctx context.Context, timeLimit time.Duration, condition func(admin.NodeKeys) bool) (waiting []string, err error) {
	timeout := time.After(timeLimit)
	for {
		live, _, err := r.Store.LiveNodes(ctx, r.Now())
		if err != nil {
			return nil, err
		}
		waiting = nil
		for _, node := range live {
			if !condition(node) {
				waiting = append(waiting, node.Name)
			}
		}
		if waiting == nil {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout:
			return waiting, nil
		case <-time.After(rotationPoll):
		}
	}
}

// Retire removes a key that no longer seals anything from the store, and from this machine's ring.
func (r Ring) Retire(ctx context.Context, id uint32) (file string, err error) {
	file, err = r.file()
	if err != nil {
		return "", err
	}
	states, err := r.List(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(states, func(s MasterKeyState) bool { return s.ID == id })
	if at < 0 {
		return "", admin.Refuse("there is no master key %d", id)
	}
	state := states[at]
	if state.Primary {
		return "", admin.Refuse("key %d seals, and cannot be retired: add another key and rotate first", id)
	}
	if err := r.Service.RetireMasterKey(ctx, id); err != nil {
		return "", err
	}
	if err := failpoint.Hit("K.retired"); err != nil {
		return "", err
	}
	if !state.InRing {
		return file, nil
	}
	text, err := r.Vault.WithoutKey(id)
	if err != nil {
		return "", err
	}
	return file, r.replace(file, text, func() error { return nil })
}
