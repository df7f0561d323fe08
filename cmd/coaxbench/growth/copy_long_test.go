//go:build long

package growth_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/transfer"
)

// copied is how many operations the benchmark copies; COAX_BENCH_OPERATIONS sets another number.
const copied = 50_000

// BenchmarkCopy_ThereAndBack copies a filled SQLite store to PostgreSQL and from there back into
// SQLite, as `coax store copy` does, digests and audits included. Filling the store is the baseline of the
// same run.
func BenchmarkCopy_ThereAndBack(b *testing.B) {
	operations := copied
	if text := os.Getenv("COAX_BENCH_OPERATIONS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("COAX_BENCH_OPERATIONS=%s is not a number of operations", text)
		}
		operations = n
	}
	masterKey, err := access.NewMasterKey()
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "coax.db")
	began := time.Now()
	if _, err := growth.FillSQLite(b.Context(), path, operations, end, masterKey, nil); err != nil {
		b.Fatal(err)
	}
	filling := time.Since(began)
	for b.Loop() {
		from := "sqlite:" + path
		var digests []string
		for _, to := range []string{pgtest.NewDatabase(b), "sqlite:" + filepath.Join(b.TempDir(), "copy.db")} {
			source, err := server.ReadStoreURL(from)
			if err != nil {
				b.Fatal(err)
			}
			target, err := server.ReadStoreURL(to)
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			result, err := server.CopyStore(b.Context(), source, target, nil, func(transfer.Progress) {})
			if err != nil {
				b.Fatal(err)
			}
			took := time.Since(began)
			b.ReportMetric(took.Seconds(), "s-to-"+target.Kind)
			b.ReportMetric(took.Seconds()/filling.Seconds(), "fillings-to-"+target.Kind)
			digests = append(digests, result.Digest)
			from = to
		}
		if digests[0] != digests[1] {
			b.Fatalf("the digest is %s there, and %s back", digests[0], digests[1])
		}
	}
}
