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
// try, and after the window the counter starts from zero.
const tryWindow = 15 * time.Minute

// Limits of failed tries within a window.
const (
	// triesPerNetwork limits one username from one network.
	triesPerNetwork = 10
	// triesPerAddress limits all usernames from one address, which an office may share.
	triesPerAddress = 50
	// triesPerBrowser limits one login from a browser that has signed in to it before.
	triesPerBrowser = 10
	// triesPerSession limits one session. When they are used up the session ends.
	triesPerSession = 10
	// codesPerLogin limits second factors of one login, from all networks together. A code
	// has only a million values: without this limit, many networks together would find one.
	// Only somebody who knows the password can use it up.
	codesPerLogin = 30
)

// Beyond slowAfter tries of one username, from anywhere, responses are delayed by up to
// maxSlowdown. They are not refused for that.
const (
	slowAfter   = 10
	slowFirst   = 250 * time.Millisecond
	maxSlowdown = 4 * time.Second
	// slowAtOnce bounds how many connections of a node are delayed. Tries beyond that are
	// not; the limit on concurrent hashes slows them, too.
	slowAtOnce = 200
)

// slowdown is the delay of the response to a username's n-th try within a window.
func slowdown(n int) time.Duration {
	if n <= slowAfter {
		return 0
	}
	return min(maxSlowdown, slowFirst<<min(n-slowAfter-1, 10))
}

// TryKey names a counter of failed tries.
type TryKey [16]byte

// TryCounter is a counter of failed tries to be incremented.
type TryCounter struct {
	Key TryKey
	// Limit is the maximum; 0 is no limit.
	Limit int
}

// TryCount is the present count of a counter of failed tries.
type TryCount struct {
	Key   TryKey
	Since time.Time
	Tries int
}

// What a counter counts. Each kind has its own keys.
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

func (svc *Service) counter(limit int, kind string, parts ...string) TryCounter {
	key, _ := svc.vault.DeriveKey(svc.vault.DataKeyID(), "sign-in tries") // the current key is always known
	mac := hmac.New(sha256.New, key)
	for _, part := range append([]string{kind}, parts...) {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return TryCounter{Key: TryKey(mac.Sum(nil)[:len(TryKey{})]), Limit: limit}
}

// signInCounters returns the counters of a sign-in with a password. A known browser has
// its own, which no other tries count under. With an empty username only the address
// counts. A username counts whether or not it exists, so that a refusal reveals nothing.
func (svc *Service) signInCounters(username string, address netip.Addr, browser string) []TryCounter {
	if browser != "" {
		return []TryCounter{svc.counter(triesPerBrowser, ofBrowser, browser)}
	}
	counters := []TryCounter{svc.counter(triesPerAddress, ofAddress, oneAddress(address))}
	if username != "" {
		counters = append(counters,
			svc.counter(triesPerNetwork, ofNameAndNetwork, username, network(address)),
			svc.counter(0, ofName, username))
	}
	return counters
}

// factorCounters returns the counters of a second factor, after the password was verified.
// A passkey cannot be guessed: it is not refused because of wrong codes or of tries from
// other networks.
func (svc *Service) factorCounters(account Account, given Credentials, address netip.Addr, browser string) []TryCounter {
	if browser != "" {
		return []TryCounter{svc.counter(triesPerBrowser, ofBrowser, browser)}
	}
	id := strconv.FormatInt(account.ID, 10)
	if given.Passkey != nil {
		return []TryCounter{svc.counter(triesPerNetwork, ofPasskeysAndNetwork, id, network(address))}
	}
	return []TryCounter{
		svc.counter(triesPerNetwork, ofCodesAndNetwork, id, network(address)),
		svc.counter(codesPerLogin, ofCodes, id),
	}
}

// countedTry is a try that was counted when it began, and is uncounted if it turns out not
// to be a wrong guess. Counting at the end would be too late: hashing a password takes long
// enough for a thousand other tries to begin.
type countedTry struct {
	service *Service
	counts  []TryCount
}

// beginTry counts a try, or refuses it.
func (svc *Service) beginTry(ctx context.Context, now time.Time, counters []TryCounter) (countedTry, error) {
	counts, counted, err := svc.store.CountTries(ctx, now, tryWindow, counters)
	if err != nil {
		return countedTry{}, fmt.Errorf("count a try to sign in: %w", err)
	}
	if counted {
		return countedTry{service: svc, counts: counts}, nil
	}
	var wait time.Duration
	for i, count := range counts {
		if limit := counters[i].Limit; limit > 0 && count.Tries >= limit {
			wait = max(wait, count.Since.Add(tryWindow).Sub(now))
		}
	}
	return countedTry{}, throttled(min(max(wait, time.Second), tryWindow))
}

// uncount takes a try back. If the store fails, the count is one too many until the window
// ends.
func (t countedTry) uncount(ctx context.Context) {
	_ = t.service.store.UncountTries(context.WithoutCancel(ctx), t.counts)
}

// end leaves a try counted only if it was a wrong guess, not after an internal error.
func (t countedTry) end(ctx context.Context, err error) {
	if !wrongGuess(err) {
		t.uncount(ctx)
	}
}

func wrongGuess(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && (refusal.Reason == Wrong || refusal.Reason == WrongPassword || refusal.Reason == WrongCode ||
		refusal.Reason == WrongPasskey)
}

// delay delays the response according to the tries of the username. Only the connection is
// held meanwhile. It comes before the password is checked, so that a correct one takes as
// long as a wrong one.
func (svc *Service) delay(ctx context.Context, counters []TryCounter, t countedTry) error {
	var wait time.Duration
	for i, count := range t.counts {
		if counters[i].Limit == 0 {
			wait = slowdown(count.Tries)
		}
	}
	if wait == 0 {
		return nil
	}
	if svc.slowed.Add(1) > slowAtOnce {
		svc.slowed.Add(-1)
		return nil
	}
	defer svc.slowed.Add(-1)
	return svc.config.Pause(ctx, wait)
}

// proveInSession runs a check of credentials in a session, which has its own counter. When
// that is used up the session ends, because the guesses may come from a hijacked session.
func (svc *Service) proveInSession(ctx context.Context, record Record, now time.Time, check func() error) error {
	counters := []TryCounter{svc.counter(triesPerSession, ofSession, record.ID)}
	t, err := svc.beginTry(ctx, now, counters)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return svc.endGuessed(ctx, record)
	case err != nil:
		return err
	}
	err = check()
	t.end(ctx, err)
	if wrongGuess(err) && t.counts[0].Tries >= triesPerSession {
		return svc.endGuessed(ctx, record)
	}
	return err
}

// endGuessed ends a session in which there were too many wrong guesses.
func (svc *Service) endGuessed(ctx context.Context, record Record) error {
	if err := svc.store.CloseSessionOf(context.WithoutCancel(ctx), record.Account.ID, record.ID); err != nil {
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

// SetPause replaces the timer that delays responses, for tests with their own clock. It is
// called before the service is used.
func (svc *Service) SetPause(pause func(context.Context, time.Duration) error) {
	svc.config.Pause = pause
}

// network is the /24 of an IPv4 address or the /64 of an IPv6 address: about what one
// connection, or one provider's customers of a street, share.
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

// oneAddress is an IPv4 address, or the /64 that an IPv6 connection has.
func oneAddress(address netip.Addr) string {
	if address.Unmap().Is4() {
		return address.Unmap().String()
	}
	return network(address)
}

// slowed counts a node's delayed responses.
type slowed = atomic.Int64
