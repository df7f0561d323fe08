package sim

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// staffDecides is a fault: staff confirm or reject an operation while a status query
// or void about it is in progress. The one written first counts; if the other
// contradicts it, an exception is raised.
const staffDecides = "staff meanwhile"

// queries are the status queries and voids that review has sent to the provider.
type queries struct {
	mu         sync.Mutex
	counts     map[string]int // operation: how many
	inProgress map[string]int
	rejections map[string][]rejection
}

// rejection is a definite no of the provider, received by the process that owned the
// operation.
type rejection struct {
	process *process
	task    string
}

func newQueries() *queries {
	return &queries{counts: map[string]int{}, inProgress: map[string]int{}, rejections: map[string][]rejection{}}
}

// query sends a query about an operation, and may have staff settle it meanwhile.
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
		// There are few voids, and most replies that contradict a person are theirs.
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

// holds reports whether this process owns an operation, or it is settled. A reply to a
// process that lost the operation is recorded, and review queries again.
func (c providerClient) holds(id string) bool {
	if c.env.realTime {
		return false
	}
	op := c.env.model.operations[id]
	return op != nil && (terminal(op.state) || op.Node == c.process.name())
}

// settleDuringQuery has a person settle an operation during a query about it.
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
		env.occurred("staff confirm during a query")
	case inProgress:
		env.occurred("staff reject during a query")
	}
}

// checkContradictions: if a person confirmed an operation and a node received a
// rejection, there is an exception. A node that crashed or was paused, or whose store
// failed to record the reply, is excused.
func (m *model) checkContradictions(op *mOperation) {
	if m.env.realTime || op.state != "success" || !op.person {
		return
	}
	for _, no := range m.env.queries.rejections[op.ID] {
		if no.process.isDisturbed() || m.faulted[no.task] || m.env.everWrong() {
			continue
		}
		m.env.occurred("the provider rejects what a person confirmed")
		if !m.contradicted(op.ID) {
			m.violate("S9", op.ID, "a person confirmed it, the provider told %s that it will never be carried out, and there is no exception", no.process.name())
			return
		}
	}
}

// contradicted reports whether there is an exception for a charge that the provider
// rejected.
func (m *model) contradicted(id string) bool {
	return m.exceptions[id+" "+string(operation.RejectedAfterSuccess)]
}
