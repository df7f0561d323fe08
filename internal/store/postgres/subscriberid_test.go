package postgres_test

import (
	"testing"

	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/store/postgres"
	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestSubscriberIDs_FewestDigits(t *testing.T) {
	db, err := postgres.Open(t.Context(), pgtest.NewDatabase(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.AssignsEveryID(t, db, db.AssignIDsOf)
}
