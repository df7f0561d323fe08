// Package load sends signed requests over HTTPS to a running Coax and counts the answers. It
// is used by coaxbench load.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/cmd/coaxbench/internal/latency"
)

// Request is one request to be sent, and as whom.
type Request struct {
	Client *client.Client
	// Kind is what the request is counted as, such as balance.
	Kind   string
	Method string
	Path   string
	Body   []byte
	Header http.Header
}

// Answer is the result of a request.
type Answer struct {
	// Status is zero if there was no answer; Code says why then.
	Status int
	Code   string
	Header http.Header
	Body   []byte
}

func (a Answer) String() string {
	if a.Status == 0 {
		return "no answer (" + a.Code + ")"
	}
	return fmt.Sprintf("%d %s", a.Status, a.Code)
}

// Source gives one worker its requests.
type Source interface {
	// Next returns the next request; false if there is none.
	Next(now time.Time) (Request, bool)
	// Answered receives the answer to the last request of Next.
	Answered(now time.Time, answer Answer)
}

// Load is how hard and how long to load. It is a closed loop: each worker has one
// request on its way and sends the next when that is answered.
type Load struct {
	// Warmup is loaded before anything is measured.
	Warmup   time.Duration
	Duration time.Duration
	// Pace holds the workers back; nil lets them go as fast as they are answered.
	Pace *Pacer
	// Progress is called once a second; it may be nil.
	Progress func(Progress)
}

// Progress is how a phase goes so far.
type Progress struct {
	Phase   string
	Warming bool
	Elapsed time.Duration // since the measuring, or the warming up, began
	// Requests were answered since then; Unexpected counts the whole phase.
	Requests   uint64
	Unexpected uint64
}

// exhausted is the reason of a phase that ended early without requests to send.
const exhausted = "nothing was left to send"

// lostAfter is how many requests in a row a worker sends in vain before the
// server counts as gone.
const lostAfter = 10

// Run loads with one worker for each source, and returns when every request that
// was sent is answered. The error is the context's.
func (l Load) Run(ctx context.Context, name string, sources []Source) (Phase, error) {
	began := time.Now()
	run := &run{load: l, measureFrom: began.Add(l.Warmup), end: began.Add(l.Warmup + l.Duration)}
	workers := make([]*worker, len(sources))
	var working sync.WaitGroup
	for i, source := range sources {
		w := &worker{run: run, source: source, kinds: map[string]uint64{}, answers: map[string]uint64{}}
		workers[i] = w
		working.Go(func() { w.work(ctx) })
	}
	done := make(chan struct{})
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		run.report(name, began, done)
	}()
	working.Wait()
	close(done)
	<-reported

	phase := Phase{Name: name, Kinds: map[string]uint64{}, Answers: map[string]uint64{}}
	if why := run.why.Load(); why != nil {
		phase.EndedEarly = *why
	}
	var all latency.Histogram
	last := run.measureFrom
	if phase.EndedEarly == "" {
		last = run.end
	}
	for _, w := range workers {
		all.Add(&w.latency)
		for kind, n := range w.kinds {
			phase.Kinds[kind] += n
		}
		for answer, n := range w.answers {
			phase.Answers[answer] += n
		}
		phase.Tally.Add(w.tally)
		if w.last.After(last) {
			last = w.last
		}
	}
	phase.measured(&all, last.Sub(run.measureFrom))
	return phase, ctx.Err()
}

// run is what the workers of a phase share.
type run struct {
	load             Load
	measureFrom, end time.Time
	warmed, measured atomic.Uint64
	unexpected       atomic.Uint64
	// why a worker has ended the phase early; nil if none has.
	why atomic.Pointer[string]
}

func (r *run) stop(why string) { r.why.CompareAndSwap(nil, &why) }

func (r *run) report(name string, began time.Time, done <-chan struct{}) {
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
			p := Progress{Phase: name, Elapsed: now.Sub(r.measureFrom), Requests: r.measured.Load(), Unexpected: r.unexpected.Load()}
			// Too little is measured yet to speak of.
			if p.Elapsed < time.Second/2 {
				p.Warming, p.Elapsed, p.Requests = true, now.Sub(began), r.warmed.Load()
			}
			r.load.Progress(p)
		}
	}
}

// worker has one request on its way at a time.
type worker struct {
	*run
	source  Source
	latency latency.Histogram
	kinds   map[string]uint64 // of the measured ones
	answers map[string]uint64 // of all
	tally   Tally
	last    time.Time // when the last measured one was answered
	inVain  int
}

func (w *worker) work(ctx context.Context) {
	for w.why.Load() == nil && ctx.Err() == nil {
		if w.load.Pace != nil && !w.load.Pace.wait(ctx, w.end) {
			return
		}
		now := time.Now()
		if !now.Before(w.end) {
			return
		}
		request, found := w.source.Next(now)
		if !found {
			w.stop(exhausted)
			return
		}
		begin := time.Now()
		answer := Send(ctx, request)
		end := time.Now()
		if ctx.Err() != nil {
			return // the load has ended and closed the connection
		}
		w.source.Answered(end, answer)
		if w.load.Pace != nil {
			w.load.Pace.saw(answer.Header)
		}
		w.count(request, answer, begin, end)
	}
}

func (w *worker) count(request Request, answer Answer, begin, end time.Time) {
	w.answers[answer.String()]++
	w.tally.Count(answer)
	if !answer.expected() {
		w.unexpected.Add(1)
	}
	if w.inVain++; answer.Status != 0 {
		w.inVain = 0
	}
	if w.inVain == lostAfter {
		w.stop(fmt.Sprintf("the server no longer answers (%s)", answer.Code))
	}
	if begin.Before(w.measureFrom) {
		w.warmed.Add(1)
		return
	}
	w.measured.Add(1)
	w.kinds[request.Kind]++
	w.latency.Record(end.Sub(begin))
	w.last = end
}

// Send sends a request once and returns its answer.
func Send(ctx context.Context, request Request) Answer {
	response, err := request.Client.Send(ctx, request.Method, request.Path, request.Body, request.Header)
	if err != nil {
		return Answer{Code: Reason(err)}
	}
	answer := Answer{Status: response.Status, Code: "OK", Header: response.Header, Body: response.Body}
	if response.Header.Get("Idempotent-Replayed") != "" {
		// Every renewal here is a new one; an old one's answer is a mistake.
		answer.Code = "REPLAYED"
		return answer
	}
	if response.Status != http.StatusOK {
		var envelope struct{ Code string }
		if json.Unmarshal(response.Body, &envelope) != nil || envelope.Code == "" {
			envelope.Code = "without a code"
		}
		answer.Code = envelope.Code
	}
	return answer
}

// Reason names why a request has no answer, without details such as ports, so that equal
// reasons are counted together.
func Reason(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection cut"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// expected reports whether a correct server may give the answer under load. A pending
// outcome is one: its money is held and it is verified later.
func (a Answer) expected() bool {
	return a.Status == http.StatusOK && a.Code == "OK" || a.Status == http.StatusAccepted
}

// Tally is what answers mean for the money, if they were to operations.
type Tally struct {
	// Done were carried out and charged.
	Done uint64 `json:"done"`
	// Pending are in review, their money held.
	Pending uint64 `json:"pending"`
	// Unknown had no answer, or one that leaves open what happened.
	Unknown uint64 `json:"unknown"`
	// Refused were not charged.
	Refused uint64 `json:"refused"`
}

// Count counts one answer.
func (t *Tally) Count(a Answer) {
	switch {
	case a.Status == http.StatusOK && a.expected():
		t.Done++
	case a.Status == http.StatusAccepted:
		t.Pending++
	case a.LeavesOpen():
		t.Unknown++
	default:
		t.Refused++
	}
}

// Add counts what another tally has counted.
func (t *Tally) Add(other Tally) {
	t.Done += other.Done
	t.Pending += other.Pending
	t.Unknown += other.Unknown
	t.Refused += other.Refused
}

// LeavesOpen reports whether an operation that was answered so may have been
// carried out, or may yet be.
func (a Answer) LeavesOpen() bool {
	return a.Status == 0 || a.Status == http.StatusAccepted || a.Status >= 500 && a.Status != http.StatusBadGateway
}

// Unexpected counts the answers that a correct server does not give.
func (p Phase) Unexpected() map[string]uint64 {
	rest := maps.Clone(p.Answers)
	maps.DeleteFunc(rest, func(answer string, _ uint64) bool {
		return answer == "200 OK" || answer == "202 PENDING_REVIEW"
	})
	return rest
}
