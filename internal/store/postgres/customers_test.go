package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// customer is a subscriber that can be renewed, with its operator.
type customer struct {
	record     access.Record
	subscriber string
	draft      operation.Draft // of whatever; renewal makes it the customer's
}

// customersOf makes operators with much money and, in turn, a customer of each.
func customersOf(t testing.TB, db *DB, conn *pgx.Conn, operators, customers int) []customer {
	t.Helper()
	record := operator(t, db, 1_000_000)
	draft := activation(t, db, record.Operator.ID, "none")
	first := record.Operator.ID + 1
	exec(t, conn, `INSERT INTO operators (name, status, api, rate_limit, commission_bps, low_balance_paise, created_at)
		SELECT 'shop', 'active', 'enabled', 1000000, 250, 0, 0 FROM generate_series(1, $1)`, operators)
	exec(t, conn, `INSERT INTO wallets SELECT id, 1000000000000, 1000000000000, 0, 0 FROM operators WHERE id >= $1`, first)
	exec(t, conn, `INSERT INTO credentials (operator_id, key_hash, hint, sealed_secret, permissions, created_at)
		SELECT id, sha256(id::text::bytea), 'hint', 'sealed', 'all', 0 FROM operators WHERE id >= $1`, first)
	exec(t, conn, `INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, expires_at, activated_at, created_at)
		SELECT (200000 + n)::text, $3 + n % $1, (9000000000 + n)::text, 'Asha', 'Live TV', 0, 0, 0 FROM generate_series(0, $2 - 1) n`,
		operators, customers, first)
	exec(t, conn, `INSERT INTO cycles SELECT id, 1, NULL, 'BASIC-1', 0, 0, 0 FROM subscribers`)
	// As the server itself does, sooner or later.
	exec(t, conn, `ANALYZE operators, wallets, credentials, subscribers, cycles, plans`)
	rows, err := conn.Query(t.Context(), `
		SELECT s.id, s.operator_id, c.id FROM subscribers s JOIN credentials c ON c.operator_id = s.operator_id ORDER BY s.id`)
	all, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (customer, error) {
		c := customer{record: record, draft: draft}
		err := row.Scan(&c.subscriber, &c.record.Operator.ID, &c.record.Credential.ID)
		c.record.Credential.Version, c.record.Operator.Version = 1, 1
		return c, err
	})
	ok(t, err)
	return all
}

// renewal is a draft for a customer who is in that version.
func (c customer) renewal(key string, version int64) operation.Draft {
	d := c.draft
	d.ID, d.IdempotencyKey, d.OperatorID, d.Kind = "CX-"+key, key, c.record.Operator.ID, operation.Renew
	d.SubscriberID, d.SubscriberVersion = c.subscriber, version
	return d
}

// confirmed is what is settled where the provider has done what it was asked.
func confirmed(op operation.Operation) operation.Settlement {
	return operation.Settlement{
		OperationID: op.ID, LastRead: &op, Epoch: op.Epoch, To: operation.Success, At: noon.Add(time.Second), Node: "node-1",
		Why: "the provider confirmed", ProviderTransaction: "P-" + op.ID,
		Calls: []operation.ProviderCall{{
			Reference: op.ID, What: "renew", Component: "TV", AskedAt: noon, AnsweredAt: noon,
			Reply: operation.Reply{Outcome: operation.Confirmed, Transaction: "P-" + op.ID},
		}},
	}
}

// booksAreWhole finds what is not right with wallets, their entries and ledgers:
// numbers without a gap, sums that follow from each other.
func booksAreWhole(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for what, query := range map[string]string{
		"entries that do not follow from those before": `
			SELECT count(*) FROM (SELECT *, lag(balance_after) OVER w AS before, lag(seq) OVER w AS last FROM wallet_entries
			       WINDOW w AS (PARTITION BY operator_id ORDER BY seq)) e
			 WHERE last IS NOT NULL AND (seq <> last + 1 OR balance_after <> before + amount_paise)`,
		"lines that do not follow from those before": `
			SELECT count(*) FROM (SELECT *, lag(balance_after) OVER w AS before, lag(line) OVER w AS last FROM ledger
			       WINDOW w AS (PARTITION BY operator_id ORDER BY line)) l
			 WHERE last IS NOT NULL AND (line <> last + 1 OR balance_after <> before + CASE kind WHEN 'debit' THEN -amount_paise ELSE amount_paise END)`,
		"wallets that are not as their last entry and line left them": `
			SELECT count(*) FROM wallets w
			 WHERE entries <> coalesce((SELECT max(seq) FROM wallet_entries e WHERE e.operator_id = w.operator_id), 0)
			    OR ledger_lines <> coalesce((SELECT max(line) FROM ledger l WHERE l.operator_id = w.operator_id), 0)
			    OR balance_paise <> coalesce((SELECT balance_after FROM wallet_entries e WHERE e.operator_id = w.operator_id ORDER BY seq DESC LIMIT 1), balance_paise)
			    OR ledger_paise <> coalesce((SELECT balance_after FROM ledger l WHERE l.operator_id = w.operator_id ORDER BY line DESC LIMIT 1), ledger_paise)`,
		"receipt numbers that do not follow from those before": `
			SELECT count(*) FROM (SELECT receipt, row_number() OVER (PARTITION BY operator_id,
			       extract(year FROM to_timestamp(created_at / 1000) AT TIME ZONE 'UTC' + interval '5 hours 30 minutes' - interval '3 months') ORDER BY receipt) AS expected
			  FROM ledger WHERE receipt IS NOT NULL) l WHERE receipt <> expected`,
		"purchases without a receipt number": `SELECT count(*) FROM ledger WHERE (receipt IS NULL) <> (operation_id IS NULL)`,
		"operations whose wallet was not as they say": `
			SELECT count(*) FROM operations o JOIN wallet_entries e ON e.operation_id = o.id AND e.kind = 'reserve'
			 WHERE o.wallet_before_paise <> e.balance_after + o.amount_paise`,
		"operations with too many or too few of what follows from them": `
			SELECT count(*) FROM operations o
			 WHERE (SELECT count(*) FROM wallet_entries e WHERE e.operation_id = o.id) <> CASE status WHEN 'failed' THEN 2 ELSE 1 END
			    OR (SELECT count(*) FROM ledger l WHERE l.operation_id = o.id AND l.amount_paise = o.amount_paise) <> (status = 'success')::int
			    OR (SELECT count(*) FROM commissions c WHERE c.operation_id = o.id) <> (status = 'success')::int
			    OR (SELECT count(*) FROM cycles c WHERE c.operation_id = o.id) <> (status = 'success')::int
			    OR (SELECT count(*) FROM operation_events e WHERE e.operation_id = o.id) <> CASE status WHEN 'processing' THEN 1 ELSE 2 END`,
	} {
		if n := count(t, conn, query); n != 0 {
			t.Errorf("there are %d %s", n, what)
		}
	}
}

func keyOf(i int) string { return fmt.Sprintf("key-%03d", i) }
