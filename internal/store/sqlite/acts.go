package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
)

const actColumns = `id, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, origin`

// logAct writes an act of staff down beside what it changed. The states are nil
// where nothing was there before, or is there after.
func logAct(tx *tx, act admin.StaffAction, operatorID int64, subject string, before, after any) error {
	if err := act.Permitted(); err != nil {
		return err
	}
	if !act.Covers(operatorID) {
		return fmt.Errorf("%s of operator %d acts on %s of operator %d", act.Actor, act.OperatorScope, subject, operatorID)
	}
	logged := admin.AuditEntry{StaffAction: act, OperatorID: operatorID, Subject: subject}
	for _, state := range []struct {
		value any
		text  *string
	}{{before, &logged.Before}, {after, &logged.After}} {
		if state.value == nil {
			continue
		}
		text, err := json.Marshal(state.value)
		if err != nil {
			return fmt.Errorf("write the act of staff: %w", err)
		}
		*state.text = string(text)
	}
	if act.Voucher != "" {
		switch _, done, err := actUnder(tx, act.Voucher); {
		case err != nil:
			return err
		case done:
			return admin.RefuseVoucher(act.Voucher)
		}
	}
	var last int64
	var previous, previousMAC []byte
	err := tx.queryRow(`SELECT id, hash, mac FROM staff_acts ORDER BY id DESC LIMIT 1`).Scan(&last, &previous, &previousMAC)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read the last act of staff: %w", err)
	}
	if previousMAC == nil {
		if previousMAC, err = chainStart(tx); err != nil {
			return err
		}
	}
	logged.ID = last + 1
	mac, macKey, err := signAction(tx, previousMAC, logged)
	if err != nil {
		return err
	}
	_, err = tx.exec(`
		INSERT INTO staff_acts (id, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, origin, mac, mac_key)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`,
		logged.ID, logged.OperatorID, logged.Actor, logged.Action, logged.Subject, logged.Before, logged.After, logged.Reason,
		logged.At.UnixMilli(), logged.ChainHash(previous), logged.Origin, mac, macKey)
	if err != nil {
		return fmt.Errorf("write the act of staff: %w", err)
	}
	tx.acts = append(tx.acts, logged)
	return nil
}

// AuditEntryByVoucher reads the act that was done under a voucher.
func (db *DB) AuditEntryByVoucher(ctx context.Context, voucher string) (admin.AuditEntry, bool, error) {
	return actUnder(db.read(ctx), voucher)
}

// actUnder finds the act by how its reason ends, which is indexed.
func actUnder(q querier, voucher string) (admin.AuditEntry, bool, error) {
	if len(voucher) != admin.VoucherLength {
		return admin.AuditEntry{}, false, fmt.Errorf("voucher %q has not %d characters", voucher, admin.VoucherLength)
	}
	act, err := readAct(q.queryRow(`
		SELECT `+actColumns+` FROM staff_acts 
		 WHERE substr(reason, -22) = ?1 AND substr(reason, -22, 9) = '(voucher ' ORDER BY id DESC LIMIT 1`, admin.VoucherNote(voucher)))
	if errors.Is(err, sql.ErrNoRows) {
		return act, false, nil
	}
	if err != nil {
		return act, false, fmt.Errorf("look up a voucher: %w", err)
	}
	return act, true, nil
}

// FindAuditEntries reads what staff did, newest first: an operator's by an index, and all
// others one after the other, down to where it is told to look.
func (db *DB) FindAuditEntries(ctx context.Context, q admin.AuditQuery) ([]admin.AuditEntry, error) {
	var ask wording
	ask.says(`SELECT `+actColumns+` FROM staff_acts WHERE id < ? AND id > ?`, q.UpperID(), q.Above)
	if q.OperatorID != 0 {
		ask.says(` AND operator_id = ?`, q.OperatorID)
	}
	if q.Actor != "" {
		ask.says(` AND actor = ?`, q.Actor)
	}
	if q.Action != "" {
		ask.says(` AND action = ?`, q.Action)
	}
	if q.Search != "" {
		ask.says(` AND instr(lower(subject), lower(?)) > 0`, q.Search)
	}
	if !q.From.IsZero() {
		ask.says(` AND at >= ?`, q.From.UnixMilli())
	}
	if !q.Before.IsZero() {
		ask.says(` AND at < ?`, q.Before.UnixMilli())
	}
	ask.says(` ORDER BY id DESC LIMIT ?`, q.Limit)
	rows, err := db.read(ctx).query(ask.text, ask.args...)
	return collect(rows, err, readAct)
}

func readAct(row scanner) (admin.AuditEntry, error) {
	var a admin.AuditEntry
	var at sql.NullInt64
	err := row.Scan(&a.ID, &a.OperatorID, &a.Actor, &a.Action, &a.Subject, &a.Before, &a.After, &a.Reason, &at, &a.Hash, &a.Origin)
	a.At = moment(at)
	return a, err
}
