// Package storetest is the suite that every store passes. A store's test calls Run.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/acmecert"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/retention"
	"github.com/coaxhq/coax/internal/subscription"
)

// Store has all methods that the service uses.
type Store interface {
	access.Store
	admin.Store
	catalogue.Store
	operation.ReviewStore
	login.Store
	report.Store
	requestlog.Store
	bulk.Store
	integrity.Store
	acmecert.Store
	retention.Store
	receipt.Store
	CheckMasterKeys(ctx context.Context, proofs map[uint32][]byte, primary uint32, now time.Time) error
	Ready(ctx context.Context) error
	Close() error
}

// Opener opens a store on the same data each time, also after a Close.
type Opener interface {
	Open(t testing.TB) Store
}

// Run runs the suite, each test on its own data.
func Run(t *testing.T, newOpener func(testing.TB) Opener) {
	for _, topic := range []struct {
		name  string
		tests []test
	}{
		{"Admission", admissionTests},
		{"Operators", operatorTests},
		{"Deletions", deletionTests},
		{"Lists", listTests},
		{"Wallets", walletTests},
		{"References", referenceTests},
		{"Plans", planTests},
		{"Keys", keyTests},
		{"AuditEntries", auditTests},
		{"MasterKeys", masterKeyTests},
		{"Keyring", keyringTests},
		{"Operations", operationTests},
		{"Adjustments", staffWorkTests},
		{"Reviews", reviewTests},
		{"Adoptions", adoptionTests},
		{"Reversals", reversalTests},
		{"Logins", loginTests},
		{"Sessions", sessionTests},
		{"Tries", tryTests},
		{"Factors", factorTests},
		{"Reports", reportTests},
		{"Searches", searchTests},
		{"RequestLog", requestLogTests},
		{"Bulk", bulkTests},
		{"Roles", roleTests},
		{"StepUp", stepUpTests},
		{"Proposals", proposalTests},
		{"Payments", paymentTests},
		{"Access", accessTests},
		{"Amounts", amountTests},
		{"PlanChanges", planChangeTests},
		{"Periods", periodTests},
		{"Passwords", passwordTests},
		{"Maintenance", maintenanceTests},
		{"Restores", restoreTests},
		{"OperatorLogins", operatorLoginTests},
		{"Integrity", integrityTests},
		{"ACME", acmeTests},
		{"Retention", retentionTests},
		{"Personal", personalTests},
		{"Receipts", receiptTests},
		{"Contacts", contactTests},
	} {
		t.Run(topic.name, func(t *testing.T) {
			for _, test := range topic.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(newHarness(t, newOpener(t)))
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(*harness)
}

// noon is the time at which every test begins, on a whole minute.
var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, subscription.IST).UTC()

// harness is an open store with test helpers.
type harness struct {
	testing.TB
	Store
	opener Opener
}

func newHarness(t *testing.T, opener Opener) *harness {
	h := &harness{TB: t, Store: opener.Open(t), opener: opener}
	h.sign()
	t.Cleanup(func() { _ = h.Store.Close() })
	return h
}

// reopen closes the store and opens it again, as a restart does.
func (h *harness) reopen() {
	h.Helper()
	if err := h.Store.Close(); err != nil {
		h.Fatalf("close: %v", err)
	}
	h.Store = h.opener.Open(h.TB)
	h.sign()
}

// sign sets the keys that sign staff actions; the schema refuses unsigned ones.
func (h *harness) sign() {
	h.Helper()
	_, _, err := h.UseIntegrityKeys(h.Context(), testKeys(1, 1), noon)
	h.must(err)
}

// testKeys returns keys derived from master keys with the given ids.
func testKeys(current uint32, ids ...uint32) *integrity.Keys {
	return integrity.NewKeys(current, func(purpose string) map[uint32][]byte {
		keys := map[uint32][]byte{}
		for _, id := range ids {
			keys[id] = fmt.Appendf(nil, "%s %d", purpose, id)
		}
		return keys
	})
}

func staffAction(action string) admin.StaffAction {
	return admin.StaffAction{Actor: "test:asha", Action: action, Reason: "because", At: noon}
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// refused requires a refusal with a reason.
func (h *harness) refused(what string, err error) {
	h.Helper()
	var refusal *admin.Refusal
	ok := errors.As(err, &refusal)
	if !ok || refusal.Reason == "" {
		h.Errorf("%s: %v; want a refusal", what, err)
	}
}

func (h *harness) operator(name string) subscription.Operator {
	h.Helper()
	operator, err := h.CreateOperator(h.Context(), staffAction("lco create"), subscription.Operator{
		Name: name, Status: subscription.OperatorActive, API: subscription.APIEnabled,
		RateLimit: 60, CommissionBPS: 250, LowBalance: subscription.DefaultLowBalance, CreatedAt: noon,
	})
	h.must(err)
	return operator
}

func (h *harness) key(operator subscription.Operator) access.Credential {
	h.Helper()
	credential, err := h.IssueKey(h.Context(), staffAction("key issue"), newCredential(operator.ID))
	h.must(err)
	return credential
}

func newCredential(operatorID int64) access.Credential {
	key, _ := access.NewKey()
	return access.Credential{
		OperatorID: operatorID, KeyHash: access.HashKey(key), Hint: access.Hint(key),
		SealedSecret: []byte("sealed"), Permissions: access.AllPermissions, CreatedAt: noon,
	}
}

// record reads a key's record and fails the test if there is none.
func (h *harness) record(credential access.Credential) access.Record {
	h.Helper()
	record, found, err := h.CredentialByHash(h.Context(), credential.KeyHash)
	h.must(err)
	if !found {
		h.Fatalf("key %d is not found by its hash", credential.ID)
	}
	return record
}

// admission returns the admission of a caller that was checked against a record.
func admission(record access.Record, request, nonce string) access.Admission {
	return access.Admission{
		RequestID: request, Nonce: nonce, Now: noon,
		CredentialID: record.Credential.ID, CredentialVersion: record.Credential.Version,
		OperatorID: record.Operator.ID, OperatorVersion: record.Operator.Version,
		Count: true, Limit: record.Operator.RateLimit,
	}
}

func (h *harness) admit(a access.Admission) access.Admitted {
	h.Helper()
	admitted, err := h.Admit(h.Context(), a)
	h.must(err)
	return admitted
}

func (h *harness) components(codes ...string) {
	h.Helper()
	comparison := catalogue.Comparison{Provider: "test", At: noon}
	for _, code := range codes {
		role := catalogue.Main
		if code == "OTT-PLUS" {
			role = catalogue.Addon
		}
		comparison.Components = append(comparison.Components, catalogue.Component{Code: code, Name: code, Role: role})
	}
	h.must(h.RecordComparison(h.Context(), comparison))
}

func plan(id, price, main string) subscription.Plan {
	amount, err := money.Parse(price)
	if err != nil {
		panic(err)
	}
	return subscription.Plan{
		ID: id, Name: "Plan " + id, Price: amount, Months: 1, Type: subscription.Standard, Main: main, UpdatedAt: noon,
	}
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// concurrently runs a function many times concurrently and waits for all.
func concurrently(times int, run func(i int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range times {
		group.Go(func() {
			<-start
			run(i)
		})
	}
	close(start)
	group.Wait()
}

func rupees(text string) money.Amount {
	amount, err := money.Parse(text)
	if err != nil {
		panic(err)
	}
	return amount
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%03d", prefix, i) }
