package postgres

import "context"

// SearchID searches a stretch of subscriber ids for a gap, which a store does when
// it can no longer guess one.
func (db *DB) SearchID(ctx context.Context, start string) (string, error) {
	return freeInStretch(db.read(ctx), start)
}

// IDIsTaken is what a store asks when it found no gap.
func (db *DB) IDIsTaken(ctx context.Context, id string) (bool, error) {
	return isTaken(db.read(ctx), id)
}
