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
	balance, err := service.Balance(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(balance.WalletBalance, balance.Currency)
}
