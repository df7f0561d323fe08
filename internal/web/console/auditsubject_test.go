package console

import (
	"context"
	"fmt"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// namedStore has two operations and two customers, and counts how often it is read.
type namedStore struct{ reads int }

func (s *namedStore) OperationsByID(_ context.Context, ids []string) (found []operation.Operation, err error) {
	s.reads++
	for _, id := range ids {
		if id == "CX1" || id == "CX2" {
			found = append(found, operation.Operation{ID: id, CustomerName: "Asha Rao", Amount: money.Paise(349_00)})
		}
	}
	return found, nil
}

func (s *namedStore) SubscriberNames(context.Context, []string) (map[string]string, error) {
	s.reads++
	return map[string]string{"100001": "Asha Rao", "100002": "Ravi Patil"}, nil
}

func auditSubjectsOf(t *testing.T, store *namedStore, entries ...admin.AuditEntry) auditSubjects {
	t.Helper()
	s := auditSubjects{operators: map[int64]string{1: "Demo Cable"}, operations: map[string]operation.Operation{}, T: func(english string, args ...any) string {
		if len(args) == 0 {
			return english
		}
		return fmt.Sprintf(english, args...)
	}}
	if err := s.read(t.Context(), store, entries); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAuditSubjects_NamesAndAmounts(t *testing.T) {
	for _, row := range []struct {
		subject, before, after string
		name, exactly, amount  string
	}{
		{"lco 1", "", `{"name":"Demo Cable","low_balance":500.00}`, "Demo Cable", "", ""},
		{"lco 7", "", "", "Operator 7", "", ""},
		{"wallet of lco 1, reference UTR-1", `{"wallet_balance":100.00,"held":10.00}`, `{"wallet_balance":5100.00,"held":10.00}`, "Wallet of Demo Cable", "UTR-1", "₹5,000.00"},
		{"wallet of lco 1", `{"wallet_balance":100.00,"held":0.00}`, `{"wallet_balance":75.50,"held":0.00}`, "Wallet of Demo Cable", "", "−₹24.50"},
		{"whitelist of lco 1", `[]`, `["192.0.2.1"]`, "Whitelist of Demo Cable", "", ""},
		{"subscribers of lco 1", "", `{"imported":3}`, "Subscribers of Demo Cable", "", ""},
		{"commission 2026-10 of lco 1", "", `{"operations":12,"amount":180.00}`, "Commission of Demo Cable", "2026-10", "₹180.00"},
		{"subscriber 100001", "", `{"fields":"mobile"}`, "Asha Rao", "100001", ""},
		{"subscriber 999999", "", "", "999999", "", ""},
		{"app password of subscriber 100002", "", `{"reference":"PW1","outcome":"asked"}`, "App password of Ravi Patil", "100002", ""},
		{"operation CX1", `{"status":"needs_review"}`, `{"status":"success"}`, "CX1", "Asha Rao", "₹349.00"},
		{"operation CX2", "", `{"reference":"RV1","status":"reversed","amount":199.00}`, "CX2", "Asha Rao", "₹199.00"},
		{"operation CX9", "", `{"status":"success"}`, "CX9", "", ""},
		{"addon of CX1", "", `{"addon_status":"closed"}`, "Add-on of CX1", "Asha Rao", ""},
		{"exception 4", `{"transaction_id":"CX2","open":true}`, `{"transaction_id":"CX2","open":false}`, "Exception of CX2", "Asha Rao", ""},
		{"proposal 12", "", `{"kind":"topup","amount":90000.00,"reference":"UTR-2"}`, "Top up the wallet", "Proposal 12 · UTR-2", "₹90,000.00"},
		{"proposal 13", "", `{"kind":"settle","amount":349.00,"transaction_id":"CX1","confirm":true}`, "Confirm an operation in review", "Proposal 13 · CX1", "₹349.00"},
		{"proposal 14", "", `{"kind":"adjust","amount":-20.00}`, "Adjust the wallet", "Proposal 14", "−₹20.00"},
		{
			"proposal 15", "", `{"kind":"plan","amount":0.00,"subject":"plan B","change":"{\"was\":{\"name\":\"Basic\",\"price\":199.00},\"plan\":{\"name\":\"Basic\",\"price\":0.01}}"}`,
			"Create or change a plan", "Proposal 15 · Basic", "₹199.00 → ₹0.01",
		},
		{"proposal 16", "", `{"kind":"role","amount":0.00,"change":"{\"username\":\"ravi\",\"name\":\"Ravi\",\"role\":\"viewer\"}"}`, "Change a login's role", "Proposal 16 · Ravi", ""},
		{"payment announcement CXP234567", "", `{"status":"announced","amount":5000.00,"reference":"631245678901"}`, "Announced payment CXP234567", "631245678901", "₹5,000.00"},
		{"bank statement 3", "", `{"file":"november.csv","credits":4}`, "Bank statement november.csv", "", ""},
		{"plan B", `{"name":"Basic","price":199.00}`, `{"name":"Basic","price":249.00}`, "Basic", "B", "₹199.00 → ₹249.00"},
		{"plan B", "", `{"name":"Basic","price":199.00}`, "Basic", "B", "₹199.00"},
		{"plan B", `{"name":"Basic","price":199.00}`, `{"name":"Base","price":199.00}`, "Base", "B", ""},
		{"key 5", "", `{"key":"cxk_aa11"}`, "API key cxk_aa11…", "", ""},
		{"login 5", "", `{"username":"ravi","name":"Ravi"}`, "Ravi", "ravi", ""},
		{"master key 2", "", "", "Master key 2", "", ""},
		{admin.MaintenanceSubject, "", `{"maintenance":true}`, "Maintenance", "", ""},
		{"something new", "", `rubbish`, "something new", "", ""},
	} {
		entry := admin.AuditEntry{OperatorID: 1, Subject: row.subject, Before: row.before, After: row.after}
		if row.subject == "lco 7" {
			entry.OperatorID = 7
		}
		subjects := auditSubjectsOf(t, &namedStore{}, entry)
		if name, exactly := subjects.name(entry); name != row.name || exactly != row.exactly {
			t.Errorf("%s is named %q, %q; want %q, %q", row.subject, name, exactly, row.name, row.exactly)
		}
		if got := subjects.amount(entry); got != row.amount {
			t.Errorf("%s is about %q; want %q", row.subject, got, row.amount)
		}
	}
}

// A page of any length takes one read for each kind of subject, and none for what it does not list.
func TestAuditSubjects_OneReadForEachKind(t *testing.T) {
	var entries []admin.AuditEntry
	for i := range 50 {
		entries = append(entries, admin.AuditEntry{OperatorID: 1, Subject: "lco 1"}, admin.AuditEntry{OperatorID: 1, Subject: "wallet of lco 1"})
		if i > 0 {
			entries = append(entries, admin.AuditEntry{Subject: fmt.Sprintf("operation CX%d", i%7)}, admin.AuditEntry{Subject: fmt.Sprintf("subscriber %d", i)},
				admin.AuditEntry{Subject: "exception 1", After: `{"transaction_id":"CX1"}`}, admin.AuditEntry{Subject: "proposal 1", After: `{"transaction_id":"CX2"}`})
		}
	}
	for length, want := range map[int]int{0: 0, 2: 0, 10: 2, len(entries): 2} {
		store := &namedStore{}
		auditSubjectsOf(t, store, entries[:length]...)
		if store.reads != want {
			t.Errorf("%d entries take %d reads; want %d", length, store.reads, want)
		}
	}
}
