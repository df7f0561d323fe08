package postgres

import "context"

// SearchID searches a stretch of subscriber ids for a gap, which a store does when
// it can no longer guess one.
func (db *DB) SearchID(ctx context.Context, start string) (string, error) {
	return freeInStretch(db.read(ctx), start)
}

// SearchLongerID searches on when there is no gap among those of six digits.
func (db *DB) SearchLongerID(ctx context.Context) (string, error) { return searchFreeID(db.read(ctx)) }
