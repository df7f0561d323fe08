package console

import (
	"cmp"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// timelineStep is a step in the life of an operation: a state that it came to, or a step of a reversal.
type timelineStep struct {
	At time.Time
	// State is shown as a badge. Tone is the class of the step; empty for a neutral one.
	State, Tone string
	// Text says what happened, in English; Why what a person or the provider said about it.
	Text, Why string
	// Asked is how often the provider was asked in this step; zero if it was not.
	Asked int
	// By is the person who did it, or else the node.
	By string
}

var toneOf = map[operation.State]string{operation.Success: "is-good", operation.Failed: "is-bad", operation.NeedsReview: "is-warn"}

// stepReasons are the reasons that the service gives for a state, as they are stored. Others are the
// words of people, and are shown as they are.
var stepReasons = map[string]string{
	"reserved":                                            look.Text("The amount is held."),
	"the provider confirmed":                              look.Text("The provider confirmed it."),
	"the provider rejected":                               look.Text("The provider rejected it."),
	"the request never left":                              look.Text("The provider could not be reached; nothing was sent."),
	"the provider's answer is not known":                  look.Text("The provider's answer is not known."),
	"its lease expired":                                   look.Text("The node that ran it stopped."),
	"the provider says that it was carried out":           look.Text("The provider says that it was carried out."),
	"the provider says that it was rejected":              look.Text("The provider says that it was rejected."),
	"the provider says that it will never be carried out": look.Text("The provider says that it will never be carried out."),
}

// timeline lists the states of an operation and the steps of its reversals, by time.
func timeline(v *web.Visit, h admin.OperationHistory) []timelineStep {
	var steps []timelineStep
	for _, e := range h.Events {
		step := timelineStep{At: e.At, State: string(e.To), Tone: toneOf[e.To], Text: stepReasons[e.Why], By: cmp.Or(v.Who(e.Actor), e.Node)}
		if step.Text == "" {
			step.Why = e.Why
		}
		steps = append(steps, step)
	}
	for _, r := range h.Reversals {
		steps = append(steps, reversalSteps(v, r, h.Calls)...)
	}
	slices.SortStableFunc(steps, func(a, b timelineStep) int { return a.At.Compare(b.At) })
	return steps
}

// reversalSteps are a reversal's request, the calls to the provider and the outcome.
func reversalSteps(v *web.Visit, r operation.Reversal, calls []admin.OperationCall) []timelineStep {
	steps := []timelineStep{{At: r.RequestedAt, State: string(operation.ReversalRequested), Tone: "is-warn", Why: r.Reason, By: v.Who(r.Actor)}}
	asked, answered := timelineStep{Text: look.Text("The provider was asked to undo it.")}, ""
	for _, call := range calls {
		if call.Reference != r.Reference {
			continue
		}
		if asked.Asked++; asked.Asked == 1 {
			asked.At, asked.By = call.CalledAt, call.Node
		}
		if answered == "" && call.Outcome != operation.Unknown.String() {
			answered = call.Node
		}
	}
	if asked.Asked > 0 {
		steps = append(steps, asked)
	}
	if r.State.Open() {
		return steps
	}
	end := timelineStep{At: r.CompletedAt, State: string(r.State), Text: look.Text("The provider confirmed that it was undone."), Why: v.T(r.Message), By: answered}
	switch {
	case r.ByPerson:
		end.Text, end.Why, end.By = r.Message, r.Evidence, v.Who(r.SettledBy)
	case r.State == operation.ReversalRefused:
		end.Text = look.Text("The provider did not undo it.")
	}
	return append(steps, end)
}
