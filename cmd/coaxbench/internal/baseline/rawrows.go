package baseline

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"

	engine "zombiezen.com/go/sqlite"
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
	*engine.Stmt
	args []any
	fill func(args []any, op *rawOperation, w *wallet)
}

func (s *statement) run(on *engine.Conn, op *rawOperation, w *wallet) error {
	s.fill(s.args, op, w)
	if err := execute(s.Stmt, s.args...); err != nil {
		return err
	}
	if changed := on.Changes(); changed != 1 {
		return fmt.Errorf("a statement changed %d rows", changed)
	}
	return nil
}

// execute carries out a statement that returns nothing.
func execute(s *engine.Stmt, args ...any) error {
	for i, arg := range args {
		switch value := arg.(type) {
		case int64:
			s.BindInt64(i+1, value)
		case string:
			s.BindText(i+1, value)
		case []byte:
			s.BindBytes(i+1, value)
		}
	}
	if _, err := s.Step(); err != nil {
		return err
	}
	return s.Reset()
}

// rowText is a statement's text, how many values it has, and what they are.
type rowText struct {
	text string
	args int
	fill func(a []any, op *rawOperation, w *wallet)
}

// reserveRows is what a reservation writes; settleRows what follows from a
// confirmed one.
var (
	reserveRows = []rowText{
		{`UPDATE wallets SET balance_paise = ?2, entries = ?3 WHERE operator_id = ?1`, 3,
			func(a []any, op *rawOperation, w *wallet) {
				a[0], a[1], a[2] = op.operator, w.balance, w.entries
			}},
		{`INSERT INTO operations (id, operator_id, idempotency_key, fingerprint, fingerprint_key_id, kind, channel, actor,
		         subscriber_id, customer_name, mobile, plan_id, plan_version, plan_name, plan_months, main,
		         amount_paise, commission_bps, wallet_before_paise, expiry_previous, expiry_planned, cycle_starts_at,
		         status, epoch, node, lease_until, provider, created_at)
		  VALUES (?1, ?2, ?3, ?4, 1, 'renew', 'api', 'key cxk_0000', ?5, ?6, ?5, 'RAW-1', 1, 'Raw, one month', 1, 'TV-BASIC',
		         19900, 250, ?7, ?8, ?9, ?8, 'processing', 1, 'raw-1-00000000', ?10, 'simulator', ?11)`, 11,
			func(a []any, op *rawOperation, w *wallet) {
				expires := op.at + (op.cycle-1)*month.Milliseconds()
				a[0], a[1], a[2], a[3] = op.id, op.operator, op.key, rawFingerprint
				a[4], a[5], a[6] = op.subscriber, "Raw "+op.subscriber, w.balance+rawPrice
				a[7], a[8] = expires, expires+month.Milliseconds()
				a[9], a[10] = op.at+60_000, op.at
			}},
		{`INSERT INTO wallet_entries (operator_id, seq, kind, amount_paise, balance_after, operation_id, actor, created_at)
		  VALUES (?1, ?2, 'reserve', -19900, ?3, ?4, 'key cxk_0000', ?5)`, 5,
			func(a []any, op *rawOperation, w *wallet) {
				a[0], a[1], a[2], a[3], a[4] = op.operator, w.entries, w.balance, op.id, op.at
			}},
		{`INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		  VALUES (?1, 1, NULL, 'processing', 1, 'raw-1-00000000', 'key cxk_0000', 'reserved', ?2)`, 2, idAndTime},
	}
	settleRows = []rowText{
		{`UPDATE operations SET status = 'success', completed_at = ?2, lease_until = NULL, provider_transaction_id = ?3,
		         provider_message = 'Done' WHERE id = ?1`, 3,
			func(a []any, op *rawOperation, _ *wallet) {
				a[0], a[1], a[2] = op.id, op.at, "P-"+op.key
			}},
		{`UPDATE wallets SET ledger_paise = ?2, ledger_lines = ?3 WHERE operator_id = ?1`, 3,
			func(a []any, op *rawOperation, w *wallet) {
				a[0], a[1], a[2] = op.operator, w.ledger, w.lines
			}},
		{`INSERT INTO ledger (operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at)
		  VALUES (?1, ?2, 'debit', 19900, ?3, ?4, ?5, ?6)`, 6,
			func(a []any, op *rawOperation, w *wallet) {
				a[0], a[1], a[2] = op.operator, w.lines, w.ledger
				a[3], a[4], a[5] = "Renewal of "+op.subscriber+", Raw, one month [API]", op.id, op.at
			}},
		{`INSERT INTO commissions (operation_id, operator_id, amount_paise, rate_bps, created_at) VALUES (?1, ?2, ?3, 250, ?4)`, 4,
			func(a []any, op *rawOperation, _ *wallet) {
				a[0], a[1], a[2], a[3] = op.id, op.operator, rawCommission, op.at
			}},
		{`UPDATE subscribers SET expires_at = ?2, last_provider_transaction = ?3, renewed_at = ?4, version = version + 1 WHERE id = ?1`, 4,
			func(a []any, op *rawOperation, _ *wallet) {
				a[0], a[1], a[2], a[3] = op.subscriber, op.at+op.cycle*month.Milliseconds(), "P-"+op.key, op.at
			}},
		{`INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at) VALUES (?1, ?2, ?3, 'RAW-1', ?4, ?5, ?6)`, 6,
			func(a []any, op *rawOperation, _ *wallet) {
				starts := op.at + (op.cycle-1)*month.Milliseconds()
				a[0], a[1], a[2] = op.subscriber, op.cycle, op.id
				a[3], a[4], a[5] = starts, starts+month.Milliseconds(), op.at
			}},
		{`INSERT INTO provider_calls (operation_id, reference, kind, component, outcome, provider_transaction_id, detail, node, asked_at, answered_at)
		  VALUES (?1, ?1, 'apply', 'TV-BASIC', 'confirmed', ?2, 'Done', 'raw-1-00000000', ?3, ?3)`, 3,
			func(a []any, op *rawOperation, _ *wallet) {
				a[0], a[1], a[2] = op.id, "P-"+op.key, op.at
			}},
		{`INSERT INTO operation_events (operation_id, seq, from_status, to_status, epoch, node, actor, reason, at)
		  VALUES (?1, 2, 'processing', 'success', 1, 'raw-1-00000000', '', 'confirmed', ?2)`, 2, idAndTime},
	}
	rawFingerprint = make([]byte, 32)
)

func idAndTime(a []any, op *rawOperation, _ *wallet) {
	a[0], a[1] = op.id, op.at
}

func (r *RawSQLite) prepare() (err error) {
	for _, list := range []struct {
		rows []rowText
		into *[]statement
	}{{reserveRows, &r.reserve}, {settleRows, &r.settle}} {
		for _, row := range list.rows {
			prepared, err := r.conn.Prepare(row.text)
			if err != nil {
				return fmt.Errorf("%s: %w", row.text, err)
			}
			*list.into = append(*list.into, statement{prepared, make([]any, row.args), row.fill})
		}
	}
	if r.begin, err = r.conn.Prepare(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	r.end, err = r.conn.Prepare(`COMMIT`)
	return err
}

// furnish writes the operators and subscribers that the operations are about.
func (r *RawSQLite) furnish() error {
	write := func(text string, args ...any) error {
		s, err := r.conn.Prepare(text)
		if err != nil {
			return err
		}
		return execute(s, args...)
	}
	now := time.Now().UnixMilli()
	if err := execute(r.begin); err != nil {
		return err
	}
	for _, text := range []string{
		`INSERT INTO provider_components (code, name, role, sellable, seen_at) VALUES ('TV-BASIC', 'Basic', 'main', 1, ?1)`,
		`INSERT INTO plans (id, name, description, price_paise, months, type, main, updated_at) VALUES ('RAW-1', 'Raw, one month', '', 19900, 1, 'standard', 'TV-BASIC', ?1)`,
	} {
		if err := write(text, now); err != nil {
			return err
		}
	}
	const opening = int64(1) << 50
	r.wallets = make([]wallet, r.operators)
	for i := range r.wallets {
		r.wallets[i] = wallet{balance: opening, ledger: opening, entries: 1, lines: 1}
		if err := write(`INSERT INTO operators (id, name, status, api, rate_limit, commission_bps, low_balance_paise, created_at)
			VALUES (?1, 'Raw', 'active', 'enabled', 1000, 250, 0, ?2)`, int64(i+1), now); err != nil {
			return err
		}
		if err := write(`INSERT INTO wallets (operator_id, balance_paise, ledger_paise, entries, ledger_lines) VALUES (?1, ?2, ?2, 1, 1)`, int64(i+1), opening); err != nil {
			return err
		}
	}
	for i := range r.operators * r.perWallet {
		id := subscriberID(i/r.perWallet, i%r.perWallet)
		if err := write(`INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, expires_at, activated_at, created_at)
			VALUES (?1, ?2, ?1, 'Raw', 'cable', ?3, ?4, ?4)`, id, int64(i/r.perWallet+1), now+month.Milliseconds(), now); err != nil {
			return err
		}
		if err := write(`INSERT INTO cycles (subscriber_id, seq, plan_id, starts_at, ends_at, created_at) VALUES (?1, 1, 'RAW-1', ?2, ?3, ?2)`,
			id, now, now+month.Milliseconds()); err != nil {
			return err
		}
	}
	return execute(r.end)
}
