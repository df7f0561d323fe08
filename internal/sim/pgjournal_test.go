package sim

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/store/postgres"
)

// pgJournal is the journal of a history on PostgreSQL: triggers record every row that
// a transaction inserts, updates or deletes; a rollback removes the records too. It is
// read after the history has ended.
type pgJournal struct {
	journalDB *sql.DB
}

// tables are the recorded tables, in the order in which the model processes the rows
// of one transaction.
var tables = []string{
	"operators", "whitelist", "credentials", "nonces", "rate_counters", "catalogue_comparisons", "provider_components", "plans",
	"subscribers", "cycles", "operations", "wallets", "wallet_entries", "ledger", "commissions", "operation_events", "exceptions", "reversals",
}

// pgJournalSchema is added to the product's schema in the template database.
func pgJournalSchema() string {
	var b strings.Builder
	b.WriteString(`
		CREATE TABLE sim_journal (n BIGSERIAL PRIMARY KEY, tx BIGINT NOT NULL, tab TEXT NOT NULL, act TEXT NOT NULL, body TEXT NOT NULL);
		CREATE FUNCTION sim_note() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO sim_journal (tx, tab, act, body)
			VALUES (pg_current_xact_id()::text::bigint, TG_TABLE_NAME, lower(TG_OP), row_to_json(CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END)::text);
			RETURN NULL;
		END $$;`)
	for _, table := range tables {
		fmt.Fprintf(&b, "CREATE TRIGGER sim_note AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION sim_note();\n", table)
	}
	return b.String()
}

func openPGJournal(address string) (*pgJournal, error) {
	journalDB, err := postgres.OpenSQL(address)
	if err != nil {
		return nil, err
	}
	return &pgJournal{journalDB}, nil
}

// transactions returns all committed transactions in a serial order: a transaction
// that changes a row after another one gets its row lock, and so writes its journal
// line, only after the other has committed; so its last line comes after all of the
// other's.
func (c *pgJournal) transactions(ctx context.Context) ([][]row, error) {
	lines, err := c.journalDB.QueryContext(ctx, `SELECT n, tx, tab, act, body FROM sim_journal ORDER BY n`)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	of := map[int64][]row{}
	for lines.Next() {
		var l row
		var tx int64
		if err := lines.Scan(&l.n, &tx, &l.table, &l.act, &l.text); err != nil {
			return nil, err
		}
		of[tx] = append(of[tx], l)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	type transaction struct {
		last int64
		rows []row
	}
	var all []transaction
	for _, rows := range of {
		last := rows[len(rows)-1].n
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Compare(slices.Index(tables, a.table), slices.Index(tables, b.table))
		})
		if rows = folded(rows); len(rows) > 0 {
			all = append(all, transaction{last, rows})
		}
	}
	slices.SortFunc(all, func(a, b transaction) int { return cmp.Compare(a.last, b.last) })
	ordered := make([][]row, len(all))
	for i, t := range all {
		ordered[i] = t.rows
	}
	return ordered, nil
}

// changedAgain marks a counter that its transaction changed more than once.
const changedAgain = "update again"

// folded merges a transaction's changes of a counter into one: admission counts a
// whole batch and takes back what is not granted, all in the same transaction.
func folded(rows []row) (kept []row) {
	place := map[string]int{}
	for _, l := range rows {
		if l.table != "rate_counters" {
			kept = append(kept, l)
			continue
		}
		var c struct {
			Operator int64 `json:"operator_id"`
			Minute   int64 `json:"minute"`
		}
		l.into(&c)
		key := keyOf(c.Operator, fmt.Sprint(c.Minute))
		at, again := place[key]
		if !again {
			place[key] = len(kept)
			kept = append(kept, l)
			continue
		}
		switch first := kept[at].act; {
		case l.act == "delete" && first == "insert":
			l.act = "" // it was never there
		case first == "insert":
			l.act = first
		case l.act == "update":
			l.act = changedAgain
		}
		kept[at] = l
	}
	return slices.DeleteFunc(kept, func(l row) bool { return l.act == "" })
}

// texts returns the rows of a query with one column.
func (c *pgJournal) texts(query string, args ...any) ([]string, error) {
	rows, err := c.journalDB.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
