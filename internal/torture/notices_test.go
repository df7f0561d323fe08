//go:build long

package torture

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// answers of one operation, as the service would give them.
const (
	shownSuccess = `{"transaction_id":"CX1","idempotency_key":"order-1","operation":"renew","status":"success","channel":"api",
		"customer":{"subscriber_id":"100001","name":"Asha","mobile":"9800000001"},"plan":{"id":"BASIC-1"},"amount":199.00,
		"expiry":{"new":"2027-01-01 00:00:00"},"wallet":{"before":500.00,"after":301.00,"charged":199.00,"refunded":false,"held":false},
		"warnings":[],"completed_at":"2026-12-01 00:00:00"}`
	shownReview = `{"transaction_id":"CX1","idempotency_key":"order-1","operation":"renew","status":"needs_review","channel":"api",
		"customer":{"subscriber_id":"100001","name":"Asha","mobile":"9800000001"},"plan":{"id":"BASIC-1"},"amount":199.00,
		"expiry":{"new":null},"wallet":{"before":500.00,"after":301.00,"charged":0.00,"refunded":false,"held":true},
		"warnings":[],"completed_at":null}`
	shownFailed = `{"transaction_id":"CX1","idempotency_key":"order-1","operation":"renew","status":"failed","channel":"api",
		"customer":{"subscriber_id":"100001","name":"Asha","mobile":"9800000001"},"plan":{"id":"BASIC-1"},"amount":199.00,
		"expiry":{"new":null},"wallet":{"before":500.00,"after":500.00,"charged":0.00,"refunded":true,"held":false},
		"warnings":[],"completed_at":"2026-12-01 00:00:00"}`
)

// post and replay are answers to an order, look to a look-up of it; changed, each
// tells a lie.
func post(status int, code, data string, changes ...string) telling {
	return tell("POST", status, code, data, changes)
}

func replay(status int, code, data string, changes ...string) telling {
	t := tell("POST", status, code, data, changes)
	t.replayed = true
	return t
}

func look(code, data string, changes ...string) telling {
	return tell("GET", 200, "OK", strings.Replace(data, "{", `{"result_code":"`+code+`",`, 1), changes)
}

func tell(asked string, status int, code, data string, changes []string) telling {
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(data, changes[i]) {
			panic("nothing to change: " + changes[i])
		}
		data = strings.Replace(data, changes[i], changes[i+1], 1)
	}
	t := telling{asked: asked, status: status, code: code}
	if data != "" {
		decoder := json.NewDecoder(strings.NewReader(data))
		decoder.UseNumber()
		if err := decoder.Decode(&t.data); err != nil {
			panic(err)
		}
	}
	return t
}

// A record that never objected would find every service faultless. Each kind of
// lie is told here once, and has to be noticed; the truth has to pass.
func TestRecord_DetectsContradictions(t *testing.T) {
	inProgress := post(409, "REQUEST_IN_PROGRESS", "")
	notFound := tell("GET", 404, "TRANSACTION_NOT_FOUND", "", nil)
	for _, row := range []struct {
		name string
		told []telling
		want string // part of the objection; empty: none
	}{
		{"a success, its replay and its look-up", []telling{post(200, "OK", shownSuccess), replay(200, "OK", shownSuccess), look("OK", shownSuccess)}, ""},
		{"a doubt that is settled", []telling{inProgress, look("PENDING_REVIEW", shownReview), replay(202, "PENDING_REVIEW", shownReview), look("OK", shownSuccess)}, ""},
		{"a doubt that ends in a refund", []telling{post(202, "PENDING_REVIEW", shownReview), replay(502, "PROVIDER_ERROR", shownFailed)}, ""},
		{"a refusal, and then a success", []telling{post(402, "INSUFFICIENT_BALANCE", ""), notFound, post(200, "OK", shownSuccess)}, ""},
		{"a warning that goes", []telling{post(200, "OK", shownSuccess, `"warnings":[]`, `"warnings":["COMBO_SECONDARY_FAILED"]`), look("OK", shownSuccess)}, ""},

		{"a success that is taken back", []telling{post(200, "OK", shownSuccess), look("PROVIDER_ERROR", shownFailed)}, "told as success and as failed"},
		{"a success that is doubted", []telling{post(200, "OK", shownSuccess), look("PENDING_REVIEW", shownReview)}, "was success, and then needs_review"},
		{"a doubt that is forgotten", []telling{post(202, "PENDING_REVIEW", shownReview), inProgress}, "was needs_review, and then processing"},
		{"an operation that is gone", []telling{post(200, "OK", shownSuccess), notFound}, "TRANSACTION_NOT_FOUND"},
		{"an operation under way that is gone", []telling{inProgress, notFound}, "TRANSACTION_NOT_FOUND"},
		{"a key that is refused after all", []telling{post(200, "OK", shownSuccess), post(409, "DUPLICATE_REQUEST", "")}, "DUPLICATE_REQUEST"},
		{"two transactions under one key", []telling{post(200, "OK", shownSuccess), replay(200, "OK", shownSuccess, "CX1", "CX2")}, "is transaction CX1, and then CX2"},
		{"two executions of one key", []telling{post(200, "OK", shownSuccess), post(200, "OK", shownSuccess)}, "carried out twice"},
		{"another key", []telling{post(200, "OK", shownSuccess, "order-1", "order-2")}, "with the key order-2"},
		{"another customer", []telling{post(200, "OK", shownSuccess, "9800000001", "9800000002")}, "another order"},
		{"another expiry", []telling{post(200, "OK", shownSuccess), look("OK", shownSuccess, "2027-01-01", "2027-01-02")}, "and then"},
		{"another subscriber", []telling{post(202, "PENDING_REVIEW", shownReview), look("OK", shownSuccess, "100001", "100002")}, "and then"},
		{"another price", []telling{post(200, "OK", shownSuccess, `"amount":199.00`, `"amount":198.00`)}, "shows the wallet"},
		{"a refund that is none", []telling{post(502, "PROVIDER_ERROR", shownFailed, `"after":500.00`, `"after":301.00`)}, "shows the wallet"},
		{"money that is charged while it is held", []telling{post(202, "PENDING_REVIEW", shownReview, `"charged":0.00`, `"charged":199.00`)}, "shows the wallet"},
		{"a code for another state", []telling{post(200, "OK", shownReview)}, "answered OK for an operation that is needs_review"},
		{"a result code for another state", []telling{look("OK", shownFailed)}, "with result code OK"},
		{"a code with another status", []telling{post(500, "OK", shownSuccess)}, "with status 500"},
		{"a password that is shown again", []telling{replay(200, "OK", shownSuccess, `"name":"Asha"`, `"name":"Asha","password":"secret"`)}, "password"},
		{"a warning that comes", []telling{post(200, "OK", shownSuccess), look("OK", shownSuccess, `"warnings":[]`, `"warnings":["COMBO_SECONDARY_FAILED"]`)}, "a warning"},
		{"a refusal to let anybody in", []telling{post(401, "REPLAY_DETECTED", "")}, "REPLAY_DETECTED"},
		{"a failure of its own, with nothing torn away", []telling{post(500, "INTERNAL_ERROR", "")}, "INTERNAL_ERROR"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRecord(&world{t: t, store: "sqlite"})
			var objections []string
			r.report = func(violation string) { objections = append(objections, violation) }
			o := &order{key: "order-1", endpoint: "renew", mobile: "9800000001", plan: "BASIC-1"}
			r.add(o)
			for _, telling := range row.told {
				telling.began, telling.ended = r.clock+1, r.clock+2
				r.clock += 2
				r.judge(o, telling)
			}
			all := strings.Join(objections, "\n")
			if row.want == "" && all != "" || !strings.Contains(all, row.want) {
				t.Errorf("the record objects:\n%s\nwant an objection with %q", all, row.want)
			}
		})
	}
}

// An answer that was under way while another came may be the older one.
func TestRecord_OverlappingAnswersInAnyOrder(t *testing.T) {
	r := newRecord(&world{t: t, store: "sqlite"})
	o := &order{key: "order-1", endpoint: "renew", mobile: "9800000001", plan: "BASIC-1"}
	r.add(o)
	first, second := post(200, "OK", shownSuccess), post(409, "REQUEST_IN_PROGRESS", "")
	first.began, first.ended = 1, 3
	second.began, second.ended = 2, 4
	r.judge(o, first)
	r.judge(o, second)
}

// Every place in the code where a node can die is one where it is made to.
func TestCampaign_UsesEveryCrashPoint(t *testing.T) {
	called := regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	found := map[string]bool{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile("../" + path)
		for _, match := range called.FindAllStringSubmatch(string(text), -1) {
			found[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if is, want := slices.Sorted(maps.Keys(found)), slices.Sorted(slices.Values(points)); !slices.Equal(is, want) {
		t.Errorf("the crash points in the code are %v; dealt are %v", is, want)
	}
}
