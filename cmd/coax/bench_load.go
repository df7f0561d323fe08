package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coaxhq/coax/client"
)

const (
	// benchRest is how long a subscriber is not renewed with the same plan again: the
	// contract's two minutes, and a margin for differing clocks.
	benchRest = 2*time.Minute + 5*time.Second
	// benchLostAfter is how many requests in a row may stay unanswered before a worker
	// takes the server for gone.
	benchLostAfter = 10
)

// benchRequest is one request to send.
type benchRequest struct {
	kind, method, path, body, key string
	price                         client.Amount // of a renewal
}

// benchWorker sends one request at a time. Its subscribers are its own, so that no
// customer has two operations at a time.
type benchWorker struct {
	client      *client.Client
	reads       []string // endpoints to read, in turn
	subscribers []string
	plans       []client.Plan
	name        string // prefix of its idempotency keys

	nextRead, nextPair, renewals int
	sent                         []time.Time // when each pair of subscriber and plan was last sent
}

func (w *benchWorker) read(time.Time) (benchRequest, bool) {
	kind := w.reads[w.nextRead%len(w.reads)]
	path := "/api/v1/" + kind
	if kind == "subscription" {
		path += "?subscriber_id=" + w.subscribers[w.nextRead%len(w.subscribers)]
	}
	w.nextRead++
	return benchRequest{kind: kind, method: http.MethodGet, path: path}, true
}

// renew returns the next renewal: all subscribers with one plan, then with the next. It
// returns false if the next pair was renewed too recently; then all were.
func (w *benchWorker) renew(now time.Time) (benchRequest, bool) {
	if w.sent == nil {
		w.sent = make([]time.Time, len(w.subscribers)*len(w.plans))
	}
	pair := w.nextPair
	if !w.sent[pair].IsZero() && now.Sub(w.sent[pair]) < benchRest {
		return benchRequest{}, false
	}
	w.sent[pair], w.nextPair, w.renewals = now, (pair+1)%len(w.sent), w.renewals+1
	plan := w.plans[pair/len(w.subscribers)]
	return benchRequest{
		kind: "renew", method: http.MethodPost, path: "/api/v1/renew", key: fmt.Sprintf("%s-%d", w.name, w.renewals), price: plan.Price,
		body: fmt.Sprintf(`{"subscriber_id":%q,"plan_id":%q}`, w.subscribers[pair%len(w.subscribers)], plan.ID),
	}, true
}

// benchAnswer is the response to a request; its status is zero if there was none.
type benchAnswer struct {
	status int
	code   string
	header http.Header
	err    error
}

func (a benchAnswer) String() string {
	if a.status == 0 {
		return "no answer"
	}
	return fmt.Sprintf("%d %s", a.status, a.code)
}

// send sends a request once.
func (w *benchWorker) send(ctx context.Context, request benchRequest) benchAnswer {
	header := http.Header{}
	if request.key != "" {
		header.Set("Idempotency-Key", request.key)
	}
	response, err := w.client.Send(ctx, request.method, request.path, []byte(request.body), header)
	if err != nil {
		return benchAnswer{err: err}
	}
	var envelope struct{ Code string }
	if json.Unmarshal(response.Body, &envelope) != nil || envelope.Code == "" {
		envelope.Code = "without a code"
	}
	return benchAnswer{status: response.Status, code: envelope.Code, header: response.Header}
}

// benchPhase is the result of one kind of load.
type benchPhase struct {
	Name string `json:"name"`
	// Requests were begun after the warm-up; Seconds is from then until the last answer.
	Requests  uint64       `json:"requests"`
	Seconds   float64      `json:"seconds"`
	PerSecond float64      `json:"per_second"`
	Latency   benchLatency `json:"latency_ms"`
	// Kinds counts the measured requests; Answers counts by status and code, with the
	// warm-up.
	Kinds   map[string]uint64 `json:"kinds"`
	Answers map[string]uint64 `json:"answers"`
	// EndedEarly is the reason why the phase is shorter than --duration.
	EndedEarly string `json:"ended_early,omitempty"`

	charged client.Amount // prices of the renewals that were answered with 200
}

// unexpected returns the answers that are neither 200 nor 202 (outcome unknown: money
// held, in review).
func (p *benchPhase) unexpected() []string {
	var texts []string
	for _, answer := range slices.Sorted(maps.Keys(p.Answers)) {
		if answer != "200 OK" && answer != "202 PENDING_REVIEW" {
			texts = append(texts, fmt.Sprintf("%s: %d times %s", p.Name, p.Answers[answer], answer))
		}
	}
	return texts
}

// benchLatency is from before a request is signed until its answer was read.
type benchLatency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// benchHistogram counts durations in buckets that are 1 % wide, from 1 µs on.
type benchHistogram struct {
	buckets  [2048]uint64
	count    uint64
	sum, max time.Duration
}

func (h *benchHistogram) record(d time.Duration) {
	h.buckets[min(int(100*math.Log1p(float64(d.Microseconds()))), len(h.buckets)-1)]++
	h.count, h.sum, h.max = h.count+1, h.sum+d, max(h.max, d)
}

// percentile returns milliseconds, at most 1 % above the exact value.
func (h *benchHistogram) percentile(percent float64) float64 {
	rank, seen, longest := uint64(math.Ceil(percent/100*float64(h.count))), uint64(0), float64(h.max)/1e6
	for i, n := range h.buckets {
		if seen += n; n > 0 && seen >= rank {
			return benchRounded(min(math.Expm1(float64(i+1)/100)/1e3, longest))
		}
	}
	return benchRounded(longest)
}

func (h *benchHistogram) summary() benchLatency {
	return benchLatency{
		Mean: benchRounded(float64(h.sum) / 1e6 / float64(max(h.count, 1))), P50: h.percentile(50), P90: h.percentile(90), P95: h.percentile(95),
		P99: h.percentile(99), P999: h.percentile(99.9), Max: benchRounded(float64(h.max) / 1e6),
	}
}

func benchRounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// benchRun is a phase under way. The load is a closed loop: each worker sends its next
// request when the last is answered.
type benchRun struct {
	next       func(*benchWorker, time.Time) (benchRequest, bool)
	start, end time.Time // of the measuring
	// rateLimit of the key, in requests a minute: requests are sent evenly at nine tenths
	// of it, and not at all while only a tenth of a minute's requests is left. Zero sends
	// as fast as the server answers.
	rateLimit int

	mu        sync.Mutex
	phase     benchPhase
	latencies benchHistogram
	last      time.Time // the last measured answer
	nextSend  time.Time // with a rate limit
}

// run loads with all workers and returns when every request is answered. progress is
// called once a second.
func (r *benchRun) run(ctx context.Context, workers []*benchWorker, progress func(text string)) (benchPhase, error) {
	r.phase.Kinds, r.phase.Answers = map[string]uint64{}, map[string]uint64{}
	ticking, stopTicking := context.WithCancel(ctx)
	defer stopTicking()
	go func() {
		for every := time.NewTicker(time.Second); ; {
			select {
			case now := <-every.C:
				r.mu.Lock()
				text := r.phase.Name + ": warming up"
				if elapsed := now.Sub(r.start).Seconds(); elapsed > 0.5 {
					text = fmt.Sprintf("%s: %.0fs  %.0f/s", r.phase.Name, elapsed, float64(r.phase.Requests)/elapsed)
				}
				r.mu.Unlock()
				progress(text)
			case <-ticking.Done():
				every.Stop()
				return
			}
		}
	}()
	var group sync.WaitGroup
	for _, w := range workers {
		group.Go(func() { r.work(ctx, w) })
	}
	group.Wait()
	if r.phase.EndedEarly == "" && r.last.Before(r.end) {
		r.last = r.end
	}
	if elapsed := r.last.Sub(r.start).Seconds(); elapsed > 0 {
		r.phase.Seconds, r.phase.PerSecond = benchRounded(elapsed), benchRounded(float64(r.phase.Requests)/elapsed)
	}
	r.phase.Latency = r.latencies.summary()
	return r.phase, ctx.Err()
}

func (r *benchRun) work(ctx context.Context, w *benchWorker) {
	for unanswered := 0; r.wait(ctx); {
		begin := time.Now()
		request, found := r.next(w, begin)
		if !found {
			r.stop(fmt.Sprintf("every subscriber was renewed with each of the %d plans within 2 minutes: give more --subscribers", len(w.plans)))
			return
		}
		answer := w.send(ctx, request)
		if ctx.Err() != nil {
			return // the request failed by our own cancellation
		}
		r.count(request, answer, begin, time.Now())
		if unanswered++; answer.err == nil {
			unanswered = 0
		}
		if unanswered == benchLostAfter {
			r.stop(fmt.Sprintf("the server no longer answers: %v", answer.err))
		}
	}
}

// wait returns true when the next request may be sent, and false at the end.
func (r *benchRun) wait(ctx context.Context) bool {
	r.mu.Lock()
	at, ended := time.Now(), r.phase.EndedEarly != ""
	if r.rateLimit > 0 {
		if at.Before(r.nextSend) {
			at = r.nextSend
		}
		r.nextSend = at.Add(time.Minute * 10 / time.Duration(9*r.rateLimit))
	}
	r.mu.Unlock()
	if ended || !at.Before(r.end) {
		return false
	}
	if r.rateLimit == 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(at)):
		return true
	}
}

func (r *benchRun) stop(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase.EndedEarly == "" {
		r.phase.EndedEarly = why
	}
}

func (r *benchRun) count(request benchRequest, answer benchAnswer, begin, end time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase.Answers[answer.String()]++
	if answer.status == http.StatusOK {
		r.phase.charged += request.price
	}
	remaining, err := strconv.Atoi(answer.header.Get("X-RateLimit-Remaining"))
	if err == nil && r.rateLimit > 0 && remaining <= r.rateLimit/10 {
		// The rest of this minute is left to the key's owner.
		if next := end.Truncate(time.Minute).Add(time.Minute); next.After(r.nextSend) {
			r.nextSend = next
		}
	}
	if begin.Before(r.start) {
		return // warm-up
	}
	r.phase.Requests++
	r.phase.Kinds[request.kind]++
	r.latencies.record(end.Sub(begin))
	r.last = end
}
