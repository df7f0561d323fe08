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

// Admit makes one request's admission true: the nonce is burned, the record is
// found to be the one the caller was judged on, a place in the minute is taken.
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
			return access.Admitted{}, fmt.Errorf("read the record afresh: %w", err)
		}
		return access.Admitted{Fresh: &record}, nil
	}
	if !a.Count {
		return access.Admitted{}, nil
	}

	// The limit stands in the guard, not in a count read before: requests of
	// one batch must not share the last place.
	counted, err := tx.Exec(`
		INSERT INTO rate_counters (operator_id, minute, used) VALUES (?1, ?2, 1)
		    ON CONFLICT (minute, operator_id) DO UPDATE SET used = used + 1 WHERE used < ?3`, a.OperatorID, a.Minute(), a.Limit)
	if err == nil && counted == 0 {
		return access.Admitted{Used: a.Limit}, nil
	}
	var used int
	if err == nil {
		used, err = tx.places.taken(tx, a)
	}
	if err != nil {
		return access.Admitted{}, fmt.Errorf("count in the minute: %w", err)
	}
	return access.Admitted{Counted: true, Used: used}, nil
}

// places is what the counters of the latest minute have come to, so that whoever
// has counted one need not read it. Only the writer counts.
type places struct {
	minute int64
	used   map[int64]int // by operator
}

// taken is how many places of a minute are taken, now that one more is.
func (p *places) taken(tx *tx, a access.Admission) (used int, err error) {
	if a.Minute() > p.minute {
		*p = places{a.Minute(), map[int64]int{}}
	}
	if before, known := p.used[a.OperatorID]; known && a.Minute() == p.minute {
		used = before + 1
	} else {
		err = tx.QueryRow(`SELECT used FROM rate_counters WHERE operator_id = ?1 AND minute = ?2`, a.OperatorID, a.Minute()).Scan(&used)
	}
	if err == nil && a.Minute() == p.minute {
		p.used[a.OperatorID] = used
	}
	return used, err
}

// forget is for a count that was undone, or may have been.
func (p *places) forget() { *p = places{} }

// CredentialByHash reads a key's record as it stands now, in one snapshot.
func (db *DB) CredentialByHash(ctx context.Context, hash access.KeyHash) (access.Record, bool, error) {
	// Key, operator and whitelist come from three statements; one read
	// transaction makes them one moment.
	var record access.Record
	err := db.ask(ctx, func(from sqlstore.Querier) error {
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

// recordWhere reads the record of one credential; the condition is a literal of
// this file.
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

// PurgeAdmissions removes what can no longer matter, a little at a time, so
// that no request waits behind a long delete.
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
