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

// Data of one operation's answers, as the service would give them.
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

// post and replay return answers to an order, look to a lookup of it. changes are pairs
// of old and new text that falsify the answer.
func post(status int, code, data string, changes ...string) answer {
	return newAnswer("POST", status, code, data, changes)
}

func replay(status int, code, data string, changes ...string) answer {
	t := newAnswer("POST", status, code, data, changes)
	t.replayed = true
	return t
}

func look(code, data string, changes ...string) answer {
	return newAnswer("GET", 200, "OK", strings.Replace(data, "{", `{"result_code":"`+code+`",`, 1), changes)
}

func newAnswer(method string, status int, code, data string, changes []string) answer {
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(data, changes[i]) {
			panic("nothing to change: " + changes[i])
		}
		data = strings.Replace(data, changes[i], changes[i+1], 1)
	}
	t := answer{method: method, status: status, code: code}
	if data != "" {
		decoder := json.NewDecoder(strings.NewReader(data))
		decoder.UseNumber()
		if err := decoder.Decode(&t.data); err != nil {
			panic(err)
		}
	}
	return t
}

// A record that reports nothing would accept every service. Each kind of contradiction
// has to be reported; consistent answers have to pass.
func TestRecord_DetectsContradictions(t *testing.T) {
	inProgress := post(409, "REQUEST_IN_PROGRESS", "")
	notFound := newAnswer("GET", 404, "TRANSACTION_NOT_FOUND", "", nil)
	for _, row := range []struct {
		name    string
		answers []answer
		want    string // part of the violation; empty: none
	}{
		{"a success, its replay and its look-up", []answer{post(200, "OK", shownSuccess), replay(200, "OK", shownSuccess), look("OK", shownSuccess)}, ""},
		{"a review that ends in a success", []answer{inProgress, look("PENDING_REVIEW", shownReview), replay(202, "PENDING_REVIEW", shownReview), look("OK", shownSuccess)}, ""},
		{"a review that ends in a refund", []answer{post(202, "PENDING_REVIEW", shownReview), replay(502, "PROVIDER_ERROR", shownFailed)}, ""},
		{"a refusal, and then a success", []answer{post(402, "INSUFFICIENT_BALANCE", ""), notFound, post(200, "OK", shownSuccess)}, ""},
		{"a warning that disappears", []answer{post(200, "OK", shownSuccess, `"warnings":[]`, `"warnings":["COMBO_SECONDARY_FAILED"]`), look("OK", shownSuccess)}, ""},

		{"a success that becomes a failure", []answer{post(200, "OK", shownSuccess), look("PROVIDER_ERROR", shownFailed)}, "shown as success and as failed"},
		{"a success that goes back to review", []answer{post(200, "OK", shownSuccess), look("PENDING_REVIEW", shownReview)}, "was success, and then needs_review"},
		{"a review that goes back to processing", []answer{post(202, "PENDING_REVIEW", shownReview), inProgress}, "was needs_review, and then processing"},
		{"an operation that disappears", []answer{post(200, "OK", shownSuccess), notFound}, "TRANSACTION_NOT_FOUND"},
		{"an operation in progress that disappears", []answer{inProgress, notFound}, "TRANSACTION_NOT_FOUND"},
		{"a key that is refused after a success", []answer{post(200, "OK", shownSuccess), post(409, "DUPLICATE_REQUEST", "")}, "DUPLICATE_REQUEST"},
		{"two transactions under one key", []answer{post(200, "OK", shownSuccess), replay(200, "OK", shownSuccess, "CX1", "CX2")}, "is transaction CX1, and then CX2"},
		{"two executions of one key", []answer{post(200, "OK", shownSuccess), post(200, "OK", shownSuccess)}, "carried out twice"},
		{"another key", []answer{post(200, "OK", shownSuccess, "order-1", "order-2")}, "with the key order-2"},
		{"another customer", []answer{post(200, "OK", shownSuccess, "9800000001", "9800000002")}, "another order"},
		{"another expiry", []answer{post(200, "OK", shownSuccess), look("OK", shownSuccess, "2027-01-01", "2027-01-02")}, "and then"},
		{"another subscriber", []answer{post(202, "PENDING_REVIEW", shownReview), look("OK", shownSuccess, "100001", "100002")}, "and then"},
		{"another price", []answer{post(200, "OK", shownSuccess, `"amount":199.00`, `"amount":198.00`)}, "shows the wallet"},
		{"a refund that does not restore the balance", []answer{post(502, "PROVIDER_ERROR", shownFailed, `"after":500.00`, `"after":301.00`)}, "shows the wallet"},
		{"a charge while the money is held", []answer{post(202, "PENDING_REVIEW", shownReview, `"charged":0.00`, `"charged":199.00`)}, "shows the wallet"},
		{"a code for another state", []answer{post(200, "OK", shownReview)}, "answered OK for an operation that is needs_review"},
		{"a result code for another state", []answer{look("OK", shownFailed)}, "with result code OK"},
		{"a code with another status", []answer{post(500, "OK", shownSuccess)}, "with status 500"},
		{"a password that is shown again", []answer{replay(200, "OK", shownSuccess, `"name":"Asha"`, `"name":"Asha","password":"secret"`)}, "password"},
		{"a warning that appears later", []answer{post(200, "OK", shownSuccess), look("OK", shownSuccess, `"warnings":[]`, `"warnings":["COMBO_SECONDARY_FAILED"]`)}, "a warning"},
		{"a refusal at admission", []answer{post(401, "REPLAY_DETECTED", "")}, "REPLAY_DETECTED"},
		{"an internal error without a disruption", []answer{post(500, "INTERNAL_ERROR", "")}, "INTERNAL_ERROR"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRecord(&environment{t: t, store: "sqlite"})
			var violations []string
			r.report = func(violation string) { violations = append(violations, violation) }
			o := &order{key: "order-1", endpoint: "renew", mobile: "9800000001", plan: "BASIC-1"}
			r.add(o)
			for _, answer := range row.answers {
				answer.began, answer.ended = r.clock+1, r.clock+2
				r.clock += 2
				r.check(o, answer)
			}
			all := strings.Join(violations, "\n")
			if row.want == "" && all != "" || !strings.Contains(all, row.want) {
				t.Errorf("the record reports:\n%s\nwant a violation with %q", all, row.want)
			}
		})
	}
}

// Of two overlapping requests, either may get the older state.
func TestRecord_OverlappingAnswersInAnyOrder(t *testing.T) {
	r := newRecord(&environment{t: t, store: "sqlite"})
	o := &order{key: "order-1", endpoint: "renew", mobile: "9800000001", plan: "BASIC-1"}
	r.add(o)
	first, second := post(200, "OK", shownSuccess), post(409, "REQUEST_IN_PROGRESS", "")
	first.began, first.ended = 1, 3
	second.began, second.ended = 2, 4
	r.check(o, first)
	r.check(o, second)
}

// Every crash point of a node is used. Those of `coax admin masterkey` begin with K, those of reversals
// with X, those of copies with C: tests of their own use them.
func TestCampaign_UsesEveryCrashPoint(t *testing.T) {
	called := regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	found := map[string]bool{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile("../" + path)
		for _, match := range called.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(match[1], "K.") && !strings.HasPrefix(match[1], "X.") && !strings.HasPrefix(match[1], "C.") {
				found[match[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if is, want := slices.Sorted(maps.Keys(found)), slices.Sorted(slices.Values(crashPoints)); !slices.Equal(is, want) {
		t.Errorf("the crash points in the code are %v; the campaign uses %v", is, want)
	}
}
