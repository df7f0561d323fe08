//go:build long

package torture

import (
	"context"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// disruptDatabase disrupts PostgreSQL, or a node's connections to it, and reports
// whether that had an effect.
func (env *environment) disruptDatabase(tr *traffic, disruption string) bool {
	env.t.Helper()
	switch disruption {
	case "cut connections":
		var names []string
		for _, i := range env.rand.Perm(len(env.nodes))[:1+env.rand.IntN(len(env.nodes))] {
			names = append(names, env.nodes[i].name())
		}
		return env.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = ANY($1)`, names) > 0
	case "restart the database":
		// Like an immediate shutdown: none of its processes writes anything more.
		env.server.Kill()
		if err := env.server.Boot(); err != nil {
			env.t.Fatal(err)
		}
		return true
	case "sleep":
		return env.pauseUntilTakenOver(tr, env.nodes[env.rand.IntN(len(env.nodes))])
	}
	env.t.Fatalf("there is no blow %q", disruption)
	return false
}

// pauseUntilTakenOver pauses a node until others have taken over its operations, and
// resumes it. It reports whether the node had any.
func (env *environment) pauseUntilTakenOver(tr *traffic, n *node) bool {
	env.t.Helper()
	// A node's name has its process in it.
	mine := fmt.Sprintf("%%-%d-%%", n.process.cmd.Process.Pid)
	held := func() int64 {
		return env.count(`SELECT count(*) FROM operations WHERE status = 'processing' AND node LIKE $1`, mine)
	}
	var had int64
	until(env.t, "the node is paused with an operation in progress", func() bool {
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
	until(env.t, "others have taken over", func() bool { return held() == 0 })
	n.process.signal(syscall.SIGCONT)
	n.address.Store(at)
	return true
}

// count runs a query that returns a number.
func (env *environment) count(query string, of any) int64 {
	env.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, env.database)
	if err != nil {
		env.t.Fatal(err)
	}
	defer conn.Close(ctx)
	var n int64
	if err := conn.QueryRow(ctx, query, of).Scan(&n); err != nil {
		env.t.Fatal(err)
	}
	return n
}
