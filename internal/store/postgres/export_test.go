package postgres

import (
	"context"

	"github.com/coaxhq/coax/internal/subscription"
)

// AssignIDsOf makes the store begin with ids of so many digits, of which it knows
// nothing: all of six take long to use up.
func (db *DB) AssignIDsOf(digits int) *subscription.IDs {
	db.ids = subscription.NewIDs(digits)
	return db.ids
}

// SearchID is how a store looks for an id when it can no longer guess one.
func (db *DB) SearchID(ctx context.Context) (string, error) {
	return db.searchFreeID(db.read(ctx), subscription.IDDigits)
}

// IDIsTaken is what a store asks of a guess of more digits.
func (db *DB) IDIsTaken(ctx context.Context, id string) (bool, error) {
	free, err := firstFree(db.read(ctx), []string{id})
	return free == "", err
}
