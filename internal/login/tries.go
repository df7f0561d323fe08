package login

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
)

// tryWindow is how long a failed try counts: a counter's window begins with its first
// try, and when it is over the counter begins again.
const tryWindow = 15 * time.Minute

// Limits of failed tries within a window.
const (
	// triesPerNetwork is of one username from one network.
	triesPerNetwork = 10
	// triesPerAddress is of all usernames from one address: an office has one.
	triesPerAddress = 50
	// triesPerBrowser is of one login from a browser that has signed in to it before.
	triesPerBrowser = 10
	// triesPerSession is of one session in which somebody is signed in. When they are
	// used up the session ends.
	triesPerSession = 10
	// codesPerLogin is of second factors of one login, from all networks together. Only
	// whoever has given the password can use it up, and a code has only a million
	// values: without this limit, many networks together would find one.
	codesPerLogin = 30
)

// Tries of one username from everywhere beyond slowAfter are answered late, by up to
// slowMost, and never refused.
const (
	slowAfter = 10
	slowFirst = 250 * time.Millisecond
	slowMost  = 4 * time.Second
	// slowAtOnce bounds how many connections of a node wait for their answer. Tries
	// beyond that are not delayed; that few passwords are hashed at once slows them too.
	slowAtOnce = 200
)

// slowdown is how late the answer to a username's n-th try within a window comes.
func slowdown(n int) time.Duration {
	if n <= slowAfter {
		return 0
	}
	return min(slowMost, slowFirst<<min(n-slowAfter-1, 10))
}

// TryKey names a counter of failed tries.
type TryKey [16]byte

// TryCounter is a counter of failed tries that one more is counted under.
type TryCounter struct {
	Key TryKey
	// Limit is how many it takes; 0 is no limit.
	Limit int
}

// TryCount is what a counter of failed tries stands at.
type TryCount struct {
	Key   TryKey
	Since time.Time
	Tries int
}

// What a counter counts. Each has keys of its own.
const (
	ofNameAndNetwork     = "name and network"
	ofAddress            = "address"
	ofName               = "name"
	ofBrowser            = "browser"
	ofSession            = "session"
	ofCodesAndNetwork    = "codes and network"
	ofCodes              = "codes"
	ofPasskeysAndNetwork = "passkeys and network"
)

func (d *Service) counter(limit int, kind string, parts ...string) TryCounter {
	mac := hmac.New(sha256.New, d.tryKey)
	for _, part := range append([]string{kind}, parts...) {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return TryCounter{Key: TryKey(mac.Sum(nil)[:len(TryKey{})]), Limit: limit}
}

// signInCounters are those of a sign-in with a password. A known browser has one of its
// own, which nobody else's tries count under. An empty username is nobody's, and only
// its address counts. A username counts whether or not it is anybody's, so that being
// refused tells nothing.
func (d *Service) signInCounters(username string, address netip.Addr, browser string) []TryCounter {
	if browser != "" {
		return []TryCounter{d.counter(triesPerBrowser, ofBrowser, browser)}
	}
	counters := []TryCounter{d.counter(triesPerAddress, ofAddress, oneAddress(address))}
	if username != "" {
		counters = append(counters,
			d.counter(triesPerNetwork, ofNameAndNetwork, username, network(address)),
			d.counter(0, ofName, username))
	}
	return counters
}

// factorCounters are those of a second factor, by somebody who has given the password. A
// passkey cannot be guessed: it is not refused because of wrong codes, nor of what comes from
// other networks.
func (d *Service) factorCounters(account Account, given Credentials, address netip.Addr, browser string) []TryCounter {
	if browser != "" {
		return []TryCounter{d.counter(triesPerBrowser, ofBrowser, browser)}
	}
	id := strconv.FormatInt(account.ID, 10)
	if given.Passkey != nil {
		return []TryCounter{d.counter(triesPerNetwork, ofPasskeysAndNetwork, id, network(address))}
	}
	return []TryCounter{
		d.counter(triesPerNetwork, ofCodesAndNetwork, id, network(address)),
		d.counter(codesPerLogin, ofCodes, id),
	}
}

// countedTry is a try that was counted when it began. It is taken back if it turns out
// not to be a wrong guess: checking a password takes long enough for a thousand others
// to begin meanwhile.
type countedTry struct {
	service *Service
	counts  []TryCount
}

// beginTry counts a try, or refuses it.
func (d *Service) beginTry(ctx context.Context, now time.Time, counters []TryCounter) (countedTry, error) {
	counts, counted, err := d.store.CountTries(ctx, now, tryWindow, counters)
	if err != nil {
		return countedTry{}, fmt.Errorf("count a try to sign in: %w", err)
	}
	if counted {
		return countedTry{service: d, counts: counts}, nil
	}
	var wait time.Duration
	for i, count := range counts {
		if limit := counters[i].Limit; limit > 0 && count.Tries >= limit {
			wait = max(wait, count.Since.Add(tryWindow).Sub(now))
		}
	}
	return countedTry{}, throttled(min(max(wait, time.Second), tryWindow))
}

// takeBack uncounts a try. That fails only where the store does; the count is then one
// too many for a quarter of an hour.
func (t countedTry) takeBack(ctx context.Context) {
	_ = t.service.store.TakeBackTries(context.WithoutCancel(ctx), t.counts)
}

// end leaves a try counted only if it was a wrong guess. What went wrong on our side is
// not the person's.
func (t countedTry) end(ctx context.Context, err error) {
	if !wrongGuess(err) {
		t.takeBack(ctx)
	}
}

func wrongGuess(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && (refusal.Reason == Wrong || refusal.Reason == WrongPassword || refusal.Reason == WrongCode ||
		refusal.Reason == WrongPasskey)
}

// delay holds the answer back as long as the tries of the username ask for. Nothing is
// held meanwhile but the connection. It comes before the password is checked, so that
// the right one takes as long as a wrong one.
func (d *Service) delay(ctx context.Context, counters []TryCounter, t countedTry) error {
	var wait time.Duration
	for i, count := range t.counts {
		if counters[i].Limit == 0 {
			wait = slowdown(count.Tries)
		}
	}
	if wait == 0 {
		return nil
	}
	if d.slowed.Add(1) > slowAtOnce {
		d.slowed.Add(-1)
		return nil
	}
	defer d.slowed.Add(-1)
	return d.config.Pause(ctx, wait)
}

// proveInSession has somebody who is signed in prove themselves with what check looks at. The
// session has a counter of its own; when that is used up the session ends, because
// whoever guesses in it may have found it open.
func (d *Service) proveInSession(ctx context.Context, record Record, now time.Time, check func() error) error {
	counters := []TryCounter{d.counter(triesPerSession, ofSession, record.ID)}
	t, err := d.beginTry(ctx, now, counters)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return d.endGuessed(ctx, record)
	case err != nil:
		return err
	}
	err = check()
	t.end(ctx, err)
	if wrongGuess(err) && t.counts[0].Tries >= triesPerSession {
		return d.endGuessed(ctx, record)
	}
	return err
}

// endGuessed ends a session in which there were too many wrong guesses.
func (d *Service) endGuessed(ctx context.Context, record Record) error {
	if err := d.store.CloseSessionOf(context.WithoutCancel(ctx), record.Account.ID, record.ID); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return refuse(SessionOver, sessionOverText)
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetPause replaces the timer by which answers are delayed. It is called before the service
// is used, by tests that have a clock of their own.
func (d *Service) SetPause(pause func(context.Context, time.Duration) error) { d.config.Pause = pause }

// network is the /24 of an IPv4 address or the /64 of an IPv6 address: what one line,
// or one provider's customers of a street, have.
func network(address netip.Addr) string {
	address = address.Unmap()
	bits := 24
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil || !prefix.IsValid() {
		return "" // an address that is not known
	}
	return prefix.String()
}

// oneAddress is an IPv4 address, or the /64 that every IPv6 line comes with.
func oneAddress(address netip.Addr) string {
	if address.Unmap().Is4() {
		return address.Unmap().String()
	}
	return network(address)
}

// slowed counts the tries of a node whose answers are being held back.
type slowed = atomic.Int64
