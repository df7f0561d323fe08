package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

// lapsed is a subscriber whose operator was deleted too long ago to be undeleted.
type lapsed struct {
	id, mobile string
	operatorID int64
}

// ReleaseLapsed releases mobile numbers and ids of subscribers whose operators were deleted
// long ago. It writes nothing if there are none.
func (db *Store) ReleaseLapsed(ctx context.Context, claims []subscription.Claim, now time.Time) (released int, err error) {
	for _, claim := range claims {
		found, err := lapsedHolders(db.engine.Read(ctx), claim, now, "")
		if err != nil {
			return released, err
		}
		if len(found) == 0 {
			continue
		}
		count := 0
		err = db.engine.Write(ctx, func(tx Tx) error {
			count = 0
			found, err := lapsedHolders(tx, claim, now, ` ORDER BY s.id FOR UPDATE OF s`)
			for _, holder := range found {
				if err := release(tx, holder, holder.id == claim.SubscriberID); err != nil {
					return fmt.Errorf("release subscriber %s: %w", holder.id, err)
				}
				count++
			}
			return err
		})
		if err != nil {
			return released, err
		}
		released += count
	}
	return released, nil
}

// lapsedHolders reads the lapsed subscribers that have a number or an id. One whose
// operations are still being verified keeps both, because the provider is called with them.
func lapsedHolders(from Querier, claim subscription.Claim, now time.Time, lock string) ([]lapsed, error) {
	rows, err := from.Query(`
		SELECT s.id, s.mobile, s.operator_id
		  FROM subscribers s JOIN operators o ON o.id = s.operator_id
		 WHERE (s.mobile = $1 OR s.id = $2) AND o.status = 'deleted' AND o.deleted_at <= $3
		   AND NOT EXISTS (SELECT 1 FROM operations p WHERE p.subscriber_id = s.id
		                      AND (p.status IN ('processing', 'needs_review') OR p.next_check_at IS NOT NULL OR p.addon_next_at IS NOT NULL))`+lock,
		claim.Mobile, claim.SubscriberID, subscription.ReleasedBefore(now).UnixMilli())
	found, err := Collect(rows, err, func(row Row) (l lapsed, err error) {
		return l, row.Scan(&l.id, &l.mobile, &l.operatorID)
	})
	if err != nil {
		return nil, fmt.Errorf("look for lapsed subscribers: %w", err)
	}
	return found, nil
}

// release replaces a subscriber's number, and its id if wantsID is set. Its cycles and
// operations move to the new id.
func release(tx Tx, l lapsed, wantsID bool) error {
	mobile := subscription.Released(l.operatorID, l.mobile)
	if !wantsID {
		_, err := tx.Exec(`UPDATE subscribers SET mobile = $2, version = version + 1 WHERE id = $1`, l.id, mobile)
		return err
	}
	id := subscription.Released(l.operatorID, l.id)
	for _, step := range []struct {
		text string
		args []any
	}{
		// Numbers are unique, and until the DELETE there are two rows.
		{`UPDATE subscribers SET mobile = $2 WHERE id = $1`, []any{l.id, "moving " + id}},
		{`INSERT INTO subscribers (id, operator_id, mobile, name, email, area, address, box_number, notes, connection_type, expires_at, activated_at, renewed_at,
		         last_provider_transaction, version, created_at)
		  SELECT $2::text, operator_id, $3::text, name, email, area, address, box_number, notes, connection_type, expires_at, activated_at, renewed_at,
		         last_provider_transaction, version + 1, created_at FROM subscribers WHERE id = $1`, []any{l.id, id, mobile}},
		{`UPDATE cycles SET subscriber_id = $2 WHERE subscriber_id = $1`, []any{l.id, id}},
		{`UPDATE contact_changes SET subscriber_id = $2 WHERE subscriber_id = $1`, []any{l.id, id}},
		{`UPDATE contact_states SET subscriber_id = $2 WHERE subscriber_id = $1`, []any{l.id, id}},
		{`UPDATE operations SET subscriber_id = $2 WHERE subscriber_id = $1 AND operator_id + 0 = $3`, []any{l.id, id, l.operatorID}},
		{`DELETE FROM subscribers WHERE id = $1`, []any{l.id}},
	} {
		if _, err := tx.Exec(step.text, step.args...); err != nil {
			return err
		}
	}
	return nil
}
