package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// record is what clients and staff did and heard in a history in real time.
type record struct {
	w         *world
	chronicle *chronicle

	mu       sync.Mutex
	asked    map[string][]*flight // operator and key: every request that named them
	nonces   map[string]bool
	began    map[*flight]time.Time
	excused  map[string]bool // tasks that met a fault
	heard    []heard
	credited map[string]int64 // operator and reference: what staff were told
}

// heard is an answer, and between which moments of the machine it was made.
type heard struct {
	f            *flight
	a            answer
	began, ended time.Time
	// excused: a fault of ours met it, or its process, or the clocks.
	excused bool
}

func newRecord(w *world, c *chronicle) *record {
	return &record{
		w: w, chronicle: c, asked: map[string][]*flight{}, nonces: map[string]bool{}, began: map[*flight]time.Time{},
		excused: map[string]bool{}, credited: map[string]int64{},
	}
}

var _ witness = (*record)(nil)

func (r *record) begin(f *flight) {
	f.at, f.timesMoved = f.life.node.now(), r.w.timesMoved()
	r.mu.Lock()
	r.began[f] = time.Now()
	fresh := false
	if f.key != nil {
		fresh = !r.nonces[f.nonceKey()]
		r.nonces[f.nonceKey()] = true
		if f.kind != "" && f.idem != "" {
			key := keyOf(f.key.operator, f.idem)
			r.asked[key] = append(r.asked[key], f)
		}
	}
	r.mu.Unlock()
	r.w.trace.write(fmt.Sprintf("%8.3f %-6s %-28s carries %s, made at %s", r.w.elapsed().Seconds(), f.life.name(), f.task, f.headers["X-Nonce"], f.at))
	if fresh {
		r.w.capture(f)
	}
}

func (r *record) answered(f *flight, a answer) {
	troubled := f.life.isTroubled() || f.timesMoved != r.w.timesMoved()
	r.w.sometimes("code " + a.code)
	r.w.trace.tell(f, a)
	if f.key != nil && r.w.locks.another(f.key.operator) {
		r.w.sometimes("an operator is answered while rows of another are held")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, heard{f, a, r.began[f], time.Now(), troubled || r.excused[f.task]})
}

func (r *record) excuse(task string) {
	task, _, _ = strings.Cut(task, "/")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused[task] = true
}

func (r *record) died(*life) {}

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
	found, err := r.chronicle.texts(query, args...)
	if err != nil {
		r.w.fail("look at the store: " + err.Error())
	}
	if len(found) == 0 {
		return ""
	}
	return found[0]
}
