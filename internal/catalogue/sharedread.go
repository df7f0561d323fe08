package catalogue

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errPanicked is what callers get whose shared read has panicked in another caller.
var errPanicked = errors.New("the read panicked")

// sharedReadTimeout ends a read that hangs: others wait for it.
const sharedReadTimeout = 10 * time.Second

// sharedRead lets callers that wait at the same time share one read. It begins after the calls
// of all that share it, so that each sees what was written before.
type sharedRead[T any] struct {
	turn chan struct{} // held by the caller that reads
	mu   sync.Mutex
	next *readResult[T] // of the read that has not begun
}

type readResult[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newSharedRead[T any]() *sharedRead[T] { return &sharedRead[T]{turn: make(chan struct{}, 1)} }

// do returns the result of a read that begins after the call, by this caller or by another one.
func (s *sharedRead[T]) do(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	if s.next == nil {
		s.next = &readResult[T]{done: make(chan struct{}), err: errPanicked}
	}
	result := s.next
	s.mu.Unlock()
	select {
	case <-result.done:
		return result.value, result.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case s.turn <- struct{}{}:
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	begins := s.next == result // otherwise it was read while this caller waited for its turn
	if begins {
		s.next = nil
	}
	s.mu.Unlock()
	if begins {
		defer close(result.done)
		// It goes on if this caller hangs up: the others wait for it.
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedReadTimeout)
		defer cancel()
		result.value, result.err = read(reading)
	}
	return result.value, result.err
}
