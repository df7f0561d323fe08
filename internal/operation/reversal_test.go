package operation_test

import (
	"context"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// reversingProvider answers reversals in turn.
type reversingProvider struct {
	instantProvider
	replies []operation.Reply
	// asked and voided are the references of the calls.
	asked, voided []string
}

func (p *reversingProvider) VoidReversal(_ context.Context, order operation.ReversalOrder) operation.Reply {
	p.voided = append(p.voided, order.Reference)
	return p.next()
}

func (p *reversingProvider) next() operation.Reply {
	reply := p.replies[0]
	p.replies = p.replies[1:]
	return reply
}

func (p *reversingProvider) Reverse(_ context.Context, order operation.ReversalOrder) operation.Reply {
	p.asked = append(p.asked, order.Reference)
	return p.next()
}

// A provider that never had the call refuses; one that may have received the reversal before it lost the
// call leaves the outcome unknown.
func TestReverser_UnsupportedAfterUnknown(t *testing.T) {
	missing := operation.Reply{Outcome: operation.Rejected, Unsupported: true, Detail: "HTTP 404"}
	lost := operation.Reply{Detail: "no answer"}
	neverLeft := operation.Reply{NotSent: true, Detail: "no connection"}
	reversed := operation.Reply{Outcome: operation.Confirmed, Transaction: "P-RV"}
	for name, test := range map[string]struct {
		replies []operation.Reply
		want    operation.ReversalState
	}{
		"missing at first":          {[]operation.Reply{missing}, operation.ReversalRefused},
		"missing after no call":     {[]operation.Reply{neverLeft, missing}, operation.ReversalRefused},
		"missing after a lost call": {[]operation.Reply{lost, missing}, operation.ReversalAsked},
		"back after a lost call":    {[]operation.Reply{lost, neverLeft, missing, reversed}, operation.Reversed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newReviewFixture(t)
			op := f.reserve(f.operator("shop"), 1, "")[0]
			f.settle(op, operation.Settlement{To: operation.Success, ProviderTransaction: "P-1"})
			_, err := f.service.SubmitReversal(t.Context(), op.ID, "wrong customer")
			f.must(err)
			provider := &reversingProvider{replies: test.replies}
			now := noon
			reviewer := operation.NewReviewer(f.db, provider, operation.ReviewConfig{
				Now: func() time.Time { return now }, Node: "node-1", Timeout: time.Second, FirstCheck: time.Second, MaxInterval: time.Minute, OnError: func(err error) { t.Error(err) },
			})
			for range test.replies {
				if _, err := reviewer.RunOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Hour)
			}
			if len(provider.replies) != 0 {
				t.Errorf("%d replies were not asked for", len(provider.replies))
			}
			for _, reference := range provider.asked {
				if reference != provider.asked[0] {
					t.Errorf("asked under %q; want one reference", provider.asked)
				}
			}
			history, err := f.db.OperationHistory(t.Context(), op.ID)
			f.must(err)
			if got := history.Reversals[0].State; len(history.Reversals) != 1 || got != test.want {
				t.Errorf("the reversal is %s; want %s", got, test.want)
			}
		})
	}
}
