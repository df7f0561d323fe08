package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
)

var (
	// rank orders the states: an operation never goes back.
	rank = map[string]int{"processing": 1, "needs_review": 2, "success": 3, "failed": 3}

	// refusals are codes that mean that nothing was done.
	refusals = map[string]bool{
		"INSUFFICIENT_BALANCE": true, "SUBSCRIBER_EXISTS": true, "SUBSCRIBER_NOT_FOUND": true, "DUPLICATE_REQUEST": true,
		"OPERATION_IN_PROGRESS": true, "PLAN_ALREADY_ACTIVE": true,
	}

	// unavailable are codes that say nothing about an order.
	unavailable = map[string]bool{"SERVICE_UNAVAILABLE": true, "INTERNAL_ERROR": true}

	// codeOfState is which code goes with which state, wherever an operation is shown.
	codeOfState = map[string]string{
		"success": "OK", "failed": "PROVIDER_ERROR", "needs_review": "PENDING_REVIEW", "processing": "REQUEST_IN_PROGRESS",
	}
	statusOf = map[string]int{"OK": http.StatusOK, "PENDING_REVIEW": http.StatusAccepted, "PROVIDER_ERROR": http.StatusBadGateway, "REQUEST_IN_PROGRESS": http.StatusConflict}
)

// mayBeUnavailable reports whether the service may give such an answer. On SQLite only
// the provider can be unavailable. On PostgreSQL a node may notice too late that its
// database is gone, and answer with INTERNAL_ERROR.
func (r *record) mayBeUnavailable(t answer) bool {
	return t.code == "SERVICE_UNAVAILABLE" || t.code == "INTERNAL_ERROR" && r.env.store == "postgres"
}

// check checks an answer about an order against all earlier ones. The record is locked.
func (r *record) check(o *order, t answer) {
	if o == nil {
		r.violation(nil, "an answer to an unknown order: %+v", t)
		return
	}
	switch {
	case t.method == http.MethodPost && statusOf[t.code] != 0:
		t.state = stateOf(t.code)
		if statusOf[t.code] != t.status {
			r.violation(o, "%s with status %d", t.code, t.status)
		}
		if t.state != "processing" && t.data["status"] != t.state {
			r.violation(o, "answered %s for an operation that is %v", t.code, t.data["status"])
		}
	case t.method == http.MethodGet && t.code == "OK":
		t.state, _ = t.data["status"].(string)
		if codeOfState[t.state] == "" || t.data["result_code"] != codeOfState[t.state] {
			r.violation(o, "looked up, it is %q with result code %v", t.state, t.data["result_code"])
		}
	case t.method == http.MethodPost && refusals[t.code], t.method == http.MethodGet && t.code == "TRANSACTION_NOT_FOUND":
		// There is no operation, so no earlier answer may have shown one.
		for _, earlier := range o.answers {
			if earlier.state != "" && earlier.ended < t.began {
				r.violation(o, "was shown as %s, and is then answered with %d %s", earlier.state, t.status, t.code)
				break
			}
		}
		if previous, is := t.data["previous_transaction_id"].(string); is {
			r.named[previous] = o.key
		}
	case !r.mayBeUnavailable(t):
		r.violation(o, "answered with %d %s", t.status, t.code)
	}
	o.answers = append(o.answers, t)
	if t.state == "" {
		return
	}
	if t.data["transaction_id"] != nil {
		r.checkIdentity(o, t)
		r.checkContent(o, t)
	}
	for _, earlier := range o.answers[:len(o.answers)-1] {
		if earlier.state != "" {
			r.checkPair(o, earlier, t)
		}
	}
}

func stateOf(code string) string {
	for state, says := range codeOfState {
		if says == code {
			return state
		}
	}
	return ""
}

// checkIdentity: one key is one transaction, and one transaction has one key.
func (r *record) checkIdentity(o *order, t answer) {
	id := fmt.Sprint(t.data["transaction_id"])
	if o.id == "" {
		o.id = id
	}
	if other := r.byTransaction[id]; o.id != id || other != nil && other != o {
		r.violation(o, "is transaction %s, and then %s", o.id, id)
	}
	r.byTransaction[id], r.named[id] = o, o.key
	if t.data["idempotency_key"] != o.key {
		r.violation(o, "is shown with the key %v", t.data["idempotency_key"])
	}
}

// checkContent compares a shown operation with its order, and its money with its state.
func (r *record) checkContent(o *order, t answer) {
	customer, _ := t.data["customer"].(map[string]any)
	plan, _ := t.data["plan"].(map[string]any)
	wallet, _ := t.data["wallet"].(map[string]any)
	kind := map[string]string{"activate": "activate", "renew": "renew", "advance-renew": "advance_renew"}[o.endpoint]
	if customer["mobile"] != o.mobile || plan["id"] != o.plan || t.data["operation"] != kind || t.data["channel"] != "api" {
		r.violation(o, "shows another order: %v", t.data)
	}
	price := prices[o.plan]
	amount := func(of map[string]any, name string) int64 { return paise(r.env.t, fmt.Sprint(of[name])) }
	open := t.state == "processing" || t.state == "needs_review"
	charged, spent := int64(0), price
	switch t.state {
	case "success":
		charged = price
	case "failed":
		spent = 0
	}
	if amount(t.data, "amount") != price || amount(wallet, "charged") != charged || amount(wallet, "before")-amount(wallet, "after") != spent ||
		wallet["held"] != open || wallet["refunded"] != (t.state == "failed") {
		r.violation(o, "as %s it shows the wallet %v; the price is %d paise", t.state, wallet, price)
	}
	if _, shown := customer["password"]; shown && (t.replayed || t.method != http.MethodPost || o.endpoint != "activate") {
		r.violation(o, "a password is shown again")
	}
}

// checkPair compares two answers about one operation.
func (r *record) checkPair(o *order, earlier, t answer) {
	switch {
	case rank[earlier.state] == 3 && rank[t.state] == 3 && earlier.state != t.state:
		r.violation(o, "is shown as %s and as %s", earlier.state, t.state)
	case earlier.ended < t.began && rank[earlier.state] > rank[t.state]:
		r.violation(o, "was %s, and then %s", earlier.state, t.state)
	}
	first := func(t answer) bool {
		return t.method == http.MethodPost && t.data["transaction_id"] != nil && !t.replayed
	}
	if first(earlier) && first(t) {
		r.violation(o, "was carried out twice: two answers are no replays")
	}
	if earlier.data["transaction_id"] == nil || t.data["transaction_id"] == nil {
		return
	}
	was, is := lasting(earlier.data), lasting(t.data)
	if earlier.state != t.state {
		for _, changes := range []string{"status", "wallet", "expiry", "completed_at", "provider_transaction_id", "provider_message", "reason"} {
			delete(was, changes)
			delete(is, changes)
		}
	}
	if !reflect.DeepEqual(was, is) {
		r.violation(o, "shows %s, and then %s", asJSON(was), asJSON(is))
	}
	if earlier.ended < t.began && earlier.state == "success" && t.state == "success" && len(warnings(earlier)) < len(warnings(t)) {
		r.violation(o, "has a warning that it did not have before")
	}
}

// lasting returns an operation's data without what may differ between answers in the
// same state: the password, fields of lookups only, and warnings.
func lasting(data map[string]any) map[string]any {
	kept := maps.Clone(data)
	for _, name := range []string{"result_code", "result_message", "warnings"} {
		delete(kept, name)
	}
	if customer, is := kept["customer"].(map[string]any); is {
		customer = maps.Clone(customer)
		delete(customer, "password")
		kept["customer"] = customer
	}
	return kept
}

func warnings(t answer) []any {
	list, _ := t.data["warnings"].([]any)
	return list
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// checkOtherBody: a key that has an operation is refused for another body.
func (r *record) checkOtherBody(o *order, t answer) {
	if t.code != "IDEMPOTENCY_KEY_REUSED" && !r.mayBeUnavailable(t) {
		r.violation(o, "its key, used for another body, is answered with %d %s", t.status, t.code)
	}
}
