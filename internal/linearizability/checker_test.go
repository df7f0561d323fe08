//go:build long

// Package linearizability_test runs two nodes on one store with many concurrent
// clients, records every request and answer with its time, and checks whether some
// sequential order explains all answers. The rules are written here again from the
// contract and share no code with the product.
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
	// checkTimeout bounds the search for an order. A history that is too hard to
	// check fails.
	checkTimeout = time.Minute
	// never is the end of a span whose end is unknown.
	never = math.MaxInt64
)

// step is one event with its answer. S is the state between steps.
type step[S comparable] interface {
	// from returns the state after the step; false if the step, with its answer, is
	// not possible in the state before it.
	from(S) (S, bool)
}

// happened is a step and the span in which it took effect.
type happened[S comparable] struct {
	client       int
	begun, ended int64
	step[S]
}

// subject is something with a state, such as a wallet or a key, and its steps.
type subject[S comparable] struct {
	name  string
	start S
	steps []happened[S]
}

// checkable is a subject of any state type.
type checkable interface {
	title() string
	result() porcupine.CheckResult
	mustBeLinearizable(testing.TB)
}

// subjects returns everything in a history that has a state.
func (r *record) subjects() []checkable {
	return slices.Concat(
		asCheckable(r.wallets()), asCheckable(r.keys()), asCheckable(r.customers()), asCheckable(r.nonces()), asCheckable(r.admissions()))
}

func asCheckable[S comparable](subjects []subject[S]) (all []checkable) {
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

func (s subject[S]) result() porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(s.model(), s.history(), checkTimeout)
}

// mustBeLinearizable fails the test if no order explains the steps, and saves a
// visualization of the history.
func (s subject[S]) mustBeLinearizable(t testing.TB) {
	t.Helper()
	if s.result() == porcupine.Ok {
		return
	}
	result, found := porcupine.CheckOperationsVerbose(s.model(), s.history(), checkTimeout)
	picture := filepath.Join(pictures(t), "history.html")
	if err := porcupine.VisualizePath(s.model(), found, picture); err != nil {
		t.Errorf("draw the history: %v", err)
	}
	t.Errorf("%s: no order of its %d steps explains them (%s); see %s\n%s", s.name, len(s.steps), result, picture, s)
}

// stepsInWords is how many steps are listed as text; for more, see the visualization.
const stepsInWords = 60

// String lists the steps, by the start of their requests.
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

// pictures returns a folder that outlives the test: the artifact folder with
// `go test -artifacts`, else a temporary one that is not removed.
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
