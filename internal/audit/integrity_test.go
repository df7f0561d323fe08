package audit_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
)

func auditKeys(vault *access.Vault) *audit.Keys {
	return &audit.Keys{
		CheckValues: vault.CheckValues(), Actions: vault.Derive(integrity.ActionsPurpose), Digests: vault.Derive(integrity.DigestsPurpose),
	}
}

// signedStore is a store of an older release, without MACs, that went on with this one:
// its old staff actions are sealed, further ones signed, and its days digested. The
// numbers of the last unsigned and of the signed actions are among its keys.
func signedStore(t testing.TB) fixture {
	t.Helper()
	closed := healthyStore(t)
	s := openEnv(t, closed.path)
	defer s.store.Close()
	closed.keys = maps.Clone(closed.keys)
	s.now = closed.now
	ctx := s.Context()
	s.ok(s.store.CheckMasterKeys(ctx, s.vault.CheckValues(), s.vault.PrimaryID(), s.now))
	sealed, started, err := s.store.UseIntegrityKeys(ctx, integrity.NewKeys(s.vault.PrimaryID(), s.vault.Derive), s.now)
	if err != nil || !started || sealed == 0 {
		t.Fatalf("sealed %d, %v, %v; want the staff actions that were there", sealed, started, err)
	}
	s.topUp(2, "60", "NEFT-99") // signed action 1
	_, err = s.service.StartMaintenance(ctx, "a test")
	s.ok(err)
	s.ok(s.service.EndMaintenance(ctx, false, "over"))
	s.topUp(3, "70", "NEFT-98") // 4
	closed.keys["unsigned"] = fmt.Sprint(sealed)
	for n := range int64(5) {
		closed.keys[fmt.Sprintf("signed-%d", n+1)] = fmt.Sprint(sealed + n + 1)
	}
	if digests := must[int](s)(integrity.Seal(ctx, s.store, s.now.Add(48*time.Hour), integrity.Watch{})); digests < 3 {
		t.Fatalf("%d digests were made; want one for each operator and day", digests)
	}
	closed.settings.Keys = auditKeys(s.vault)
	closed.now = s.clock()
	return closed
}

func exportedHeadStore(t testing.TB) fixture {
	t.Helper()
	s := signedStore(t)
	report, err := s.audited(t)
	if err != nil || !report.OK {
		t.Fatalf("%+v, %v; want it clean", report, err)
	}
	s.settings.Heads = []audit.Head{report.Head}
	s.keys["head"] = report.Head.At.In(subscription.IST).Format(time.DateTime)
	return s
}

// rehash makes the plain chain of staff actions fit again, as anybody who can write the
// database can.
func rehash(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(`SELECT id, operator_id, actor, action, subject, before_state, after_state, reason, at, origin FROM staff_acts ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var acts []admin.AuditEntry
	for rows.Next() {
		var a admin.AuditEntry
		var at int64
		if err := rows.Scan(&a.ID, &a.OperatorID, &a.Actor, &a.Action, &a.Subject, &a.Before, &a.After, &a.Reason, &at, &a.Origin); err != nil {
			t.Fatal(err)
		}
		a.At = time.UnixMilli(at)
		acts = append(acts, a)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var previous []byte
	for _, a := range acts {
		previous = a.ChainHash(previous)
		if _, err := db.Exec(`UPDATE staff_acts SET hash = $1 WHERE id = $2`, previous, a.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// rehashDigest makes the newest digest of an operator fit its ledger lines again, but
// for its MAC.
func rehashDigest(t *testing.T, db *sql.DB, operator int64) {
	t.Helper()
	var number, first, last int64
	err := db.QueryRow(`SELECT number, first_line, last_line FROM ledger_digests WHERE operator_id = $1 ORDER BY day DESC LIMIT 1`, operator).Scan(&number, &first, &last)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(`SELECT id, operator_id, line, amount_paise, balance_after, created_at, kind, description, operation_id
		FROM ledger WHERE operator_id = $1 AND line BETWEEN $2 AND $3 ORDER BY line`, operator, first, last)
	if err != nil {
		t.Fatal(err)
	}
	sum := integrity.NewRowHash()
	for rows.Next() {
		var l integrity.LedgerLine
		if err := rows.Scan(&l.ID, &l.OperatorID, &l.Line, &l.Amount, &l.BalanceAfter, &l.CreatedAt, &l.Kind, &l.Description, &l.Operation); err != nil {
			t.Fatal(err)
		}
		sum.AddLine(l)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE ledger_digests SET ledger_hash = $1 WHERE number = $2`, sum.Sum(), number); err != nil {
		t.Fatal(err)
	}
}

// withoutTrigger lets rows without MACs in. PostgreSQL refuses them where the end of the
// chain is moved, which these rows do not.
func withoutTrigger() string {
	if pgtest.Chosen() {
		return ""
	}
	return `DROP TRIGGER staff_acts_need_mac;`
}

// firstDay is the day that trade begins on.
var firstDay = opening.In(subscription.IST).Format(time.DateOnly)

var integrityDamage = []damage{
	{
		name: "a signed action rewritten, and the plain chain after it", want: []string{"A12"}, subject: "staff action {signed-2}", store: signedStore,
		sql: `UPDATE staff_acts SET reason = 'another reason' WHERE id = {signed-2}`, after: rehash,
	}, {
		name: "a signed action removed, and the plain chain after it rewritten", want: []string{"A12"}, subject: "staff action {signed-3}", store: signedStore,
		sql: `DELETE FROM staff_acts WHERE id = {signed-2}`, after: rehash,
	}, {
		name: "an unsigned action added, and the plain chain rewritten", want: []string{"A12"}, subject: "staff action {signed-5}", store: signedStore,
		sql: withoutTrigger() + `INSERT INTO staff_acts SELECT {signed-5}, operator_id, 'cli:mallory', action, subject, before_state, after_state, reason, at, hash, origin, NULL, NULL
		        FROM staff_acts WHERE id = {signed-2}`, after: rehash,
	}, {
		name: "a copied MAC on an added action", want: []string{"A12"}, subject: "staff action {signed-5}", store: signedStore,
		sql: `INSERT INTO staff_acts SELECT {signed-5}, operator_id, actor, action, subject, before_state, after_state, reason, at, hash, origin, mac, mac_key
		        FROM staff_acts WHERE id = {signed-2}`, after: rehash,
	}, {
		name: "an action from before there were MACs rewritten, and the plain chain after it", want: []string{"A12"}, subject: "staff action {unsigned}", store: signedStore,
		sql: `UPDATE staff_acts SET reason = 'another reason' WHERE id = 1`, after: rehash,
	}, {
		name: "a MAC under an unknown key", want: []string{"A12"}, subject: "staff action {signed-2}", store: signedStore,
		sql: `UPDATE staff_acts SET mac_key = 1 WHERE id = {signed-2}`,
	}, {
		name: "another start of the signed actions", want: []string{"A12"}, subject: "staff actions up to {signed-1}", store: signedStore,
		sql: `UPDATE staff_chain_start SET last_id = last_id + 1, last_hash = (SELECT hash FROM staff_acts WHERE id = {signed-1})`,
	}, {
		name: "all MACs removed", want: []string{"A12"}, subject: "staff actions", store: signedStore,
		sql: `UPDATE staff_acts SET mac = NULL, mac_key = NULL WHERE mac IS NOT NULL; DELETE FROM staff_chain_start; DELETE FROM ledger_digests`,
	}, {
		name: "another master key", want: []string{"A12"}, subject: "master key 7", store: signedStore,
		sql: `INSERT INTO master_keys (key_id, proof, created_at) VALUES (7, x'00', 0)`,
	}, {
		name: "a sealed ledger line rewritten", want: []string{"L5"}, subject: "lco 2, " + firstDay, store: signedStore,
		sql: `UPDATE ledger SET id = id + 1000000 WHERE operator_id = 2 AND line = 1`,
	}, {
		name: "money made up, with books, wallet, staff action and plain chain that all fit", want: []string{"L5", "A12"}, subject: "lco 3, " + firstDay, store: signedStore,
		sql: `UPDATE wallet_entries SET amount_paise = amount_paise + 500000 WHERE operator_id = 3 AND seq = 1;
		      UPDATE wallet_entries SET balance_after = balance_after + 500000 WHERE operator_id = 3;
		      UPDATE ledger SET amount_paise = amount_paise + 500000 WHERE operator_id = 3 AND line = 1;
		      UPDATE ledger SET balance_after = balance_after + 500000 WHERE operator_id = 3;
		      UPDATE wallets SET balance_paise = balance_paise + 500000, ledger_paise = ledger_paise + 500000 WHERE operator_id = 3;
		      UPDATE staff_acts SET after_state = replace(replace(after_state, '80.00', '5080.00'), '10.00', '5010.00'), before_state = replace(before_state, '10.00', '5010.00')
		       WHERE operator_id = 3 AND action = 'wallet topup';
		      UPDATE staff_amounts SET amount_paise = amount_paise + 500000
		       WHERE act_id = (SELECT min(id) FROM staff_acts WHERE operator_id = 3 AND action = 'wallet topup')`,
		after: rehash,
	}, {
		name: "a digest removed", want: []string{"L5"}, subject: "lco 2, " + firstDay, store: signedStore,
		sql: `DELETE FROM ledger_digests WHERE operator_id = 1`,
	}, {
		name: "a sealed ledger line rewritten, and its digest", want: []string{"L5"}, subject: "lco 2, " + firstDay, store: signedStore,
		sql:   `UPDATE ledger SET id = id + 1000000 WHERE operator_id = 2 AND line = 1`,
		after: func(t *testing.T, db *sql.DB) { rehashDigest(t, db, 2) },
	}, {
		name: "a digest of another day", want: []string{"L5"}, subject: "lco 2, 2027-03-03", store: signedStore,
		sql: `UPDATE ledger_digests SET day = '2027-03-03' WHERE operator_id = 2 AND day = '` + firstDay + `'`,
	}, {
		name: "digests cut off at the end", want: []string{"H1"}, subject: "head of {head}", store: exportedHeadStore,
		sql: `DELETE FROM ledger_digests WHERE number = (SELECT max(number) FROM ledger_digests)`,
	}, {
		name: "another MAC than the exported one", want: []string{"A12", "H1"}, subject: "staff action {signed-4}", store: exportedHeadStore,
		sql: `UPDATE staff_acts SET mac = x'00' WHERE id = {signed-4}`,
	},
}

func TestAudit_TruncatedStaffActionsNeedAHead(t *testing.T) {
	s := exportedHeadStore(t)
	damage{sql: `DELETE FROM staff_acts WHERE id IN ({signed-4}, {signed-3}, {signed-2});
		DELETE FROM wallet_entries WHERE operator_id = 3 AND seq = 2; DELETE FROM ledger WHERE operator_id = 3 AND line = 2;
		UPDATE wallets SET balance_paise = 1000, ledger_paise = 1000, entries = 1, ledger_lines = 1, receipt_lines = 1 WHERE operator_id = 3;
		DELETE FROM credited_references WHERE operator_id = 3 AND seq = 2; DELETE FROM staff_amounts WHERE operator_id = 3 AND amount_paise <> 1000;
		DELETE FROM ledger_digests WHERE operator_id = 3`}.plant(t, s)
	heads := s.settings.Heads
	s.settings.Heads = nil
	if report, err := s.audited(t); err != nil || !report.OK {
		t.Errorf("%+v, %v; want a cut at the end to look clean without a head", report.Violations, err)
	}
	s.settings.Heads = heads
	report, err := s.audited(t)
	if err != nil || len(report.Violations) != 2 {
		t.Fatalf("%+v, %v; want the missing action and the missing digest", report.Violations, err)
	}
	for _, violation := range report.Violations {
		if violation.Invariant != "H1" || !strings.Contains(violation.Detail, "truncated or rewritten") {
			t.Errorf("found %s; want H1", violation)
		}
	}
}

// undoLater undoes the migrations after the one that brought MACs.
const undoLater = `DROP INDEX ledger_receipts; ALTER TABLE bulk_rows DROP COLUMN not_renewed_since; DROP TABLE contact_changes; DROP TABLE contact_states; DROP TABLE subscriber_lists;
	ALTER TABLE subscribers DROP COLUMN area; ALTER TABLE subscribers DROP COLUMN box_number; ALTER TABLE subscribers DROP COLUMN notes;
	DROP TABLE bank_lines; DROP TABLE bank_statements; DROP TABLE bank_columns; DROP TABLE payment_announcements; DROP INDEX credited_references_entry; ALTER TABLE credited_references DROP COLUMN alias; CREATE UNIQUE INDEX credited_references_entry ON credited_references (operator_id, seq); DROP TABLE receipt_prints; ALTER TABLE ledger DROP COLUMN receipt; ALTER TABLE operators DROP COLUMN address; ALTER TABLE operators DROP COLUMN gstin;
	ALTER TABLE wallets DROP COLUMN receipt_year; ALTER TABLE wallets DROP COLUMN receipts; ALTER TABLE wallets DROP COLUMN receipts_past;
	ALTER TABLE wallets DROP COLUMN receipt_lines; ALTER TABLE wallets DROP COLUMN receipts_from;
	DROP TABLE reversals; DROP INDEX ledger_reversals; ALTER TABLE ledger DROP COLUMN reversal_of; ALTER TABLE subscribers DROP COLUMN reversing; ALTER TABLE operations DROP COLUMN reversed_at; DROP TABLE retention_closings; DROP TABLE data_keys; DROP TABLE master_key_ring; DROP TABLE nodes; DROP INDEX bulk_jobs_ended; DROP INDEX operations_adopted; ALTER TABLE operations DROP COLUMN carried_out_at; DROP TABLE acme_secrets; DROP TABLE acme_certificates; DROP TABLE acme_challenges; DROP TABLE store_mark; DROP TABLE store_restores; DROP TABLE login_tries; ALTER TABLE logins DROP COLUMN browser_epoch;
	DROP TABLE login_challenges; DROP TABLE login_passkeys; ALTER TABLE login_recovery_codes DROP COLUMN salt; ALTER TABLE logins DROP COLUMN factor_notice;`

// undoTriggers undoes what later migrations have that differs between the stores.
func undoTriggers() string {
	if pgtest.Chosen() {
		return `DROP TRIGGER subscriber_index_update ON subscribers; DROP TABLE unfilled;
			DROP TRIGGER cycle_plan_insert ON cycles; DROP FUNCTION cycle_plan_insert; DROP FUNCTION terms_of(subscribers);`
	}
	return `DROP TRIGGER subscriber_index_update; DROP TRIGGER subscriber_lists_delete; DROP TRIGGER cycle_plan_insert;
		DROP TRIGGER subscribers_become_findable;`
}

// oldTrigger puts a trigger that a later migration replaces where it was.
func oldTrigger(t *testing.T, db *sql.DB) {
	if pgtest.Chosen() {
		return
	}
	if _, err := db.Exec(`CREATE TRIGGER subscribers_become_findable AFTER INSERT ON subscribers BEGIN SELECT 1; END`); err != nil {
		t.Fatal(err)
	}
}

// beforeMACs undoes the migration that brought MACs, and those after it.
func beforeMACs() string {
	script := withoutTrigger() + undoTriggers() + undoLater + `DROP TABLE staff_chain_start; DROP TABLE ledger_digests; ALTER TABLE staff_acts DROP COLUMN mac; ALTER TABLE staff_acts DROP COLUMN mac_key;`
	if pgtest.Chosen() {
		return script + `ALTER TABLE staff_chain DROP COLUMN mac, DROP COLUMN mac_id;
			DELETE FROM schema_tolerance WHERE migration >= 17; DELETE FROM goose_db_version WHERE version_id >= 17`
	}
	return script + `DELETE FROM schema_tolerance WHERE migration >= 22; DELETE FROM goose_db_version WHERE version_id >= 22`
}

func TestAudit_StoreFromBeforeMACsIsSealed(t *testing.T) {
	s := healthyStore(t)
	damage{sql: beforeMACs(), after: oldTrigger}.plant(t, s)
	s.settings.Keys = &audit.Keys{}
	report, err := s.audited(t)
	if err != nil || !report.OK || len(report.Skipped) != 1 || !strings.Contains(report.Skipped[0], "no node of this release") {
		t.Fatalf("%+v, %v; want it clean, and the MACs skipped", report, err)
	}
	before := report.Head
	if before.Hash == "" || before.MAC != "" {
		t.Errorf("the head is %+v; want one without MACs", before)
	}
	node := openEnv(t, s.path)
	node.ok(node.store.CheckMasterKeys(t.Context(), node.vault.CheckValues(), node.vault.PrimaryID(), s.now))
	sealed, started, err := node.store.UseIntegrityKeys(t.Context(), integrity.NewKeys(node.vault.PrimaryID(), node.vault.Derive), s.now)
	if err != nil || !started || sealed != before.Actions {
		t.Errorf("sealed %d, %v, %v; want all %d", sealed, started, err, before.Actions)
	}
	must[int](node)(integrity.Seal(t.Context(), node.store, s.now.Add(48*time.Hour), integrity.Watch{}))
	node.ok(node.store.Close())
	s.settings.Keys, s.settings.Heads = auditKeys(node.vault), []audit.Head{before}
	report, err = s.audited(t)
	if err != nil || !report.OK || len(report.Skipped) != 0 || report.Head.MAC == "" || report.Counts.Unsealed != 0 {
		t.Errorf("%+v, %v; want it clean, sealed, and to contain the head from before", report, err)
	}
}

func TestAudit_WithoutKeySaysWhatItSkipped(t *testing.T) {
	s := signedStore(t)
	keys := s.settings.Keys
	s.settings.Keys, s.settings.NoKeys = nil, "the key is elsewhere"
	report, err := s.audited(t)
	if err != nil || !report.OK || len(report.Skipped) != 1 || !strings.Contains(report.Skipped[0], "the key is elsewhere") {
		t.Errorf("%+v, %v; want it clean, and the MACs skipped", report, err)
	}
	// Hashes need no key.
	damage{sql: `UPDATE ledger SET id = id + 1000000 WHERE operator_id = 2 AND line = 1`}.plant(t, s)
	if report, err := s.audited(t); err != nil || report.OK {
		t.Errorf("%+v, %v; want the changed ledger line", report, err)
	}
	s.settings.Keys = keys
	if report, err := s.audited(t); err != nil || len(report.Skipped) != 0 {
		t.Errorf("skipped %q, %v; want nothing", report.Skipped, err)
	}
}

func TestAudit_SignedStoreIsClean(t *testing.T) {
	s := exportedHeadStore(t)
	report, err := s.audited(t)
	if err != nil || !report.OK || len(report.Skipped) != 0 {
		t.Fatalf("%+v, %v; want it clean", report, err)
	}
	head := report.Head
	if head.Actions != report.Counts.Actions || head.MAC == "" || head.Day < firstDay || head.Digests != report.Counts.Digests || report.Counts.Unsealed != 0 {
		t.Errorf("the head is %+v of %+v", head, report.Counts)
	}
	if report.Compared != 1 {
		t.Errorf("compared with %d heads; want 1", report.Compared)
	}
}

// A store goes on under a new primary key, and under the old one again, which stays in
// the ring.
func TestAudit_ReplacedMasterKeyIsClean(t *testing.T) {
	place := newStorePath(t)
	s := openEnv(t, place)
	derive := func(ids ...uint32) func(string) map[uint32][]byte {
		return func(purpose string) map[uint32][]byte {
			all := map[uint32][]byte{}
			for _, id := range ids {
				all[id] = fmt.Appendf(nil, "%s %d", purpose, id)
			}
			return all
		}
	}
	use := func(current uint32, ids ...uint32) {
		t.Helper()
		s.ok(s.store.CheckMasterKeys(t.Context(), derive(ids...)("proof"), current, s.now))
		_, _, err := s.store.UseIntegrityKeys(t.Context(), integrity.NewKeys(current, derive(ids...)), s.now)
		s.ok(err)
		must[subscription.Operator](s)(s.service.CreateOperator(t.Context(), fmt.Sprintf("Operator %d", current), admin.OperatorChange{}))
		s.topUp(1, "10", fmt.Sprint("NEFT-", s.now.Unix()))
		s.advance(24 * time.Hour)
		must[int](s)(integrity.Seal(t.Context(), s.store, s.now.Add(time.Hour), integrity.Watch{}))
	}
	use(1, 1)
	use(2, 1, 2)
	use(1, 1, 2)
	s.ok(s.store.Close())
	all := derive(1, 2)
	checked := fixture{path: place, now: s.now, settings: audit.Settings{Keys: &audit.Keys{
		CheckValues: all("proof"), Actions: all(integrity.ActionsPurpose), Digests: all(integrity.DigestsPurpose),
	}}}
	report, err := checked.audited(t)
	if err != nil || !report.OK || report.Counts.Digests != 3 {
		t.Errorf("%+v, %v; want three digests and nothing wrong", report, err)
	}
}

func TestReadHeads(t *testing.T) {
	head := audit.Head{At: opening, Actions: 5, Hash: "aa01", MAC: "bb02", Digests: 2, Day: "2027-03-01", DigestMAC: "cc03"}
	text, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(string(text), `"actions":5`, `"actions":6`, 1)
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(`{"ok":true,"head":`+string(text)+`}`), "", "  "); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("time=x level=INFO msg=\"audit head\" head.at=%s head.actions=5 head.hash=aa01 head.mac=bb02 head.digests=2 head.day=2027-03-01 head.digest_mac=cc03\n", opening.Format(time.RFC3339))
	for name, tt := range map[string]struct {
		text string
		want []int64
	}{
		"a report":           {`{"ok":true,"head":` + string(text) + `}` + "\n", []int64{5}},
		"an indented report": {indented.String(), []int64{5}},
		"a head alone":       {string(text), []int64{5}},
		"a log":              {"{\"msg\":\"serving\"}\n{\"msg\":\"audit head\",\"head\":" + string(text) + "}\nnoise\n{\"head\":" + later + "}\n", []int64{5, 6}},
		"a log as text":      {"time=x msg=serving\n" + line, []int64{5}},
		"a log from syslog":  {"Nov 18 10:00:00 node-1 coax[7]: {\"msg\":\"audit head\",\"head\":" + string(text) + "}\nNov 18 coax[7]: " + strings.Replace(line, "actions=5", "actions=6", 1), []int64{5, 6}},
		// A visitor's browser can call itself anything.
		"a forged head in a value":       {line + `time=x msg=security event=sign_in_failed agent="msg=\"audit head\" head.actions=9 head.hash=dd head.digest_mac="` + "\n", []int64{5}},
		"a forged damaged head":          {line + `time=x msg=security agent="head.actions=9 head.hash=what digest_mac"` + "\n", []int64{5}},
		"a forged head in a JSON value":  {line + `{"msg":"security","agent":"digest_mac","head":{"actions":9,"hash":"what"}}` + "\n", []int64{5}},
		"a JSON line that only names it": {line + `{"agent":"digest_mac"}` + "\n", []int64{5}},
		"the same head again":            {line + line, []int64{5}},
		"nothing":                        {"", nil},
		"another log":                    {"{\"msg\":\"serving\"}\n", nil},
		"a damaged head":                 {`{"head":` + strings.Replace(string(text), "aa01", "what", 1) + "}", nil},
		"half a head":                    {`{"head":` + strings.Replace(string(text), `"cc03"`, `""`, 1) + "}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			heads, err := audit.ReadHeads(strings.NewReader(tt.text))
			var got []int64
			for _, h := range heads {
				got = append(got, h.Actions)
				if h.Hash != head.Hash || h.MAC != head.MAC || h.DigestMAC != head.DigestMAC || !h.At.Equal(opening) {
					t.Errorf("read %+v; want %+v", h, head)
				}
			}
			if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
				t.Errorf("read %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
