package sim

import (
	"fmt"
	"time"
)

// How nodes come and go, and what others see of them.

// populate starts the nodes.
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

// startAgain starts a node that was down.
func (env *environment) restart(n *node) {
	if err := n.start(); err != nil {
		env.fail(fmt.Sprintf("%s could not be started again: %v", n.name, err))
	}
}

// born: a process runs.
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
		l.crash() // it came too late for the end of everything
	}
}

func (n *node) skew() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.offset
}

// setOffset says whether that was a change.
func (n *node) setOffset(offset time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := offset != n.offset
	n.offset = offset
	return changed
}

// running is the present process; nil between two.
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

// asleep is until when it sleeps.
func (l *process) pausedUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pauseEnd
}

// sleepOut waits until it is awake or dead.
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
