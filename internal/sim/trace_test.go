package sim

import (
	"fmt"
	"hash"
	"strings"
	"sync"
)

// trace is the log of a history's steps. Its hash identifies the history; its lines are
// kept only if they are to be printed.
type trace struct {
	env  *environment
	keep bool

	mu  sync.Mutex
	sum hash.Hash64
	all []string
}

func (t *trace) write(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.sum.Write([]byte(line))
	if t.keep {
		t.all = append(t.all, line)
	}
}

func (t *trace) note(s *waiter, v injection) {
	node := ""
	if s.process != nil {
		node = s.process.name()
	}
	t.write(fmt.Sprintf("%8.3f %-6s %-28s %-20s %s", t.env.elapsed().Seconds(), node, s.who, s.where, [...]string{"", "dies", "unavailable", "ambiguous", "fails"}[v]))
}

func (t *trace) answer(f *flight, a answer) {
	detail := a.code
	if f.kind != "" && a.isResult() {
		detail += " " + t.env.nickname(text(a.data, "transaction_id")) + " " + text(a.data, "status")
	}
	t.write(fmt.Sprintf("%8.3f %-6s %-28s => %d %s", t.env.elapsed().Seconds(), f.process.name(), f.task, a.status, detail))
}

func (t *trace) String() string { return strings.Join(t.lines(""), "\n") }

// lines returns the lines that contain a text.
func (t *trace) lines(what string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var some []string
	for _, line := range t.all {
		if strings.Contains(line, what) {
			some = append(some, line)
		}
	}
	return some
}

// about returns up to 200 lines about the subjects of some violations.
func (t *trace) about(violations []string) string {
	var some []string
	for _, v := range violations {
		_, rest, _ := strings.Cut(v, " ")
		subject, _, _ := strings.Cut(rest, ":")
		some = append(some, t.lines(strings.TrimPrefix(subject, "order-of-"))...)
		if len(some) > 200 {
			return strings.Join(some[:200], "\n")
		}
	}
	return strings.Join(some, "\n")
}
