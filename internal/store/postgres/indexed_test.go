package postgres_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/storetest"
	"github.com/coaxhq/coax/internal/subscription"
)

// Every statement that a request or a page can cause, and every one of the workers
// beside requests, finds its rows by an index, however many others there are. The server
// itself tells how it carried out each statement of a walk through a filled store,
// those of its foreign keys included.

// stayingSmall are the tables that may be read from one end to the other, because
// they do not grow with the trade.
var stayingSmall = map[string]string{
	"plans":                 "what is for sale; staff makes each of them",
	"plan_history":          "every version of what is for sale; staff makes each of them",
	"proposals":             "what takes two people: staff makes each of them",
	"bank_statements":       "what staff uploads; a page reads the latest",
	"adjustment_references": "what staff adjusts by hand",
	"provider_components":   "what the provider sells",
	"catalogue_comparisons": "a row for each provider",
	"schema_tolerance":      "a row for each migration",
	"store_mark":            "one row",
	"store_restores":        "a row for each restore",
	"staff_chain":           "one row, the end of the chain of acts",
}

// mostRows is how many rows of a growing table a part of a statement may look at,
// and readingMore are the statements that look at more, and why that is bounded.
const mostRows = 100

var readingMore = map[string]string{
	"FROM generate_series($1::bigint, $2::bigint) AS n": "the thousand ids that are looked at together when none can be guessed",
	"FROM cycles c JOIN subscribers s":                  "a plan's active subscribers, counted for staff; kept for a while",
	"GROUP BY kind, status":                             "a day's operations, added up for a page; kept for a while",
	"GROUP BY o.plan_id":                                "a month's commissions of an operator, added up for a page; kept for a while",
	"(SELECT (s.expires_at + $4) / 86400000 AS day":     "who expires within a month, added up for a page; kept for a while",
	"FROM operators o CROSS JOIN subscribers s":         "who expires within a week, added up by operator for staff; kept for a while",
	"expires_at IS NULL),":                              "an operator's subscribers, counted for a page; kept for a while",
	"FROM operators WHERE status <> 'deleted'":          "the whole service, counted for staff; kept for a while",
	"FROM operators each_operator":                      "the operators, for a search of staff: each by one look into an index",
	"AND a.receipt % 64 = 1":                            "the ledger lines between two receipts that an index has",
	"FROM staff_acts WHERE id < $1 AND id > $2":         "what staff did, down to a given id",
	`lower(s.area COLLATE "C") = `:                      "an area that is looked for in a list, down to a given row",
	"coalesce(p.id, '') = ":                             "a plan that is looked for in a list, down to a given row",
	"ORDER BY s.expires_at + 0":                         "the subscribers of an area or a plan that has few",
	"strpos(":                                           "a text that is looked for in a ledger: until a page is full of it",
}

func readsMore(text string) bool {
	for part := range readingMore {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// countsAll tells the statements that count the whole service, or search it, for staff.
func countsAll(text string) bool {
	return strings.Contains(text, "FROM operators WHERE status <> 'deleted'") || strings.Contains(text, "FROM operators each_operator")
}

// asksForDue tells the statements that look for what is due, of all operations of a
// state which few are in at a time. To these the server may read the whole index of
// any such state: it has as good as nothing in it.
var (
	asksForDue = regexp.MustCompile(`(lease_until|next_check_at|addon_next_at|review_since) (<=|>) \$1|due_at >= 0 AND state|WHERE due_at < \$1`)
	// asksForOpen tells those of pages and metrics that show all that is open or in review, those that
	// look for an adopted operation, and those of announced payments and the newest lines of the bank.
	asksForOpen  = regexp.MustCompile(`FROM operations t|ORDER BY created_at \+ 0 DESC, id DESC|\(\$1 = 0 OR operator_id \+ 0 = \$1\)|ORDER BY review_since, id|min\(coalesce\(review_since, created_at\)\)|a\.carried_out_at IS NOT NULL|FROM operators WHERE status <> 'deleted'|FROM payment_announcements WHERE decided_at IS NULL$|ORDER BY l\.paid_on DESC LIMIT \$1|WHERE a\.bank_key = \$1|WHERE a\.id = ANY \(\$1::bigint\[\]\)$`)
	indexesOfFew = []string{
		"operations_one_open", "operations_open_by_lease", "operations_open_by_check", "operations_late_checks", "operations_addon_due",
		"operations_reviews_by_operator", "operations_late_checks_by_operator", "operations_addons_by_operator", "bulk_jobs_due", "bulk_jobs_one_running",
		"operations_adopted",
		"payment_announcements_open", "payment_announcements_open_of_operator",
		"bank_lines_old", // read in its order, until the limit
		"payment_announcements_by_bank_key",
		"payment_announcements_by_reference", // of the few that the walk announces, several are read by their ids
	}
)

const staffAdopt = "staff adopt operations"

// ofStaff are the places whose statements no request and no worker causes.
var ofStaff = map[string]string{
	"release": "once for a number that a deleted operator had", "ReleaseLapsed": "the lock for that", "decisions.go": "the service of staff", "history.go": "the service of staff", "lists.go": "the service of staff", "importing.go": "the service of staff",
	"keys.go": "the service of staff", "logins.go": "the service of staff", "operators.go": "the service of staff", "wallets.go": "the service of staff",
	"proposals.go": "the service of staff", "references.go": "a start, and the service of staff", "upgrade.go": "a start", "grants.go": "the service of staff", "periods.go": "the service of staff", "overview.go": "the service of staff, but for the count of what is overdue and the sum of what is held",
	"passwords.go": "the service of staff", "refuseLastOwner": "an owner's page of people",
	"creditAnnouncement": "the service of staff", "announcementOf": "the service of staff", "Reversals": "the service of staff", "reopenReversal": "the service of staff", "setPlan": "the service of staff", "RetirePlan": "the service of staff", "recordPlan": "the service of staff", "checkComponent": "the service of staff",
	"refuseComponent": "the service of staff", "planByID": "the service of staff", "AllPlans": "the service of staff",
	"acme.go":     "a row for each certificate, by its key",
	"restores.go": "one row for the mark, and one for each restore", "switchOn": "the service of staff",
	"SubscribersNamed": staffAdopt, "PlanVersions": staffAdopt, "insertAdopted": staffAdopt, "adopt": staffAdopt, "claimForgotten": staffAdopt,
	"personal.go": "staff export or forget a subscriber", "removedAt": "the service of staff",
	"numberReceiptsOf": "once after an upgrade from 0.1.0",
	"choices.go":       "completion on the command line", "state.go": "coax doctor",
	"ClaimAdopted": "once for an adopted activation", "checkMark": "one row, for a new connection",
	"EndMaintenance": "the service of staff", "readMaintenance": "a look at one row", "RefuseUnfinishedCopy": "a start",
	"masterkeys.go": "a start", "sealed.go": "a rotation of the master key", "nodes.go": "one row for each node, and the sessions", "UseIntegrityKeys": "a start", "migrate.go": "a start", "checkDurability": "a start", "readTotal": "a start", "hasOperators": "a start", "startChain": "a start",
	"Ready": "a look at the schema, which is one row", "ServerTime": "a look at the clock",
}

// Two operators whose requests go the same way through a store that has several.
const operator, neighbour = 3, 3 + 8

var filledAt = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

const logMark = "@@ "

// explained is a statement with the plan that it was carried out by.
type explained struct {
	Text string   `json:"Query Text"`
	Plan planNode `json:"Plan"`
}

type planNode struct {
	Type      string     `json:"Node Type"`
	Operation string     `json:"Operation"`
	Relation  string     `json:"Relation Name"`
	Index     string     `json:"Index Name"`
	Condition string     `json:"Index Cond"`
	Rows      float64    `json:"Actual Rows"`
	Loops     float64    `json:"Actual Loops"`
	Removed   float64    `json:"Rows Removed by Filter"`
	Plans     []planNode `json:"Plans"`
}

// objections are what is wrong with a plan and its parts, in a statement of that
// text. A part that reads an index for another one says nothing of the table.
func (n planNode) objections(text, table string, small func(table string) bool) (found []string) {
	table = cmp.Or(n.Relation, table)
	grows := strings.HasSuffix(n.Type, "Scan") && table != "" && !small(table) && !(countsAll(text) && table != "operations")
	switch {
	case grows && n.Type == "Seq Scan":
		found = append(found, "reads all of "+table)
	case grows && strings.Contains(n.Type, "Index") && n.Condition == "" && !((asksForDue.MatchString(text) || asksForOpen.MatchString(text)) && slices.Contains(indexesOfFew, n.Index)):
		found = append(found, "reads a whole index of "+table)
	}
	if looked := (n.Rows + n.Removed) * n.Loops; looked > mostRows && !readsMore(text) {
		found = append(found, fmt.Sprintf("%s looks at %.0f rows", n.Type, looked))
	}
	if n.outOfOrder(text) {
		found = append(found, "changes rows of "+n.Relation+" in whatever order")
	}
	for _, part := range n.Plans {
		found = append(found, part.objections(text, table, small)...)
	}
	return found
}

// outOfOrder tells a part that changes several rows of a kind, of which every batch
// needs many, in another order than that of their keys: it has to go through what it
// was given, or through the index of keys.
func (n planNode) outOfOrder(text string) bool {
	if n.Operation != "Update" || n.Relation != "subscribers" && n.Relation != "wallets" || !strings.Contains(text, "unnest(") {
		return false
	}
	first := n
	for len(first.Plans) > 0 && first.Type != "Sort" {
		first = first.Plans[0]
	}
	return first.Type != "Function Scan" && !(first.Type == "Index Scan" && first.Index == n.Relation+"_pkey")
}

// scene is a server with a filled database, which walks are made in copies of.
type scene struct {
	*pgtest.Server
	on    storetest.FilledStore
	walks int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Server: pgtest.Start(t, "log_line_prefix="+logMark, "autovacuum=off", "shared_buffers=128MB")}
	s.Exec(t, "postgres", `CREATE DATABASE filled`)
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	filled, err := growth.FillPostgres(t.Context(), s.URL("filled"), 30_000, filledAt, masterKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.on = storetest.FilledStore{OperatorID: filled.Accounts[operator].ID, Key: access.HashKey(filled.Accounts[operator].Key), OtherOperatorID: filled.Accounts[neighbour].ID, Now: filledAt.Add(time.Hour)}
	for n := range storetest.SubscribersNeeded {
		s.on.Subscribers = append(s.on.Subscribers, filled.Subscriber(operator, n))
		s.on.OtherSubscribers = append(s.on.OtherSubscribers, filled.Subscriber(neighbour, n))
	}
	return s
}

// walk walks every way through a copy of the filled store that was changed in some
// way, and returns what the server said of every statement.
func (s *scene) walk(t *testing.T, changes ...string) (heard []explained) {
	t.Helper()
	s.walks++
	name := fmt.Sprintf("walk_%d", s.walks)
	s.Exec(t, "postgres", `CREATE DATABASE `+name+` TEMPLATE filled`)
	for _, change := range changes {
		s.Exec(t, name, strings.ReplaceAll(change, "{database}", name))
	}
	db, err := postgres.Open(t.Context(), s.URL(name)+"&session_preload_libraries=auto_explain&auto_explain.log_min_duration=0"+
		"&auto_explain.log_analyze=on&auto_explain.log_timing=off&auto_explain.log_format=json&auto_explain.log_nested_statements=on", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := len(s.Log()) // what opening takes is not a request's
	storetest.CallEveryMethod(t, db, s.on)
	records := db.IDRecords(t.Context())
	if _, _, err := records.FreeIn(subscription.IDRange{Digits: 6, Last: 999}); err != nil {
		t.Error(err)
	}
	if _, err := records.IsTaken("000000"); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	return readLog(t, s.Log()[before:])
}

func readLog(t *testing.T, log string) (heard []explained) {
	t.Helper()
	for _, entry := range strings.Split(log, logMark) {
		_, plan, found := strings.Cut(entry, "plan:\n")
		if !found {
			continue
		}
		var one explained
		if err := json.NewDecoder(strings.NewReader(plan)).Decode(&one); err != nil {
			t.Fatalf("%v in\n%s", err, entry)
		}
		heard = append(heard, one)
	}
	return heard
}

// complaints are the objections to all of them, each once.
func complaints(heard []explained, small func(table string) bool) (found []string) {
	for _, one := range heard {
		for _, why := range one.Plan.objections(one.Text, "", small) {
			found = append(found, why+": "+strings.Join(strings.Fields(one.Text), " "))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// isSmall is of few rows, here or everywhere: of fifty operators the server may read
// all as well as one.
func isSmall(table string) bool {
	return stayingSmall[table] != "" || slices.Contains([]string{"operators", "credentials", "whitelist", "wallets", "rate_counters"}, table)
}

func TestPlanCheck_FindsViolations(t *testing.T) {
	changing := func(first planNode) planNode {
		return planNode{Type: "ModifyTable", Operation: "Update", Relation: "wallets", Plans: []planNode{{Type: "Nested Loop", Plans: []planNode{
			first, {Type: "Index Scan", Relation: "operators", Condition: "(x)"}}}}}
	}
	const changes = `UPDATE wallets w SET balance_paise = 1 FROM unnest($1::bigint[]) AS v (id) WHERE w.operator_id = v.id`
	byOpen := planNode{Type: "Index Scan", Relation: "operations", Index: "operations_one_open"}
	for _, tt := range []struct {
		name string
		text string
		plan planNode
		want string
	}{
		{"a table read whole", `SELECT 1`, planNode{Type: "Seq Scan", Relation: "operations"}, "reads all of operations"},
		{"deep inside", `SELECT 1`, planNode{Type: "Limit", Plans: []planNode{{Type: "Seq Scan", Relation: "ledger"}}}, "reads all of ledger"},
		{"a whole index", `UPDATE operations SET node = '' WHERE id = $1`, byOpen, "reads a whole index of operations"},
		{"a whole index of what is due", `SELECT id FROM operations WHERE lease_until <= $1`, byOpen, ""},
		{"a whole index of what is in review, for a page", `SELECT id FROM operations WHERE status = 'needs_review' ORDER BY review_since, id`, byOpen, ""},
		{"a whole index for a table", `SELECT 1`,
			planNode{Type: "Bitmap Heap Scan", Relation: "operations", Plans: []planNode{{Type: "Bitmap Index Scan", Index: "operations_by_age"}}}, "reads a whole index of operations"},
		{"many rows of an index", `SELECT 1`, planNode{Type: "Index Scan", Relation: "operations", Condition: "(x)", Rows: 300, Loops: 1}, "Index Scan looks at 300 rows"},
		{"rows that were looked at for nothing", `SELECT 1`,
			planNode{Type: "Index Scan", Relation: "operations", Condition: "(x)", Removed: 30, Loops: 10}, "Index Scan looks at 300 rows"},
		{"rows in the order that they were given", changes, changing(planNode{Type: "Function Scan"}), ""},
		{"rows in the order of their keys", changes, changing(planNode{Type: "Index Scan", Relation: "wallets", Index: "wallets_pkey"}), ""},
		{"rows in the order of something else", changes, changing(planNode{Type: "Index Scan", Relation: "operators", Index: "operators_pkey"}),
			"changes rows of wallets in whatever order"},
		{"rows sorted by something else", changes, changing(planNode{Type: "Sort", Plans: []planNode{{Type: "Function Scan"}}}),
			"changes rows of wallets in whatever order"},
		{"a small table", `SELECT 1`, planNode{Type: "Seq Scan", Relation: "plans"}, ""},
		{"an index", `SELECT 1`, planNode{Type: "Index Scan", Relation: "operations", Condition: "(id = $1)", Rows: 1, Loops: 1}, ""},
	} {
		if got := strings.Join(tt.plan.objections(tt.text, "", isSmall), "; "); got != tt.want {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}
