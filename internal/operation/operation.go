// Package operation carries the three wallet-debiting operations from request
// to result. It alone moves an operation between its states. It knows no HTTP
// and no SQL: it declares the store and the provider it needs.
package operation

import "errors"

// State is where an operation stands.
type State string

// Silence has a state of its own: what nobody knows is in review, its money
// held, until the provider or a person says what happened.
const (
	Processing  State = "processing"
	Success     State = "success"
	Failed      State = "failed"
	NeedsReview State = "needs_review"
)

// next is the whole state machine. What is not listed cannot happen.
var next = map[State][]State{
	Processing:  {Success, Failed, NeedsReview},
	NeedsReview: {Success, Failed},
}

// CanBecome reports whether an operation may go from one state to another.
func (s State) CanBecome(to State) bool {
	for _, allowed := range next[s] {
		if allowed == to {
			return true
		}
	}
	return false
}

// Open reports whether the operation's money is still held.
func (s State) Open() bool { return len(next[s]) > 0 }

// ErrAmbiguous is what a store returns when it cannot say whether a fact took
// hold: the disk or the connection failed while it was being committed. The
// fact must be looked up again before anything is built on it.
var ErrAmbiguous = errors.New("it is not known whether the commit took hold")
