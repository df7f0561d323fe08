package growth

import (
	"sync"
	"time"
)

// Progress is how far a filling has come.
type Progress struct {
	// Step is what is being done, for people.
	Step string
	// Done and Total count rows, and rows again for every index, each by the work
	// that it is.
	Done, Total int64
	Elapsed     time.Duration
	// Left is what the rest will take if it goes on as it went; zero while there
	// is too little to tell from.
	Left time.Duration
}

// tellable is the part of the whole, one in so many, from which on a guess at the
// rest is worth something.
const tellable = 50

// teller reports progress, at most once in a while.
type teller struct {
	tell  func(Progress)
	clock func() time.Time

	mu          sync.Mutex
	step        string
	done, total int64
	began, last time.Time
}

func newTeller(total int, tell func(Progress)) *teller {
	if tell == nil {
		tell = func(Progress) {}
	}
	t := &teller{tell: tell, clock: time.Now, total: int64(total)}
	t.began = t.clock()
	return t
}

// pause is how often progress is told.
const pause = 500 * time.Millisecond

func (t *teller) begin(step string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = step
	t.say(t.clock())
}

// expect adds to what there is to do.
func (t *teller) expect(rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(rows)
}

// times is add for rows that are each the work of several.
func (t *teller) times(heavy int) func(rows int) {
	return func(rows int) { t.add(rows * max(1, heavy)) }
}

func (t *teller) add(rows int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += int64(rows)
	if now := t.clock(); now.Sub(t.last) >= pause {
		t.say(now)
	}
}

func (t *teller) say(now time.Time) {
	t.last = now
	p := Progress{Step: t.step, Done: t.done, Total: max(t.total, t.done), Elapsed: now.Sub(t.began)}
	if t.done > t.total/tellable {
		p.Left = time.Duration(float64(p.Elapsed) * float64(p.Total-p.Done) / float64(p.Done))
	}
	t.tell(p)
}
