package audit_test

import (
	"database/sql"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/audit"
)

// damage is a change of a healthy store that bypasses the product. In its texts {key}
// stands for the id of the operation with that key.
type damage struct {
	name string
	// loosen are tables whose constraints are dropped first.
	loosen []string
	sql    string
	// want is every invariant that is broken by it, and no other.
	want []string
	// subject is where the first of them is found.
	subject string
	// store makes the fixture; nil is healthyStore.
	store func(testing.TB) fixture
	// after is done after the statements; nil is nothing.
	after func(*testing.T, *sql.DB)
}

var keyed = regexp.MustCompile(`\{([a-z0-9-]+)\}`)

func (d damage) plant(t *testing.T, s fixture) {
	t.Helper()
	db := openWithoutConstraints(t, s.path)
	defer db.Close()
	var script strings.Builder
	for _, table := range d.loosen {
		script.WriteString(loosened(table))
	}
	script.WriteString(s.fill(t, forDialect(d.sql)))
	for statement := range strings.SplitSeq(script.String(), ";") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		result, err := db.Exec(statement)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		upper := strings.TrimSpace(statement)
		if n, _ := result.RowsAffected(); n == 0 && (strings.HasPrefix(upper, "UPDATE") || strings.HasPrefix(upper, "DELETE") || strings.HasPrefix(upper, "INSERT")) {
			t.Fatalf("%s: nothing was damaged", statement)
		}
	}
	if d.after != nil {
		d.after(t, db)
	}
}

func (s fixture) fill(t *testing.T, text string) string {
	return keyed.ReplaceAllStringFunc(text, func(name string) string {
		id, known := s.keys[strings.Trim(name, "{}")]
		if !known {
			t.Fatalf("there is no operation %s", name)
		}
		return id
	})
}

func TestAudit_FindsDamage(t *testing.T) {
	all := slices.Concat(moneyDamage, operationDamage, providerDamage, subscriberDamage, staffDamage, decisionDamage, admissionDamage, approvalDamage, loginDamage, integrityDamage, adoptionDamage, reversalDamage, removalDamage, forgottenDamage, announcementDamage, receiptDamage)
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			if d.store == nil {
				d.store = healthyStore
			}
			s := d.store(t)
			d.plant(t, s)
			report, err := s.audited(t)
			if err != nil {
				t.Fatal(err)
			}
			broken := map[string]bool{}
			named := false
			for _, violation := range report.Violations {
				broken[violation.Invariant] = true
				named = named || violation.Invariant == d.want[0] && violation.Subject == s.fill(t, d.subject)
			}
			want := slices.Sorted(slices.Values(d.want))
			if got := slices.Sorted(maps.Keys(broken)); !slices.Equal(got, want) || report.OK {
				t.Errorf("broken: %v; want %v", got, want)
			}
			if !named {
				t.Errorf("%s is not reported of %s", d.want[0], s.fill(t, d.subject))
			}
			if t.Failed() || testing.Verbose() {
				for _, violation := range report.Violations {
					t.Log(violation)
				}
			}
		})
	}

	// Every check must be triggered by some damage.
	proved := map[string]bool{}
	for _, d := range all {
		proved[d.want[0]] = true
	}
	for _, invariant := range audit.Invariants {
		if !proved[invariant.ID] {
			t.Errorf("%s (%s) is triggered by no damage here", invariant.ID, invariant.Promise)
		}
		delete(proved, invariant.ID)
	}
	for id := range proved {
		t.Errorf("%s is not among the invariants", id)
	}
}

var moneyDamage = []damage{
	{
		name: "a changed balance", want: []string{"M1", "M2w", "L3"}, subject: "lco 1",
		sql: `UPDATE wallets SET balance_paise = balance_paise - 100 WHERE operator_id = 1`,
	}, {
		name: "a wallet that is not what its last entry says", want: []string{"M2w"}, subject: "lco 2",
		sql: `UPDATE wallets SET entries = entries + 1 WHERE operator_id = 2`,
	}, {
		name: "a broken running sum", want: []string{"M2", "M7"}, subject: "lco 1, wallet entry 12",
		sql: `UPDATE wallet_entries SET balance_after = balance_after + 1 WHERE operator_id = 1 AND seq = 12`,
	}, {
		name: "a lost wallet entry", want: []string{"M4", "M2"}, subject: "operation {renew-1}",
		sql: `DELETE FROM wallet_entries WHERE operation_id = '{renew-1}'`,
	}, {
		name: "the last wallet entry cut off", want: []string{"M2w", "M4"}, subject: "lco 2",
		sql: `DELETE FROM wallet_entries WHERE operation_id = '{open-3}'`,
	}, {
		name: "a reserve of another amount", want: []string{"M4", "M2", "M7"}, subject: "operation {renew-1}",
		sql: `UPDATE wallet_entries SET amount_paise = amount_paise - 1 WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a balance below zero", want: []string{"M3", "M1", "M2w", "L3"}, subject: "lco 4",
		sql: `UPDATE wallets SET balance_paise = -1 WHERE operator_id = 4`,
	}, {
		name: "a balance that was below zero", want: []string{"M3", "M2", "M7"}, subject: "lco 1, wallet entry 12",
		sql: `UPDATE wallet_entries SET balance_after = -1 WHERE operator_id = 1 AND seq = 12`,
	}, {
		name: "a hold that is more than all there is", want: []string{"M3", "L2"}, subject: "lco 4",
		sql: `UPDATE wallets SET ledger_paise = -5 WHERE operator_id = 4`,
	}, {
		name: "a missing ledger line", want: []string{"M4", "L1", "L6"}, subject: "operation {renew-1}",
		sql: `DELETE FROM ledger WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a second ledger line", want: []string{"M4", "L3"}, subject: "operation {renew-1}", loosen: []string{"ledger"},
		sql: `UPDATE wallets SET ledger_paise = ledger_paise - 19900, ledger_lines = ledger_lines + 1 WHERE operator_id = 1;
		      INSERT INTO ledger SELECT 999, operator_id, (SELECT ledger_lines FROM wallets WHERE operator_id = 1), kind, amount_paise,
		             (SELECT ledger_paise FROM wallets WHERE operator_id = 1), description, operation_id, created_at, NULL, NULL
		        FROM ledger WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a ledger line that credits", want: []string{"M4", "L1"}, subject: "operation {renew-1}",
		sql: `UPDATE ledger SET kind = 'credit' WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a ledger line without its mark", want: []string{"M4"}, subject: "operation {renew-1}",
		sql: `UPDATE ledger SET description = 'Renewal' WHERE operation_id = '{renew-1}'`,
	}, {
		name: "a mark on what came through the panel", want: []string{"M4"}, subject: "operation {renew-4}",
		sql: `UPDATE ledger SET description = description || ' [API]' WHERE operation_id = '{renew-4}'`,
	}, {
		name: "a broken sum of the ledger", want: []string{"L1"}, subject: "lco 1, ledger line 5",
		sql: `UPDATE ledger SET balance_after = balance_after + 1 WHERE operator_id = 1 AND line = 5`,
	}, {
		name: "a gap in the ledger", want: []string{"L1", "L2"}, subject: "lco 2, ledger line 99",
		sql: `UPDATE ledger SET line = 99 WHERE id = (SELECT max(id) FROM ledger WHERE operator_id = 2)`,
	}, {
		name: "another ledger sum in the wallet", want: []string{"L2"}, subject: "lco 1",
		sql: `UPDATE wallets SET ledger_paise = ledger_paise + 1 WHERE operator_id = 1`,
	}, {
		name: "a hold of no operation", want: []string{"L3", "L4"}, subject: "lco 4",
		sql: `INSERT INTO ledger VALUES (999, 4, 1, 'credit', 5000, 5000, 'Gift', NULL, 0, NULL, NULL);
		      UPDATE wallets SET ledger_paise = 5000, ledger_lines = 1 WHERE operator_id = 4`,
	}, {
		name: "a credit without a ledger line", want: []string{"L4", "L3", "A9", "M8"}, subject: "lco 1",
		sql: `UPDATE wallets SET balance_paise = balance_paise + 1, entries = entries + 1 WHERE operator_id = 1;
		      INSERT INTO wallet_entries SELECT operator_id, entries, 'topup', 1, balance_paise, NULL, 'gift', 'cli:asha', 0 FROM wallets WHERE operator_id = 1`,
	}, {
		name: "a top-up booked as another", want: []string{"L4"}, subject: "lco 2, ledger line 2",
		sql: `UPDATE ledger SET description = 'Top-up UPI 78' WHERE operator_id = 2 AND line = 2`,
	}, {
		name: "a lost commission", want: []string{"M4"}, subject: "operation {renew-4}",
		sql: `DELETE FROM commissions WHERE operation_id = '{renew-4}'`,
	}, {
		name: "a commission rounded down", want: []string{"C1"}, subject: "operation {renew-8}",
		sql: `UPDATE commissions SET amount_paise = amount_paise - 1 WHERE operation_id = '{renew-8}'`,
	}, {
		name: "a commission at a rate that never was", want: []string{"C1"}, subject: "operation {renew-4}",
		sql: `UPDATE commissions SET rate_bps = 999, amount_paise = 1988 WHERE operation_id = '{renew-4}';
		      UPDATE operations SET commission_bps = 999 WHERE id = '{renew-4}'`,
	}, {
		name: "a second refund", want: []string{"M9", "M4", "M1", "L3"}, subject: "operation {activate-3}",
		sql: `DROP INDEX wallet_entries_once;
		      UPDATE wallets SET balance_paise = balance_paise + 19900, entries = entries + 1 WHERE operator_id = 1;
		      INSERT INTO wallet_entries SELECT 1, (SELECT entries FROM wallets WHERE operator_id = 1), 'refund', 19900,
		             (SELECT balance_paise FROM wallets WHERE operator_id = 1), operation_id, NULL, actor, created_at
		        FROM wallet_entries WHERE operation_id = '{activate-3}' AND kind = 'refund'`,
	}, {
		name: "a refund of a success", want: []string{"M4", "M1", "L3"}, subject: "operation {renew-1}",
		sql: `UPDATE wallets SET balance_paise = balance_paise + 19900, entries = entries + 1 WHERE operator_id = 1;
		      INSERT INTO wallet_entries SELECT 1, w.entries, 'refund', 19900, w.balance_paise, o.id, NULL, o.actor, o.completed_at
		        FROM wallets w, operations o WHERE w.operator_id = 1 AND o.id = '{renew-1}'`,
	}, {
		name: "a balance before that was not", want: []string{"M7"}, subject: "operation {open-1}",
		sql: `UPDATE operations SET wallet_before_paise = wallet_before_paise + 1 WHERE id = '{open-1}'`,
	}, {
		name: "a top-up through the API", want: []string{"M8", "A9"}, subject: "lco 1, wallet entry 1",
		sql: `UPDATE wallet_entries SET actor = 'api:key 1' WHERE operator_id = 1 AND seq = 1`,
	}, {
		name: "a reference credited twice", want: []string{"M8", "A9", "L4"}, subject: "lco 2, wallet entry 2",
		sql: `DROP INDEX wallet_entries_reference;
		      UPDATE wallet_entries SET reference = 'NEFT-1' WHERE operator_id = 2 AND seq = 2`,
	}, {
		name: "a reference of another operator's credit", want: []string{"M8"}, subject: "lco 2, wallet entry 1",
		loosen: []string{"credited_references"},
		sql:    `UPDATE credited_references SET normalised = 'neft1' WHERE operator_id = 2 AND seq = 1`,
	}, {
		name: "a second credit under one reference", want: []string{"M8"}, subject: "lco 2, wallet entry 1",
		loosen: []string{"credited_references"},
		sql:    `UPDATE credited_references SET copy = 1 WHERE operator_id = 2 AND seq = 1`,
	}, {
		name: "a reference that was forgotten", want: []string{"M8"}, subject: "lco 2, wallet entry 1",
		sql: `DELETE FROM credited_references WHERE operator_id = 2 AND seq = 1`,
	}, {
		name: "a reference stored for a credit that is missing", want: []string{"M8"}, subject: "lco 2, wallet entry 4711",
		sql: `INSERT INTO credited_references (way, normalised, copy, operator_id, seq, filled) VALUES ('topup', 'x1', 0, 2, 4711, 0)`,
	}, {
		name: "a reserve without an operation", want: []string{"M8", "M4"}, subject: "lco 1, wallet entry 12",
		sql: `UPDATE wallet_entries SET operation_id = NULL WHERE operator_id = 1 AND seq = 12`,
	}, {
		name: "a price that was not the plan's", want: []string{"M6"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET plan_version = 2 WHERE id = '{renew-1}'`,
	}, {
		name: "a version that never was", want: []string{"M6"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET plan_version = 7 WHERE id = '{renew-1}'`,
	}, {
		name: "a price that had been replaced", want: []string{"M6"}, subject: "operation {renew-1}",
		sql: `UPDATE plan_history SET since = (SELECT created_at - 60000 FROM operations WHERE id = '{renew-1}') WHERE plan_id = 'BASIC-1' AND version = 2;
		      UPDATE plans SET updated_at = (SELECT since FROM plan_history WHERE plan_id = 'BASIC-1' AND version = 2) WHERE id = 'BASIC-1'`,
	}, {
		name: "a price that was not yet", want: []string{"M6"}, subject: "operation {renew-5}",
		sql: `UPDATE plan_history SET since = since + 7776000000 WHERE plan_id = 'BASIC-1' AND version = 2;
		      UPDATE plans SET updated_at = (SELECT since FROM plan_history WHERE plan_id = 'BASIC-1' AND version = 2) WHERE id = 'BASIC-1'`,
	}, {
		name: "more months than were sold", want: []string{"M6", "S6"}, subject: "operation {renew-1}",
		sql: `UPDATE operations SET plan_months = 12 WHERE id = '{renew-1}'`,
	},
}
