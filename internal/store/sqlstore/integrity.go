package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
)

// UseIntegrityKeys sets the keys that sign later writes, and starts the signed chain of
// staff actions if the store has none. After that older binaries cannot write staff
// actions, and so cannot credit wallets.
func (db *Store) UseIntegrityKeys(ctx context.Context, keys *integrity.Keys, now time.Time) (sealed int64, started bool, err error) {
	db.engine.UseKeys(keys)
	if start, err := chainStart(db.engine.Read(ctx)); err != nil || start != nil {
		return 0, false, err
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		started = false
		last, hash, _, err := chainEnd(tx)
		if err != nil {
			return err
		}
		if hash == nil {
			hash = []byte{} // the column is never NULL
		}
		sealed = last
		start := integrity.Start{LastID: sealed, LastHash: hash}
		mac := keys.SignStart(start)
		changed, err := tx.Exec(`
			INSERT INTO staff_chain_start (one, last_id, last_hash, mac, mac_key, made_at) VALUES (1, $1, $2, $3, $4, $5)
			ON CONFLICT DO NOTHING`, start.LastID, start.LastHash, mac.Code, int64(mac.Key), now.UnixMilli())
		if err == nil && changed > 0 {
			err = tx.Dialect().ChainStarted(tx, mac.Code)
		}
		if err != nil {
			return fmt.Errorf("start the signed chain of staff actions: %w", err)
		}
		started = changed > 0
		return nil
	})
	return sealed, started && err == nil, err
}

// signAction returns the MAC of a staff action and the id of its key. Both are nil if
// previous is nil, in a store whose actions are not signed.
func signAction(tx Tx, previous []byte, a admin.AuditEntry) (code []byte, key any, err error) {
	if previous == nil {
		return nil, nil, nil
	}
	keys := tx.Keys()
	if keys == nil {
		return nil, nil, integrity.ErrNoKey
	}
	mac := keys.SignAction(previous, integrity.Action{
		ID: a.ID, OperatorID: a.OperatorID, At: a.At.UnixMilli(), Actor: a.Actor, Action: a.Action, Subject: a.Subject,
		Before: a.Before, After: a.After, Reason: a.Reason, Origin: a.Origin,
	})
	return mac.Code, int64(mac.Key), nil
}

// chainStart reads the MAC that the first signed staff action continues; nil in a store
// whose actions are not signed.
func chainStart(from Querier) (mac []byte, err error) {
	err = from.QueryRow(`SELECT mac FROM staff_chain_start WHERE one = 1`).Scan(&mac)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read the start of the signed chain of staff actions: %w", err)
	}
	return mac, nil
}

// UnsealedOperators lists operators with rows that no digest covers.
func (db *Store) UnsealedOperators(ctx context.Context, after int64, limit int) ([]int64, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT w.operator_id FROM wallets w
		 WHERE w.operator_id > $1
		   AND (w.ledger_lines > coalesce((SELECT d.last_line FROM ledger_digests d WHERE d.operator_id = w.operator_id ORDER BY d.day DESC LIMIT 1), 0)
		     OR w.entries > coalesce((SELECT d.last_entry FROM ledger_digests d WHERE d.operator_id = w.operator_id ORDER BY d.day DESC LIMIT 1), 0))
		 ORDER BY w.operator_id LIMIT $2`, after, limit)
	return Collect(rows, err, func(row Row) (id int64, err error) {
		err = row.Scan(&id)
		return id, err
	})
}

// LastDigest reads an operator's newest digest; the zero Digest if there is none.
func (db *Store) LastDigest(ctx context.Context, operatorID int64) (integrity.Digest, error) {
	return lastDigest(db.engine.Read(ctx), operatorID)
}

func lastDigest(from Querier, operatorID int64) (d integrity.Digest, err error) {
	err = from.QueryRow(`
		SELECT number, operator_id, day, first_line, last_line, first_entry, last_entry, ledger_hash, wallet_hash, made_at
		  FROM ledger_digests WHERE operator_id = $1 ORDER BY day DESC LIMIT 1`, operatorID).
		Scan(&d.Number, &d.OperatorID, &d.Day, &d.FirstLine, &d.LastLine, &d.FirstEntry, &d.LastEntry, &d.LedgerHash, &d.WalletHash, &d.MadeAt)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return d, fmt.Errorf("read the last digest of lco %d: %w", operatorID, err)
	}
	return d, nil
}

// LedgerLinesFrom reads an operator's ledger lines in their order.
func (db *Store) LedgerLinesFrom(ctx context.Context, operatorID, line int64, limit int) ([]integrity.LedgerLine, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT id, operator_id, line, amount_paise, balance_after, created_at, kind, description, operation_id
		  FROM ledger WHERE operator_id = $1 AND line >= $2 ORDER BY line LIMIT $3`, operatorID, line, limit)
	return Collect(rows, err, func(row Row) (l integrity.LedgerLine, err error) {
		var operation sql.NullString
		err = row.Scan(&l.ID, &l.OperatorID, &l.Line, &l.Amount, &l.BalanceAfter, &l.CreatedAt, &l.Kind, &l.Description, &operation)
		l.Operation = textOrNil(operation)
		return l, err
	})
}

// WalletEntriesFrom reads an operator's wallet entries in their order.
func (db *Store) WalletEntriesFrom(ctx context.Context, operatorID, seq int64, limit int) ([]integrity.WalletEntry, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT operator_id, seq, amount_paise, balance_after, created_at, kind, actor, operation_id, reference
		  FROM wallet_entries WHERE operator_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3`, operatorID, seq, limit)
	return Collect(rows, err, func(row Row) (e integrity.WalletEntry, err error) {
		var operation, reference sql.NullString
		err = row.Scan(&e.OperatorID, &e.Seq, &e.Amount, &e.BalanceAfter, &e.CreatedAt, &e.Kind, &e.Actor, &operation, &reference)
		e.Operation, e.Reference = textOrNil(operation), textOrNil(reference)
		return e, err
	})
}

func textOrNil(text sql.NullString) *string {
	if !text.Valid {
		return nil
	}
	return &text.String
}

// AddDigests numbers, signs and writes digests. It skips those that do not follow the last
// one of their operator.
func (db *Store) AddDigests(ctx context.Context, digests []integrity.Digest) (added int, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		added = 0
		keys := tx.Keys()
		if keys == nil {
			return integrity.ErrNoKey
		}
		// Read before the last digests of operators: a digest that another node commits in
		// between has this number, and the INSERT conflicts with it.
		var number int64
		var previous []byte
		err := tx.QueryRow(`SELECT number, mac FROM ledger_digests WHERE number > 0 ORDER BY number DESC LIMIT 1`).Scan(&number, &previous)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read the last digest: %w", err)
		}
		var last integrity.Digest
		for _, d := range digests {
			if last.OperatorID != d.OperatorID {
				if last, err = lastDigest(tx, d.OperatorID); err != nil {
					return err
				}
			}
			if last.LastLine+1 != d.FirstLine || last.LastEntry+1 != d.FirstEntry || last.Day >= d.Day {
				continue
			}
			d.Number = number + 1
			mac := keys.SignDigest(previous, d)
			changed, err := tx.Exec(`
				INSERT INTO ledger_digests (number, operator_id, day, first_line, last_line, first_entry, last_entry, ledger_hash, wallet_hash, mac, mac_key, made_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING`,
				d.Number, d.OperatorID, d.Day, d.FirstLine, d.LastLine, d.FirstEntry, d.LastEntry, d.LedgerHash, d.WalletHash, mac.Code, int64(mac.Key), d.MadeAt)
			if err != nil {
				return fmt.Errorf("write the digest of lco %d and %s: %w", d.OperatorID, d.Day, err)
			}
			if changed == 0 && added == 0 {
				return nil // another node has added this number
			}
			if changed == 0 {
				return fmt.Errorf("digest %d already exists", d.Number)
			}
			last, number, previous = d, d.Number, mac.Code
			added++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

// IntegrityHead reads the ends of the chains of staff actions and of digests.
func (db *Store) IntegrityHead(ctx context.Context) (h integrity.Head, err error) {
	err = db.engine.Snapshot(ctx, func(q Querier) (err error) {
		h, err = readHead(q)
		return err
	})
	return h, err
}

func readHead(from Querier) (h integrity.Head, err error) {
	err = from.QueryRow(`SELECT id, hash, mac FROM staff_acts WHERE id > 0 ORDER BY id DESC LIMIT 1`).Scan(&h.ActionID, &h.ActionHash, &h.ActionMAC)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return h, fmt.Errorf("read the last staff action: %w", err)
	}
	if h.ActionMAC == nil {
		if h.ActionMAC, err = chainStart(from); err != nil {
			return h, err
		}
	}
	err = from.QueryRow(`SELECT number, day, mac FROM ledger_digests WHERE number > 0 ORDER BY number DESC LIMIT 1`).Scan(&h.DigestNumber, &h.Day, &h.DigestMAC)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return h, fmt.Errorf("read the last digest: %w", err)
	}
	return h, nil
}
