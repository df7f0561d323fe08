package generator

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
)

// The expected answer of a load: success, or an unknown outcome if Load.UnknownOutcome is set.
const (
	okay           = "200 OK"
	unknownOutcome = "202 PENDING_REVIEW"
)

const renewPath = "/api/v1/renew"

// client sends one request at a time.
type client struct {
	*run
	conn   conn
	scribe *scribe
	// ask sends a request and checks its answer.
	ask      func(context.Context, shot) (load.Answer, error)
	accounts []*Account
	at       int
	marks    string

	latency latency.Histogram
	answers map[string]uint64
	tally   load.Tally
	last    time.Time // when the last measured one was answered
	inVain  int

	body, key, named, query []byte
	sent                    int
}

// closedLoop sends the next request after the last answer. Latency is measured from the start
// of writing the request.
func (c *client) closedLoop(ctx context.Context) {
	for now := time.Now(); !c.stopped(ctx) && now.Before(c.end); {
		now = c.send(ctx, now)
	}
}

// openLoop sends a request for each scheduled time. Latency is measured from that time, so
// that it includes the wait for a free client.
func (c *client) openLoop(ctx context.Context, due <-chan time.Time) {
	for moment := range due {
		if c.stopped(ctx) {
			return
		}
		c.send(ctx, moment)
	}
}

// send sends the next request and reads its answer.
func (c *client) send(ctx context.Context, since time.Time) time.Time {
	shot, why := c.next(since)
	if why != "" {
		c.run.stop(why)
		return since
	}
	got, err := c.ask(ctx, shot)
	now := time.Now()
	if ctx.Err() != nil {
		// The load has ended and closed the connection, after the request was sent.
		got, err = load.Answer{Code: "cut off"}, nil
	}
	if err != nil {
		got = load.Answer{Code: load.Reason(err)}
	}
	c.count(shot, got, since, now)
	return now
}

// next returns the next request, of the accounts in turn, or why there is none.
func (c *client) next(now time.Time) (of shot, why string) {
	for range c.accounts {
		account := c.accounts[c.at]
		c.at = (c.at + 1) % len(c.accounts)
		switch {
		case c.load.Activate:
			return c.activation(account), ""
		case len(c.load.Plans) > 0:
			if subscriber, plan, found := account.renewal(len(c.load.Plans), now); found {
				return c.renewal(account, subscriber, plan), ""
			}
			why = exhausted
		case c.load.Lookup != load.Transaction || len(account.transactions) > 0:
			return c.lookup(account), ""
		default:
			why = nothingToLookUp
		}
	}
	return shot{}, why
}

// lookup writes one into this client's own memory.
func (c *client) lookup(account *Account) shot {
	of := shot{account: account, method: http.MethodGet, path: "/api/v1/balance"}
	account.looked++
	switch c.load.Lookup {
	case load.Plans:
		of.path = "/api/v1/plans"
	case load.Subscription:
		of.path, of.field, of.names = "/api/v1/subscription", "subscriber_id", account.Subscribers[account.looked%len(account.Subscribers)]
	case load.Transaction:
		of.path, of.field, of.names = "/api/v1/transaction", "transaction_id", account.transactions[account.looked%len(account.transactions)]
	}
	if of.field != "" {
		c.query = append(append(append(c.query[:0], of.field...), '='), of.names...)
		of.query = c.query
	}
	return of
}

// activation writes one of a mobile number that nobody has: Indian mobiles begin with 6 to 9.
func (c *client) activation(account *Account) shot {
	const firstMobile, ofOneAccount = 6_000_000_000, 100_000
	mobile := strconv.FormatInt(firstMobile+account.OperatorID*ofOneAccount+int64(account.activated), 10)
	account.activated++
	c.sent++
	plan := c.load.Plans[account.activated%len(c.load.Plans)]
	c.body = append(append(append(append(append(c.body[:0], `{"full_name":"Bench","mobile":"`...), mobile...), `","plan_id":"`...), plan...), `"}`...)
	c.key = strconv.AppendInt(append(c.key[:0], c.marks...), int64(c.sent), 10)
	return shot{account: account, method: http.MethodPost, path: "/api/v1/activate", body: c.body, key: c.key, field: "mobile", names: mobile}
}

// renewal writes one into this client's own memory. Identifiers are of our own
// making: nothing in them needs escaping.
func (c *client) renewal(account *Account, subscriber, plan int) shot {
	c.sent++
	id := account.Subscribers[subscriber]
	c.body = append(append(append(append(append(c.body[:0], `{"subscriber_id":"`...), id...), `","plan_id":"`...), c.load.Plans[plan]...), `"}`...)
	c.key = strconv.AppendInt(append(c.key[:0], c.marks...), int64(c.sent), 10)
	return shot{account: account, method: http.MethodPost, path: renewPath, body: c.body, key: c.key, field: "subscriber_id", names: id, subscriber: subscriber}
}

// exchange sends a request and checks its answer.
func (c *client) exchange(ctx context.Context, of shot) (load.Answer, error) {
	if err := c.conn.open(ctx); err != nil {
		return load.Answer{}, err
	}
	a, err := c.conn.exchange(c.scribe.write(of, time.Now()))
	if err != nil {
		return load.Answer{}, err
	}
	code, err := a.code()
	if err != nil {
		return load.Answer{}, err
	}
	switch {
	case a.replayed:
		code = "REPLAYED" // every renewal here is a new one
	case of.names != "" && code == "OK" && !c.isAbout(a, of):
		code = "about another " + strings.TrimSuffix(of.field, "_id")
	case of.path == renewPath && code == "OK":
		err = of.account.remember(a.body)
	}
	return load.Answer{Status: a.status, Code: code}, err
}

// isAbout reports whether the answer names what was asked for.
func (c *client) isAbout(a answer, of shot) bool {
	c.named = append(append(append(append(append(c.named[:0], '"'), of.field...), `":"`...), of.names...), '"')
	return bytes.Contains(a.body, c.named)
}

func (c *client) count(of shot, got load.Answer, since, now time.Time) {
	if got.Status == http.StatusOK && got.Code == "OK" {
		c.answers[okay]++
	} else {
		c.answers[got.String()]++
	}
	c.tally.Count(got)
	if of.path == renewPath && got.LeavesOpen() {
		of.account.aside[of.subscriber] = true
	}
	if c.inVain++; got.Status != 0 {
		c.inVain = 0
	}
	if c.inVain == lostAfter {
		c.run.stop("the service no longer answers (" + got.Code + ")")
	}
	if since.Before(c.measureFrom) {
		return
	}
	c.measured.Add(1)
	c.latency.Record(now.Sub(since))
	c.last = now
}
