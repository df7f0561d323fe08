package audit_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// bulkOperations is how many operations a store is to have: as the environment's
// COAX_TEST_AUDIT_OPERATIONS says, or else so many.
func bulkOperations(t testing.TB, standard int) int {
	t.Helper()
	text := os.Getenv("COAX_TEST_AUDIT_OPERATIONS")
	if text == "" {
		return standard
	}
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("COAX_TEST_AUDIT_OPERATIONS: %v", err)
	}
	return count
}

// fillBulk makes a healthy store of about so many operations, and says how many
// and when it is to be audited.
func fillBulk(t testing.TB, path string, operations int) (count int, now time.Time) {
	t.Helper()
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	fill := growth.FillSQLite
	if pgtest.Chosen() {
		fill = growth.FillPostgres
	}
	filled, err := fill(t.Context(), path, operations, opening, masterKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	return filled.Operations, opening
}

// BenchmarkAudit audits a store of many operations.
func BenchmarkAudit(b *testing.B) {
	path := newStorePath(b)
	count, now := fillBulk(b, path, bulkOperations(b, 10_000))
	b.ResetTimer()
	rows := int64(0)
	for b.Loop() {
		report, err := audited(b, path, now)
		if err != nil || !report.OK || report.Counts.Operations.Total != int64(count) {
			b.Fatalf("%v %v %+v", report.Violations[:min(3, len(report.Violations))], err, report.Counts)
		}
		rows += rowsOf(report.Counts)
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "operations/s")
}

func rowsOf(c audit.Counts) int64 {
	return c.Operators + c.Wallets + c.WalletEntries + c.LedgerLines + c.Operations.Total + c.Commissions + c.Events +
		c.ProviderCalls + c.Exceptions + c.Subscribers + c.Cycles + c.PlanVersions + c.Keys + c.Actions + c.Nonces + c.Minutes
}
