package sim

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// staffMeanwhile is a fault: staff confirm or reject an operation by hand while a
// question about it, a status or a void, is under way. Whichever is written first
// counts; where the other contradicts it, a person is told.
const staffMeanwhile = "staff meanwhile"

// questions are those that review has put to the provider about operations.
type questions struct {
	mu       sync.Mutex
	asked    map[string]int // operation: how many
	underWay map[string]int
	refuted  map[string][]refutation
}

// refutation is a definite no of the provider, as the process heard it that held the
// operation.
type refutation struct {
	life *life
	task string
}

func newQuestions() *questions {
	return &questions{asked: map[string]int{}, underWay: map[string]int{}, refuted: map[string][]refutation{}}
}

// ask puts a question about an operation, and may have staff decide meanwhile.
func (l line) ask(ctx context.Context, what string, o operation.Order, put func() operation.Reply) operation.Reply {
	l.wait(ctx, what, o.Reference)
	if strings.Contains(o.Reference, "-2") {
		return put()
	}
	w, id, task := l.w, o.Reference, taskOf(ctx)+"/"+l.w.nickname(o.Reference)
	q := w.questions
	q.mu.Lock()
	q.asked[id]++
	n := strconv.Itoa(q.asked[id])
	q.underWay[id]++
	q.mu.Unlock()
	decides := w.faults.drawn(staffMeanwhile, w.nickname(id), n)
	if what == "void" && !decides {
		// There are few voids, and most of what contradicts a person comes of them.
		decides = w.faults.drawn(staffMeanwhile, w.nickname(id), n, what)
	}
	if decides {
		w.background.Go(func() { w.decideMeanwhile(id, n) })
	}
	if told := w.faults.decide[w.nickname(id)+" "+what]; told != "" {
		w.settleMeanwhile(id, told == "confirm") // before the question arrives
	}
	held := l.holds(id)
	answer := put()
	held = held && l.holds(id)
	q.mu.Lock()
	q.underWay[id]--
	if answer.Outcome == operation.Rejected && held {
		q.refuted[id] = append(q.refuted[id], refutation{l.life, task})
	}
	q.mu.Unlock()
	return answer
}

// holds reports whether an operation is in the hands of this process, or settled.
// What is said to a process that lost it to another is kept, and asked again.
func (l line) holds(id string) bool {
	if l.w.real {
		return false
	}
	op := l.w.model.operations[id]
	return op != nil && (terminal(op.state) || op.Node == l.life.name())
}

// decideMeanwhile is a person's word on an operation that a question is about.
func (w *world) decideMeanwhile(id, n string) {
	name := w.nickname(id)
	label := []string{staffMeanwhile, name, n}
	confirm := w.chance.odds(500, append(label, "confirm")...)
	wait := time.Duration(0)
	if w.chance.odds(500, append(label, "waits")...) {
		wait = w.chance.between(0, providerTimeout, append(label, "how long")...)
	}
	w.sleep(wait)
	w.gates.pass("staff about "+name, "decide "+n, nil, false)
	w.settleMeanwhile(id, confirm)
}

func (w *world) settleMeanwhile(id string, confirm bool) {
	if _, err := w.service.SettleReview(context.Background(), id, confirm, "asked them by phone"); err != nil {
		return // review was first, or the store failed
	}
	w.questions.mu.Lock()
	underWay := w.questions.underWay[id] > 0
	w.questions.mu.Unlock()
	switch {
	case underWay && confirm:
		w.sometimes("staff confirm while a question is under way")
	case underWay:
		w.sometimes("staff reject while a question is under way")
	}
}

// judgeContradictions: where a person confirmed and a node heard the provider say
// no, there is an exception. A node that died or slept, or whose store failed as it
// wrote that down, is excused.
func (m *model) judgeContradictions(op *mOperation) {
	if m.w.real || op.state != "success" || !op.person {
		return
	}
	for _, no := range m.w.questions.refuted[op.ID] {
		if no.life.isTroubled() || m.faulted[no.task] || m.w.everWrong() {
			continue
		}
		m.w.sometimes("the provider says no to what a person confirmed")
		if !m.contradicted(op.ID) {
			m.violate("S9", op.ID, "a person confirmed it, the provider told %s that it will never be carried out, and nobody was told", no.life.name())
			return
		}
	}
}

// contradicted: there is the exception for what was charged and the provider refused.
func (m *model) contradicted(id string) bool {
	return m.exceptions[id+" "+string(operation.RejectedAfterSuccess)]
}
