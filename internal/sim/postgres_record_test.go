package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// record is what clients and staff sent and received in a history in real time.
type record struct {
	env       *environment
	pgJournal *pgJournal

	mu       sync.Mutex
	requests map[string][]*flight // operator and key: every request that named them
	nonces   map[string]bool
	began    map[*flight]time.Time
	excused  map[string]bool // tasks that met a fault
	answers  []recordedAnswer
	credited map[string]int64 // operator and reference: what staff were told
}

// recordedAnswer is an answer, with the machine's time at its request and its arrival.
type recordedAnswer struct {
	f            *flight
	a            answer
	began, ended time.Time
	// excused: it, its process or the clocks met an injected fault.
	excused bool
}

func newRecord(env *environment, c *pgJournal) *record {
	return &record{
		env: env, pgJournal: c, requests: map[string][]*flight{}, nonces: map[string]bool{}, began: map[*flight]time.Time{},
		excused: map[string]bool{}, credited: map[string]int64{},
	}
}

var _ observer = (*record)(nil)

func (r *record) begin(f *flight) {
	f.at, f.timesMoved = f.process.node.now(), r.env.timesMoved()
	r.mu.Lock()
	r.began[f] = time.Now()
	fresh := false
	if f.key != nil {
		fresh = !r.nonces[f.nonceKey()]
		r.nonces[f.nonceKey()] = true
		if f.kind != "" && f.idem != "" {
			key := keyOf(f.key.operator, f.idem)
			r.requests[key] = append(r.requests[key], f)
		}
	}
	r.mu.Unlock()
	r.env.trace.write(fmt.Sprintf("%8.3f %-6s %-28s carries %s, made at %s", r.env.elapsed().Seconds(), f.process.name(), f.task, f.headers["X-Nonce"], f.at))
	if fresh {
		r.env.capture(f)
	}
}

func (r *record) answered(f *flight, a answer) {
	disturbed := f.process.isDisturbed() || f.timesMoved != r.env.timesMoved()
	r.env.occurred("code " + a.code)
	r.env.trace.answer(f, a)
	if f.key != nil && r.env.locks.another(f.key.operator) {
		r.env.occurred("an operator is answered while rows of another are held")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, recordedAnswer{f, a, r.began[f], time.Now(), disturbed || r.excused[f.task]})
}

func (r *record) excuse(task string) {
	task, _, _ = strings.Cut(task, "/")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused[task] = true
}

func (r *record) died(*process) {}

func (r *record) toppedUp(operator int64, reference string, amount int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.credited[keyOf(operator, reference)] = amount
}

func (r *record) operationOf(key string) string {
	return r.one(`SELECT id FROM operations WHERE idempotency_key = $1 ORDER BY id LIMIT 1`, key)
}

func (r *record) inReview() string {
	return r.one(`SELECT id FROM operations WHERE status = 'needs_review' ORDER BY id LIMIT 1`)
}

func (r *record) one(query string, args ...any) string {
	found, err := r.pgJournal.texts(query, args...)
	if err != nil {
		r.env.fail("look at the store: " + err.Error())
	}
	if len(found) == 0 {
		return ""
	}
	return found[0]
}
