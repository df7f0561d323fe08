// Command renewals renews subscribers from a table of orders. It may be killed at any
// moment and run again: no order is paid twice, and none is forgotten.
//
//	renewals CREDENTIALS ORDERS
//
// CREDENTIALS is a JSON file such as .demo/demo.json. ORDERS is a CSV file with the
// columns order, subscriber_id, plan_id, state (open, done or failed) and
// transaction_id. The exit status is 1 if an order is still open.
package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/coaxhq/coax/client"
)

// The columns of the table.
const (
	number = iota
	subscriber
	plan
	state
	transaction
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: renewals CREDENTIALS ORDERS")
	}
	service, err := connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	orders, err := load(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	open := 0
	for _, order := range orders[1:] {
		if order[state] != "open" {
			continue
		}
		renew(service, order)
		if order[state] == "open" {
			open++
		}
		if err := store(os.Args[2], orders); err != nil {
			log.Fatal(err)
		}
	}
	if open > 0 {
		os.Exit(1)
	}
}

// renew carries out one order and notes what became of it.
func renew(service *client.Client, order []string) {
	// The key follows from the order, so that every run uses the same one.
	key := client.IdempotencyKey("renewal-of-order-" + order[number])
	renewal := client.Renewal{SubscriberID: order[subscriber], PlanID: order[plan]}
	done, err := service.Renew(context.Background(), key, renewal)
	switch {
	case err == nil:
		order[state] = "done"
		order[transaction] = done.TransactionID
		fmt.Printf("order %s: renewed for %s until %s\n", order[number], done.Wallet.Charged, done.Expiry.New)
	case client.Undecided(err):
		fmt.Printf("order %s: stays open, the outcome is not known yet: %v\n", order[number], err)
	case errors.Is(err, client.ProviderError), errors.Is(err, client.SubscriberNotFound), errors.Is(err, client.InvalidPlan),
		errors.Is(err, client.ValidationError):
		order[state] = "failed"
		fmt.Printf("order %s: failed, nothing was charged: %v\n", order[number], err)
	default: // an empty wallet, a limit, a wrong key: the order can still be carried out
		fmt.Printf("order %s: stays open, nothing was charged: %v\n", order[number], err)
	}
}

func connect(file string) (*client.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var given struct {
		BaseURL   string        `json:"base_url"`
		APIKey    string        `json:"api_key"`
		APISecret client.Secret `json:"api_secret"`
		CACert    string        `json:"ca_cert"`
	}
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	return client.New(client.Config{BaseURL: given.BaseURL, Key: given.APIKey, Secret: given.APISecret, CACert: given.CACert})
}

func load(file string) ([][]string, error) {
	table, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer table.Close()
	return csv.NewReader(table).ReadAll()
}

// store replaces the table as a whole, on disk: half a table would forget orders.
func store(file string, orders [][]string) error {
	table, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	defer table.Close()
	if err := csv.NewWriter(table).WriteAll(orders); err != nil {
		return err
	}
	if err := table.Sync(); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
