package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// CheckMasterKeys checks that these are the master keys that the store was sealed with. A
// store without recorded keys records them, for a node or a tool: the first node must be
// able to open what a tool has sealed before. A store with recorded keys requires all of
// them, each with its proof; then only a node adds keys.
func (db *Store) CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, now time.Time) error {
	if db.tool {
		if known, err := compareMasterKeys(db.engine.Read(ctx), proofs); err != nil || known > 0 {
			return err
		}
	}
	return db.engine.Write(ctx, func(tx Tx) error {
		// If two nodes start a new store with different keys, the second one has to fail.
		if err := tx.Dialect().LockTable(tx, "master_keys"); err != nil {
			return fmt.Errorf("lock the master keys: %w", err)
		}
		if _, err := compareMasterKeys(tx, proofs); err != nil {
			return err
		}
		for id, proof := range proofs {
			_, err := tx.Exec(`INSERT INTO master_keys (key_id, proof, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				int64(id), proof, now.UnixMilli())
			if err != nil {
				return fmt.Errorf("write a master key's proof: %w", err)
			}
		}
		return nil
	})
}

// compareMasterKeys requires every key that the store has recorded, and counts them.
func compareMasterKeys(from Querier, proofs map[uint32][]byte) (known int, err error) {
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
		return 0, fmt.Errorf("read the master keys' proofs: %w", err)
	}
	for _, k := range all {
		if proof, held := proofs[k.id]; !held || !bytes.Equal(proof, k.proof) {
			return 0, fmt.Errorf("this is not the master key the store was sealed with (key id %d is missing or different): "+
				"set secrets.master_key_file to the right file, or restore it from its backup", k.id)
		}
	}
	return len(all), nil
}
