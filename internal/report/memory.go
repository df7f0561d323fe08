package report

import (
	"sync"
	"time"
)

// memory keeps answers that take long to add up for as long as nobody minds. Whoever
// asks for what somebody else is adding up waits for that.
type memory[Key comparable, Answer any] struct {
	mu   sync.Mutex
	kept map[Key]*kept[Answer]
}

type kept[Answer any] struct {
	mu     sync.Mutex
	answer Answer
	// until is when it is too old; zero before there is one.
	until time.Time
}

// mostKept bounds a memory. Beyond it everything is forgotten, which costs those who
// are still asking one more look.
const mostKept = 20_000

func newMemory[Key comparable, Answer any]() *memory[Key, Answer] {
	return &memory[Key, Answer]{kept: map[Key]*kept[Answer]{}}
}

// recall is the answer that is kept, or else a new one, which is kept for so long. A
// failure is not kept.
func (m *memory[Key, Answer]) recall(key Key, now time.Time, keep time.Duration, ask func() (Answer, error)) (Answer, error) {
	k := m.place(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fresh(now, keep) {
		return k.answer, nil
	}
	answer, err := ask()
	if err == nil {
		k.answer, k.until = answer, now.Add(keep)
	}
	return answer, err
}

// forget drops what is kept: it is quickly asked for again, and people want to see
// what they have just done.
func (m *memory[Key, Answer]) forget(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, key)
}

// knows reports whether an answer is kept that need not be asked for.
func (m *memory[Key, Answer]) knows(key Key, now time.Time, keep time.Duration) bool {
	k := m.place(key)
	// Whoever holds it is asking.
	if !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return k.fresh(now, keep)
}

// fresh: there is an answer, and it is not too old. A clock that was set back must
// not keep one for longer.
func (k *kept[Answer]) fresh(now time.Time, keep time.Duration) bool {
	return !k.until.IsZero() && now.Before(k.until) && k.until.Sub(now) <= keep
}

func (m *memory[Key, Answer]) place(key Key) *kept[Answer] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept[key] == nil {
		if len(m.kept) >= mostKept {
			clear(m.kept)
		}
		m.kept[key] = &kept[Answer]{}
	}
	return m.kept[key]
}
