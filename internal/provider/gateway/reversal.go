package gateway

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/operation"
)

// reverseAnswers are the valid statuses of an answer to a reversal.
var reverseAnswers = map[string]meaning{
	"reversed": {outcome: operation.Confirmed},
	"rejected": {outcome: operation.Rejected, refusal: true},
	"pending":  {detail: "the provider has taken the reversal and not carried it out yet"},
}

// voidReversalAnswers are the valid statuses of an answer to the void of a reversal.
var voidReversalAnswers = map[string]meaning{
	"reversed": {outcome: operation.Confirmed},
	"voided":   {outcome: operation.Rejected},
}

// Reverse asks for an order to be undone. The same reference may be sent again. HTTP 404, 405 or 501
// without a reference in the body mean that the provider cannot undo orders.
func (g *Gateway) Reverse(ctx context.Context, order operation.ReversalOrder) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	c := g.begin(ctx, "reverse", order.Reference)
	got, failed := g.post(ctx, c, pathReverse, reversalBody(order))
	code := got.code
	if failed != nil {
		code = failed.code
	}
	if _, about := got.fields["reference"]; isUnsupported(code) && !about {
		return g.conclude(c, result{cause: Answered, answer: operation.Reply{
			Outcome: operation.Rejected, Unsupported: true, Detail: fmt.Sprintf("HTTP %d: the provider cannot undo orders", code),
		}})
	}
	if failed != nil {
		res := failed.result()
		res.answer.NotSent = failed.notSent
		return g.conclude(c, res)
	}
	return g.conclude(c, g.classifyReversal(got, order, reverseAnswers))
}

// VoidReversal asks for a reversal never to be carried out.
func (g *Gateway) VoidReversal(ctx context.Context, order operation.ReversalOrder) operation.Reply {
	ctx, cancel := g.detached(ctx)
	defer cancel()

	c := g.begin(ctx, "void", order.Reference)
	got, failed := g.post(ctx, c, pathVoid, reversalBody(order))
	if failed != nil {
		return g.conclude(c, failed.result())
	}
	return g.conclude(c, g.classifyReversal(got, order, voidReversalAnswers))
}

// classifyReversal checks a reply about a reversal. One that was carried out has to name what it undid.
func (g *Gateway) classifyReversal(got reply, order operation.ReversalOrder, meanings map[string]meaning) result {
	res := g.classify(got, operation.Order{Reference: order.Reference, SubscriberID: order.SubscriberID, Mobile: order.Mobile}, meanings)
	if res.answer.Outcome == operation.Confirmed {
		for _, echo := range []struct{ name, want string }{{"order", order.Order}, {"addon_order", order.Addon}} {
			if said, _ := got.fields[echo.name].(string); said != echo.want {
				res = violation("HTTP %d, but it is about another %s: %s", got.code, echo.name, g.quoted(said, "")).result()
				res.answer.Mismatch = true
				break
			}
		}
	}
	return res
}

func reversalBody(order operation.ReversalOrder) []byte {
	return encode(struct {
		Reference    string `json:"reference"`
		Order        string `json:"order"`
		Addon        string `json:"addon_order,omitempty"`
		SubscriberID string `json:"subscriber_id"`
		Mobile       string `json:"mobile"`
	}{order.Reference, order.Order, order.Addon, order.SubscriberID, order.Mobile})
}
