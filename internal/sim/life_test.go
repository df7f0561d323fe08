package sim

import (
	"fmt"
	"time"
)

// How nodes come and go, and what others see of them.

// populate starts the nodes.
func (w *world) populate() error {
	for i := range 1 + w.chance.below(3, "nodes") {
		n := &node{w: w, name: fmt.Sprint("n", i+1)}
		w.nodes = append(w.nodes, n)
		if err := n.start(); err != nil {
			return err
		}
	}
	return nil
}

// startAgain starts a node that was down.
func (w *world) startAgain(n *node) {
	if err := n.start(); err != nil {
		w.fail(fmt.Sprintf("%s could not be started again: %v", n.name, err))
	}
}

// born: a process runs.
func (w *world) born(l *life) {
	w.mu.Lock()
	w.lives[l.name()] = l
	w.mu.Unlock()
	l.node.mu.Lock()
	l.node.life = l
	l.node.mu.Unlock()
	w.gates.mu.Lock()
	closed := w.gates.closed
	w.gates.mu.Unlock()
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
func (n *node) running() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *life) isTroubled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.troubled
}

func (l *life) setTroubled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubled = true
}

// asleep is until when it sleeps.
func (l *life) asleep() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asleepUntil
}

// sleepOut waits until it is awake or dead.
func (l *life) sleepOut() {
	if wait := time.Until(l.asleep()); wait > 0 {
		select {
		case <-time.After(wait):
		case <-l.ended:
		}
	}
}

func (l *life) sleepUntil(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleepUntil = at
}
