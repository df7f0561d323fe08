//go:build long

package durability

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// inspect opens a store after a crash, as the service would, and returns everything that
// contradicts what was acknowledged.
func (s *site) inspect(ctx context.Context, path string, acknowledged []acknowledgement, effects map[string]int, now time.Time) (wrong []string) {
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return []string{fmt.Sprintf("the store does not open: %v", err)}
	}
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	defer func() {
		if err := store.Close(); err != nil {
			report("the store does not close: %v", err)
		}
	}()
	rows, err := readRows(ctx, path)
	if err != nil {
		return append(wrong, err.Error())
	}
	if rows.check != "ok" {
		report("quick_check: %s", rows.check)
	}
	rows.compare(acknowledged, effects, report)
	wrong = append(wrong, auditStore(ctx, path, now)...)

	// The last nonces would be lost first.
	calls := 0
	for i := len(acknowledged) - 1; i >= 0 && calls < 3; i-- {
		if acknowledged[i].nonce == "" {
			continue
		}
		calls++
		admitted, err := store.Admit(ctx, access.Admission{
			RequestID: "another", CredentialID: s.keyID, OperatorID: s.operatorID, Nonce: acknowledged[i].nonce, Now: now, Limit: 1_000_000,
		})
		if err != nil || !admitted.Replayed {
			report("the nonce %s is admitted a second time: %+v, %v", acknowledged[i].nonce, admitted, err)
		}
	}
	return wrong
}

// storedOperation is an operation as the store has it.
type storedOperation struct {
	id, state, transaction string
	paise                  int64
}

// storedRows are the rows that acknowledgements are about.
type storedRows struct {
	check      string
	operations map[string]storedOperation // by key
	ids        map[string]bool
	nonces     map[string]bool
	topUps     map[string]int64
}

// readRows reads a store without the product's code.
func readRows(ctx context.Context, path string) (rows storedRows, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	if err != nil {
		return rows, err
	}
	defer db.Close()
	rows = storedRows{operations: map[string]storedOperation{}, ids: map[string]bool{}, nonces: map[string]bool{}, topUps: map[string]int64{}}
	each := func(query string, read func(scan func(...any) error) error) {
		if err != nil {
			return
		}
		var found *sql.Rows
		if found, err = db.QueryContext(ctx, query); err != nil {
			return
		}
		defer found.Close()
		for found.Next() && err == nil {
			err = read(found.Scan)
		}
		err = errors.Join(err, found.Err())
	}
	each(`PRAGMA quick_check`, func(scan func(...any) error) error { return scan(&rows.check) })
	each(`SELECT idempotency_key, id, status, coalesce(provider_transaction_id, ''), amount_paise FROM operations`, func(scan func(...any) error) error {
		var key string
		var op storedOperation
		err := scan(&key, &op.id, &op.state, &op.transaction, &op.paise)
		rows.operations[key], rows.ids[op.id] = op, true
		return err
	})
	each(`SELECT nonce FROM nonces`, func(scan func(...any) error) error {
		var nonce string
		err := scan(&nonce)
		rows.nonces[nonce] = true
		return err
	})
	each(`SELECT reference, amount_paise FROM wallet_entries WHERE kind = 'topup'`, func(scan func(...any) error) error {
		var reference string
		var paise int64
		err := scan(&reference, &paise)
		rows.topUps[reference] = paise
		return err
	})
	if err != nil {
		err = fmt.Errorf("read the store: %w", err)
	}
	return rows, err
}

// compare reports every acknowledgement that the store has lost or changed, and every
// order that the provider carried out for an operation that the store does not have.
func (rows storedRows) compare(acknowledged []acknowledgement, effects map[string]int, report func(string, ...any)) {
	allowed := map[client.Code][]operation.State{
		client.OK:            {operation.Success},
		client.ProviderError: {operation.Failed},
		client.PendingReview: {operation.NeedsReview, operation.Success, operation.Failed},
	}
	for _, f := range acknowledged {
		if f.nonce != "" && !rows.nonces[f.nonce] {
			report("the nonce %s is forgotten", f.nonce)
		}
		if paise, known := rows.topUps[f.topUp]; f.topUp != "" && (!known || paise != f.paise) {
			report("the top-up %q of %d is %d, %v", f.topUp, f.paise, paise, known)
		}
		if f.key == "" {
			continue
		}
		op, known := rows.operations[f.key]
		switch {
		case !known:
			report("operation %s, told as %s, is forgotten", f.key, f.code)
		case op.id != f.shown.TransactionID || op.paise != int64(f.shown.Amount):
			report("operation %s was told as %s over %s; it is %s over %d", f.key, f.shown.TransactionID, f.shown.Amount, op.id, op.paise)
		case !contains(allowed[f.code], operation.State(op.state)):
			report("operation %s was told as %s and is %s", f.key, f.code, op.state)
		case f.code == client.OK && op.transaction != f.shown.ProviderTransactionID:
			report("operation %s was told as the provider's %s and is %s", f.key, f.shown.ProviderTransactionID, op.transaction)
		}
	}
	for reference, times := range effects {
		// An add-on's reference is its operation's id with a number behind it.
		id, _, _ := strings.Cut(reference, "-")
		if !rows.ids[id] {
			report("the provider has carried out %s, which the store does not know", reference)
		}
		if times > 1 {
			report("the provider has carried out %s %d times", reference, times)
		}
	}
}

func contains[T comparable](all []T, one T) bool {
	for _, each := range all {
		if each == one {
			return true
		}
	}
	return false
}

// auditStore audits a store as coax audit does.
func auditStore(ctx context.Context, path string, now time.Time) (wrong []string) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	if err != nil {
		return []string{err.Error()}
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = tx.Rollback() }()
	report, err := audit.Run(ctx, tx, now, nil)
	if err != nil {
		return []string{fmt.Sprintf("audit: %v", err)}
	}
	for _, violation := range report.Violations {
		wrong = append(wrong, "audit: "+violation.String())
	}
	return wrong
}

// recover starts the service on a store after a crash, lets review settle what is open,
// and compares the result with the provider's state.
func (s *site) recover(t testing.TB, path string) {
	t.Helper()
	h := s.open(t, path, sqlite.Options{})
	defer h.close()
	for done, due := 1, true; done > 0 || due; {
		var err error
		if done, err = h.reviewer.RunOnce(t.Context()); err != nil {
			t.Fatalf("review: %v", err)
		}
		soon, err := h.store.Due(t.Context(), s.now().Add(time.Hour))
		h.ok(err)
		due = soon.Any()
		wait := maxInterval
		if done == 0 {
			// The dead process had claimed it, for two provider timeouts.
			wait = time.Minute
		}
		s.ahead.Add(int64(wait))
	}
	rows, err := readRows(t.Context(), path)
	h.ok(err)
	effects := s.provider.Effects()
	for key, op := range rows.operations {
		if want := operation.State(op.state) == operation.Success; operation.State(op.state).Open() || (effects[op.id] == 1) != want {
			t.Errorf("after review operation %s is %s; the provider carried it out %d times", key, op.state, effects[op.id])
		}
	}
	for _, violation := range auditStore(t.Context(), path, s.now()) {
		t.Error(violation)
	}
}
