package sim

import (
	"fmt"
	"time"
)

// startNodes starts the nodes.
func (env *environment) startNodes() error {
	for i := range 1 + env.chance.below(3, "nodes") {
		n := &node{env: env, name: fmt.Sprint("n", i+1)}
		env.nodes = append(env.nodes, n)
		if err := n.start(); err != nil {
			return err
		}
	}
	return nil
}

// restart starts a node that was down.
func (env *environment) restart(n *node) {
	if err := n.start(); err != nil {
		env.fail(fmt.Sprintf("%s could not be started again: %v", n.name, err))
	}
}

// started registers a process that runs now.
func (env *environment) started(l *process) {
	env.mu.Lock()
	env.processes[l.name()] = l
	env.mu.Unlock()
	l.node.mu.Lock()
	l.node.process = l
	l.node.mu.Unlock()
	env.gates.mu.Lock()
	closed := env.gates.closed
	env.gates.mu.Unlock()
	if closed {
		l.crash() // it started during teardown
	}
}

func (n *node) skew() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.offset
}

// setOffset reports whether that was a change.
func (n *node) setOffset(offset time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := offset != n.offset
	n.offset = offset
	return changed
}

// running returns the present process; nil while the node is down.
func (n *node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

func (l *process) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *process) isDisturbed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disturbed
}

func (l *process) setDisturbed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disturbed = true
}

// pausedUntil returns until when it is paused.
func (l *process) pausedUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pauseEnd
}

// waitWhilePaused waits until it resumes or ends.
func (l *process) waitWhilePaused() {
	if wait := time.Until(l.pausedUntil()); wait > 0 {
		select {
		case <-time.After(wait):
		case <-l.ended:
		}
	}
}

func (l *process) pauseUntil(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauseEnd = at
}
