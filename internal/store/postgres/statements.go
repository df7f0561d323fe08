package postgres

import (
	"context"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// DueByDay adds up the renewals that fall due on each day, in Indian time. A price is looked
// up once for each plan and day, not for each subscriber.
func (db *DB) DueByDay(ctx context.Context, operatorID int64, after, until time.Time) ([]report.Due, error) {
	rows, err := db.read(ctx).Query(`
		SELECT due.day, sum(due.subscribers)::bigint, sum(due.subscribers * p.price_paise)::bigint
		  FROM (SELECT (s.expires_at + $4) / 86400000 AS day,
		               (SELECT c.plan_id FROM cycles c WHERE c.subscriber_id = s.id ORDER BY c.seq DESC LIMIT 1) AS plan_id, count(*) AS subscribers
		          FROM subscribers s
		         WHERE s.operator_id = $1 AND s.expires_at > $2 AND s.expires_at <= $3
		         GROUP BY 1, 2) due
		  JOIN plans p ON p.id = due.plan_id
		 GROUP BY due.day ORDER BY due.day`, operatorID, after.UnixMilli(), until.UnixMilli(), istOffset)
	return sqlstore.Collect(rows, err, func(row sqlstore.Row) (report.Due, error) {
		var due report.Due
		var days, amount int64
		err := row.Scan(&days, &due.Subscribers, &amount)
		due.Day, due.Amount = time.UnixMilli(days*86_400_000-istOffset).In(subscription.IST), money.Paise(amount)
		return due, err
	})
}

// istOffset is the offset of Indian time from UTC, in milliseconds.
var istOffset = func() int64 {
	_, seconds := time.UnixMilli(0).In(subscription.IST).Zone()
	return int64(seconds) * 1000
}()
