package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/coaxhq/coax/client"
)

// RestPeriod is how long a subscriber is not renewed with the same plan again:
// the contract's two minutes, and a little for clocks that differ.
const RestPeriod = 2*time.Minute + 5*time.Second

// renewals gives a worker renewals of subscribers that are its own, so that no
// customer ever has two operations at a time. Each is a new business action: a
// subscriber and a plan come together again only when the contract lets them.
type renewals struct {
	client      *client.Client
	subscribers []string
	plans       []string
	keys        string // what the idempotency keys begin with

	at   int // the pair that comes next; all subscribers with one plan, then with the next
	sent int
	// settled is when each pair was last answered; aside are the subscribers
	// whose last operation may still be open.
	settled []time.Time
	aside   []bool
	last    int // the pair on its way
}

func newRenewals(c *client.Client, subscribers, plans []string, keys string) *renewals {
	return &renewals{
		client: c, subscribers: subscribers, plans: plans, keys: keys,
		settled: make([]time.Time, len(subscribers)*len(plans)), aside: make([]bool, len(subscribers)),
	}
}

func (r *renewals) Next(now time.Time) (Request, bool) {
	for range r.settled {
		pair := r.at
		if r.aside[pair%len(r.subscribers)] {
			r.at = (pair + 1) % len(r.settled)
			continue
		}
		// Pairs go round in order, so this one has rested longest.
		if before := r.settled[pair]; !before.IsZero() && now.Sub(before) < RestPeriod {
			return Request{}, false
		}
		r.at, r.last = (pair+1)%len(r.settled), pair
		r.sent++
		// Identifiers of our own making: nothing in them needs escaping.
		body := `{"subscriber_id":"` + r.subscribers[pair%len(r.subscribers)] + `","plan_id":"` + r.plans[pair/len(r.subscribers)] + `"}`
		return Request{
			Client: r.client, Kind: "renew", Method: http.MethodPost, Path: "/api/v1/renew", Body: []byte(body),
			Header: http.Header{"Idempotency-Key": {fmt.Sprintf("%s-%d", r.keys, r.sent)}},
		}, true
	}
	return Request{}, false
}

func (r *renewals) Answered(now time.Time, answer Answer) {
	r.settled[r.last] = now
	if answer.LeavesOpen() {
		r.aside[r.last%len(r.subscribers)] = true
	}
}

// The kinds of reads.
const (
	Balance      = "balance"
	Plans        = "plans"
	Subscription = "subscription"
	Transaction  = "transaction"
	Mix          = "mix"
)

// ReadKinds are those that can be asked for alone; a mix is all of them in turn.
var ReadKinds = []string{Balance, Plans, Subscription, Transaction}

// reads gives a worker look-ups, one kind after the other.
type reads struct {
	client *client.Client
	kinds  []string
	// subscribers and transactions are what there is to look up.
	subscribers, transactions []string
	at                        int
}

// NewReads is look-ups that need to know nothing but a key: balance and plans.
func NewReads(c *client.Client, kinds []string) Source { return &reads{client: c, kinds: kinds} }

func (r *reads) Next(time.Time) (Request, bool) {
	kind, turn := r.kinds[r.at%len(r.kinds)], r.at/len(r.kinds)
	r.at++
	path := "/api/v1/" + kind
	switch kind {
	case Subscription:
		path += "?subscriber_id=" + r.subscribers[turn%len(r.subscribers)]
	case Transaction:
		path += "?transaction_id=" + r.transactions[turn%len(r.transactions)]
	}
	return Request{Client: r.client, Kind: kind, Method: http.MethodGet, Path: path}, true
}

func (r *reads) Answered(time.Time, Answer) {}

// transactionOf reads the number of the operation that an answer is about.
func transactionOf(answer Answer) (string, error) {
	var envelope struct {
		Data struct {
			TransactionID string `json:"transaction_id"`
		}
	}
	if err := json.Unmarshal(answer.Body, &envelope); err != nil || envelope.Data.TransactionID == "" {
		return "", fmt.Errorf("the answer to a renewal names no transaction: %.200s", answer.Body)
	}
	return envelope.Data.TransactionID, nil
}

// kindsOf is what a choice of reads stands for. A mix leaves out the look-ups of
// transactions where there are none.
func kindsOf(choice string, transactions bool) []string {
	if choice != Mix {
		return []string{choice}
	}
	if !transactions {
		return []string{Balance, Plans, Subscription}
	}
	return ReadKinds
}
