package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
)

// rotatedGeneration is the oldest generation of binaries that knows data keys.
const rotatedGeneration = 3

// CheckMasterKeys checks that these are the master keys that the store was sealed with. A
// store without recorded keys records them, for a node or a tool: the first node must be
// able to open what a tool has sealed before. A store with recorded keys requires all of
// them, each with its proof; then only a node adds a key, which is the primary one of its ring,
// and only until the store's own primary key is set by a rotation.
func (db *Store) CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, primary uint32, now time.Time) error {
	from := db.engine.Read(ctx)
	known, err := compareMasterKeys(from, proofs)
	if err != nil || known[primary] || db.tool && len(known) > 0 {
		return err
	}
	if rotated, err := readPrimary(from); err != nil || rotated != 0 {
		return err
	}
	return db.engine.Write(ctx, func(tx Tx) error {
		// If two nodes start a new store with different keys, the second one has to fail.
		if err := tx.Dialect().LockTable(tx, "master_keys"); err != nil {
			return fmt.Errorf("lock the master keys: %w", err)
		}
		known, err := compareMasterKeys(tx, proofs)
		if err != nil {
			return err
		}
		if rotated, err := readPrimary(tx); err != nil || rotated != 0 {
			return err
		}
		for id, proof := range proofs {
			if len(known) > 0 && id != primary {
				continue
			}
			if err := addMasterKey(tx, id, proof, now); err != nil {
				return err
			}
		}
		return nil
	})
}

func addMasterKey(tx Tx, id uint32, proof []byte, at time.Time) error {
	_, err := tx.Exec(`INSERT INTO master_keys (key_id, proof, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, int64(id), proof, at.UnixMilli())
	if err != nil {
		return fmt.Errorf("write a master key's proof: %w", err)
	}
	return nil
}

// compareMasterKeys requires every key that the store has recorded, and returns them.
func compareMasterKeys(from Querier, proofs map[uint32][]byte) (known map[uint32]bool, err error) {
	type key struct {
		id    uint32
		proof []byte
	}
	rows, err := from.Query(`SELECT key_id, proof FROM master_keys ORDER BY key_id`)
	all, err := Collect(rows, err, func(row Row) (key, error) {
		var k key
		err := row.Scan(&k.id, &k.proof)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the master keys' proofs: %w", err)
	}
	known = map[uint32]bool{}
	for _, k := range all {
		if proof, held := proofs[k.id]; !held || !bytes.Equal(proof, k.proof) {
			return nil, fmt.Errorf("this is not the master key the store was sealed with (key id %d is missing or different): "+
				"set secrets.master_key_file to the right file, or restore it from its backup", k.id)
		}
		known[k.id] = true
	}
	return known, nil
}

// MasterKeys lists the recorded master keys.
func (db *Store) MasterKeys(ctx context.Context) ([]admin.MasterKey, error) {
	return readMasterKeys(db.engine.Read(ctx))
}

func readMasterKeys(from Querier) ([]admin.MasterKey, error) {
	rows, err := from.Query(`SELECT key_id, created_at FROM master_keys ORDER BY created_at, key_id`)
	all, err := Collect(rows, err, func(row Row) (k admin.MasterKey, err error) {
		var at sql.NullInt64
		err = row.Scan(&k.ID, &at)
		k.AddedAt = Time(at)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the master keys: %w", err)
	}
	return all, nil
}

// readPrimary reads the key that seals; 0 if the store was never rotated.
func readPrimary(from RowQuerier) (primary uint32, err error) {
	err = from.QueryRow(`SELECT primary_key FROM master_key_ring WHERE one = 1`).Scan(&primary)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read which master key seals: %w", err)
	}
	return primary, nil
}

// KeyringVersion returns the time of the last rotation; 0 if there was none.
func (db *Store) KeyringVersion(ctx context.Context) (version int64, err error) {
	err = db.engine.Lookup(ctx).QueryRow(`SELECT rotated_at FROM master_key_ring WHERE one = 1`).Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read when the master key was rotated: %w", err)
	}
	return version, nil
}

// StoreKeys reads the keys that the store has.
func (db *Store) StoreKeys(ctx context.Context) (keys access.StoreKeys, err error) {
	err = db.engine.Snapshot(ctx, func(from Querier) (err error) {
		keys, err = ReadStoreKeys(from)
		return err
	})
	return keys, err
}

// ReadStoreKeys reads the keys that a store has, in one snapshot.
func ReadStoreKeys(from Querier) (keys access.StoreKeys, err error) {
	if keys.Primary, err = readPrimary(from); err != nil {
		return keys, err
	}
	rows, err := from.Query(`SELECT key_id, sealed FROM data_keys ORDER BY seq`)
	sealed, err := Collect(rows, err, func(row Row) (k access.SealedDataKey, err error) {
		err = row.Scan(&k.ID, &k.Sealed)
		return k, err
	})
	if err != nil {
		return access.StoreKeys{}, fmt.Errorf("read the data keys: %w", err)
	}
	keys.DataKeys = sealed
	return keys, nil
}

// LogMasterKey records that a key was added to the ring.
func (db *Store) LogMasterKey(ctx context.Context, action admin.StaffAction, id uint32) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		return logAction(tx, action, 0, admin.MasterKeySubject(id), nil, nil)
	})
}

// RotateMasterKey makes a key the primary one, and replaces the data keys.
func (db *Store) RotateMasterKey(ctx context.Context, action admin.StaffAction, was uint32, keys access.RotatedKeys) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		// A node that starts reports its keys first and reads the store's afterwards. So it is
		// either found here, or finds the new primary key.
		for _, table := range []string{"nodes", "master_keys"} {
			if err := tx.Dialect().LockTable(tx, table); err != nil {
				return fmt.Errorf("lock the table %s: %w", table, err)
			}
		}
		before, err := readPrimary(tx)
		if err != nil {
			return err
		}
		if before != was {
			return admin.Refuse("the master key was rotated by somebody else meanwhile: key %d seals now", before)
		}
		live, _, err := db.LiveNodesIn(tx, action.At)
		if err != nil {
			return err
		}
		var lacking []string
		for _, node := range live {
			if !node.Holds(access.KeyToken(keys.Primary, keys.Proof)) {
				lacking = append(lacking, node.Name)
			}
		}
		if lacking != nil {
			return admin.Refuse("key %d cannot seal yet, because these nodes do not hold it: %s. Put the ring on their machines, send SIGHUP (systemctl reload coax), "+
				"and try again; a node that has died counts for a minute", keys.Primary, strings.Join(lacking, ", "))
		}
		if err := addMasterKey(tx, keys.Primary, keys.Proof, action.At); err != nil {
			return err
		}
		for i, key := range keys.DataKeys {
			_, err := tx.Exec(`
				INSERT INTO data_keys (seq, key_id, sealed, made_at) VALUES ($1, $2, $3, $4)
				ON CONFLICT (key_id) DO UPDATE SET sealed = excluded.sealed`, i+1, int64(key.ID), key.Sealed, action.At.UnixMilli())
			if err != nil {
				return fmt.Errorf("write data key %d: %w", key.ID, err)
			}
		}
		// rotated_at is how nodes notice a rotation, so that it always grows.
		_, err = tx.Exec(`
			INSERT INTO master_key_ring (one, primary_key, rotated_at) VALUES (1, $1, $2)
			ON CONFLICT (one) DO UPDATE SET primary_key = excluded.primary_key, rotated_at = greatest(excluded.rotated_at, master_key_ring.rotated_at + 1)`,
			int64(keys.Primary), action.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("write which master key seals: %w", err)
		}
		_, err = tx.Exec(`
			UPDATE schema_tolerance SET oldest_generation = $1
			 WHERE oldest_generation < $1 AND migration = (SELECT max(migration) FROM schema_tolerance)`, rotatedGeneration)
		if err != nil {
			return fmt.Errorf("refuse older binaries: %w", err)
		}
		var state any
		if before != 0 {
			state = primaryState(before)
		}
		return logAction(tx, action, 0, admin.MasterKeySubject(keys.Primary), state, primaryState(keys.Primary))
	})
}

func primaryState(id uint32) map[string]any { return map[string]any{"primary_key": id} }

// RetireMasterKey removes a key from those that the store requires.
func (db *Store) RetireMasterKey(ctx context.Context, action admin.StaffAction, id uint32) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		// Those who seal write first and look for their key in master_keys afterwards.
		for _, table := range append(sealedTables(), "nodes", "master_keys") {
			if err := tx.Dialect().LockTable(tx, table); err != nil {
				return fmt.Errorf("lock the table %s: %w", table, err)
			}
		}
		var known int
		if err := tx.QueryRow(`SELECT count(*) FROM master_keys WHERE key_id = $1`, int64(id)).Scan(&known); err != nil {
			return fmt.Errorf("look for master key %d: %w", id, err)
		}
		if known == 0 { // it has never sealed anything, or was removed already
			return logAction(tx, action, 0, admin.MasterKeySubject(id), nil, nil)
		}
		primary, err := readPrimary(tx)
		if err != nil {
			return err
		}
		switch primary {
		case 0:
			return admin.Refuse("key %d cannot be retired before the first rotation: what was made with it depends on it until then; run coax admin masterkey rotate", id)
		case id:
			return admin.Refuse("key %d seals, and cannot be retired: add another key and rotate first", id)
		}
		live, _, err := db.LiveNodesIn(tx, action.At)
		if err != nil {
			return err
		}
		for _, node := range live {
			if node.Sealing == id {
				return admin.Refuse("node %s still seals with key %d: see whether it reaches the store, and try again", node.Name, id)
			}
		}
		counts, err := sealedWith(tx)
		if err != nil {
			return err
		}
		if n := counts[id]; n > 0 {
			return admin.Refuse("%d secrets are still sealed with key %d: run coax admin masterkey rotate, which goes on", n, id)
		}
		if _, err := tx.Exec(`DELETE FROM master_keys WHERE key_id = $1`, int64(id)); err != nil {
			return fmt.Errorf("remove a master key: %w", err)
		}
		return logAction(tx, action, 0, admin.MasterKeySubject(id), nil, nil)
	})
}
