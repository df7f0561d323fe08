package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// planning are the planner settings of a node's connections. A node runs the same few
// statements over and over, each for a few rows that an index finds. So they are planned
// once: planning them for each request would cost more than running them. And they always
// use the index: a sequential scan is the best plan for ten rows, and would still be used
// when there are a million.
var planning = map[string]string{
	"plan_cache_mode":  "force_generic_plan",
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	// Starting parallel workers takes longer than reading a page; and where they would
	// help, for a sum over many rows, they would take CPU time from requests.
	"max_parallel_workers_per_gather": "0",
	// With enable_seqscan off a scan has a very high cost, for which the server would
	// compile the statement first.
	"jit": "off",
}

const (
	// firstReplan is how often a connection is used before its plans are dropped for the
	// first time. For a table that is nearly empty the server plans to read all of it, and
	// would keep that plan until it gathers statistics again: a minute or more, and perhaps
	// a hundred thousand rows, later. A new plan takes the table's present size into
	// account. So plans are dropped whenever the number of uses has doubled.
	firstReplan = 32
	// replanEvery is how often a connection is used with the same plans at most.
	replanEvery = 8192
	// usesKey is the key of a connection's use count in its custom data.
	usesKey = "coax uses"
)

// replan drops a connection's plans when they are old, before it is used. Errors are
// ignored.
func replan(ctx context.Context, conn *pgx.Conn) (usable bool, err error) {
	kept := conn.PgConn().CustomData()
	uses, _ := kept[usesKey].(int)
	kept[usesKey] = uses + 1
	if doubled := uses&(uses-1) == 0; uses >= firstReplan && doubled || uses > 0 && uses%replanEvery == 0 {
		_, _ = conn.Exec(ctx, "DISCARD PLANS", pgx.QueryExecModeExec)
	}
	return !conn.IsClosed(), nil
}
