// Package certify drives an integrator's program through situations in which clients lose
// money: it runs a real service behind a bad connection, gives the program orders over its
// standard input, and compares what it says with what happened.
package certify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Options are how a program is certified.
type Options struct {
	Command []string
	Environ []string
	Stories []Story
	// Copies is how many copies of the program run at once.
	Copies int
	// Grace is how long the program may take to end after the end of its input; 10 seconds if 0.
	Grace time.Duration
	// Progress is called after each story, by one goroutine at a time.
	Progress func(done int, result Result)
}

// CommandError means that the program could not be started.
type CommandError struct{ Err error }

func (e *CommandError) Error() string { return "start the program: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *CommandError) Unwrap() error { return e.Err }

// Result is what became of a story.
type Result struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Fault is the gravest; "" if the story passed.
	Fault       string `json:"fault"`
	Explanation string `json:"explanation"`
	// More are further faults of the same story.
	More  []string `json:"more,omitempty"`
	About string   `json:"about"`
	Costs string   `json:"costs"`
	Guide string   `json:"guide"`
	// Page is the path under which every installation serves the section that Guide names.
	Page string `json:"page"`
	// Unchecked says what could not be checked; "" if all was.
	Unchecked string    `json:"unchecked,omitempty"`
	Expected  string    `json:"expected"`
	Happened  []string  `json:"happened"`
	Requests  []Request `json:"requests"`
	Seconds   float64   `json:"seconds"`
}

// Request is a request of the program, byte for byte but for secrets.
type Request struct {
	// At is in seconds since the story began.
	At   float64 `json:"at"`
	Text string  `json:"text"`
	// Escaped means that Text has bytes which are not text. They are written as \xNN, and a
	// backslash is written twice.
	Escaped bool   `json:"escaped,omitempty"`
	Answer  string `json:"answer"`
}

// Run plays the stories and returns their results, in the stories' order.
func Run(ctx context.Context, o Options) ([]Result, error) {
	on, err := startService(ctx)
	if err != nil {
		return nil, err
	}
	results, err := runOn(ctx, on, o)
	return results, errors.Join(err, on.stop())
}

func runOn(ctx context.Context, on *service, o Options) ([]Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	certificates, err := newCertificates(on.folder)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(o.Stories))
	next := make(chan int)
	var group sync.WaitGroup
	var mu sync.Mutex
	var first error
	done := 0
	for range min(o.Copies, len(o.Stories)) {
		group.Go(func() {
			for i := range next {
				result, err := playStory(ctx, o.Stories[i], on, certificates, o)
				mu.Lock()
				if err != nil && first == nil {
					first = err
					cancel()
				}
				if err == nil {
					results[i] = result
					done++
					o.Progress(done, result)
				}
				mu.Unlock()
			}
		})
	}
	for _, i := range longestFirst(o.Stories) {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	if first == nil {
		first = ctx.Err()
	}
	return results, first
}

// longestFirst returns the stories' indexes, those that take longest first, so that the run
// does not end with one of them alone.
func longestFirst(stories []Story) []int {
	var long, short []int
	for i, s := range stories {
		if s.Limit > defaultFor || s.RateLimit != nil || s.OpenAfter > 0 || s.delays() {
			long = append(long, i)
		} else {
			short = append(short, i)
		}
	}
	return append(long, short...)
}

func (s Story) delays() bool {
	for _, one := range s.Line {
		if one.Delay > 0 {
			return true
		}
	}
	return false
}

func playStory(ctx context.Context, s Story, on *service, certificates certificates, o Options) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := newSession(ctx, s, on, certificates, o.Command, o.Environ)
	if err != nil {
		return Result{}, fmt.Errorf("set up the story %s: %w", s.Name, err)
	}
	p.grace = cmp.Or(o.Grace, 10*time.Second)
	began := time.Now()
	if err := p.play(ctx); err != nil {
		return Result{}, fmt.Errorf("play the story %s: %w", s.Name, err)
	}
	took := time.Since(began)
	found, exchanges, err := p.verdict(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("check the story %s: %w", s.Name, err)
	}
	return p.result(found, exchanges, began, took), nil
}
