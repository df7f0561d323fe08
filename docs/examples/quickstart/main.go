package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/coaxhq/coax/client"
)

func main() {
	var config client.Config
	text, err := os.ReadFile(".demo/demo.json")
	check(err)
	check(json.Unmarshal(text, &config))
	coax, err := client.New(config)
	check(err)
	wallet, err := coax.Balance(context.Background())
	check(err)
	fmt.Printf("The wallet holds %s.\n", wallet.WalletBalance)

	customer := client.Activation{FullName: "Tara Nair", Mobile: "9812345604", PlanID: "BASIC-1"}
	done, err := coax.Activate(context.Background(), "activation-of-order-5004", customer)
	check(err)
	fmt.Printf("%s until %s, %s charged: %s\n", done.Plan.ID, done.Expiry.New, done.Wallet.Charged, done.TransactionID)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
