package audit

import (
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

// limit is an operator's rate limit, in requests a minute, from one moment on.
type limit struct{ since, requests int64 }

// readNonces checks that no nonce of a key was used by two requests.
func (a *auditor) readNonces() {
	type nonce struct {
		key     int64
		text    string
		request string
	}
	var before nonce
	nonces := open(a, "nonces", `SELECT credential_id, nonce, request_id FROM nonces ORDER BY credential_id, nonce`,
		func(row scanner, n *nonce) int64 {
			row(&n.key, &n.text, &n.request)
			return n.key
		})
	walk(func(key int64) {
		subject := fmt.Sprintf("key %d", key)
		if !a.keys[key] {
			a.found("A1", subject, "nonces of it were used, and it is missing")
		}
		nonces.each(key, func(n *nonce) {
			if n.key == before.key && n.text == before.text {
				a.found("A1", subject, "nonce %q was used by requests %s and %s; expected one request", n.text, before.request, n.request)
			}
			before = *n
		})
	}, nonces)
	a.report.Counts.Nonces = nonces.count
}

// minuteMS is the length of the window of one rate counter.
const minuteMS = int64(subscription.RateWindow / time.Millisecond)

// readRateCounters checks that no minute has more admitted requests than the operator's
// limit.
func (a *auditor) readRateCounters() {
	type counter struct{ operator, minute, used int64 }
	var before counter
	counters := open(a, "rate_counters", `SELECT operator_id, minute, used FROM rate_counters ORDER BY operator_id, minute`,
		func(row scanner, c *counter) int64 {
			row(&c.operator, &c.minute, &c.used)
			return c.operator
		})
	walk(func(id int64) {
		subject := fmt.Sprintf("lco %d", id)
		a.requireOperator(id, fmt.Sprintf("a minute's count of lco %d", id))
		counters.each(id, func(c *counter) {
			if c.operator == before.operator && c.minute == before.minute {
				a.found("A6", subject, "the minute of %s was counted twice; expected one count", moment(c.minute*minuteMS))
			}
			before = *c
			if allowed := a.operatorOf(id).limitIn(c.minute * minuteMS); c.used < 1 || c.used > allowed {
				a.found("A6", subject, "%d requests were let in in the minute of %s; expected 1 to %d", c.used, moment(c.minute*minuteMS), allowed)
			}
		})
	}, counters)
	a.report.Counts.Minutes = counters.count
}

// limitIn returns the highest limit that was in force during a minute.
func (o *operator) limitIn(minute int64) (highest int64) {
	for i, l := range o.limits {
		begins := l.since <= minute+minuteMS+queueSlackMS
		ends := i+1 < len(o.limits) && o.limits[i+1].since < minute-queueSlackMS
		if begins && !ends {
			highest = max(highest, l.requests)
		}
	}
	return highest
}
