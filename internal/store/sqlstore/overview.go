package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
)

// PlanHistory reads every version of a plan, the newest first. Each has one
// audit entry, in the same order.
func (db *Store) PlanHistory(ctx context.Context, id string) ([]admin.PlanVersion, error) {
	var versions []admin.PlanVersion
	err := db.engine.Snapshot(ctx, func(from Querier) error {
		rows, err := from.Query(`
			SELECT h.plan_id, h.name, '', h.price_paise, h.months, h.type, h.main, h.addon, h.retired = 1, h.version, h.since
			  FROM plan_history h WHERE h.plan_id = $1 ORDER BY h.version DESC`, id)
		plans, err := Collect(rows, err, ReadPlan)
		if err != nil {
			return fmt.Errorf("read the history of plan %s: %w", id, err)
		}
		if len(plans) == 0 {
			return admin.Refuse("there is no plan %s", id)
		}
		rows, err = from.Query(`SELECT actor FROM staff_acts WHERE operator_id = 0 AND subject = $1 ORDER BY id`, "plan "+id)
		actors, err := Collect(rows, err, func(row Row) (actor string, err error) { return actor, row.Scan(&actor) })
		if err != nil {
			return fmt.Errorf("read who changed plan %s: %w", id, err)
		}
		versions = nil
		for _, plan := range plans {
			version := admin.PlanVersion{Plan: plan}
			if at := int(plan.Version) - 1; at >= 0 && at < len(actors) {
				version.By = actors[at]
			}
			versions = append(versions, version)
		}
		return nil
	})
	return versions, err
}

// CatalogueState reads the stored state of a provider's catalogue.
func (db *Store) CatalogueState(ctx context.Context, provider string) (admin.CatalogueState, error) {
	state := admin.CatalogueState{Provider: provider}
	err := db.engine.Snapshot(ctx, func(from Querier) error {
		var verified, attempted sql.NullInt64
		err := from.QueryRow(`SELECT verified_at, attempted_at, problem FROM catalogue_comparisons WHERE provider = $1`, provider).
			Scan(&verified, &attempted, &state.Problem)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read when prices were compared: %w", err)
		}
		state.VerifiedAt, state.AttemptedAt = Time(verified), Time(attempted)
		rows, err := from.Query(`SELECT code, name, role, sellable = 1, seen_at FROM provider_components ORDER BY code`)
		state.Components, err = Collect(rows, err, func(row Row) (admin.ComponentState, error) {
			var c admin.ComponentState
			var seen sql.NullInt64
			err := row.Scan(&c.Code, &c.Name, &c.Role, &c.Sellable, &seen)
			c.SeenAt = Time(seen)
			return c, err
		})
		if err != nil {
			return fmt.Errorf("read the provider's components: %w", err)
		}
		return nil
	})
	return state, err
}

// overdue selects the operations that have been in review since $1 or longer.
const overdue = `status = 'needs_review' AND review_since <= $1`

// OverdueReviews reads the operations that have waited longest for a decision.
func (db *Store) OverdueReviews(ctx context.Context, since time.Time, limit int) ([]operation.Operation, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+OperationColumns+` FROM operations WHERE `+overdue+` ORDER BY review_since, id LIMIT $2`, since.UnixMilli(), limit)
	return Collect(rows, err, ReadOperation)
}

// CountOverdueReviews counts the overdue reviews.
func (db *Store) CountOverdueReviews(ctx context.Context, since time.Time) (int, error) {
	var count int
	if err := db.engine.Read(ctx).QueryRow(`SELECT count(*) FROM operations WHERE `+overdue, since.UnixMilli()).Scan(&count); err != nil {
		return 0, fmt.Errorf("count the reviews that are overdue: %w", err)
	}
	return count, nil
}

// Holds sums up the operations that hold money.
func (db *Store) Holds(ctx context.Context) (map[operation.State]admin.Hold, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT status, count(*), sum(amount_paise)::bigint, min(coalesce(review_since, created_at))
		  FROM operations WHERE status IN ('processing', 'needs_review') GROUP BY status`)
	holds := map[operation.State]admin.Hold{}
	_, err = Collect(rows, err, func(row Row) (status operation.State, err error) {
		var hold admin.Hold
		var paise, oldest int64
		err = row.Scan(&status, &hold.Count, &paise, &oldest)
		hold.Amount, hold.Oldest = money.Paise(paise), time.UnixMilli(oldest).UTC()
		holds[status] = hold
		return status, err
	})
	if err != nil {
		return nil, fmt.Errorf("sum up the holds: %w", err)
	}
	return holds, nil
}

// Migrations counts the migrations that were applied.
func (db *Store) Migrations(ctx context.Context) (int, error) {
	var count int
	if err := db.engine.Read(ctx).QueryRow(`SELECT count(*) FROM schema_tolerance`).Scan(&count); err != nil {
		return 0, fmt.Errorf("read the schema: %w", err)
	}
	return count, nil
}
