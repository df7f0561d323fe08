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

// IDRecords are what a store looks for a free id in when it can no longer guess one.
func (db *DB) IDRecords(ctx context.Context) subscription.IDRecords { return idRecords{db.read(ctx)} }
