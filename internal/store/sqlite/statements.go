package sqlite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/store/sqlstore"
)

// DueByDay adds up the renewals that fall due on each day, in Indian time. Cycles are looked
// up in the order of their subscribers, in which many share a page, and grouped by day here:
// SQLite would sort all rows again to group them. A join, or a query for each day, takes
// twice as long.
func (db *DB) DueByDay(ctx context.Context, operatorID int64, after, until time.Time) ([]report.Due, error) {
	days := map[int64]*report.Due{} // by days since 1970, in Indian time
	err := db.snapshot(ctx, func(from sqlstore.Querier) error {
		prices := map[string]money.Amount{}
		rows, err := from.Query(`SELECT id, price_paise FROM plans`)
		_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
			var id string
			var price int64
			err := row.Scan(&id, &price)
			prices[id] = money.Paise(price)
			return struct{}{}, err
		})
		if err != nil {
			return fmt.Errorf("read the prices: %w", err)
		}
		rows, err = from.Query(`
			SELECT due.expires_at, (SELECT c.plan_id FROM cycles c WHERE c.subscriber_id = due.id ORDER BY c.seq DESC LIMIT 1)
			  FROM (SELECT id, expires_at FROM subscribers WHERE operator_id = ?1 AND expires_at > ?2 AND expires_at <= ?3 ORDER BY id) due`,
			operatorID, after.UnixMilli(), until.UnixMilli())
		_, err = sqlstore.Collect(rows, err, func(row sqlstore.Row) (struct{}, error) {
			var expires int64
			var plan string
			if err := row.Scan(&expires, &plan); err != nil {
				return struct{}{}, err
			}
			day := (expires + istOffset) / dayMillis
			due := days[day]
			if due == nil {
				due = &report.Due{Day: report.Day(time.UnixMilli(expires))}
				days[day] = due
			}
			due.Subscribers, due.Amount = due.Subscribers+1, due.Amount.Add(prices[plan])
			return struct{}{}, nil
		})
		return err
	})
	dues := []report.Due{}
	for _, day := range slices.Sorted(maps.Keys(days)) {
		dues = append(dues, *days[day])
	}
	return dues, err
}

// dayMillis is a day, and istOffset the offset of Indian time from UTC, in milliseconds.
const (
	dayMillis = int64(24 * time.Hour / time.Millisecond)
	istOffset = int64(5*time.Hour+30*time.Minute) / int64(time.Millisecond)
)
