package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/coaxhq/coax/client"
)

func Example() {
	c, err := client.New(client.Config{
		BaseURL: os.Getenv("COAX_BASE_URL"), // https://HOST/api/v1
		Key:     os.Getenv("COAX_API_KEY"),
		Secret:  client.Secret(os.Getenv("COAX_API_SECRET")),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// The key is made from the order and stored with it before this call.
	op, err := c.Activate(ctx, "order-1001-activate", client.Activation{
		FullName: "Asha Rao", Mobile: "9876543210", PlanID: "BASIC-1", SubscriberID: "424242",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(op.Operation, op.Status, op.Customer.SubscriberID, "for", op.Wallet.Charged, op.Currency)

	// The same key and the same request again: the same operation, not another.
	again, err := c.Activate(ctx, "order-1001-activate", client.Activation{
		FullName: "Asha Rao", Mobile: "9876543210", PlanID: "BASIC-1", SubscriberID: "424242",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("replayed:", again.Replayed, "and the same:", again.TransactionID == op.TransactionID)
	// Output:
	// activate success 424242 for 199.00 INR
	// replayed: true and the same: true
}

// An order keeps the same key until it is decided.
func ExampleClient_Renew() {
	c, ctx := connect()
	order := struct {
		Key        client.IdempotencyKey // made and stored before the first call
		Subscriber string
		Plan       string
	}{"order-1002-renew", "424242", "FAMILY-1"}

	op, err := c.Renew(ctx, order.Key, client.Renewal{SubscriberID: order.Subscriber, PlanID: order.Plan})
	switch {
	case err == nil:
		fmt.Println("renewed for", op.Wallet.Charged)
	case errors.Is(err, client.PendingReview):
		fmt.Println("the money is held; call again later with the same key, and start nothing else for this customer")
	case errors.Is(err, client.ProviderError):
		fmt.Println("refunded:", op.ProviderMessage) // another attempt needs another key
	case client.Undecided(err):
		fmt.Println("call again later, with the same key")
	case errors.Is(err, client.InsufficientBalance):
		fmt.Println("top up, then call again with the same key")
	default:
		fmt.Println("refused, and nothing charged:", err)
	}
	// Output:
	// renewed for 349.00
}

// A provider carries out an activation and replies too late: the outcome is unknown
// until the service has asked the provider. Here the caller does not wait for it, and
// asks later.
func ExampleClient_Await() {
	ctx := context.Background()
	c, err := client.New(client.Config{
		BaseURL: os.Getenv("COAX_BASE_URL"), Key: os.Getenv("COAX_API_KEY"), Secret: client.Secret(os.Getenv("COAX_API_SECRET")),
		ReturnPending: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	op, err := c.Activate(ctx, "order-1003-activate", client.Activation{
		FullName: "Ravi Nair", Mobile: "9000020001", PlanID: "BASIC-1", // the demo's number for it
		// A generated password is in this response only, and would have to be stored
		// before calling Await.
		Password: "the customer's choice",
	})
	fmt.Println(errors.Is(err, client.PendingReview), op.Status, "held:", op.Wallet.Held)

	op, err = c.Await(ctx, "order-1003-activate")
	fmt.Println(err, op.Status, "charged:", op.Wallet.Charged)
	// Output:
	// true needs_review held: true
	// <nil> success charged: 199.00
}

// An error has the details of its code.
func ExampleError() {
	c, ctx := connect()
	_, err := c.Activate(ctx, "order-1004-activate", client.Activation{FullName: "Meera", Mobile: "98765", PlanID: "BASIC-1"})
	var refusal *client.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Status, refusal.Code)
		fmt.Println("mobile:", refusal.Fields["mobile"])
		fmt.Println("undecided:", client.Undecided(err))
	}

	op, err := c.Activate(ctx, "order-1005-activate", client.Activation{
		FullName: "Meera", Mobile: "9000010001", PlanID: "BASIC-1", // the provider rejects this number
	})
	fmt.Println(errors.Is(err, client.ProviderError), op.Status, "refunded:", op.Wallet.Refunded, op.Reason)
	// Output:
	// 422 VALIDATION_ERROR
	// mobile: It has to be exactly 10 digits.
	// undecided: false
	// true failed refunded: true PROVIDER_REJECTED
}

func ExampleClient_Plans() {
	c, ctx := connect()
	catalogue, err := c.Plans(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, plan := range catalogue.Plans {
		fmt.Printf("%-9s %8s %s\n", plan.ID, plan.Price, plan.Type)
	}
	// Output:
	// BASIC-1     199.00 standard
	// COMBO-1     499.00 combo
	// FAMILY-1    349.00 standard
	// FAMILY-3    999.00 standard
}

// connect makes a client as Example shows.
func connect() (*client.Client, context.Context) {
	c, err := client.New(client.Config{
		BaseURL: os.Getenv("COAX_BASE_URL"), Key: os.Getenv("COAX_API_KEY"), Secret: client.Secret(os.Getenv("COAX_API_SECRET")),
	})
	if err != nil {
		log.Fatal(err)
	}
	return c, context.Background()
}
