package baseline

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"
)

// What is the same in every one of these operations.
const (
	rawPrice      = int64(199_00)
	rawCommission = int64(498)
)

// rawOperation is what differs.
type rawOperation struct {
	id, key, subscriber string
	operator, cycle, at int64
}

// month is what a renewal adds.
const month = 30 * 24 * time.Hour

var idAlphabet = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// rawID is an id like the service's: it sorts by time, and cannot be guessed.
func rawID(now time.Time) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(raw[6:])
	return "CX" + idAlphabet.EncodeToString(raw[:])
}

func subscriberID(operator, subscriber int) string {
	return fmt.Sprintf("1%04d%05d", operator, subscriber)
}

// statement is one of an operation's rows.
type statement struct {
	driver.Stmt
	exec driver.StmtExecContext
	args []driver.NamedValue
	fill func(args []driver.NamedValue, op *rawOperation, w *wallet)
}

func (s *statement) run(op *rawOperation, w *wallet) error {
	s.fill(s.args, op, w)
	result, err := s.exec.ExecContext(context.Background(), s.args)
	if err != nil {
		return err
	}
	if changed, err := result.RowsAffected(); err != nil || changed != 1 {
		return fmt.Errorf("a statement changed %d rows (%w)", changed, err)
	}
	return nil
}

// rowText is a statement's text, how many values it has, and what they are.
type rowText struct {
	text string
	args int
	fill func(a []driver.NamedValue, op *rawOperation, w *wallet)
}

// reserveRows is what a reservation writes; settleRows what follows from a
// confirmed one.
var (
	reserveRows = []rowText{
		{`UPDATE subscribers SET version = version + 1 WHERE id = ?1`, 1,
			func(a []driver.NamedValue, op *rawOperation, _ *wallet) { a[0].Value = op.subscriber }},
		{`UPDATE wallets SET balance_paise = ?2, entries = ?3 WHERE operator_id = ?1`, 3,
			func(a []driver.NamedValue, op *rawOperation, w *wallet) {
				a[0].Value, a[1].Value, a[2].Value = op.operator, w.balance, w.entries
			}},
		{`INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		         subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main,
		         amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned, cycle_starts_at,
		         status, epoch, node, lease_until, provider, created_at)
		  VALUES (?1, ?2, ?3, ?4, 1, 'renew', 'api', 'key cxk_0000', ?5, ?6, ?5, 'RAW-1', 1, 'Raw, one month', 1, 'TV-BASIC',
		         19900, 250, ?7, ?8, ?9, ?8, 'processing', 1, 'raw-1-00000000', ?10, 'simulator', ?11)`, 11,
			func(a []driver.NamedValue, op *rawOperation, w *wallet) {
				expires := op.at + (op.cycle-1)*month.Milliseconds()
				a[0].Value, a[1].Value, a[2].Value, a[3].Value = op.id, op.operator, op.key, rawFingerprint
				a[4].Value, a[5].Value, a[6].Value = op.subscriber, "Raw "+op.subscriber, w.balance+rawPrice
				a[7].Value, a[8].Value = expires, expires+month.Milliseconds()
				a[9].Value, a[10].Value = op.at+60_000, op.at
			}},
		{`INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		  VALUES (?1, ?2, 'reserve', -19900, ?3, ?4, 'key cxk_0000', ?5)`, 5,
			func(a []driver.NamedValue, op *rawOperation, w *wallet) {
				a[0].Value, a[1].Value, a[2].Value, a[3].Value, a[4].Value = op.operator, w.entries, w.balance, op.id, op.at
			}},
		{`INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		  VALUES (?1, 1, NULL, 'processing', 1, 'raw-1-00000000', 'key cxk_0000', 'reserved', ?2)`, 2, idAndTime},
	}
	settleRows = []rowText{
		{`UPDATE operations SET status = 'success', completed_at = ?2, lease_until = NULL, provider_transaction_id = ?3,
		         provider_message = 'Done' WHERE id = ?1`, 3,
			func(a []driver.NamedValue, op *rawOperation, _ *wallet) {
				a[0].Value, a[1].Value, a[2].Value = op.id, op.at, "P-"+op.key
			}},
		{`UPDATE wallets SET ledger_paise = ?2, ledger_lines = ?3 WHERE operator_id = ?1`, 3,
			func(a []driver.NamedValue, op *rawOperation, w *wallet) {
				a[0].Value, a[1].Value, a[2].Value = op.operator, w.ledger, w.lines
			}},
		{`INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at)
		  VALUES (?1, ?2, 'debit', 19900, ?3, ?4, ?5, ?6)`, 6,
			func(a []driver.NamedValue, op *rawOperation, w *wallet) {
				a[0].Value, a[1].Value, a[2].Value = op.operator, w.lines, w.ledger
				a[3].Value, a[4].Value, a[5].Value = "Renewal of "+op.subscriber+", Raw, one month [API]", op.id, op.at
			}},
		{`INSERT INTO commissions (operation_id, operator_id, amount_paise, rate_bps, created_at) VALUES (?1, ?2, ?3, 250, ?4)`, 4,
			func(a []driver.NamedValue, op *rawOperation, _ *wallet) {
				a[0].Value, a[1].Value, a[2].Value, a[3].Value = op.id, op.operator, rawCommission, op.at
			}},
		{`UPDATE subscribers SET expires_at = ?2, last_provider_transaction = ?3, renewed_at = ?4, version = version + 1 WHERE id = ?1`, 4,
			func(a []driver.NamedValue, op *rawOperation, _ *wallet) {
				a[0].Value, a[1].Value, a[2].Value, a[3].Value = op.subscriber, op.at+op.cycle*month.Milliseconds(), "P-"+op.key, op.at
			}},
		{`INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at) VALUES (?1, ?2, ?3, 'RAW-1', ?4, ?5, ?6)`, 6,
			func(a []driver.NamedValue, op *rawOperation, _ *wallet) {
				starts := op.at + (op.cycle-1)*month.Milliseconds()
				a[0].Value, a[1].Value, a[2].Value = op.subscriber, op.cycle, op.id
				a[3].Value, a[4].Value, a[5].Value = starts, starts+month.Milliseconds(), op.at
			}},
		{`INSERT INTO provider_calls (operation_id, reference, kind, component, outcome, provider_transaction_id, detail, node, asked_at, answered_at)
		  VALUES (?1, ?1, 'apply', 'TV-BASIC', 'confirmed', ?2, 'Done', 'raw-1-00000000', ?3, ?3)`, 3,
			func(a []driver.NamedValue, op *rawOperation, _ *wallet) {
				a[0].Value, a[1].Value, a[2].Value = op.id, "P-"+op.key, op.at
			}},
		{`INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		  VALUES (?1, 2, 'processing', 'success', 1, 'raw-1-00000000', '', 'confirmed', ?2)`, 2, idAndTime},
	}
	rawFingerprint = make([]byte, 32)
)

func idAndTime(a []driver.NamedValue, op *rawOperation, _ *wallet) {
	a[0].Value, a[1].Value = op.id, op.at
}

func (r *RawSQLite) prepare(ctx context.Context, on driver.ConnPrepareContext) (err error) {
	for _, list := range []struct {
		rows []rowText
		into *[]statement
	}{{reserveRows, &r.reserve}, {settleRows, &r.settle}} {
		for _, row := range list.rows {
			prepared, err := on.PrepareContext(ctx, row.text)
			if err != nil {
				return fmt.Errorf("%s: %w", row.text, err)
			}
			s := statement{Stmt: prepared, exec: prepared.(driver.StmtExecContext), args: make([]driver.NamedValue, row.args), fill: row.fill}
			for i := range s.args {
				s.args[i].Ordinal = i + 1
			}
			*list.into = append(*list.into, s)
		}
	}
	if r.begin, err = on.PrepareContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	r.end, err = on.PrepareContext(ctx, `COMMIT`)
	return err
}

// furnish writes the operators and subscribers that the operations are about.
func (r *RawSQLite) furnish(ctx context.Context) error {
	now := time.Now().UnixMilli()
	tx, err := r.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, text := range []string{
		`INSERT INTO provider_components (code, name, role, sellable, seen_at) VALUES ('TV-BASIC', 'Basic', 'main', 1, ?1)`,
		`INSERT INTO plans (id, name, description, price_paise, months, type, main, updated_at) VALUES ('RAW-1', 'Raw, one month', '', 19900, 1, 'standard', 'TV-BASIC', ?1)`,
	} {
		if _, err := tx.ExecContext(ctx, text, now); err != nil {
			return err
		}
	}
	const opening = int64(1) << 50
	r.wallets = make([]wallet, r.operators)
	for i := range r.wallets {
		r.wallets[i] = wallet{balance: opening, ledger: opening, entries: 1, lines: 1}
		if _, err := tx.ExecContext(ctx, `INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, created_at)
			VALUES (?1, 'Raw', 'active', 'enabled', 1000, 250, 0, ?2)`, i+1, now); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO wallets (operator_id, balance_paise, ledger_paise, entries, ledger_lines) VALUES (?1, ?2, ?2, 1, 1)`, i+1, opening); err != nil {
			return err
		}
	}
	subscriber, err := tx.PrepareContext(ctx, `INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, expires_at, activated_at, created_at)
		VALUES (?1, ?2, ?1, 'Raw', 'cable', ?3, ?4, ?4)`)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	cycle, err := tx.PrepareContext(ctx, `INSERT INTO cycles (subscriber_id, seq, plan_id, starts_at, ends_at, created_at) VALUES (?1, 1, 'RAW-1', ?2, ?3, ?2)`)
	if err != nil {
		return err
	}
	defer cycle.Close()
	for i := range r.operators * r.perWallet {
		id := subscriberID(i/r.perWallet, i%r.perWallet)
		if _, err := subscriber.ExecContext(ctx, id, i/r.perWallet+1, now+month.Milliseconds(), now); err != nil {
			return err
		}
		if _, err := cycle.ExecContext(ctx, id, now, now+month.Milliseconds()); err != nil {
			return err
		}
	}
	return tx.Commit()
}
