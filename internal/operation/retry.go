package operation

import (
	"errors"
	"time"
)

// retryBudget limits how long a write is tried again while the store is unavailable, as it is
// during a failover of the database. The time starts with the first pause.
type retryBudget struct {
	limit time.Duration
	over  *time.Timer
	wait  time.Duration
}

// pause waits, each time longer than before, and returns false when the budget is used up.
func (b *retryBudget) pause() bool {
	if b.over == nil {
		b.over, b.wait = time.NewTimer(b.limit), 20*time.Millisecond
	}
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	b.wait = min(2*b.wait, time.Second)
	select {
	case <-timer.C:
		return true
	case <-b.over.C:
		b.over.Reset(0) // for the next call
		return false
	}
}

// retry runs an idempotent write, and runs it again if its commit outcome is unknown or the
// store was unavailable. Unknown outcomes have their own limit: a disk that fails once will
// fail again.
func retry(limit time.Duration, write func() error) error {
	retries := retryBudget{limit: limit}
	for attempts := 1; ; {
		err := write()
		switch {
		case errors.Is(err, ErrCommitUnknown) && attempts < commitUnknownAttempts:
			attempts++
		case errors.Is(err, ErrUnavailable) && retries.pause():
		default:
			return err
		}
	}
}
