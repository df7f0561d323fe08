package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// table is a table whose rows are copied, by its primary key.
type table struct {
	name string
	key  []string
	// descending means from the last key to the first, for rows that refer to later ones.
	descending bool
}

// tables lists what is copied, those that others refer to first. staff_chain_start comes
// after staff_acts, which it forbids to be without a MAC.
var tables = []table{
	{name: "master_keys", key: []string{"key_id"}},
	{name: "data_keys", key: []string{"seq"}},
	{name: "master_key_ring", key: []string{"one"}},
	{name: "operators", key: []string{"id"}},
	{name: "whitelist", key: []string{"operator_id", "entry"}},
	{name: "credentials", key: []string{"id"}, descending: true},
	{name: "key_uses", key: []string{"operator_id", "credential_id"}},
	{name: "provider_components", key: []string{"code"}},
	{name: "plans", key: []string{"id"}},
	{name: "plan_history", key: []string{"plan_id", "version"}},
	{name: "catalogue_comparisons", key: []string{"provider"}},
	{name: "wallets", key: []string{"operator_id"}},
	{name: "subscribers", key: []string{"id"}},
	{name: "operations", key: []string{"id"}},
	{name: "reversals", key: []string{"reference"}},
	{name: "cycles", key: []string{"subscriber_id", "seq"}},
	{name: "operation_events", key: []string{"operation_id", "seq"}},
	{name: "provider_calls", key: []string{"id"}},
	{name: "exceptions", key: []string{"id"}},
	{name: "wallet_entries", key: []string{"operator_id", "seq"}},
	{name: "ledger", key: []string{"id"}},
	{name: "ledger_digests", key: []string{"number"}},
	{name: "retention_closings", key: []string{"number"}},
	{name: "commissions", key: []string{"operation_id"}},
	{name: "receipt_prints", key: []string{"operation_id"}},
	{name: "contact_changes", key: []string{"subscriber_id", "seq"}},
	{name: "contact_states", key: []string{"subscriber_id"}},
	{name: "commission_periods", key: []string{"operator_id", "month"}},
	{name: "adjustment_references", key: []string{"operator_id", "reference"}},
	{name: "credited_references", key: []string{"way", "normalised", "copy"}},
	{name: "payment_announcements", key: []string{"id"}},
	{name: "bank_statements", key: []string{"id"}},
	{name: "bank_lines", key: []string{"statement_id", "number"}},
	{name: "bank_columns", key: []string{"header"}},
	{name: "bulk_jobs", key: []string{"operator_id", "id"}},
	{name: "bulk_rows", key: []string{"operator_id", "job_id", "number"}},
	{name: "logins", key: []string{"id"}},
	{name: "login_grants", key: []string{"login_id", "what", "actor"}},
	{name: "login_passkeys", key: []string{"id"}},
	{name: "login_recovery_codes", key: []string{"login_id", "code_hash"}},
	{name: "proposals", key: []string{"id"}},
	{name: "staff_acts", key: []string{"id"}},
	{name: "staff_amounts", key: []string{"act_id"}},
	{name: "staff_chain_start", key: []string{"one"}},
	{name: "request_log", key: []string{"id"}},
	{name: "store_restores", key: []string{"id"}},
	{name: "acme_secrets", key: []string{"id"}},
	{name: "acme_certificates", key: []string{"id"}},
}

// left lists the tables that are not copied, and why.
var left = map[string]string{
	"goose_db_version":  "each kind of store numbers its migrations",
	"schema_tolerance":  "the migrations fill it",
	"subscriber_terms":  "triggers fill it",
	"subscriber_lists":  "triggers fill it",
	"unfilled":          "of the upgrade of a store",
	"staff_chain":       "made from staff_acts, on PostgreSQL only",
	"maintenance":       "copied last, because a copy under way is in maintenance",
	"store_mark":        "made new at the end: the copy is another store",
	"nodes":             "those that run",
	"rate_counters":     "of the present minute",
	"login_sessions":    "people sign in again",
	"login_challenges":  "of sessions",
	"login_tries":       "of the last minutes",
	"acme_challenges":   "of an order under way",
	"nonces":            "of the last minutes; each kind of store keeps them in its own way",
	"nonce_index":       "of nonces",
	"nonce_index_state": "of nonces",
	"nonce_run_parts":   "of nonces",
	"nonce_runs":        "of nonces",
	"sqlite_sequence":   "the highest ids are copied by themselves",
}

// Store is one side of a copy: a database whose schema is that of this binary.
type Store struct {
	DB       *sql.DB
	Postgres bool
}

// querier is a *sql.DB or a transaction of it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// column is a column, and whether its values are truth values, which SQLite keeps as 0 and 1.
type column struct {
	name  string
	truth bool
}

// columns returns a table's columns by name.
func (s Store) columns(ctx context.Context, from querier, name string) ([]column, error) {
	query := `SELECT name, false FROM pragma_table_info(?) ORDER BY name`
	if s.Postgres {
		query = `
			SELECT column_name, data_type = 'boolean' FROM information_schema.columns
			 WHERE table_schema = current_schema() AND table_name = $1 ORDER BY column_name COLLATE "C"`
	}
	rows, err := from.QueryContext(ctx, query, name)
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", name, err)
	}
	defer rows.Close()
	var all []column
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.truth); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// names lists the tables of a store.
func (s Store) names(ctx context.Context, from querier) ([]string, error) {
	query := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if s.Postgres {
		query = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`
	}
	rows, err := from.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		all = append(all, name)
	}
	return all, rows.Err()
}

// CheckTables returns an error if the store has a table that this package does not know: its
// rows would be lost.
func (s Store) CheckTables(ctx context.Context) error {
	names, err := s.names(ctx, s.DB)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "sqlite_stat") {
			continue // of the planner
		}
		if _, known := left[name]; !known && !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			return fmt.Errorf("the store has a table %s, which this release cannot copy", name)
		}
	}
	return nil
}

// placeholder returns the n-th placeholder, from 1.
func (s Store) placeholder(n int) string {
	if s.Postgres {
		return fmt.Sprintf("$%d", n)
	}
	return fmt.Sprintf("?%d", n)
}

// ordered returns the columns of the key as terms of ORDER BY. Text is ordered by its bytes.
func (s Store) ordered(t table, columns map[string]bool) string {
	var terms []string
	for _, name := range t.key {
		term := name
		if s.Postgres && columns[name] {
			term += ` COLLATE "C"`
		}
		if t.descending {
			term += " DESC"
		}
		terms = append(terms, term)
	}
	return strings.Join(terms, ", ")
}

// texts returns which columns of a table are text, by name; of no use on SQLite, which
// compares text by its bytes.
func (s Store) texts(ctx context.Context, from querier, name string) (map[string]bool, error) {
	all := map[string]bool{}
	if !s.Postgres {
		return all, nil
	}
	rows, err := from.QueryContext(ctx, `
		SELECT column_name FROM information_schema.columns
		 WHERE table_schema = current_schema() AND table_name = $1 AND data_type = 'text'`, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var column string
		if err := rows.Scan(&column); err != nil {
			return nil, err
		}
		all[column] = true
	}
	return all, rows.Err()
}
