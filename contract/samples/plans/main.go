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
	catalogue, err := service.Plans(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, plan := range catalogue.Plans {
		fmt.Println(plan.ID, plan.Price)
	}
}
