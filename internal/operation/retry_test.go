package operation

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetry_PausesGrowToOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, last := time.Now(), time.Now()
		var pauses []time.Duration
		unavailable := fmt.Errorf("connect: %w", ErrUnavailable)
		err := retry(5*time.Second, func() error {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			return unavailable
		})
		if !errors.Is(err, unavailable) || time.Since(start) != 5*time.Second {
			t.Errorf("gave up with %v after %s; want the store's error after 5 s", err, time.Since(start))
		}
		want := []time.Duration{0, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000}
		for i, pause := range pauses {
			if i >= len(want) || pause != want[i]*time.Millisecond {
				t.Fatalf("paused %v; want %d ms", pauses, want)
			}
		}
		if len(pauses) != len(want) {
			t.Errorf("tried %d times; want %d", len(pauses), len(want))
		}
	})
}

func TestRetryBudget_StaysUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retryBudget{limit: 10 * time.Millisecond}
		start := time.Now()
		for range 3 {
			if b.pause() {
				t.Error("paused although the budget is shorter than the pause")
			}
		}
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("it took %s; want 10ms, once", took)
		}
	})
}

func TestRetry_UnknownCommitThreeAttempts(t *testing.T) {
	refused := errors.New("refused")
	for name, row := range map[string]struct {
		errs  []error
		want  error
		tries int
	}{
		"success":                         {[]error{nil}, nil, 1},
		"other error":                     {[]error{refused}, refused, 1},
		"unknown once":                    {[]error{ErrCommitUnknown, nil}, nil, 2},
		"unknown twice":                   {[]error{ErrCommitUnknown, ErrCommitUnknown, nil}, nil, 3},
		"unknown three times":             {[]error{ErrCommitUnknown, ErrCommitUnknown, ErrCommitUnknown, nil}, ErrCommitUnknown, 3},
		"unavailable, unknown, then done": {[]error{ErrUnavailable, ErrCommitUnknown, ErrUnavailable, nil}, nil, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			err := retry(time.Minute, func() error { tries++; return row.errs[tries-1] })
			if !errors.Is(err, row.want) || tries != row.tries {
				t.Errorf("%s: %v after %d tries; want %v after %d", name, err, tries, row.want, row.tries)
			}
		})
	}
}
