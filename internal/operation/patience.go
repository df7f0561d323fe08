package operation

import (
	"errors"
	"time"
)

// patience bounds how long something is tried again that should not be left
// undone only because the store is away for a moment, as it is while another
// server takes the primary's place. It begins with the first pause.
type patience struct {
	length time.Duration
	left   *time.Timer
	wait   time.Duration
}

// pause waits a little, each time longer than before; false if there is no time
// left.
func (p *patience) pause() bool {
	if p.left == nil {
		p.left, p.wait = time.NewTimer(p.length), 20*time.Millisecond
	}
	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	p.wait = min(2*p.wait, time.Second)
	select {
	case <-timer.C:
		return true
	case <-p.left.C:
		p.left.Reset(0) // it stays over
		return false
	}
}

// persist does something that has the same effect whether it is done once or
// twice, and does it again where it is not known whether it took hold, or where
// the store was away. An outcome that stays unknown is not asked for for ever: a
// disk that fails once will fail again.
func persist(length time.Duration, do func() error) error {
	patience := patience{length: length}
	for doubts := 1; ; {
		err := do()
		switch {
		case errors.Is(err, ErrAmbiguous) && doubts < ambiguousAttempts:
			doubts++
		case errors.Is(err, ErrUnavailable) && patience.pause():
		default:
			return err
		}
	}
}
