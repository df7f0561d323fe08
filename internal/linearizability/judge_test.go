//go:build long

// Package linearizability_test runs two nodes on one store with many clients at
// once, writes down who was told what and when, and asks whether one service that
// does one thing at a time could have said the same. It holds only tests: the
// rules that histories are held against are written anew here, from the contract,
// and share nothing with the code that is judged.
package linearizability_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// judgeWithin bounds the search for an order. Not to know is to fail: a
	// history that is too hard to judge has not been found in order.
	judgeWithin = time.Minute
	// never is when something ends of which nobody knows when it ended.
	never = math.MaxInt64
)

// step is one thing that happened, with what it was answered. S is everything
// that is remembered between steps.
type step[S comparable] interface {
	// from is what the step makes of a state; false if it cannot have happened
	// there, or not with that answer.
	from(S) (S, bool)
}

// happened is a step and the time within which it took hold.
type happened[S comparable] struct {
	client       int
	begun, ended int64
	step[S]
}

// subject is one thing with a state of its own, a wallet or a key, and what
// happened to it.
type subject[S comparable] struct {
	name  string
	start S
	steps []happened[S]
}

// judged is a subject whatever its state is made of.
type judged interface {
	title() string
	verdict() porcupine.CheckResult
	mustBeInOrder(testing.TB)
}

// subjects is everything in a history that has a state of its own.
func (r *record) subjects() []judged {
	return slices.Concat(
		asJudged(r.wallets()), asJudged(r.keys()), asJudged(r.customers()), asJudged(r.nonces()), asJudged(r.gate()))
}

func asJudged[S comparable](subjects []subject[S]) (all []judged) {
	for _, s := range subjects {
		all = append(all, s)
	}
	return all
}

func (s subject[S]) title() string { return s.name }

func (s subject[S]) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return s.start },
		Step: func(state, input, _ any) (bool, any) {
			next, can := input.(step[S]).from(state.(S))
			return can, next
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%T%+v", input, input) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

func (s subject[S]) history() []porcupine.Operation {
	history := make([]porcupine.Operation, len(s.steps))
	for i, h := range s.steps {
		history[i] = porcupine.Operation{ClientId: h.client, Input: h.step, Call: h.begun, Return: h.ended}
	}
	return history
}

func (s subject[S]) verdict() porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(s.model(), s.history(), judgeWithin)
}

// mustBeInOrder fails the test if no order explains what happened, and leaves a
// picture of the history behind.
func (s subject[S]) mustBeInOrder(t testing.TB) {
	t.Helper()
	if s.verdict() == porcupine.Ok {
		return
	}
	verdict, found := porcupine.CheckOperationsVerbose(s.model(), s.history(), judgeWithin)
	picture := filepath.Join(pictures(t), "history.html")
	if err := porcupine.VisualizePath(s.model(), found, picture); err != nil {
		t.Errorf("draw the history: %v", err)
	}
	t.Errorf("%s: no order of its %d steps explains them (%s); see %s\n%s", s.name, len(s.steps), verdict, picture, s)
}

// stepsInWords is how many steps are listed in words; more are easier to look at.
const stepsInWords = 60

// String lists what happened, in the order in which it was asked for.
func (s subject[S]) String() string {
	var text strings.Builder
	for _, h := range slices.SortedFunc(slices.Values(s.steps), func(a, b happened[S]) int { return cmp.Compare(a.begun, b.begun) }) {
		if len(s.steps) > stepsInWords {
			return "(its steps are too many to be listed)"
		}
		ended := "never"
		if h.ended != never {
			ended = time.Duration(h.ended).String()
		}
		fmt.Fprintf(&text, "  client %d, %s to %s: %T%+v\n", h.client, time.Duration(h.begun), ended, h.step, h.step)
	}
	return text.String()
}

// pictures is a folder that is still there when the test has ended: the test's
// own, where `go test -artifacts` keeps it, else one that nobody removes.
func pictures(t testing.TB) string {
	t.Helper()
	if kept := flag.Lookup("test.artifacts"); kept != nil && kept.Value.String() == "true" {
		return t.ArtifactDir()
	}
	folder, err := os.MkdirTemp("", "coax-linearizability-")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}
