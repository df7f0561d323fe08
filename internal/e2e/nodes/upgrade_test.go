//go:build long

package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/fault"
)

// newer builds the program with one more migration, as a next release would have. It is
// built once.
var newer = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "internal/store/postgres/migrations/00099_next_release.sql"): filepath.Join(root, "internal/e2e/nodes/testdata/next_release.sql"),
	}})
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "coax-overlay-*.json")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(overlay); err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	return program.Build("coax-newer", "-tags", "failpoints", "-overlay", file.Name())
})

// traffic is a continuous load of orders on the nodes in the load balancer.
type traffic struct {
	c     *cluster
	as    e2e.Caller
	mu    sync.Mutex
	nodes []int // those in the load balancer
	// all is a copy of the cluster's nodes, because more may be started meanwhile.
	all    []*clusterNode
	served map[int]int
	// slowest is the longest time to an answer.
	slowest time.Duration
	orders  atomic.Int64
	stop    func()
}

// traffic starts sending orders. Each must succeed, on another node if one does not
// answer.
func (c *cluster) traffic(as e2e.Caller, nodes ...int) *traffic {
	l := &traffic{c: c, as: as, nodes: nodes, all: slices.Clone(c.nodes), served: map[int]int{}}
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				l.order(l.orders.Add(1))
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(done); group.Wait() })
	c.TB.Cleanup(l.stop)
	return l
}

// order activates a subscriber and renews it.
func (l *traffic) order(i int64) {
	first := l.mustOrder(i, "activate", e2e.Activation(fmt.Sprintf("98%08d", i)))
	l.mustOrder(i, "renew", e2e.Order{"subscriber_id": first.Text("customer.subscriber_id"), "plan_id": "FAMILY-1"})
}

func (l *traffic) mustOrder(i int64, endpoint string, o e2e.Order) e2e.Answer {
	key := fmt.Sprintf("traffic-%s-%06d", endpoint, i)
	for try := 0; ; try++ {
		l.mu.Lock()
		node := l.nodes[(int(i)+try)%len(l.nodes)]
		at := l.all[node]
		l.mu.Unlock()
		began := time.Now()
		got, answered := l.c.tryOn(at, l.as, endpoint, key, o)
		if answered && got.Code == fault.OK {
			l.mu.Lock()
			l.slowest = max(l.slowest, time.Since(began))
			l.served[node]++
			l.mu.Unlock()
			return got
		}
		// A node that was just stopped does not answer; a refusal is always an error.
		if answered && got.Code != fault.RequestInProgress || try > 100 {
			l.c.TB.Errorf("%s: %v %s\n%s", key, answered, got.Raw, at.about(got.ID))
			return got
		}
	}
}

// routeTo sends the traffic to these nodes and waits until each has served some of it.
func (l *traffic) routeTo(nodes ...int) {
	l.c.TB.Helper()
	l.mu.Lock()
	l.nodes, l.all = nodes, slices.Clone(l.c.nodes)
	clear(l.served)
	l.mu.Unlock()
	l.c.waitSlowly(fmt.Sprintf("orders are served by %v", nodes), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, node := range nodes {
			if l.served[node] < 15 {
				return false
			}
		}
		return true
	})
}

// lastRelease builds the newest recorded release from its commit. It is built once.
var lastRelease = sync.OnceValues(func() (string, error) {
	const root = "../../.."
	releases, err := program.Releases(root)
	if err != nil {
		return "", err
	}
	return program.BuildRelease(root, releases[len(releases)-1])
})

// withoutNewSections removes comments, empty sections, and those that the last release does not know and
// refuses: a demo of this release sets payments.
func (c *cluster) withoutNewSections() {
	c.TB.Helper()
	var kept []string
	section := ""
	for line := range strings.Lines(e2e.ReadFile(c.TB, c.config)) {
		if strings.HasPrefix(line, "[") {
			section = strings.TrimSpace(line)
		}
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" || section == "[payments]" {
			continue
		}
		if last := len(kept) - 1; strings.HasPrefix(line, "[") && last >= 0 && strings.HasPrefix(kept[last], "[") {
			kept = kept[:last]
		}
		kept = append(kept, line)
	}
	if last := len(kept) - 1; strings.HasPrefix(kept[last], "[") {
		kept = kept[:last]
	}
	e2e.WriteFile(c.TB, c.config, strings.Join(kept, ""))
}

// admin runs an admin command of a build of the program, until it succeeds: right after the start a node
// may not have compared the provider's catalogue yet.
func (c *cluster) admin(program string, args ...string) (printed map[string]any) {
	c.TB.Helper()
	var p *e2e.Process
	c.waitSlowly(fmt.Sprintf("admin %q succeeds", args), func() bool {
		p = e2e.LaunchProgram(c.TB, program, nil, append([]string{"admin", "--config", c.config, "--json"}, args...)...)
		return p.Wait() == e2e.ExitDone
	})
	if err := json.Unmarshal([]byte(p.Out.String()), &printed); err != nil {
		c.TB.Fatalf("admin %q: %v\n%s%s", args, err, p.Out, p.Err)
	}
	return printed
}

// setUpBy makes plans and an operator with commands of a build of the program.
func (c *cluster) setUpBy(program string) e2e.Caller {
	c.TB.Helper()
	for _, plan := range [][]string{{"BASIC-1", "199.00", "TV-BASIC"}, {"FAMILY-1", "349.00", "TV-FAMILY"}} {
		c.admin(program, "plan", "set", "--id", plan[0], "--name", plan[0], "--price", plan[1], "--duration", "1", "--component", "main="+plan[2])
	}
	id := fmt.Sprint(c.admin(program, "lco", "create", "--name", "Upgraded Cable", "--rate-limit", "100000")["lco_id"])
	c.admin(program, "whitelist", "add", "--lco", id, "127.0.0.1")
	c.admin(program, "wallet", "topup", "--lco", id, "--amount", "1000000.00", "--reference", "first payment")
	key := c.admin(program, "key", "issue", "--lco", id)
	return e2e.Caller{Key: fmt.Sprint(key["api_key"]), Secret: fmt.Sprint(key["api_secret"])}
}

// An older and a newer binary serve from one store, in either order of start, and no order fails: the last
// release beside this one, and this one beside a next release.
func TestUpgrade_TwoReleasesServeSideBySide(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	present := e2e.FailpointBinary(t)
	last, err := lastRelease()
	if err != nil {
		t.Fatal(err)
	}
	next, err := newer()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		name          string
		first, second string
		olderFirst    bool
	}
	e2e.RunConcurrently(t, []row{
		{"the last release first", last, present, true}, {"the last release second", present, last, false},
		{"this release first", present, next, true}, {"the next release first", next, present, false},
	}, func(r row) string { return r.name }, func(t *testing.T, r row) {
		c := newEmptyCluster(t)
		c.withoutNewSections()
		c.launch(r.first, nil).await()
		me := c.setUpBy(r.first)
		if r.olderFirst {
			tool := e2e.LaunchProgram(t, r.second, nil, "admin", "--config", c.config, "lco", "list")
			if status := tool.Wait(); status != e2e.ExitRefused {
				t.Errorf("a newer tool beside older nodes ended with %d", status)
			}
			e2e.CheckMentions(t, "the refusal", tool.Err.String(), "older than this binary", "coax migrate")
		}

		l := c.traffic(me, 0)
		l.routeTo(0)
		c.launch(r.second, nil).await()
		l.routeTo(0, 1)
		for i, node := range c.nodes {
			if status := e2e.Readiness(t, node.internal); status != 200 {
				t.Errorf("node %d: /readyz says %d", i, status)
			}
		}
		// Take one node out of the load balancer and stop it, then the other.
		l.routeTo(1)
		if status := c.nodes[0].Terminate(); status != e2e.ExitDone {
			t.Errorf("the first node ended with %d", status)
		}
		c.launch(r.first, nil).await()
		l.routeTo(1, 2)
		if status := c.nodes[1].Terminate(); status != e2e.ExitDone {
			t.Errorf("the second node ended with %d", status)
		}
		l.routeTo(2)
		l.stop()

		want := presentMigrations(t)
		if next == r.first || next == r.second {
			want = append(want, "99")
		}
		if got := c.rows(`SELECT version_id FROM goose_db_version WHERE version_id > 0 ORDER BY id`); !slices.Equal(got, want) {
			t.Errorf("the migrations are %v; want %v, each once", got, want)
		}
		orders := l.orders.Load()
		t.Logf("%d orders", orders)
		wallet := c.admin(present, "wallet", "show", "--lco", "1")
		if got, want := fmt.Sprint(wallet["wallet_balance"], " ", wallet["held"]), fmt.Sprintf("%d 0", 1_000_000-orders*(199+349)); got != want {
			t.Errorf("the wallet has %s; want %s after %d activations and renewals", got, want, orders)
		}
		if carried := int64(len(c.Simulator.Effects())); carried != 2*orders {
			t.Errorf("the provider carried out %d of %d orders", carried, 2*orders)
		}
		c.allReceiptsNumbered(present)
		c.checkClean()
	})
}

// The last release serves while a large store is migrated and its index of subscribers is filled in:
// no order fails, also when the first node of this release is killed in the middle of that.
func TestUpgrade_LargeStoreBesideTheLastRelease(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	present := e2e.FailpointBinary(t)
	last, err := lastRelease()
	if err != nil {
		t.Fatal(err)
	}
	const subscribers = 20_000
	c := newEmptyCluster(t)
	c.withoutNewSections()
	c.launch(last, nil).await()
	me := c.setUpBy(last)
	db := c.open()
	for _, statement := range []string{
		`INSERT INTO subscribers (id, operator_id, mobile, name, address, connection_type, expires_at, activated_at, created_at)
			SELECT (100000 + n)::text, 1, (9700000000 + n)::text, 'Asha Sharma ' || n, 'Flat ' || n %% 90 || ', Lane 5, Whitefield', 'Live TV', 0, 0, 0
			  FROM generate_series(1, %d) n`,
		`INSERT INTO cycles SELECT (100000 + n)::text, 1, NULL, 'BASIC-1', 0, 0, 0 FROM generate_series(1, %d) n`,
	} {
		if _, err := db.Exec(fmt.Sprintf(statement, subscribers)); err != nil {
			t.Fatal(err)
		}
	}
	l := c.traffic(me, 0)
	l.routeTo(0)
	interrupted := c.launch(present, nil)
	c.waitSlowly("a part is filled in", func() bool {
		if e2e.QueryRows(t, db, `SELECT count(*) FROM pg_class WHERE oid = to_regclass('unfilled')`)[0] == "0" {
			return false
		}
		return e2e.QueryRows(t, db, `SELECT count(*) FROM unfilled WHERE after_id > '100500'`)[0] == "1"
	})
	interrupted.Kill()
	if strings.Contains(interrupted.Err.String(), `"serving"`) {
		t.Error("the node served before the index was filled in")
	}
	if got := c.rows(`SELECT count(*) FROM unfilled`); got[0] != "1" {
		t.Fatal("the fill had ended: it was not interrupted")
	}
	l.routeTo(0)
	c.launch(present, nil).await()
	if got := c.rows(`SELECT count(*) FROM unfilled`); got[0] != "0" {
		t.Error("the node serves, and the index is not filled in")
	}
	l.routeTo(0, 2)
	l.stop()
	t.Logf("the slowest of %d orders took %s", l.orders.Load(), l.slowest.Round(time.Millisecond))
	for what, query := range map[string]string{
		"subscribers without a term": `SELECT count(*) FROM subscribers s, terms_of(s) AS t WHERE NOT EXISTS (
			SELECT FROM subscriber_terms e WHERE (e.operator_id, e.kind, e.term, e.subscriber_id) = (s.operator_id, t.kind, t.term, s.id))`,
		"cycles without their plan": `SELECT count(*) FROM cycles c JOIN subscribers s ON s.id = c.subscriber_id WHERE NOT EXISTS (
			SELECT FROM subscriber_lists e WHERE (e.operator_id, e.list, e.value, e.name, e.subscriber_id) = (s.operator_id, 'plan', c.plan_id, lower(s.name), s.id))`,
		"missing indexes": `SELECT 2 - count(*) FROM pg_index WHERE indexrelid IN (to_regclass('ledger_reversals'), to_regclass('ledger_receipts')) AND indisvalid`,
	} {
		if got := c.rows(query); got[0] != "0" {
			t.Errorf("%s: %s; want none", what, got[0])
		}
	}
	// The audit would miss the staff action that imported them.
	for _, statement := range []string{`DELETE FROM cycles WHERE operation_id IS NULL`, `DELETE FROM subscribers WHERE mobile LIKE '97%'`} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	c.checkClean()
}

// allReceiptsNumbered starts one more node, and waits until it has numbered what the last release has
// sold since the migration.
func (c *cluster) allReceiptsNumbered(present string) {
	c.TB.Helper()
	c.launch(present, nil).await()
	c.waitSlowly("all receipts are numbered", func() bool {
		return slices.Equal(c.rows(`SELECT count(*) FROM wallets WHERE receipt_lines < ledger_lines`), []string{"0"})
	})
	got := c.rows(`SELECT count(*), count(l.receipt), max(l.receipt) FROM ledger l JOIN wallets w ON w.operator_id = l.operator_id
		WHERE l.operation_id IS NOT NULL AND l.line > w.receipts_from`)
	parts := strings.FieldsFunc(got[0], func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) != 3 || parts[0] != parts[1] || parts[0] != parts[2] || parts[0] == "0" {
		c.TB.Errorf("of the purchases since the migration, how many have a number, and the highest: %v; want the same", got)
	}
}

// A long read holds a lock that a migration needs. The migration waits, and the serving
// nodes do not wait behind it.
func TestUpgrade_WaitingMigrationBlocksNoNode(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	present := e2e.FailpointBinary(t)
	next, err := newer()
	if err != nil {
		t.Fatal(err)
	}
	c := newEmptyCluster(t)
	c.setUp()
	c.launch(present, nil).await()
	me := c.NewFundedOperator("me", "1000000")
	l := c.traffic(me, 0)
	l.routeTo(0)

	audit, err := c.open().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = audit.Rollback() }()
	if _, err := audit.Exec(`SELECT count(*) FROM subscribers`); err != nil {
		t.Fatal(err)
	}
	watch := c.open()
	// It waits for the lock, gives up and retries.
	upgraded := c.launch(next, nil)
	waiting := func() bool {
		return e2e.QueryRows(t, watch, `SELECT count(*) FROM pg_locks
			WHERE relation = 'subscribers'::regclass AND NOT granted AND mode = 'AccessExclusiveLock'`)[0] == "1"
	}
	for range 2 {
		c.WaitUntil("the migration waits", waiting)
		c.WaitUntil("the migration gives up the lock", func() bool { return !waiting() })
	}
	l.routeTo(0)
	if strings.Contains(upgraded.Err.String(), `"serving"`) {
		t.Error("the newer node serves before its migration can have been applied")
	}
	if err := audit.Rollback(); err != nil {
		t.Fatal(err)
	}
	upgraded.await()
	l.routeTo(0, 1)
	l.stop()
	t.Logf("the slowest of %d orders took %s", l.orders.Load(), l.slowest.Round(time.Millisecond))
	c.checkClean()
}

// A binary older than the schema tolerates does not start.
func TestUpgrade_IncompatibleSchemaIsRefused(t *testing.T) {
	e2e.OnlyPostgres(t)
	t.Parallel()
	c := newEmptyCluster(t)
	c.setUp()
	if _, err := c.open().Exec(`INSERT INTO schema_tolerance (migration, oldest_generation) VALUES (9000, 9000)`); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{append([]string{"serve", "--config", c.config}, e2e.FreePorts...), {"admin", "--config", c.config, "lco", "list"}} {
		e2e.CheckRefused(t, e2e.Run(t, args...), "newer release", "generation 9000")
	}
}
