// Command godriver makes calls with package client, one for each line of its input. The
// README of the folder above describes the lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/signing"
)

type order struct {
	ID        string                `json:"id"`
	BaseURL   string                `json:"base_url"`
	CACert    string                `json:"ca_cert"`
	APIKey    string                `json:"api_key"`
	APISecret string                `json:"api_secret"`
	Operation string                `json:"operation"`
	Key       client.IdempotencyKey `json:"idempotency_key"`
	Body      json.RawMessage       `json:"body"`
	Arguments map[string]string     `json:"arguments"`
	Options   struct {
		ConnectTimeout   float64 `json:"connect_timeout"`
		Timeout          float64 `json:"timeout"`
		TotalTimeout     float64 `json:"total_timeout"`
		Attempts         int     `json:"attempts"`
		Pause            float64 `json:"pause"`
		MaxPause         float64 `json:"max_pause"`
		MaxRetryAfter    float64 `json:"max_retry_after"`
		WaitUntilSettled *bool   `json:"wait_until_settled"`
		ClockOffset      float64 `json:"clock_offset"`
	} `json:"options"`

	Method    string `json:"method"`
	Path      string `json:"path"`
	Query     string `json:"query"`
	Bytes     []byte `json:"body_base64"`
	Timestamp string `json:"timestamp"`
	Nonce     string `json:"nonce"`
}

type outcome struct {
	ID            string            `json:"id"`
	Outcome       string            `json:"outcome"`
	TransactionID string            `json:"transaction_id"`
	Code          client.Code       `json:"code"`
	Status        int               `json:"status"`
	Message       string            `json:"message"`
	RequestID     string            `json:"request_id"`
	Undecided     bool              `json:"undecided"`
	RetryAfter    float64           `json:"retry_after"`
	Fields        map[string]string `json:"fields"`
	Data          any               `json:"data"`
	Replayed      bool              `json:"replayed"`
	Attempts      []attempt         `json:"attempts"`
	Shown         string            `json:"shown"`
	Signature     string            `json:"signature"`
}

type attempt struct {
	Call      string      `json:"call"`
	Number    int         `json:"number"`
	Status    int         `json:"status"`
	Code      client.Code `json:"code"`
	RequestID string      `json:"request_id"`
	Duration  float64     `json:"duration"`
	Pause     *float64    `json:"pause"`
	Error     string      `json:"error"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			log.Fatal(err)
		}
		text, err := json.Marshal(carryOut(o))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(text))
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func carryOut(o order) outcome {
	out := outcome{ID: o.ID}
	if o.Operation == "sign" {
		out.Signature = signing.Request{
			Method: o.Method, Path: o.Path, RawQuery: o.Query, Timestamp: o.Timestamp, Nonce: o.Nonce, Body: o.Bytes,
		}.Sign(o.APISecret)
		return out
	}
	config := configOf(o, &out)
	c, err := client.New(config)
	if err != nil {
		return failed(out, err)
	}
	result, err := call(c, o)
	out.Shown = shown(config, c, result, err, out.Attempts)
	if op, ok := result.(*client.Operation); ok && op != nil {
		out.TransactionID, out.Replayed = op.TransactionID, op.Replayed
	}
	out.Data = wire(result)
	if err != nil {
		return failed(out, err)
	}
	out.Outcome = "success"
	return out
}

func configOf(o order, out *outcome) client.Config {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return client.Config{
		BaseURL: o.BaseURL, Key: o.APIKey, Secret: client.Secret(o.APISecret), CACert: o.CACert,
		ConnectTimeout: seconds(o.Options.ConnectTimeout), HTTP: &http.Client{Timeout: seconds(o.Options.Timeout)},
		Retry: client.Retry{
			Attempts: o.Options.Attempts, Pause: seconds(o.Options.Pause), MaxPause: seconds(o.Options.MaxPause),
			MaxRetryAfter: seconds(o.Options.MaxRetryAfter), Total: seconds(o.Options.TotalTimeout),
		},
		ReturnPending: o.Options.WaitUntilSettled != nil && !*o.Options.WaitUntilSettled,
		Now:           func() time.Time { return time.Now().Add(seconds(o.Options.ClockOffset)) },
		OnAttempt: func(a client.Attempt) {
			seen := attempt{Call: a.Call, Number: a.Number, Status: a.Status, Code: a.Code, RequestID: a.RequestID, Duration: a.Duration.Seconds()}
			if !a.Last {
				pause := a.Pause.Seconds()
				seen.Pause = &pause
			}
			if a.Err != nil {
				seen.Error = a.Err.Error()
			}
			out.Attempts = append(out.Attempts, seen)
		},
	}
}

func call(c *client.Client, o order) (any, error) {
	ctx := context.Background()
	var renewal client.Renewal
	switch o.Operation {
	case "activate":
		var activation client.Activation
		if err := json.Unmarshal(o.Body, &activation); err != nil {
			return nil, err
		}
		return c.Activate(ctx, o.Key, activation)
	case "renew", "advance-renew":
		if err := json.Unmarshal(o.Body, &renewal); err != nil {
			return nil, err
		}
		if o.Operation == "renew" {
			return c.Renew(ctx, o.Key, renewal)
		}
		return c.AdvanceRenew(ctx, o.Key, renewal)
	case "balance":
		return c.Balance(ctx)
	case "plans":
		return c.Plans(ctx)
	case "subscription":
		return c.Subscription(ctx, client.Subscriber{ID: o.Arguments["subscriber_id"], Mobile: o.Arguments["mobile"]})
	case "transaction":
		if o.Arguments["transaction_id"] == "" {
			return c.TransactionByKey(ctx, client.IdempotencyKey(o.Arguments["idempotency_key"]))
		}
		return c.Transaction(ctx, o.Arguments["transaction_id"])
	case "await":
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return c.Await(ctx, o.Key)
	}
	return nil, fmt.Errorf("there is no operation %q", o.Operation)
}

func failed(out outcome, err error) outcome {
	out.Outcome = "failed"
	if client.Undecided(err) {
		out.Outcome = "pending"
	}
	var failure *client.Error
	if !errors.As(err, &failure) {
		out.Message, out.Code = err.Error(), "INVALID_CONFIG"
		return out
	}
	out.Status, out.Code, out.Message, out.RequestID = failure.Status, failure.Code, failure.Message, failure.RequestID
	out.Undecided, out.RetryAfter, out.Fields = failure.Undecided, failure.RetryAfter.Seconds(), failure.Fields
	if out.Data == nil && failure.Operation != nil {
		out.Data = wire(failure.Operation)
	}
	if failure.Shortfall != nil {
		out.Data = wire(failure.Shortfall)
	}
	return out
}

// wire returns a result as it was on the wire, with amounts as text.
func wire(result any) any {
	text, err := json.Marshal(result)
	if err != nil {
		log.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		log.Fatal(err)
	}
	if op, ok := result.(*client.Operation); ok && op != nil && op.Customer.Password != "" {
		value.(map[string]any)["customer"].(map[string]any)["password"] = string(op.Customer.Password)
	}
	return amountsAsText(value)
}

// amountsAsText replaces the numbers with decimals, which are amounts.
func amountsAsText(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = amountsAsText(v[name])
		}
	case []any:
		for i := range v {
			v[i] = amountsAsText(v[i])
		}
	case json.Number:
		if strings.Contains(v.String(), ".") {
			return v.String()
		}
	}
	return value
}

// shown prints everything in every form that Go has.
func shown(values ...any) string {
	var text strings.Builder
	for _, v := range values {
		fmt.Fprintf(&text, "%v %+v %#v %s\n", v, v, v, v)
		if _, isConfig := v.(client.Config); isConfig {
			continue // has functions, which JSON does not encode
		}
		encoded, err := json.Marshal(v)
		fmt.Fprintln(&text, string(encoded), err)
	}
	return text.String()
}
