package generator

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/load"
)

// Load configures a load.
type Load struct {
	// Targets are the addresses; the clients are spread over them.
	Targets []Target
	// Accounts are dealt out to the clients; there are at least as many.
	Accounts []*Account
	// Plans makes it a load of renewals, with these; or of activations, if Activate is set.
	Plans    []string
	Activate bool
	// Lookup is what is read without Plans: one of load.ReadKinds, or nothing for balances.
	// Transactions are those of the accounts' earlier renewals.
	Lookup string
	// Mark is what the idempotency keys begin with.
	Mark    string
	Clients int
	// Rate is how many requests a second are sent, whatever comes back (an open
	// loop); 0 has each client send its next when the last is answered.
	Rate float64
	// Burst has them come together, as many as make the rate, so often; 0 has each
	// come at a moment of its own.
	Burst time.Duration
	// UnknownOutcome expects that every renewal stays pending, because the provider does not
	// reply; otherwise every renewal must succeed.
	UnknownOutcome   bool
	Warmup, Duration time.Duration
	// Begin is called when the measuring begins, and End when it is over.
	Begin, End func()
	// Progress is called once a second with the number of answers since Begin.
	Progress func(elapsed time.Duration, requests uint64)
}

const (
	// drainTimeout is how long the last answers may take after the last request.
	drainTimeout = time.Minute
	// lostAfter is how many requests in a row a client sends in vain before the
	// service counts as gone.
	lostAfter       = 10
	exhausted       = "every subscriber was renewed with every plan within the last two minutes"
	nothingToLookUp = "no transaction is known to look up: renewals come before"
)

// Result is the result of a load.
type Result struct {
	// Requests were sent, or meant to be, after the warm-up; Seconds is until the
	// last of them was answered.
	Requests  uint64          `json:"requests"`
	Seconds   float64         `json:"seconds"`
	PerSecond float64         `json:"per_second"`
	Latency   latency.Summary `json:"latency_ms"`
	// Answers counts by status and code, those of the warm-up too.
	Answers map[string]uint64 `json:"answers"`
	// Tally is what all answers mean for money, if they were to renewals.
	Tally load.Tally `json:"-"`
	// Problems are wrong answers and mistakes of the load itself.
	Problems []string `json:"problems,omitempty"`
}

// Run sends the load, and returns after the last answer.
func (l Load) Run(ctx context.Context) (Result, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{load: l}
	clients := make([]*client, l.Clients)
	for i := range clients {
		target := l.Targets[i%len(l.Targets)]
		c := &client{run: r, conn: conn{target: target}, scribe: newScribe(target.Addr), answers: map[string]uint64{}, marks: fmt.Sprintf("%s-%d-", l.Mark, i)}
		c.ask = c.exchange
		for a := i; a < len(l.Accounts); a += l.Clients {
			c.accounts = append(c.accounts, l.Accounts[a])
		}
		clients[i] = c
		defer context.AfterFunc(running, c.conn.cut)()
		defer c.conn.close()
		// Handshakes are not what is measured, nor is the first client to be
		// served while the others still greet.
		if err := c.conn.open(running); err != nil {
			return Result{}, fmt.Errorf("connect to %s: %w", target.Addr, err)
		}
	}
	r.from = time.Now()
	r.measureFrom, r.end = r.from.Add(l.Warmup), r.from.Add(l.Warmup+l.Duration)
	lost := time.AfterFunc(time.Until(r.end)+drainTimeout, func() {
		r.stop(fmt.Sprintf("requests were still without an answer %s after the last was due", drainTimeout))
		stop()
	})
	defer lost.Stop()
	r.work(running, clients)
	return r.result(clients), ctx.Err()
}

// run is what the clients of a load share.
type run struct {
	load                   Load
	from, measureFrom, end time.Time
	measured               atomic.Uint64
	// why a client has ended the load early; nil if none has.
	why atomic.Pointer[string]
}

func (r *run) stop(why string)                  { r.why.CompareAndSwap(nil, &why) }
func (r *run) stopped(ctx context.Context) bool { return r.why.Load() != nil || ctx.Err() != nil }

// work starts the clients and reports progress.
func (r *run) work(ctx context.Context, clients []*client) {
	begun := make(chan struct{})
	beginning := time.AfterFunc(time.Until(r.measureFrom), func() {
		defer close(begun)
		if r.load.Begin != nil {
			r.load.Begin()
		}
	})
	var due chan time.Time
	if r.load.Rate > 0 {
		s := schedule{begin: r.from, end: r.end, every: time.Duration(float64(time.Second) / r.load.Rate), now: time.Now, sleep: sleepExactly}
		s.together = max(1, int(r.load.Burst/s.every))
		due = make(chan time.Time, s.slots())
		go s.run(due, func() bool { return r.stopped(ctx) })
	}
	var working sync.WaitGroup
	for _, c := range clients {
		working.Go(func() {
			if due != nil {
				c.openLoop(ctx, due)
			} else {
				c.closedLoop(ctx)
			}
		})
	}
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { r.tell(done) })
	working.Wait()
	close(done)
	telling.Wait()
	if !beginning.Stop() {
		<-begun
		if r.load.End != nil {
			r.load.End()
		}
	}
}

func (r *run) tell(done <-chan struct{}) {
	if r.load.Progress == nil {
		return
	}
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-every.C:
			r.load.Progress(now.Sub(r.measureFrom), r.measured.Load())
		}
	}
}

func (r *run) result(clients []*client) Result {
	result := Result{Answers: map[string]uint64{}}
	var all latency.Histogram
	last := r.end
	if why := r.why.Load(); why != nil {
		result.Problems = append(result.Problems, *why)
		last = r.measureFrom
	}
	for _, c := range clients {
		all.Add(&c.latency)
		for answer, n := range c.answers {
			result.Answers[answer] += n
		}
		result.Tally.Add(c.tally)
		if c.last.After(last) {
			last = c.last
		}
	}
	result.Requests, result.Latency = all.Count(), all.Summary()
	if elapsed := last.Sub(r.measureFrom).Seconds(); elapsed > 0 {
		result.Seconds, result.PerSecond = elapsed, float64(result.Requests)/elapsed
	}
	wrong := maps.Clone(result.Answers)
	if r.load.UnknownOutcome {
		delete(wrong, unknownOutcome)
	} else {
		delete(wrong, okay)
	}
	for answer, n := range wrong {
		result.Problems = append(result.Problems, fmt.Sprintf("%d times %s", n, answer))
	}
	return result
}
