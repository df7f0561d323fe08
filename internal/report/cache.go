package report

import (
	"sync"
	"time"
)

// cache stores results that take long to compute, for a limited time. Concurrent callers
// of one key share one computation.
type cache[Key comparable, Answer any] struct {
	mu      sync.Mutex
	entries map[Key]*cached[Answer]
}

type cached[Answer any] struct {
	mu     sync.Mutex
	answer Answer
	// until is when it expires; zero before there is a result.
	until time.Time
}

// maxCached bounds the entries. Beyond it the whole cache is cleared, and results are computed
// again.
const maxCached = 20_000

func newCache[Key comparable, Answer any]() *cache[Key, Answer] {
	return &cache[Key, Answer]{entries: map[Key]*cached[Answer]{}}
}

// get returns the cached result, or computes one and caches it. Errors are not cached.
func (m *cache[Key, Answer]) get(key Key, now time.Time, keep time.Duration, compute func() (Answer, error)) (Answer, error) {
	k := m.entry(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fresh(now, keep) {
		return k.answer, nil
	}
	answer, err := compute()
	if err == nil {
		k.answer, k.until = answer, now.Add(keep)
	}
	return answer, err
}

// drop removes a result that is fast to compute, so that people see their own changes at
// once.
func (m *cache[Key, Answer]) drop(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// has reports whether a fresh result is cached.
func (m *cache[Key, Answer]) has(key Key, now time.Time, keep time.Duration) bool {
	k := m.entry(key)
	// While the lock is held, the result is being computed.
	if !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return k.fresh(now, keep)
}

// fresh reports whether there is a result that has not expired. A clock that was set back
// must not extend its time.
func (k *cached[Answer]) fresh(now time.Time, keep time.Duration) bool {
	return !k.until.IsZero() && now.Before(k.until) && k.until.Sub(now) <= keep
}

func (m *cache[Key, Answer]) entry(key Key) *cached[Answer] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[key] == nil {
		if len(m.entries) >= maxCached {
			clear(m.entries)
		}
		m.entries[key] = &cached[Answer]{}
	}
	return m.entries[key]
}
