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
const staffDecides = "staff meanwhile"

// questions are those that review has put to the provider about operations.
type queries struct {
	mu         sync.Mutex
	counts     map[string]int // operation: how many
	inProgress map[string]int
	rejections map[string][]rejection
}

// refutation is a definite no of the provider, as the process heard it that held the
// operation.
type rejection struct {
	process *process
	task    string
}

func newQueries() *queries {
	return &queries{counts: map[string]int{}, inProgress: map[string]int{}, rejections: map[string][]rejection{}}
}

// query puts a question about an operation, and may have staff decide meanwhile.
func (c providerClient) query(ctx context.Context, what string, o operation.Order, put func() operation.Reply) operation.Reply {
	c.wait(ctx, what, o.Reference)
	if strings.Contains(o.Reference, "-2") {
		return put()
	}
	env, id, task := c.env, o.Reference, taskOf(ctx)+"/"+c.env.nickname(o.Reference)
	q := env.queries
	q.mu.Lock()
	q.counts[id]++
	n := strconv.Itoa(q.counts[id])
	q.inProgress[id]++
	q.mu.Unlock()
	decides := env.faults.drawn(staffDecides, env.nickname(id), n)
	if what == "void" && !decides {
		// There are few voids, and most of what contradicts a person comes of them.
		decides = env.faults.drawn(staffDecides, env.nickname(id), n, what)
	}
	if decides {
		env.background.Go(func() { env.settleDuringQuery(id, n) })
	}
	if scripted := env.faults.decide[env.nickname(id)+" "+what]; scripted != "" {
		env.settleByStaff(id, scripted == "confirm") // before the question arrives
	}
	held := c.holds(id)
	answer := put()
	held = held && c.holds(id)
	q.mu.Lock()
	q.inProgress[id]--
	if answer.Outcome == operation.Rejected && held {
		q.rejections[id] = append(q.rejections[id], rejection{c.process, task})
	}
	q.mu.Unlock()
	return answer
}

// holds reports whether an operation is in the hands of this process, or settled.
// What is said to a process that lost it to another is kept, and asked again.
func (c providerClient) holds(id string) bool {
	if c.env.realTime {
		return false
	}
	op := c.env.model.operations[id]
	return op != nil && (terminal(op.state) || op.Node == c.process.name())
}

// decideMeanwhile is a person's word on an operation that a question is about.
func (env *environment) settleDuringQuery(id, n string) {
	name := env.nickname(id)
	label := []string{staffDecides, name, n}
	confirm := env.chance.odds(500, append(label, "confirm")...)
	wait := time.Duration(0)
	if env.chance.odds(500, append(label, "waits")...) {
		wait = env.chance.between(0, providerTimeout, append(label, "how long")...)
	}
	env.sleep(wait)
	env.gates.pass("staff about "+name, "decide "+n, nil, false)
	env.settleByStaff(id, confirm)
}

func (env *environment) settleByStaff(id string, confirm bool) {
	if _, err := env.service.SettleReview(context.Background(), id, confirm, "asked them by phone"); err != nil {
		return // review was first, or the store failed
	}
	env.queries.mu.Lock()
	inProgress := env.queries.inProgress[id] > 0
	env.queries.mu.Unlock()
	switch {
	case inProgress && confirm:
		env.occurred("staff confirm while a question is under way")
	case inProgress:
		env.occurred("staff reject while a question is under way")
	}
}

// judgeContradictions: where a person confirmed and a node heard the provider say
// no, there is an exception. A node that died or slept, or whose store failed as it
// wrote that down, is excused.
func (m *model) checkContradictions(op *mOperation) {
	if m.env.realTime || op.state != "success" || !op.person {
		return
	}
	for _, no := range m.env.queries.rejections[op.ID] {
		if no.process.isDisturbed() || m.faulted[no.task] || m.env.everWrong() {
			continue
		}
		m.env.occurred("the provider says no to what a person confirmed")
		if !m.contradicted(op.ID) {
			m.violate("S9", op.ID, "a person confirmed it, the provider told %s that it will never be carried out, and nobody was told", no.process.name())
			return
		}
	}
}

// contradicted: there is the exception for what was charged and the provider refused.
func (m *model) contradicted(id string) bool {
	return m.exceptions[id+" "+string(operation.RejectedAfterSuccess)]
}
