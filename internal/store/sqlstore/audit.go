package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
)

const auditColumns = `id, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, origin`

// logAction adds a staff action to the audit log, in the transaction of the change.
// before is nil for something new, after for something removed.
func logAction(tx Tx, action admin.StaffAction, operatorID int64, subject string, before, after any) error {
	if err := action.Permitted(); err != nil {
		return err
	}
	if !action.Covers(operatorID) {
		return fmt.Errorf("%s of operator %d acts on %s of operator %d", action.Actor, action.OperatorScope, subject, operatorID)
	}
	logged := admin.AuditEntry{StaffAction: action, OperatorID: operatorID, Subject: subject}
	for _, state := range []struct {
		value any
		text  *string
	}{{before, &logged.Before}, {after, &logged.After}} {
		if state.value == nil {
			continue
		}
		text, err := json.Marshal(state.value)
		if err != nil {
			return fmt.Errorf("write the staff action: %w", err)
		}
		*state.text = string(text)
	}
	// The end of the chain is locked until the commit, which serializes staff actions.
	// Every transaction locks it last.
	last, previous, previousMAC, err := chainEnd(tx)
	if err != nil {
		return err
	}
	// Read under that lock, so that the second of two actions with one voucher sees the
	// first.
	if action.Voucher != "" {
		switch _, done, err := actionByVoucher(tx, tx.Dialect(), action.Voucher); {
		case err != nil:
			return err
		case done:
			return admin.RefuseVoucher(action.Voucher)
		}
	}
	logged.ID = last + 1
	mac, macKey, err := signAction(tx, previousMAC, logged)
	if err != nil {
		return err
	}
	_, err = tx.Exec(tx.Dialect().InsertAction,
		logged.ID, logged.OperatorID, logged.Actor, logged.Action, logged.Subject, logged.Before, logged.After, logged.Reason,
		logged.At.UnixMilli(), logged.ChainHash(previous), logged.Origin, mac, macKey)
	if err != nil {
		return fmt.Errorf("write the staff action: %w", err)
	}
	tx.Logged(logged)
	return nil
}

// chainEnd reads id, hash and MAC of the last staff action; zero and nil if there is
// none. The MAC is nil in a store whose actions are not signed.
func chainEnd(tx Tx) (id int64, hash, mac []byte, err error) {
	err = tx.QueryRow(tx.Dialect().ChainEnd).Scan(&id, &hash, &mac)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, nil, nil, fmt.Errorf("read the last staff action: %w", err)
	}
	if mac != nil {
		return id, hash, mac, nil
	}
	mac, err = chainStart(tx)
	return id, hash, mac, err
}

// AuditEntryByVoucher reads the staff action of a voucher.
func (db *Store) AuditEntryByVoucher(ctx context.Context, voucher string) (admin.AuditEntry, bool, error) {
	return actionByVoucher(db.engine.Read(ctx), db.dialect, voucher)
}

// actionByVoucher finds the staff action of a voucher by the end of its reason, which is indexed.
func actionByVoucher(q Querier, d *Dialect, voucher string) (admin.AuditEntry, bool, error) {
	if len(voucher) != admin.VoucherLength {
		return admin.AuditEntry{}, false, fmt.Errorf("voucher %q does not have %d characters", voucher, admin.VoucherLength)
	}
	action, err := readAuditEntry(q.QueryRow(`
		SELECT `+auditColumns+` FROM staff_acts WHERE `+d.VoucherIs+` ORDER BY id DESC LIMIT 1`, admin.VoucherNote(voucher)))
	if errors.Is(err, sql.ErrNoRows) {
		return action, false, nil
	}
	if err != nil {
		return action, false, fmt.Errorf("look up a voucher: %w", err)
	}
	return action, true, nil
}

// FindAuditEntries reads the audit log, newest first: one operator's entries by an index,
// all others in the order of ids, down to q.Above.
func (db *Store) FindAuditEntries(ctx context.Context, q admin.AuditQuery) ([]admin.AuditEntry, error) {
	var stmt statement
	stmt.add(`SELECT `+auditColumns+` FROM staff_acts WHERE id < ? AND id > ?`, q.UpperID(), q.Above)
	if q.OperatorID != 0 {
		stmt.add(` AND operator_id = ?`, q.OperatorID)
	}
	if q.Actor != "" {
		stmt.add(` AND actor = ?`, q.Actor)
	}
	if q.Action != "" {
		stmt.add(` AND action = ?`, q.Action)
	}
	if q.Search != "" {
		stmt.add(` AND strpos(lower(subject), lower(?)) > 0`, q.Search)
	}
	if !q.From.IsZero() {
		stmt.add(` AND at >= ?`, q.From.UnixMilli())
	}
	if !q.Before.IsZero() {
		stmt.add(` AND at < ?`, q.Before.UnixMilli())
	}
	if q.OperatorID == 0 {
		stmt.add(` ORDER BY id DESC LIMIT ?`, q.Limit)
		return page(ctx, db, stmt, readAuditEntry)
	}
	stmt.add(` ORDER BY `+db.dialect.ActionOrder+` DESC LIMIT ?`, q.Limit)
	rows, err := db.engine.Read(ctx).Query(stmt.text, stmt.args...)
	return Collect(rows, err, readAuditEntry)
}

func readAuditEntry(row Row) (admin.AuditEntry, error) {
	var a admin.AuditEntry
	var at sql.NullInt64
	err := row.Scan(&a.ID, &a.OperatorID, &a.Actor, &a.Action, &a.Subject, &a.Before, &a.After, &a.Reason, &at, &a.Hash, &a.Origin)
	a.At = Time(at)
	return a, err
}
