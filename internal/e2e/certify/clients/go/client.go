package main

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"log"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

type order struct {
	ID        string          `json:"id"`
	BaseURL   string          `json:"base_url"`
	CACert    string          `json:"ca_cert"`
	APIKey    string          `json:"api_key"`
	APISecret string          `json:"api_secret"`
	Operation string          `json:"operation"`
	Key       string          `json:"idempotency_key"`
	Body      json.RawMessage `json:"body"` // sent as it came
}

type result struct {
	ID            string `json:"id"`
	Outcome       string `json:"outcome"`
	TransactionID string `json:"transaction_id"`
	Code          string `json:"code"`
	Charged       string `json:"charged"`
}

// step is what to do after an answer.
type step int

const (
	again     step = iota // send the same request once more
	follow                // poll until the outcome is known
	resend                // nothing is stored under the key: stop polling, send the operation once more
	adjust                // correct the clock and send at once
	succeeded             // carried out and charged
	failed                // the key is decided: not carried out
	refused               // this attempt did not carry it out, and another would not either
)

// call carries out one order. A fault replaces one of the functions.
type call struct {
	order
	deadline      time.Time
	posts, polls  int    // sent so far
	unanswered    int    // posts that got no answer from the service
	undecided     bool   // a post may have been carried out
	following     bool   // the service has the operation: poll
	adjusted      bool   // the clock was corrected in this call
	transactionID string // of this order's operation, once known

	key   func() string
	trust func() (*tls.Config, error)
	sign  func(method, path, query string, body []byte) http.Header
	next  func(answer) step
}

func newCall(o order, fault func(*call)) *call {
	c := &call{order: o, deadline: time.Now().Add(180 * time.Second)}
	c.key = func() string { return c.Key }
	c.trust, c.sign, c.next = c.trustCA, c.signed, c.decide
	fault(c)
	return c
}

var validKey = regexp.MustCompile(`^[A-Za-z0-9_.:-]{8,100}$`)

func (c *call) run() result {
	if !validKey.MatchString(c.Key) {
		return result{ID: c.ID, Outcome: "failed", Code: "INVALID_IDEMPOTENCY_KEY"}
	}
	for {
		a := c.attempt()
		next := c.next(a)
		switch next {
		case succeeded:
			return c.result("success", a)
		case failed:
			return c.result("failed", a)
		case refused:
			return c.unfinished(a)
		case follow:
			c.following = true
		case resend:
			c.following = false
		case adjust:
			c.adjusted = true
			clocks.Store(c.APIKey, a.serverTime()-time.Now().Unix())
		}
		pause := c.pause(next, a)
		if a.retryAfter > 120*time.Second || time.Now().Add(pause).After(c.deadline) {
			return c.unfinished(a)
		}
		time.Sleep(pause)
	}
}

// unfinished ends a call without an outcome. A refusal is about one attempt: an earlier one
// that got no answer may still have been carried out.
func (c *call) unfinished(a answer) result {
	if c.undecided {
		return c.result("pending", a)
	}
	return c.result("failed", a)
}

func (c *call) result(outcome string, a answer) result {
	code := cmp.Or(a.text("data", "result_code"), a.text("code"))
	r := result{ID: c.ID, Outcome: outcome, TransactionID: c.transactionID, Code: code}
	if outcome == "success" {
		r.Charged = a.charged()
	}
	return r
}

// decide is the table of retries. A code that it does not have counts by its status.
func (c *call) decide(a answer) step {
	code, outcome := a.text("code"), ""
	if a.status == 200 && a.at("success") == true && c.isOurs(a) {
		outcome = a.text("data", "status")
	}
	switch {
	case a.untrusted:
		return refused
	case a.body == nil && (a.status == 0 || a.status/100 == 2 || a.status == 429 || a.status >= 500):
		return again
	case a.body == nil:
		return refused // a redirect or a proxy's refusal
	case code == "PROVIDER_ERROR" || code == "IDEMPOTENCY_KEY_REUSED":
		return failed
	case code == "TIMESTAMP_EXPIRED" && a.serverTime() > 0 && !c.adjusted:
		return adjust
	case code == "REQUEST_IN_PROGRESS":
		return follow
	case code == "TRANSACTION_NOT_FOUND" && c.following:
		return resend
	case outcome == "success" && a.charged() != "":
		return succeeded
	case outcome == "failed":
		return failed
	case a.status/100 == 2:
		return follow
	case code == "REPLAY_DETECTED" || code == "OPERATION_IN_PROGRESS" || a.status == 429 || a.status >= 500:
		return again
	}
	return refused
}

// mayBeDone reports whether an operation with this answer may have been carried out, or may be later.
func mayBeDone(a answer) bool {
	switch code := a.text("code"); {
	case a.body == nil:
		return !a.unsent
	case code == "PROVIDER_ERROR" || code == "PLANS_UNAVAILABLE":
		return false
	default:
		return a.status < 400 || a.status >= 500 || code == "REPLAY_DETECTED" || code == "REQUEST_IN_PROGRESS"
	}
}

func (c *call) pause(next step, a answer) time.Duration {
	switch {
	case next == adjust:
		return 0
	case a.status == 429 && a.retryAfter > 0:
		return a.retryAfter + mathrand.N(a.retryAfter/10)
	case c.following:
		return growing(time.Second, c.polls, 5*time.Second)
	case a.text("code") == "OPERATION_IN_PROGRESS":
		return max(2*time.Second, growing(time.Second/2, c.posts-1, 30*time.Second))
	}
	return growing(time.Second/2, c.posts-1, 30*time.Second)
}

// growing returns a random time between half and all of first, doubled n times.
func growing(first time.Duration, n int, limit time.Duration) time.Duration {
	whole := min(first<<min(n, 10), limit)
	return whole/2 + mathrand.N(whole/2)
}

// attempt sends the operation, or polls it, once.
func (c *call) attempt() answer {
	var a answer
	if c.following {
		c.polls++
		a = c.exchange("GET", "/transaction", "idempotency_key="+url.QueryEscape(c.key()), nil)
	} else {
		c.posts++
		a = c.exchange("POST", "/"+c.Operation, "", c.Body)
		c.undecided = c.undecided || mayBeDone(a)
		if a.body == nil {
			c.unanswered++
		}
	}
	if c.isOurs(a) {
		c.transactionID = cmp.Or(a.text("data", "transaction_id"), c.transactionID)
	}
	if a.err != nil {
		log.Printf("%s: post %d, poll %d: %v", c.ID, c.posts, c.polls, a.err)
	} else {
		log.Printf("%s: post %d, poll %d: %d %s", c.ID, c.posts, c.polls, a.status, a.text("code"))
	}
	return a
}

func (c *call) isOurs(a answer) bool { return a.text("data", "idempotency_key") == c.key() }
