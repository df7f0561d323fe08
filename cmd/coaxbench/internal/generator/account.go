// Package generator loads a service from the same machine with as little CPU time as possible,
// because the measured service shares the CPU. It implements HTTP/1.1 over TLS, with one
// persistent connection for each client, and writes and signs requests without allocations.
// Every request has a fresh nonce and a valid signature, and every answer's framing, status,
// code and request id are checked.
package generator

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
)

// Account is an operator that sends requests. One client uses it at a time.
type Account struct {
	OperatorID  int64
	Subscribers []string

	key string
	// mac is keyed once; Reset brings it back to there.
	mac hash.Hash

	// The renewals: all subscribers with one plan, then with the next.
	subscriber, plan int
	renewed          int
	// lastRound is when a renewal with each plan was last sent.
	lastRound []time.Time
	// transactions are some of the renewals that were answered 200, for look-ups.
	transactions []string
	// looked counts the look-ups, and activated the activations.
	looked, activated int
	// aside are the subscribers whose last renewal may still be open.
	aside map[int]bool
}

// NewAccount returns an operator's account, with the key that was issued to it.
func NewAccount(operatorID int64, key, secret string) *Account {
	return &Account{OperatorID: operatorID, key: key, mac: hmac.New(sha256.New, []byte(secret)), aside: map[int]bool{}}
}

// NothingOpen makes all subscribers available again, after their operations are settled.
func (a *Account) NothingOpen() { clear(a.aside) }

// maxTransactions is how many transactions an account remembers.
const maxTransactions = 100

// remember keeps the transaction of a renewal's answer.
func (a *Account) remember(answer []byte) error {
	if len(a.transactions) == maxTransactions {
		return nil
	}
	id, err := field(answer, `"transaction_id":"`)
	if err == nil {
		a.transactions = append(a.transactions, string(id))
	}
	return err
}

// renewal returns the indexes of the next subscriber and plan; false if all pairs were used
// too recently: the same renewal is refused for two minutes.
func (a *Account) renewal(plans int, now time.Time) (subscriber, plan int, found bool) {
	if len(a.lastRound) < plans {
		a.lastRound = make([]time.Time, plans)
	}
	for range len(a.Subscribers) + 1 {
		if a.subscriber == len(a.Subscribers) {
			a.subscriber, a.plan = 0, (a.plan+1)%plans
		}
		if a.subscriber == 0 && !a.lastRound[a.plan].IsZero() && now.Sub(a.lastRound[a.plan]) < load.RestPeriod {
			return 0, 0, false
		}
		subscriber, plan = a.subscriber, a.plan
		a.subscriber++
		if a.aside[subscriber] {
			continue
		}
		a.lastRound[plan] = now
		a.renewed++
		return subscriber, plan, true
	}
	return 0, 0, false
}
