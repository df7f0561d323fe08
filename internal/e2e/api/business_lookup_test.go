package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// bizLookup is a look-up's query and its expected answer: a code, and for OK the value at
// a path, for VALIDATION_ERROR the named fields.
type bizLookup struct {
	query string
	want  fault.Code
	shows string
}

func (b *bizEnv) lookUp(endpoint, path string, rows []bizLookup) {
	b.TB.Helper()
	for _, row := range rows {
		target := endpoint
		if row.query != "" {
			target += "?" + row.query
		}
		got := b.must(target, b.get(b.me, target), row.want)
		switch row.want {
		case fault.OK:
			b.mustShow(target, got, map[string]string{path: row.shows})
		case fault.ValidationError:
			b.mustName(target, got, strings.Fields(row.shows)...)
		}
	}
}

func TestLookups(t *testing.T) {
	b := newBiz(t)
	b.run(t, "a subscription by id or by mobile", bizSubscriptions)
	b.run(t, "a transaction by id or by key", bizTransactions)
	b.run(t, "another operator's ids answer like unknown ones", bizForeignIDs)
	b.CheckAudit()
}

func bizSubscriptions(t *testing.T, b *bizEnv) {
	one, two := b.customer(b.me, "BASIC-1"), b.customer(b.me, "FAMILY-3")
	b.lookUp("subscription", "customer.subscriber_id", []bizLookup{
		{"subscriber_id=" + one.id, fault.OK, one.id},
		{"mobile=" + one.mobile, fault.OK, one.id},
		{"subscriber_id=" + one.id + "&mobile=" + one.mobile, fault.OK, one.id},
		{"mobile=" + two.mobile + "&subscriber_id=" + one.id, fault.OK, one.id},
		{"subscriber_id=" + one.id + "&mobile=98", fault.OK, one.id},
		{"subscriber_id=&mobile=" + two.mobile, fault.OK, two.id},
		{"subscriber_id&mobile=" + two.mobile, fault.OK, two.id},
		{"other=1&mobile=" + two.mobile + "&other=2", fault.OK, two.id},
		{"mobile=+" + one.mobile + "%20", fault.OK, one.id},
		{"subscriber_id=%20" + one.id + "%0A", fault.OK, one.id},
		{"subscriber_id=+&mobile=" + two.mobile, fault.OK, two.id},
		{"%73ubscriber_id=" + one.id, fault.OK, one.id},
		{"subscriber_id=%3" + one.id[:1] + one.id[1:], fault.OK, one.id},

		{"subscriber_id=nobody", fault.SubscriberNotFound, ""},
		{"subscriber_id=nobody&mobile=" + one.mobile, fault.SubscriberNotFound, ""},
		{"subscriber_id=" + one.mobile, fault.SubscriberNotFound, ""},
		{"subscriber_id=" + one.id + "%27--", fault.SubscriberNotFound, ""},
		{"mobile=9600000000", fault.SubscriberNotFound, ""},

		{"", fault.ValidationError, "subscriber_id"},
		{"subscriber_id=", fault.ValidationError, "subscriber_id"},
		{"mobile=", fault.ValidationError, "subscriber_id"},
		{"subscriber_id=&mobile=", fault.ValidationError, "subscriber_id"},
		{"Subscriber_ID=" + one.id, fault.ValidationError, "subscriber_id"},
		{"transaction_id=" + one.id, fault.ValidationError, "subscriber_id"},
		{"mobile=" + one.mobile[:9], fault.ValidationError, "mobile"},
		{"mobile=" + one.mobile + "0", fault.ValidationError, "mobile"},
		{"mobile=%2B919811111", fault.ValidationError, "mobile"},
		{"mobile=981111111x", fault.ValidationError, "mobile"},
		{"mobile=%E0%A5%A7%E0%A5%A7%E0%A5%A7%E0%A5%A7%E0%A5%A7%E0%A5%A7%E0%A5%A7%E0%A5%A7%E0%A5%A7%E0%A5%A7", fault.ValidationError, "mobile"},
		{"subscriber_id=" + one.id + "&subscriber_id=" + one.id, fault.ValidationError, "subscriber_id"},
		{"subscriber_id=" + one.id + "&subscriber_id=" + two.id, fault.ValidationError, "subscriber_id"},
		{"mobile=" + one.mobile + "&mobile=" + one.mobile, fault.ValidationError, "mobile"},
		{"subscriber_id=" + one.id + "&mobile=" + one.mobile + "&mobile=" + one.mobile, fault.ValidationError, "mobile"},
		{"subscriber_id=1&subscriber_id=1&mobile=9811111111&mobile=9811111111", fault.ValidationError, "mobile subscriber_id"},
		{"subscriber_id=" + one.id + "&%73ubscriber_id=" + one.id, fault.ValidationError, "subscriber_id"},
		{"subscriber_id=%FF", fault.ValidationError, "subscriber_id"},
		{"subscriber_id=a%00b", fault.ValidationError, "subscriber_id"},
	})
	got := b.get(b.me, "subscription?subscriber_id="+two.id)
	b.mustShow("the whole", got, map[string]string{
		"customer.name": "Asha", "customer.mobile": two.mobile, "customer.email": "", "customer.connection_type": "OTT + Live TV",
		"provider": "simulator", "plan.id": "FAMILY-3", "plan.name": "Family, 3 months", "status": "active", "active": "true",
	})
	if list, is := got.Data["pending_operations"].([]any); !is || len(list) != 0 {
		t.Errorf("pending are %v; want an empty list", got.Data["pending_operations"])
	}
}

func bizTransactions(t *testing.T, b *bizEnv) {
	keys, ids := []string{b.key(), "a:b.c_d-" + b.key()}, []string{}
	for i, endpoint := range []string{"activate", "renew"} {
		got := b.must(endpoint, b.post(b.me, endpoint, keys[i], b.good(endpoint).json()), fault.OK)
		ids = append(ids, got.Text("transaction_id"))
	}
	refused := b.key()
	b.must("refused", b.post(b.me, "activate", refused, "{}"), fault.ValidationError)
	b.lookUp("transaction", "transaction_id", []bizLookup{
		{"transaction_id=" + ids[0], fault.OK, ids[0]},
		{"idempotency_key=" + keys[0], fault.OK, ids[0]},
		{"idempotency_key=" + keys[1], fault.OK, ids[1]},
		{"idempotency_key=" + strings.ReplaceAll(keys[1], ":", "%3A"), fault.OK, ids[1]},
		{"transaction_id=" + ids[0] + "&idempotency_key=" + keys[0], fault.OK, ids[0]},
		{"idempotency_key=" + keys[1] + "&transaction_id=" + ids[0], fault.OK, ids[0]},
		{"transaction_id=" + ids[0] + "&idempotency_key=x", fault.OK, ids[0]},
		{"transaction_id=&idempotency_key=" + keys[1], fault.OK, ids[1]},

		{"transaction_id=CX0", fault.TransactionNotFound, ""},
		{"transaction_id=" + strings.ToLower(ids[0]), fault.TransactionNotFound, ""},
		{"transaction_id=" + ids[0] + "-2", fault.TransactionNotFound, ""},
		{"transaction_id=" + keys[0], fault.TransactionNotFound, ""},
		{"transaction_id=CX0&idempotency_key=" + keys[0], fault.TransactionNotFound, ""},
		{"idempotency_key=" + ids[0], fault.TransactionNotFound, ""},
		{"idempotency_key=" + refused, fault.TransactionNotFound, ""},
		{"idempotency_key=" + strings.ToUpper(keys[0]), fault.TransactionNotFound, ""},
		{"idempotency_key=short", fault.TransactionNotFound, ""},

		{"", fault.ValidationError, "transaction_id"},
		{"transaction_id=&idempotency_key=", fault.ValidationError, "transaction_id"},
		{"subscriber_id=1", fault.ValidationError, "transaction_id"},
		{"transaction_id=" + ids[0] + "&transaction_id=" + ids[0], fault.ValidationError, "transaction_id"},
		{"idempotency_key=" + keys[0] + "&idempotency_key=" + keys[1], fault.ValidationError, "idempotency_key"},
		{"transaction_id=" + ids[0] + "&idempotency_key=" + keys[0] + "&idempotency_key=" + keys[0], fault.ValidationError, "idempotency_key"},
		{"transaction_id=%00", fault.ValidationError, "transaction_id"},
	})
	// Looking up a failed operation succeeds.
	sent := b.good("activate")
	b.ScriptProvider(sent["mobile"].(string), "reject")
	key := b.key()
	b.must("a rejection", b.post(b.me, "activate", key, sent.json()), fault.ProviderError)
	got := b.must("a failed operation", b.LookUp(b.me, key), fault.OK)
	b.mustShow("a failed operation", got, map[string]string{"status": "failed", "result_code": "PROVIDER_ERROR", "reason": "PROVIDER_REJECTED", "wallet.refunded": "true"})
}

// bizBytes returns an answer without the request id and the remaining requests, which
// differ in every answer.
func bizBytes(a e2e.Answer) string {
	var header []string
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		if !slices.Contains([]string{"Date", "X-Request-Id", http.CanonicalHeaderKey("X-RateLimit-Remaining")}, name) {
			header = append(header, name+": "+strings.Join(a.Header[name], ", "))
		}
	}
	return fmt.Sprintf("%d\n%s\n%s", a.Status, strings.Join(header, "\n"), strings.ReplaceAll(string(a.Raw), a.ID, "req"))
}

func bizForeignIDs(t *testing.T, b *bizEnv) {
	other := b.NewFundedOperator("other", "100000")
	// The other operator's subscribers in every state: active, booked ahead, just renewed,
	// in review, not activated yet, failed.
	active, renewed, reviewed := b.customer(other, "BASIC-1"), b.customer(other, "BASIC-1"), b.customer(other, "BASIC-1")
	keys := map[string]string{"renewed": b.key(), "booked": b.key(), "failed": b.key()}
	transactions := []string{}
	for what, key := range keys {
		endpoint := map[string]string{"renewed": "renew", "booked": "advance-renew", "failed": "renew"}[what]
		plan := map[string]string{"renewed": "FAMILY-1", "booked": "FAMILY-3", "failed": "COMBO-1"}[what]
		if what == "failed" {
			b.ScriptProvider(renewed.mobile, "reject")
		}
		transactions = append(transactions, b.post(other, endpoint, key, bizRenewal(renewed, plan)).Text("transaction_id"))
	}
	transactions = append(transactions, b.leaveInReview(other, "renew", reviewed.mobile, bizBody{"subscriber_id": reviewed.id, "plan_id": "FAMILY-1"}))
	waiting := b.good("activate")
	transactions = append(transactions, b.leaveInReview(other, "activate", waiting["mobile"].(string), waiting))
	pending := bizCustomer{b.get(other, "subscription?mobile="+waiting["mobile"].(string)).Text("customer.subscriber_id"), waiting["mobile"].(string)}

	compare := func(what string, theirs, unknown e2e.Call, want fault.Code) {
		t.Helper()
		one, none := b.must(what, b.Send(theirs), want), b.Send(unknown)
		if bizBytes(one) != bizBytes(none) {
			t.Errorf("%s: another operator's id answers\n%s\nand an unknown one\n%s", what, bizBytes(one), bizBytes(none))
		}
	}
	get := func(target string) e2e.Call { return e2e.Call{As: b.me, Path: "/api/v1/" + target} }
	b.checkNoCharge("the whole", func() {
		for _, c := range []bizCustomer{active, renewed, reviewed, pending} {
			compare("subscription by id", get("subscription?subscriber_id="+c.id), get("subscription?subscriber_id=nobody"), fault.SubscriberNotFound)
			compare("subscription by mobile", get("subscription?mobile="+c.mobile), get("subscription?mobile=9600000000"), fault.SubscriberNotFound)
			for _, endpoint := range bizEndpoints[1:] {
				for _, plan := range []string{"BASIC-1", "FAMILY-1"} {
					post := func(name, value string) e2e.Call {
						return bizCall(b.me, endpoint, b.key(), bizBody{name: value, "plan_id": plan}.json())
					}
					compare(endpoint+" by id", post("subscriber_id", c.id), post("subscriber_id", "nobody"), fault.SubscriberNotFound)
					compare(endpoint+" by mobile", post("mobile", c.mobile), post("mobile", "9600000000"), fault.SubscriberNotFound)
				}
			}
		}
		for _, id := range transactions {
			compare("transaction by id", get("transaction?transaction_id="+id), get("transaction?transaction_id=CX0"), fault.TransactionNotFound)
		}
		for _, key := range keys {
			compare("transaction by key", get("transaction?idempotency_key="+key), get("transaction?idempotency_key=never-used"), fault.TransactionNotFound)
			// Another operator's key is unused for this one.
			body := bizRenewal(renewed, "FAMILY-1")
			compare("their request under their key", bizCall(b.me, "renew", key, body), bizCall(b.me, "renew", b.key(), body), fault.SubscriberNotFound)
		}
	})
	// Another operator's ids are taken just like the caller's own.
	mine := b.customer(b.me, "BASIC-1")
	for _, taken := range []string{active.id, pending.id, mine.id} {
		got := b.must("a taken id", b.post(b.me, "activate", b.key(), b.good("activate").with("subscriber_id", taken).json()), fault.OK)
		if got.Text("customer.subscriber_id") == taken {
			t.Errorf("the id %s was given twice", taken)
		}
	}
	exists := func(mobile string) e2e.Call {
		return bizCall(b.me, "activate", b.key(), b.good("activate").with("mobile", mobile).json())
	}
	compare("a registered mobile", exists(active.mobile), exists(mine.mobile), fault.SubscriberExists)
	// The caller's own are found.
	b.must("mine", b.get(b.me, "subscription?subscriber_id="+mine.id), fault.OK)
	b.must("theirs, asked by them", b.get(other, "subscription?subscriber_id="+active.id), fault.OK)
}
