package operation

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestAStoreThatIsAwayIsWaitedForWithPausesThatGrowToASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, last := time.Now(), time.Now()
		var pauses []time.Duration
		away := fmt.Errorf("connect: %w", ErrUnavailable)
		err := persist(5*time.Second, func() error {
			pauses = append(pauses, time.Since(last))
			last = time.Now()
			return away
		})
		if !errors.Is(err, away) || time.Since(start) != 5*time.Second {
			t.Errorf("gave up with %v after %s; want the store's own word after 5 s", err, time.Since(start))
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

func TestPatienceThatIsOverStaysOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patience{length: 10 * time.Millisecond}
		start := time.Now()
		for range 3 {
			if p.pause() {
				t.Error("there was time for a pause longer than all of it")
			}
		}
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("it took %s to find that out; want 10ms, once", took)
		}
	})
}

func TestACommitInDoubtIsTriedThreeTimesAndAnythingElseIsAnswered(t *testing.T) {
	refused := errors.New("refused")
	for name, row := range map[string]struct {
		fates []error
		want  error
		tries int
	}{
		"it works":                       {[]error{nil}, nil, 1},
		"it is refused":                  {[]error{refused}, refused, 1},
		"in doubt once":                  {[]error{ErrAmbiguous, nil}, nil, 2},
		"in doubt twice":                 {[]error{ErrAmbiguous, ErrAmbiguous, nil}, nil, 3},
		"in doubt for good":              {[]error{ErrAmbiguous, ErrAmbiguous, ErrAmbiguous, nil}, ErrAmbiguous, 3},
		"away, in doubt, and then there": {[]error{ErrUnavailable, ErrAmbiguous, ErrUnavailable, nil}, nil, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			err := persist(time.Minute, func() error { tries++; return row.fates[tries-1] })
			if !errors.Is(err, row.want) || tries != row.tries {
				t.Errorf("%s: %v after %d tries; want %v after %d", name, err, tries, row.want, row.tries)
			}
		})
	}
}
