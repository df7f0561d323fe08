// The program that coax certify drives: one JSON order per line of input, one outcome per
// line of output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"

	"github.com/coaxhq/coax/client"
)

type order struct {
	ID        string                `json:"id"`
	BaseURL   string                `json:"base_url"`
	CACert    string                `json:"ca_cert"`
	APIKey    string                `json:"api_key"`
	APISecret client.Secret         `json:"api_secret"`
	Operation string                `json:"operation"`
	Key       client.IdempotencyKey `json:"idempotency_key"`
	Body      json.RawMessage       `json:"body"`
}

type outcome struct {
	ID            string         `json:"id"`
	Outcome       string         `json:"outcome"`
	TransactionID string         `json:"transaction_id"`
	Code          client.Code    `json:"code"`
	Charged       *client.Amount `json:"charged,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(o.carryOut()); err != nil {
			log.Fatal(err)
		}
	}
}

func (o order) carryOut() outcome {
	done, err := o.call(context.Background())
	answer := outcome{ID: o.ID, Outcome: "success"}
	if done != nil {
		answer.TransactionID = done.TransactionID
	}
	var failure *client.Error
	switch {
	case err == nil:
		answer.Charged = &done.Wallet.Charged
	case errors.As(err, &failure) && failure.Undecided:
		answer.Outcome, answer.Code = "pending", failure.Code
	default:
		answer.Outcome = "failed"
		if failure != nil {
			answer.Code = failure.Code
		}
	}
	return answer
}

func (o order) call(ctx context.Context) (*client.Operation, error) {
	c, err := client.New(client.Config{BaseURL: o.BaseURL, Key: o.APIKey, Secret: o.APISecret, CACert: o.CACert})
	if err != nil {
		return nil, err
	}
	if o.Operation == "activate" {
		var body client.Activation
		if err := json.Unmarshal(o.Body, &body); err != nil {
			return nil, err
		}
		return c.Activate(ctx, o.Key, body)
	}
	var body client.Renewal
	if err := json.Unmarshal(o.Body, &body); err != nil {
		return nil, err
	}
	if o.Operation == "advance-renew" {
		return c.AdvanceRenew(ctx, o.Key, body)
	}
	return c.Renew(ctx, o.Key, body)
}
