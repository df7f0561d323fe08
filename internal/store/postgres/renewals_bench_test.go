package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/store/storetest"
)

const (
	benchOperators   = 1000
	benchSubscribers = 20_000
	benchClients     = 64
)

// BenchmarkRenewals is everything that the store does for a renewal: it is let in,
// checked against its snapshot, reserved and settled, by many clients at once, on one node and
// on three that share them. What counts on a machine that others use as well is the
// time of processors that it took, here and in the server, and not the time that
// passed; flushes depend on neither, and tell how many share a batch.
func BenchmarkRenewals(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { benchRenewals(b, nodes) })
	}
}

func benchRenewals(b *testing.B, nodes int) {
	address := pgtest.NewDatabase(b)
	var all []*DB
	for range nodes {
		all = append(all, open(b, address))
	}
	conn := raw(b, address)
	customers := customersOf(b, all[0], conn, benchOperators, benchSubscribers)
	var round atomic.Int64
	byClients := func(times int) {
		var group sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(times))
		for client := range benchClients {
			group.Go(func() {
				for left.Add(-1) >= 0 {
					n := round.Add(1)
					if err := renewing(b, all[client%nodes], customers[int(n)%len(customers)], n); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
	}
	byClients(20 * benchClients) // every connection has prepared what it needs
	flushes := `SELECT wal_sync::bigint FROM pg_stat_wal`
	before, here, there := count(b, conn, flushes), processTime(b), serverTime(b, conn)
	b.ResetTimer()
	byClients(b.N)
	b.StopTimer()
	here, there = processTime(b)-here, serverTime(b, conn)-there
	each := func(of time.Duration) float64 { return float64(of.Microseconds()) / float64(b.N) }
	b.ReportMetric(each(here), "µs-here/op")
	b.ReportMetric(each(there), "µs-server/op")
	b.ReportMetric(float64(count(b, conn, flushes)-before)/float64(b.N), "flushes/op")
}

func BenchmarkCyclesByPlan(b *testing.B) {
	with, without := pgtest.NewDatabase(b), pgtest.NewDatabase(b)
	conn := raw(b, with)
	storetest.BenchmarkIndex(b, place(with), place(without), func() { exec(b, raw(b, without), `DROP INDEX cycles_by_plan`) },
		func() time.Duration { return processTime(b) + serverTime(b, conn) })
}

func BenchmarkBalance(b *testing.B) {
	conn := raw(b, pgtest.NewDatabase(b))
	storetest.BenchmarkReads(b, func(t testing.TB) storetest.Opener { return place(pgtest.NewDatabase(t)) }, func() time.Duration { return serverTime(b, conn) })
}

func BenchmarkLookups(b *testing.B) {
	address := pgtest.NewDatabase(b)
	conn := raw(b, address)
	storetest.BenchmarkLookups(b, func(testing.TB) storetest.Opener { return place(address) }, func() time.Duration { return serverTime(b, conn) })
}

func renewing(b *testing.B, db *DB, c customer, round int64) error {
	ctx, key := b.Context(), fmt.Sprintf("key-%d", round)
	admitted, err := db.Admit(ctx, asking(c.record, fmt.Sprintf("nonce-of-some-length-%d", round)))
	if err != nil || !admitted.Counted {
		return fmt.Errorf("admitted %+v: %w", admitted, err)
	}
	snapshot, err := db.Snapshot(ctx, operation.SnapshotQuery{OperatorID: c.record.Operator.ID, Kind: operation.Renew, SubscriberID: c.subscriber, PlanID: "BASIC-1", IdempotencyKey: key, Provider: "test", DuplicatesSince: noon})
	if err != nil || snapshot.KnownID != "" {
		return fmt.Errorf("known as %s: %w", snapshot.KnownID, err)
	}
	draft := c.renewal(key, snapshot.Subscriber.Version)
	op, err := db.Reserve(ctx, draft)
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	settled, did, err := db.Settle(ctx, confirmed(op))
	if err != nil || !did || settled.State != operation.Success {
		return fmt.Errorf("settled %v as %s: %w", did, settled.State, err)
	}
	return nil
}

// processTime is what this process has had of the processors.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serverTime is what all processes of the server that are there now have had.
func serverTime(b *testing.B, conn *pgx.Conn) (all time.Duration) {
	b.Helper()
	rows, err := conn.Query(b.Context(), `SELECT pid FROM pg_stat_activity`)
	pids, err := sqlstore.Collect(rows, err, func(row sqlstore.Row) (pid int, err error) { return pid, row.Scan(&pid) })
	ok(b, err)
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // a worker that came and went
		}
		// pid (name) state ppid …; the name may hold anything.
		_, rest, _ := strings.Cut(string(text), ") ")
		for _, field := range strings.Fields(rest)[11:13] { // utime and stime, in hundredths of a second
			ticks, err := strconv.Atoi(field)
			ok(b, err)
			all += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return all
}
