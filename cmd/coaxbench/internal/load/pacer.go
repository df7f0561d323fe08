package load

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Pacer keeps the load within a rate limit that is shared with other callers: requests are
// sent evenly at nine tenths of it, and stop for the rest of a minute when only a tenth of
// the minute's limit is left.
type Pacer struct {
	now   func() time.Time // the clock that the server's limits go by
	every time.Duration
	floor int

	mu   sync.Mutex
	next time.Time // of this machine's clock
}

// NewPacer paces by a limit a minute.
func NewPacer(limit int, now func() time.Time) *Pacer {
	limit = max(limit, 1)
	return &Pacer{now: now, every: time.Minute * 10 / time.Duration(9*limit), floor: limit / 10}
}

// wait returns when the next request may be sent; false if that is not before
// the end, or the context's.
func (p *Pacer) wait(ctx context.Context, end time.Time) bool {
	p.mu.Lock()
	at := time.Now()
	if p.next.After(at) {
		at = p.next
	}
	p.next = at.Add(p.every)
	p.mu.Unlock()
	if !at.Before(end) {
		return false
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// saw learns from an answer how much of the minute is left.
func (p *Pacer) saw(header http.Header) {
	left, err := strconv.Atoi(header.Get("X-RateLimit-Remaining"))
	if err != nil || left > p.floor {
		return
	}
	reset, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if again := time.Now().Add(time.Unix(reset, 0).Sub(p.now())); again.After(p.next) {
		p.next = again
	}
}
