//go:build long

package torture

import (
	"context"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// dealToDatabase does something to PostgreSQL, or between it and a node, and
// reports whether it struck anything.
func (w *world) dealToDatabase(tr *traffic, blow string) bool {
	w.t.Helper()
	switch blow {
	case "cut connections":
		var names []string
		for _, i := range w.rand.Perm(len(w.nodes))[:1+w.rand.IntN(len(w.nodes))] {
			names = append(names, w.nodes[i].name())
		}
		return w.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = ANY($1)`, names) > 0
	case "restart the database":
		// As an immediate shutdown does, no process of it writes anything more.
		w.server.Kill()
		if err := w.server.Boot(); err != nil {
			w.t.Fatal(err)
		}
		return true
	case "sleep":
		return w.sleepThroughALease(tr, w.nodes[w.rand.IntN(len(w.nodes))])
	}
	w.t.Fatalf("there is no blow %q", blow)
	return false
}

// sleepThroughALease makes a node stand still until others have taken over
// whatever it was at, and lets it go on. It reports whether it was at anything.
func (w *world) sleepThroughALease(tr *traffic, n *node) bool {
	w.t.Helper()
	// A node's name has its process in it.
	mine := fmt.Sprintf("%%-%d-%%", n.process.cmd.Process.Pid)
	held := func() int64 {
		return w.count(`SELECT count(*) FROM operations WHERE status = 'processing' AND node LIKE $1`, mine)
	}
	var had int64
	until(w.t, "the node falls asleep over something", func() bool {
		n.process.signal(syscall.SIGSTOP)
		if had = held(); had == 0 {
			n.process.signal(syscall.SIGCONT)
		}
		return had > 0 || tr.isOver()
	})
	if had == 0 {
		return false
	}
	at := n.address.Swap(nil)
	until(w.t, "others have taken over", func() bool { return held() == 0 })
	n.process.signal(syscall.SIGCONT)
	n.address.Store(at)
	return true
}

// count asks the database for a number.
func (w *world) count(query string, of any) int64 {
	w.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, w.database)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(ctx)
	var n int64
	if err := conn.QueryRow(ctx, query, of).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}
