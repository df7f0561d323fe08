package sim

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// journal records what is committed: triggers write, within each transaction, every
// row that it inserts, updates or deletes. So the model sees all commits in their
// order, independently of what callers were told.
type journal struct {
	env       *environment
	journalDB *sql.DB
	query     *sql.Stmt
	last      int64
	seen      int // commits up to which it was read
}

// row is one row of the journal.
type row struct {
	n     int64
	table string
	act   string // insert, update, delete
	text  []byte
}

func (l row) into(v any) {
	if err := json.Unmarshal(l.text, v); err != nil {
		panic(fmt.Sprintf("journal row %d (%s): %v", l.n, l.table, err))
	}
}

// watched are the tables and columns that the model looks at.
var watched = map[string]string{
	"operators":             "id status api rate_limit commission_bps low_balance_paise",
	"whitelist":             "operator_id entry",
	"credentials":           "id operator_id permissions revoked_at expires_at",
	"nonces":                "credential_id nonce request_id used_at",
	"rate_counters":         "operator_id minute used",
	"catalogue_comparisons": "verified_at",
	"provider_components":   "code sellable",
	"plans":                 "id name price_paise months type main addon retired version",
	"subscribers":           "id operator_id mobile name expires_at activated_at renewed_at reversing",
	"cycles":                "subscriber_id seq operation_id plan_id starts_at ends_at",
	"operations": "id operator_id idempotency_key kind channel subscriber_id customer_name mobile plan_id plan_name plan_months main addon " +
		"amount_paise commission_bps wallet_before_paise expiry_previous expiry_planned cycle_starts_at status epoch node " +
		"addon_status addon_attempt provider_transaction_id reason created_at completed_at reversed_at",
	"operation_events": "operation_id seq from_status to_status epoch node actor reason at",
	"exceptions":       "operation_id kind",
	"wallets":          "operator_id balance_paise ledger_paise",
	"wallet_entries":   "operator_id seq kind amount_paise balance_after operation_id reference actor",
	"ledger":           "operator_id line kind amount_paise balance_after operation_id reversal_of description",
	"commissions":      "operation_id operator_id amount_paise rate_bps",
	"reversals":        "reference operation_id operator_id amount_paise commission_paise status by_person voided",
}

// journalSchema is added to the product's schema in the template store.
func journalSchema() string {
	var b strings.Builder
	b.WriteString("CREATE TABLE sim_journal (n INTEGER PRIMARY KEY, tab TEXT NOT NULL, act TEXT NOT NULL, body TEXT NOT NULL);\n")
	for _, table := range keys(watched) {
		for act, row := range map[string]string{"insert": "NEW", "update": "NEW", "delete": "OLD"} {
			fields := []string{}
			for _, column := range strings.Fields(watched[table]) {
				fields = append(fields, fmt.Sprintf("'%s', %s.%s", column, row, column))
			}
			fmt.Fprintf(&b, "CREATE TRIGGER sim_%s_%s AFTER %s ON %s BEGIN INSERT INTO sim_journal (tab, act, body) VALUES ('%s', '%s', json_object(%s)); END;\n",
				table, act, act, table, table, act, strings.Join(fields, ", "))
		}
	}
	return b.String()
}

func openJournal(env *environment, path string) (*journal, error) {
	journalDB, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	journalDB.SetMaxOpenConns(1)
	stmt, err := journalDB.Prepare(`SELECT n, tab, act, body FROM sim_journal WHERE n > ?1 ORDER BY n`)
	if err != nil {
		return nil, err
	}
	return &journal{env: env, journalDB: journalDB, query: stmt}, nil
}

// read passes what was committed since the last call to the model.
func (j *journal) read() {
	if j.seen == j.env.commits {
		return
	}
	j.seen = j.env.commits
	rows, err := j.query.Query(j.last)
	if err != nil {
		panic(err)
	}
	defer rows.Close()
	var lines []row
	for rows.Next() {
		var l row
		if err := rows.Scan(&l.n, &l.table, &l.act, &l.text); err != nil {
			panic(err)
		}
		lines = append(lines, l)
		j.last = l.n
	}
	if err := rows.Err(); err != nil {
		panic(err)
	}
	if len(lines) > 0 {
		j.env.model.committed(lines)
	}
}

func (j *journal) close() {
	_ = j.query.Close()
	_ = j.journalDB.Close()
}
