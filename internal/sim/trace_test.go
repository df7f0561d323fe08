package sim

import (
	"fmt"
	"hash"
	"strings"
	"time"
)

// trace is everything that happened in a history, step by step. Its sum tells two
// histories apart; its lines are kept only for whoever wants to read them.
type trace struct {
	w    *world
	sum  hash.Hash64
	keep bool
	all  []string
}

func (t *trace) write(line string) {
	_, _ = t.sum.Write([]byte(line))
	if t.keep {
		t.all = append(t.all, line)
	}
}

func (t *trace) note(s *stop, v verdict) {
	node := ""
	if s.life != nil {
		node = s.life.name()
	}
	t.write(fmt.Sprintf("%8.3f %-6s %-28s %-20s %s", time.Since(start()).Seconds(), node, s.who, s.where, [...]string{"", "dies", "unavailable", "ambiguous", "fails"}[v]))
}

func (t *trace) tell(f *flight, a answer) {
	detail := a.code
	if f.kind != "" && a.isResult() {
		detail += " " + t.w.nickname(text(a.data, "transaction_id")) + " " + text(a.data, "status")
	}
	t.write(fmt.Sprintf("%8.3f %-6s %-28s => %d %s", time.Since(start()).Seconds(), f.life.name(), f.task, a.status, detail))
}

// start is when fake time begins.
func start() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func (t *trace) String() string { return strings.Join(t.all, "\n") }
