package generator

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
)

// The expected answer of a load: success, or an unknown outcome if Load.UnknownOutcome is set.
const (
	okay           = "200 OK"
	unknownOutcome = "202 PENDING_REVIEW"
)

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

	body, key, named []byte
	sent             int
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
	shot, found := c.next(since)
	if !found {
		c.run.stop(exhausted)
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

// next returns the next request, of the accounts in turn.
func (c *client) next(now time.Time) (shot, bool) {
	account := c.accounts[c.at]
	c.at = (c.at + 1) % len(c.accounts)
	if len(c.load.Plans) == 0 {
		return shot{account: account, method: http.MethodGet, path: "/api/v1/balance"}, true
	}
	for range c.accounts {
		if subscriber, plan, found := account.renewal(len(c.load.Plans), now); found {
			return c.renewal(account, subscriber, plan), true
		}
		account = c.accounts[c.at]
		c.at = (c.at + 1) % len(c.accounts)
	}
	return shot{}, false
}

// renewal writes one into this client's own memory. Identifiers are of our own
// making: nothing in them needs escaping.
func (c *client) renewal(account *Account, subscriber, plan int) shot {
	c.sent++
	id := account.Subscribers[subscriber]
	c.body = append(append(append(append(append(c.body[:0], `{"subscriber_id":"`...), id...), `","plan_id":"`...), c.load.Plans[plan]...), `"}`...)
	c.key = strconv.AppendInt(append(c.key[:0], c.marks...), int64(c.sent), 10)
	return shot{account: account, method: http.MethodPost, path: "/api/v1/renew", body: c.body, key: c.key, names: id, subscriber: subscriber}
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
	case of.names != "" && code == "OK" && !c.isAbout(a, of.names):
		code = "about another subscriber"
	}
	return load.Answer{Status: a.status, Code: code}, nil
}

// isAbout reports whether the answer names the requested subscriber.
func (c *client) isAbout(a answer, id string) bool {
	c.named = append(append(append(c.named[:0], `"subscriber_id":"`...), id...), '"')
	return bytes.Contains(a.body, c.named)
}

func (c *client) count(of shot, got load.Answer, since, now time.Time) {
	if got.Status == http.StatusOK && got.Code == "OK" {
		c.answers[okay]++
	} else {
		c.answers[got.String()]++
	}
	c.tally.Count(got)
	if of.names != "" && got.LeavesOpen() {
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
