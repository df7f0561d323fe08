package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/coaxhq/coax/client"
)

func main() {
	service, err := client.New(client.Config{
		BaseURL: os.Getenv("COAX_BASE_URL"), Key: os.Getenv("COAX_API_KEY"), Secret: client.Secret(os.Getenv("COAX_API_SECRET")),
		CACert: os.Getenv("COAX_CA_CERT"),
	})
	if err != nil {
		log.Fatal(err)
	}
	operation, err := service.Activate(context.Background(), "order-5001", client.Activation{
		FullName: "Asha Rao", Mobile: "9812345678", PlanID: "BASIC-1", SubscriberID: "100001",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(operation.TransactionID, operation.Status, operation.Wallet.Charged)
}
