package sqlite_test

import (
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/storetest"
	"github.com/coaxhq/coax/internal/subscription"
)

// Every statement that a request or a page can cause, and every one of the workers
// beside requests, finds its rows by an index, however many others there are. The
// statements are those that a walk through a filled store has made it prepare.

// stayingSmall are the tables that may be read from one end to the other, because
// they do not grow with the trade.
var stayingSmall = map[string]string{
	"plans":               "what is for sale; staff makes each of them",
	"plan_history":        "every version of what is for sale; staff makes each of them",
	"proposals":           "what takes two people: staff makes each of them",
	"bank_statements":     "what staff uploads; a page reads the latest",
	"provider_components": "what the provider sells",
	"numbers":             "no table: the numbers of the thousand ids that are looked at together",
	"queue":               "no table: the operators that have something in a queue of follow-ups",
	"json_each":           "no table: the values of a parameter",
	"areas":               "no table: the areas of an operator, each by one search of an index",
	"tried":               "no table: the line that is looked for in a ledger, bit by bit",
}

// sortingFew are statements that sort what an index has picked out, and why that
// is never much.
var sortingFew = map[string]string{
	"FROM whitelist WHERE operator_id":                     "an operator has access.MaxWhitelistEntries at most",
	"subscriber_id = ?1 AND operator_id + 0 = ?2 ORDER BY": "one subscriber's operations: one a month",
	"ORDER BY c.starts_at DESC, c.seq DESC LIMIT 1":        "one subscriber's cycles: one a month",
	"ORDER BY coalesce(s.expires_at, 0), s.id":             "what is in review",
	"ORDER BY s.expires_at + 0":                            "the subscribers of an area or a plan that has few",
	"ORDER BY created_at + 0, id":                          "what is open",
	"ORDER BY created_at + 0 DESC, id DESC":                "what is open",
	"status = 'needs_review' AND review_since <= ?1":       "what has been in review for too long",
	"ORDER BY review_since, id":                            "what is in review",
	"ORDER BY (e.operator_id =":                            "the credits of one reference: one, but for old entries",
	"min(coalesce(review_since, created_at))":              "what is open",
	"AND expires_at <= ?3 ORDER BY id) due":                "who expires within a month, added up for a page; kept for a while",
	"FROM operators o CROSS JOIN subscribers s":            "who expires within a week, added up by operator for staff; kept for a while",
	"GROUP BY kind, status":                                "a day's operations, added up for a page; kept for a while",
	"GROUP BY o.plan_id":                                   "a month's commissions of an operator, added up for a page; kept for a while",
}

// readingFew are statements that read a whole index of what few operations are at a
// time, or small tables for a count of all that there is.
var readingFew = map[string]string{
	"FROM payment_announcements WHERE decided_at IS NULL":           "the payments that are announced and not decided, added up for a page",
	"WHERE l.announcement_id IS NULL ORDER BY l.paid_on DESC LIMIT": "the newest lines of the bank, in the order of an index until the limit",
	"FROM operations t CROSS JOIN subscribers":                      "what is in review, for a page",
	"ORDER BY created_at + 0, id":                                   "what is open, for a page",
	"ORDER BY created_at + 0 DESC, id DESC":                         "what is open, for a page",
	"status = 'needs_review' AND review_since <= ?1":                "what has been in review for too long",
	"min(coalesce(review_since, created_at))":                       "what is open, for the metrics",
	"ORDER BY review_since, id":                                     "what is in review, for a page",
	"SELECT count(*) FROM operators WHERE status <> 'deleted'":      "the totals of the whole service, for staff; kept for a while",
	"FROM operators o CROSS JOIN subscribers s":                     "the operators, each by a range of an index, added up for staff; kept for a while",
	"FROM operators each_operator":                                  "the operators, for a search of staff: each by one look into an index",
}

var indexesOfFew = regexp.MustCompile(`USING (COVERING )?INDEX operations_(one_open|open_by_lease|open_by_check|addon_due|(reviews|addons|late_checks)_by_operator)$`)

// excuses are how many reasons of a kind a statement has.
func excuses(statement string, all map[string]string) (count int) {
	statement = strings.Join(strings.Fields(statement), " ")
	for part := range all {
		if strings.Contains(statement, part) {
			count++
		}
	}
	return count
}

// readingOne are statements that begin to read a table from one end, and stop at the
// first row.
var readingOne = map[string]string{
	"FROM staff_acts ORDER BY id DESC LIMIT 1": "the end of the chain of acts",
}

func stopsAtOne(statement string) bool {
	for one := range readingOne {
		if strings.Contains(statement, one) {
			return true
		}
	}
	return false
}

const staffAdopt = "staff adopt operations"

// ofStaff are the places whose statements no request and no worker causes.
var ofStaff = map[string]string{
	"release": "once for a number that a deleted operator had", "ReleaseLapsed": "the lock for that", "readMaintenance": "the service of staff", "RefuseUnfinishedCopy": "a start", "decisions.go": "the service of staff", "history.go": "the service of staff", "lists.go": "the service of staff", "importing.go": "the service of staff",
	"keys.go": "the service of staff", "logins.go": "the service of staff", "operators.go": "the service of staff", "wallets.go": "the service of staff",
	"proposals.go": "the service of staff", "references.go": "a start, and the service of staff", "grants.go": "the service of staff", "periods.go": "the service of staff", "overview.go": "the service of staff, but for the count of what is overdue and the sum of what is held",
	"passwords.go": "the service of staff", "refuseLastOwner": "an owner's page of people",
	"creditAnnouncement": "the service of staff", "announcementOf": "the service of staff", "Reversals": "the service of staff", "reopenReversal": "the service of staff", "setPlan": "the service of staff", "RetirePlan": "the service of staff", "recordPlan": "the service of staff", "checkComponent": "the service of staff",
	"refuseComponent": "the service of staff", "planByID": "the service of staff", "AllPlans": "the service of staff",
	"masterkeys.go": "a start", "sealed.go": "a rotation of the master key", "nodes.go": "one row for each node", "UseIntegrityKeys": "a start", "migrate.go": "a start", "diskfailure.go": "a start after the disk has failed",
	"resetIndex": "a start that finds the nonces numbered again", "purge": "a purge after a clock that was ahead",
	"acme.go":     "a row for each certificate, by its key",
	"restores.go": "one row for the mark, and one for each restore", "switchOn": "the service of staff",
	"SubscribersNamed": staffAdopt, "PlanVersions": staffAdopt, "insertAdopted": staffAdopt, "adopt": staffAdopt, "claimForgotten": staffAdopt,
	"personal.go": "staff export or forget a subscriber", "removedAt": "the service of staff",
	"numberReceiptsOf": "once after an upgrade from 0.1.0",
	"choices.go":       "completion on the command line", "state.go": "coax doctor",
	"ClaimAdopted": "once for an adopted activation", "filesnapshot.go": "a backup",
	"hold": "one row, for the replica", "startReplication": "a start", "keepLog": "a start",
	"EndMaintenance": "the service of staff",
	"Ready":          "a look at the schema, which is one row",
}

// Two operators whose requests go the same way through a store that has several.
const operator, neighbour = 3, 3 + 8

var filledAt = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// heard fills a store, walks every way through it, and returns the statements that
// this took.
func heard(t *testing.T) (path string, statements []string) {
	t.Helper()
	masterKey, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "coax.db")
	filled, err := growth.FillSQLite(t.Context(), path, 30_000, filledAt, masterKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	on := storetest.FilledStore{OperatorID: filled.Accounts[operator].ID, Key: access.HashKey(filled.Accounts[operator].Key), OtherOperatorID: filled.Accounts[neighbour].ID, Now: filledAt.Add(time.Hour)}
	for n := range storetest.SubscribersNeeded {
		on.Subscribers = append(on.Subscribers, filled.Subscriber(operator, n))
		on.OtherSubscribers = append(on.OtherSubscribers, filled.Subscriber(neighbour, n))
	}
	db := open(t, path)
	defer db.Close()
	storetest.CallEveryMethod(t, db, on)
	if _, _, err := db.IDRecords(t.Context()).FreeIn(subscription.IDRange{Digits: 6, Last: 999}); err != nil {
		t.Fatal(err)
	}
	return path, db.Statements()
}

func open(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{NonceBuffer: 1})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

var (
	readsRows = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\b`)
	namesUsed = regexp.MustCompile(`(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?`)
	// changesRows is of a statement that changes rows which were there before.
	changesRows = regexp.MustCompile(`(?s)^\s*(?:UPDATE (\w+)|INSERT INTO (\w+).*DO UPDATE)`)
	changesAny  = regexp.MustCompile(`\b(INSERT INTO|UPDATE|DELETE FROM)\b`)
	scansOf     = regexp.MustCompile(`^SCAN (\w+)`)
)

// objections are what is wrong with how SQLite would carry the statements out.
func objections(t *testing.T, path string, statements []string) (found []string) {
	t.Helper()
	db := open(t, path)
	defer db.Close()
	for _, statement := range statements {
		if !readsRows.MatchString(statement) {
			continue // BEGIN and its like
		}
		statement = sqlite.Translate(statement)
		plan, err := db.Explain(t.Context(), statement)
		if err != nil {
			t.Fatal(err)
		}
		sorts := 0
		for _, line := range plan {
			if strings.Contains(line, "TEMP B-TREE") {
				sorts++
			}
			if why := objection(statement, line); why != "" {
				found = append(found, fmt.Sprintf("%s: %s\n%s", why, strings.Join(strings.Fields(statement), " "), strings.Join(plan, "\n")))
			}
		}
		if few := excuses(statement, sortingFew); few > 0 && sorts > few {
			found = append(found, fmt.Sprintf("sorts %d times, with %d excuses: %s\n%s", sorts, few, strings.Join(strings.Fields(statement), " "), strings.Join(plan, "\n")))
		}
	}
	return found
}

func objection(statement, line string) string {
	tables := map[string]string{} // by the names they go by
	for _, used := range namesUsed.FindAllStringSubmatch(statement, -1) {
		tables[used[1]] = used[1]
		tables[used[2]] = used[1]
	}
	switch scan := scansOf.FindStringSubmatch(line); {
	case strings.HasPrefix(line, "SCAN CONSTANT ROW"):
	case scan != nil && stopsAtOne(statement):
	case strings.HasPrefix(line, "SCAN CONSTANT ROW"):
	case scan != nil && excuses(statement, readingFew) > 0 && (tables[scan[1]] != "operations" || indexesOfFew.MatchString(line)):
	case scan != nil && scan[1] == "due" && strings.Contains(statement, "ORDER BY id) due"): // what the part before it has picked out
	case scan != nil && stayingSmall[tables[scan[1]]] == "":
		return "reads all of " + scan[1]
	case strings.Contains(line, "AUTOMATIC"):
		return "makes an index each time"
	case strings.Contains(line, "TEMP B-TREE"):
		if excuses(statement, sortingFew) > 0 {
			return ""
		}
		for _, table := range tables {
			if stayingSmall[table] == "" {
				return "sorts"
			}
		}
	}
	return ""
}

// buildingFew are changes that may build a table, and why that is seldom.
var buildingFew = map[string]string{
	"DELETE FROM rate_counters":                                      "the sweep, a few times a minute",
	"FROM login_sessions WHERE seen_at <= ?1 ORDER BY seen_at LIMIT": "the sweep, once a minute",
	"FROM login_tries WHERE since <= ?1 ORDER BY since LIMIT":        "the sweep, once a minute",
	"RETURNING": "the follow-up of what is unknown",
	"UPDATE operations SET lease_until = ?1 WHERE status": "the start of a node",
	"UPDATE reversals SET next_at = ?1 WHERE next_at":     "the start of a node",
	"UPDATE bulk_jobs SET due_at = ?1 WHERE due_at > ?1":  "the start of a node",
	"UPDATE bulk_rows SET state = 'cancelled'":            "a person cancels a bulk renewal",
	"UPDATE payment_announcements SET state":              "a person closes an announced payment, or a statement of the bank has it",
	"UPDATE bank_lines SET announcement_id = NULL":        "a person closes an announced payment",
}

// built are the changes for which SQLite would build a table first, as it does for a
// rule with a list of more than two, or for rows to be returned: that costs more
// than to write a row.
func built(t *testing.T, path string, statements []string) (found []string) {
	t.Helper()
	db := open(t, path)
	defer db.Close()
	for _, statement := range statements {
		statement = sqlite.Translate(statement)
		if !readsRows.MatchString(statement) || !changesAny.MatchString(statement) || seldom(statement) {
			continue
		}
		program, err := db.Program(t.Context(), statement)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(program, "OpenEphemeral") {
			found = append(found, "builds a table: "+strings.Join(strings.Fields(statement), " "))
		}
	}
	return found
}

func seldom(statement string) bool { return excuses(statement, buildingFew) > 0 }

func execute(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func definitionOf(t *testing.T, path, index string) (definition string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT sql FROM sqlite_master WHERE name = ?`, index).Scan(&definition); err != nil {
		t.Fatalf("index %s: %v", index, err)
	}
	return definition
}

// What a foreign key points to is looked for in the other table whenever its row
// goes: a failed activation takes its subscriber away.
func TestForeignKeys_AreIndexed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "coax.db")
	open(t, path).Close()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`
		SELECT m.name, k."from", EXISTS (
		       SELECT 1 FROM pragma_index_list(m.name) l JOIN pragma_index_info(l.name) i WHERE i.seqno = 0 AND i.name = k."from")
		  FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) k
		 WHERE m.type = 'table' AND k."table" = 'subscribers'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]bool{}
	for rows.Next() {
		var table, column string
		var indexed bool
		if err := rows.Scan(&table, &column, &indexed); err != nil {
			t.Fatal(err)
		}
		found[table+"."+column] = indexed
	}
	if names := slices.Sorted(maps.Keys(found)); rows.Err() != nil || len(names) == 0 {
		t.Fatalf("nothing points to subscribers: %v", rows.Err())
	}
	for name, indexed := range found {
		if !indexed {
			t.Errorf("%s has no index to be found by", name)
		}
	}
}
