// Command renew renews a subscriber for an order that a customer has paid. It may
// be killed at any moment and run again: the order is charged once.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/client"
)

// An order is what this program's database would have.
type order struct {
	Key           client.IdempotencyKey
	Renewal       client.Renewal
	State         string // open, done or refused
	TransactionID string
}

func main() {
	credentials := flag.String("credentials", ".demo/demo.json", "`FILE` with base_url, api_key, api_secret and ca_cert")
	number := flag.String("order", "", "the order's `NUMBER`")
	subscriber := flag.String("subscriber", "", "who is renewed")
	plan := flag.String("plan", "BASIC-1", "what was paid for")
	wait := flag.Duration("wait", 5*time.Minute, "how long to wait for an outcome")
	flag.Parse()

	service, err := connect(*credentials)
	if err != nil {
		log.Fatal(err)
	}
	// The key is stored with the order before anything is sent. Whatever happens
	// from here on, the same order has the same key.
	paid, err := load(*number, order{
		Key:     client.IdempotencyKey("renewal-of-order-" + *number), // 8 characters at least
		Renewal: client.Renewal{SubscriberID: *subscriber, PlanID: *plan},
		State:   "open",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *wait)
	defer cancel()

	done, err := service.Renew(ctx, paid.Key, paid.Renewal)
	if errors.Is(err, client.PendingReview) {
		fmt.Printf("order %s: the provider has not said what it did; %s are held\n", *number, done.Amount)
		done, err = service.Await(ctx, paid.Key)
	}
	var refused *client.Error
	switch {
	case err == nil:
		paid.State, paid.TransactionID = "done", done.TransactionID
		fmt.Printf("order %s: renewed for %s %s, runs until %s\n", *number, done.Wallet.Charged, done.Currency, done.Expiry.New)
		if done.Replayed {
			fmt.Println("(it was renewed before; nothing was charged now)")
		}
	case client.Undecided(err):
		// Not a failure, and no reason for another key: run it again later.
		fmt.Printf("order %s: not known yet; it stays open under the key %s\n", *number, paid.Key)
	case errors.Is(err, client.InsufficientBalance) && errors.As(err, &refused):
		fmt.Printf("order %s: %s are missing in the wallet; top up and run this again\n", *number, refused.Shortfall.Missing)
	case errors.Is(err, client.ProviderError) && errors.As(err, &refused):
		// The key is used up. Whether to try again, as a new order, is for people.
		paid.State = "refused"
		fmt.Printf("order %s: refused, nothing charged: %s\n", *number, refused.Operation.ProviderMessage)
	default:
		log.Fatalf("order %s: %v", *number, err)
	}
	if err := store(*number, paid); err != nil {
		log.Fatal(err)
	}
}

// connect makes a client of what demo wrote. A service with a certificate that
// the system trusts needs no HTTP client of its own.
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
	authority, err := os.ReadFile(given.CACert)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return client.New(client.Config{
		BaseURL: given.BaseURL, Key: given.APIKey, Secret: given.APISecret,
		HTTP: &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
	})
}

// load returns the order as it was stored; a new one is stored first.
func load(number string, fresh order) (order, error) {
	text, err := os.ReadFile(path(number))
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, store(number, fresh)
	}
	if err != nil {
		return order{}, err
	}
	var stored order
	return stored, json.Unmarshal(text, &stored)
}

// store replaces the order's file as a whole: half a file would be no order at all.
func store(number string, o order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll("orders", 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path(number)+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path(number)+".new", path(number))
}

func path(number string) string { return filepath.Join("orders", number+".json") }
