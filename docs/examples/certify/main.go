// The program that coax certify drives: one JSON order per line of input, one outcome per line of output.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/coaxhq/coax/client"
)

func main() {
	orders, outcomes := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var order struct {
			client.Config  // the address and the credentials
			ID, Operation  string
			IdempotencyKey client.IdempotencyKey `json:"idempotency_key"`
			Body           client.Activation     // also has a renewal's fields
		}
		if orders.Decode(&order) != nil {
			return // the input has ended
		}
		var op *client.Operation
		c, err := client.New(order.Config)
		renewal := client.Renewal{SubscriberID: order.Body.SubscriberID, Mobile: order.Body.Mobile, PlanID: order.Body.PlanID}
		switch {
		case err != nil:
		case order.Operation == "activate":
			op, err = c.Activate(context.Background(), order.IdempotencyKey, order.Body)
		case order.Operation == "renew":
			op, err = c.Renew(context.Background(), order.IdempotencyKey, renewal)
		default:
			op, err = c.AdvanceRenew(context.Background(), order.IdempotencyKey, renewal)
		}
		answer := map[string]any{"id": order.ID, "outcome": "success", "code": client.CodeOf(err)}
		if client.Undecided(err) {
			answer["outcome"] = "pending"
		} else if err != nil {
			answer["outcome"] = "failed"
		}
		if op != nil {
			answer["transaction_id"], answer["charged"] = op.TransactionID, op.Wallet.Charged
		}
		_ = outcomes.Encode(answer)
	}
}
