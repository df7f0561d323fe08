package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// planning is how the server is to plan what a node asks of it. A node asks the
// same few things over and over, each about a handful of rows that an index leads
// to. So they are planned once and not for each request, which would cost more
// than carrying them out; and planned for the index, however small a table was
// when it was last looked at: a plan that reads a table from end to end is the
// best one for ten rows, and is still followed when there are a million.
var planning = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	// Helpers take longer to be started than a page takes to be read; and where they
	// would pay, for a sum over many rows, they would take the processors from requests.
	"max_parallel_workers_per_gather": "0",
	// Where there is no way around a whole table, its price is forbidding, and
	// what is that dear would be compiled first.
	"jit": "off",
}

const (
	// plansFor is how often a connection is used before its plans are dropped for
	// the first time. Of a table that the server knows to be as good as empty it
	// walks through all that there is, and holds each row against the batch; and it
	// would go on to do so until it gathers statistics again, which takes a minute
	// or more: time enough for a hundred thousand rows. When it plans anew, it sees
	// how large the table has become. So that is done whenever there may be twice
	// as much.
	plansFor = 32
	// plansMost is how often one is used with the same plans at most.
	plansMost = 8192
	// usesKey is where a connection keeps how often it was used.
	usesKey = "coax uses"
)

// planAnew drops a connection's plans when they are old, before it is used. A server
// that cannot do that is used as it is.
func planAnew(ctx context.Context, conn *pgx.Conn) (usable bool, err error) {
	kept := conn.PgConn().CustomData()
	uses, _ := kept[usesKey].(int)
	kept[usesKey] = uses + 1
	if doubled := uses&(uses-1) == 0; uses >= plansFor && doubled || uses > 0 && uses%plansMost == 0 {
		_, _ = conn.Exec(ctx, "DISCARD PLANS", pgx.QueryExecModeExec)
	}
	return !conn.IsClosed(), nil
}
