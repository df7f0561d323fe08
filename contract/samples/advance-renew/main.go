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
	operation, err := service.AdvanceRenew(context.Background(), "order-5003", client.Renewal{SubscriberID: "100001", PlanID: "FAMILY-3"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(operation.TransactionID, operation.Status, operation.Wallet.Charged)
}
