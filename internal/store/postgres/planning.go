package postgres

import (
	"context"
	"time"

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
	// Where there is no way around a whole table, its price is forbidding, and
	// what is that dear would be compiled first.
	"jit": "off",
}

// plansLast is for how long plans are followed. Of a table that the server knows to
// be as good as empty it walks through all that there is, and holds each row against
// the batch; and it would go on to do so until it gathers statistics again, which
// takes a minute or more: time enough for a hundred thousand rows. When it plans
// anew, it sees how large the table has become.
const plansLast = 10 * time.Second

// plansKey is where a connection keeps when its plans were dropped.
const plansKey = "coax plans"

// planAnew drops a connection's plans when they are old, before it is used. A server
// that cannot do that is used as it is.
func planAnew(ctx context.Context, conn *pgx.Conn) (usable bool, err error) {
	kept := conn.PgConn().CustomData()
	since, known := kept[plansKey].(time.Time)
	if known && time.Since(since) < plansLast {
		return true, nil
	}
	kept[plansKey] = time.Now()
	if known {
		_, _ = conn.Exec(ctx, "DISCARD PLANS", pgx.QueryExecModeExec)
	}
	return !conn.IsClosed(), nil
}
