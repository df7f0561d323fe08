package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

var _ access.Store = (*DB)(nil)

// Admit burns the request's nonce, checks that the record that the caller was checked
// against is current, and counts the request in the rate window, in one commit.
func (db *DB) Admit(ctx context.Context, a access.Admission) (access.Admitted, error) {
	var admitted access.Admitted
	err := db.writer.do(ctx, func(tx *tx) error {
		var err error
		admitted, err = admit(tx, a)
		return err
	})
	if err != nil {
		return access.Admitted{}, fmt.Errorf("admit a request: %w", err)
	}
	return admitted, nil
}

func admit(tx *tx, a access.Admission) (access.Admitted, error) {
	fresh, err := tx.nonces.burn(tx, a)
	if err != nil {
		return access.Admitted{}, fmt.Errorf("burn the nonce: %w", err)
	}
	if !fresh {
		return access.Admitted{Replayed: true}, nil
	}

	var credentialVersion, operatorVersion int64
	err = tx.QueryRow(`
		SELECT c.version, o.version
		  FROM credentials c JOIN operators o ON o.id = c.operator_id
		 WHERE c.id = ?1`, a.CredentialID).Scan(&credentialVersion, &operatorVersion)
	if err != nil {
		return access.Admitted{}, fmt.Errorf("compare versions: %w", err)
	}
	if credentialVersion != a.CredentialVersion || operatorVersion != a.OperatorVersion {
		record, err := recordWhere(tx, `c.id = ?1`, a.CredentialID)
		if err != nil {
			return access.Admitted{}, fmt.Errorf("read the record again: %w", err)
		}
		return access.Admitted{Fresh: &record}, nil
	}
	if !a.Count {
		return access.Admitted{}, nil
	}

	// The limit is checked in the statement, not against a count that was read before:
	// requests of one batch must not share the last slot.
	counted, err := tx.Exec(`
		INSERT INTO rate_counters (operator_id, minute, used) VALUES (?1, ?2, 1)
		    ON CONFLICT (minute, operator_id) DO UPDATE SET used = used + 1 WHERE used < ?3`, a.OperatorID, a.Minute(), a.Limit)
	if err == nil && counted == 0 {
		return access.Admitted{Used: a.Limit}, nil
	}
	var used int
	if err == nil {
		used, err = tx.rates.count(tx, a)
	}
	if err != nil {
		return access.Admitted{}, fmt.Errorf("count in the minute: %w", err)
	}
	return access.Admitted{Counted: true, Used: used}, nil
}

// rateCounts caches the counters of the latest minute, so that they need not be read
// after they were incremented. Only the writer increments them.
type rateCounts struct {
	minute int64
	used   map[int64]int // by operator
}

// count returns the counter's value after an increment.
func (r *rateCounts) count(tx *tx, a access.Admission) (used int, err error) {
	if a.Minute() > r.minute {
		*r = rateCounts{a.Minute(), map[int64]int{}}
	}
	if before, known := r.used[a.OperatorID]; known && a.Minute() == r.minute {
		used = before + 1
	} else {
		err = tx.QueryRow(`SELECT used FROM rate_counters WHERE operator_id = ?1 AND minute = ?2`, a.OperatorID, a.Minute()).Scan(&used)
	}
	if err == nil && a.Minute() == r.minute {
		r.used[a.OperatorID] = used
	}
	return used, err
}

// forget is called when an increment was rolled back, or may have been.
func (r *rateCounts) forget() { *r = rateCounts{} }

// CredentialByHash reads a key's current record, in one snapshot.
func (db *DB) CredentialByHash(ctx context.Context, hash access.KeyHash) (access.Record, bool, error) {
	// Key, operator and whitelist are three statements in one read transaction.
	var record access.Record
	err := db.lookUp(ctx, func(from sqlstore.Querier) error {
		var err error
		record, err = recordWhere(from, `c.key_hash = ?1`, hash[:])
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return access.Record{}, false, nil
	}
	if err != nil {
		return access.Record{}, false, fmt.Errorf("read a credential: %w", err)
	}
	return record, true, nil
}

// recordWhere reads the record of one credential; condition must be a literal.
func recordWhere(from sqlstore.Querier, condition string, argument any) (access.Record, error) {
	credential, err := sqlstore.ReadCredential(from.QueryRow(
		`SELECT `+sqlstore.CredentialColumns+` FROM credentials c WHERE `+condition, argument))
	if err != nil {
		return access.Record{}, err
	}
	operator, err := sqlstore.ReadOperator(from.QueryRow(
		`SELECT `+sqlstore.OperatorColumns+` FROM operators WHERE id = ?1`, credential.OperatorID))
	if err != nil {
		return access.Record{}, err
	}
	entries, err := sqlstore.WhitelistOf(from, credential.OperatorID)
	return access.Record{Credential: credential, Operator: operator, Whitelist: entries}, err
}

// PurgeAdmissions deletes expired nonces and counters, a few at a time, so that no
// request waits behind a long delete.
func (db *DB) PurgeAdmissions(ctx context.Context, noncesBefore time.Time, minutesBefore int64, most int) (int, error) {
	var removed int64
	err := db.writer.do(ctx, func(tx *tx) error {
		now := noncesBefore.Add(access.NonceRetention)
		nonces, err := tx.nonces.purge(tx, now.UnixMilli(), noncesBefore.UnixMilli(), most)
		if err != nil {
			return err
		}
		counters, err := tx.Exec(`
			DELETE FROM rate_counters WHERE (minute, operator_id) IN (
			       SELECT minute, operator_id FROM rate_counters WHERE minute < ?1 ORDER BY minute LIMIT ?2)`,
			minutesBefore, int64(most)-nonces)
		removed = nonces + counters
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge nonces and counters: %w", err)
	}
	return int(removed), nil
}
