package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// PlanColumns are those of a plan p.
const PlanColumns = `p.id, p.name, p.description, p.price_paise, p.months, p.type, p.main, p.addon, p.retired = 1 AS retired, p.version, p.updated_at`

// ReadPlan reads PlanColumns.
func ReadPlan(row Row) (subscription.Plan, error) { return readPlan(row) }

// readPlan reads PlanColumns, and further columns into the given targets.
func readPlan(row Row, further ...any) (subscription.Plan, error) {
	var p subscription.Plan
	var price int64
	var addon sql.NullString
	var updated sql.NullInt64
	targets := append(make([]any, 0, 12), &p.ID, &p.Name, &p.Description, &price, &p.Months, &p.Type, &p.Main, &addon, &p.Retired, &p.Version, &updated)
	err := row.Scan(append(targets, further...)...)
	p.Price, p.Addon, p.UpdatedAt = money.Paise(price), addon.String, Time(updated)
	return p, err
}

// SetPlan creates or changes a plan and records the previous price.
func (db *Store) SetPlan(ctx context.Context, action admin.StaffAction, plan subscription.Plan) (subscription.Plan, error) {
	var written subscription.Plan
	err := db.engine.Write(ctx, func(tx Tx) (err error) {
		if err := lockPlans(tx); err != nil {
			return err
		}
		before, _, err := planByID(tx, plan.ID)
		if err != nil {
			return err
		}
		comparison, err := planComparison(tx, plan.ID)
		if err != nil {
			return err
		}
		if written, err = setPlan(tx, action, before, plan); err != nil {
			return err
		}
		return action.CheckPlanChange(before, plan, comparison)
	})
	return written, err
}

// changePlan carries out an approved change, if the plan still has the version that the
// change was approved for.
func changePlan(tx Tx, action admin.StaffAction, plan subscription.Plan) (subscription.Plan, error) {
	if err := lockPlans(tx); err != nil {
		return plan, err
	}
	before, _, err := planByID(tx, plan.ID)
	if err != nil {
		return plan, err
	}
	if before.Version != plan.Version {
		return plan, admin.RefusePlanChanged(plan.ID)
	}
	return setPlan(tx, action, before, plan)
}

// setPlan writes a plan, given what it was before; version zero if it is new.
func setPlan(tx Tx, action admin.StaffAction, before, plan subscription.Plan) (subscription.Plan, error) {
	if err := checkComponent(tx, plan.Main, catalogue.Main); err != nil {
		return plan, err
	}
	if plan.Addon != "" {
		if err := checkComponent(tx, plan.Addon, catalogue.Addon); err != nil {
			return plan, err
		}
	}
	written, err := ReadPlan(tx.QueryRow(`
		INSERT INTO plans AS p (id, name, description, price_paise, months, type, main, addon, retired, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, $9)
		    ON CONFLICT (id) DO UPDATE SET
		       name = excluded.name, description = excluded.description, price_paise = excluded.price_paise,
		       months = excluded.months, type = excluded.type, main = excluded.main, addon = excluded.addon,
		       retired = 0, version = p.version + 1, updated_at = excluded.updated_at
		RETURNING id, name, description, price_paise, months, type, main, addon, retired = 1, version, updated_at`,
		plan.ID, plan.Name, plan.Description, plan.Price.Paise(), plan.Months, plan.Type, plan.Main,
		NullString(plan.Addon), plan.UpdatedAt.UnixMilli()))
	if err != nil {
		return plan, fmt.Errorf("write plan %s: %w", plan.ID, err)
	}
	return written, recordPlan(tx, action, before, before.Version > 0, written)
}

// PlanComparison reads what a change of a plan is compared with.
func (db *Store) PlanComparison(ctx context.Context, id string) (admin.PlanComparison, error) {
	return planComparison(db.engine.Read(ctx), id)
}

func planComparison(from Querier, id string) (admin.PlanComparison, error) {
	var c admin.PlanComparison
	rows, err := from.Query(`
		SELECT h.plan_id, h.name, '', h.price_paise, h.months, h.type, h.main, h.addon, h.retired = 1, h.version, h.since
		  FROM plan_history h ORDER BY h.plan_id, h.version`)
	if c.Versions, err = Collect(rows, err, ReadPlan); err != nil {
		return c, fmt.Errorf("read the versions of the plans: %w", err)
	}
	var approved sql.NullInt64
	err = from.QueryRow(`
		SELECT max(decided_at) FROM proposals WHERE kind = 'plan' AND subject = $1 AND status = 'approved'`, "plan "+id).Scan(&approved)
	if err != nil {
		return c, fmt.Errorf("look for an approved change of plan %s: %w", id, err)
	}
	c.Approved = Time(approved)
	if known := slices.ContainsFunc(c.Versions, func(p subscription.Plan) bool { return p.ID == id }); !known {
		c.Staff, err = staffAccess(from)
	}
	return c, err
}

// lockPlans allows one change of the catalogue at a time: a new plan has no row to lock.
// Reservations, which only read a plan's row, do not wait.
func lockPlans(tx Tx) error {
	if err := tx.Dialect().LockTable(tx, "plans"); err != nil {
		return fmt.Errorf("lock the plans: %w", err)
	}
	return nil
}

// RetirePlan takes a plan out of the catalogue.
func (db *Store) RetirePlan(ctx context.Context, action admin.StaffAction, id string) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		if err := lockPlans(tx); err != nil {
			return err
		}
		before, known, err := planByID(tx, id)
		if err != nil {
			return err
		}
		if !known {
			return admin.Refuse("there is no plan %s", id)
		}
		if before.Retired {
			return admin.Refuse("plan %s was retired already", id)
		}
		_, err = tx.Exec(`UPDATE plans SET retired = 1, version = version + 1, updated_at = $2 WHERE id = $1`, id, action.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("retire plan %s: %w", id, err)
		}
		after, _, err := planByID(tx, id)
		if err != nil {
			return err
		}
		return recordPlan(tx, action, before, true, after)
	})
}

// recordPlan adds the new version of a plan to its history, and the audit entry.
func recordPlan(tx Tx, action admin.StaffAction, before subscription.Plan, known bool, after subscription.Plan) error {
	_, err := tx.Exec(`
		INSERT INTO plan_history (plan_id, version, name, price_paise, months, type, main, addon, retired, since)
		SELECT id, version, name, price_paise, months, type, main, addon, retired, updated_at FROM plans WHERE id = $1`, after.ID)
	if err != nil {
		return fmt.Errorf("add to the history of plan %s: %w", after.ID, err)
	}
	var was any
	if known {
		was = admin.PlanState(before)
	}
	return logAction(tx, action, 0, "plan "+after.ID, was, admin.PlanState(after))
}

// checkComponent refuses a component that the provider's last catalogue does not sell.
func checkComponent(tx Tx, code string, role catalogue.Role) error {
	var found string
	var sellable bool
	err := tx.QueryRow(`SELECT role, sellable = 1 FROM provider_components WHERE code = $1 FOR SHARE`, code).Scan(&found, &sellable)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return refuseComponent(tx, code)
	case err != nil:
		return fmt.Errorf("look up component %s: %w", code, err)
	case !sellable:
		return admin.Refuse("the provider no longer sells component %q", code)
	case catalogue.Role(found) != role:
		return admin.Refuse("component %q is a %s component of the provider's; it cannot be used as %s", code, catalogue.Role(found), role)
	}
	return nil
}

// refuseComponent distinguishes a component that the provider does not have from a
// catalogue that was never read.
func refuseComponent(tx Tx, code string) error {
	var read bool
	if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM provider_components)`).Scan(&read); err != nil {
		return fmt.Errorf("look up component %s: %w", code, err)
	}
	if !read {
		return admin.Refuse("the provider's catalogue has not been read yet: a node does that when it starts; start one, or try again in a moment")
	}
	return admin.Refuse("the provider's catalogue has no component %q", code)
}

func planByID(tx Tx, id string) (subscription.Plan, bool, error) {
	plan, err := ReadPlan(tx.QueryRow(`SELECT `+PlanColumns+` FROM plans p WHERE p.id = $1 FOR NO KEY UPDATE`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return plan, false, nil
	}
	if err != nil {
		return plan, false, fmt.Errorf("read plan %s: %w", id, err)
	}
	return plan, true, nil
}

// AllPlans reads every plan, retired ones too.
func (db *Store) AllPlans(ctx context.Context) ([]subscription.Plan, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT ` + PlanColumns + ` FROM plans p ORDER BY p.id`)
	return Collect(rows, err, ReadPlan)
}

// Sellable selects the plans whose every component the provider sells. With joins the planner may
// begin with the components, and sort the plans.
const Sellable = `
	SELECT ` + PlanColumns + `
	  FROM plans p
	 WHERE p.retired = 0 AND (SELECT m.sellable FROM provider_components m WHERE m.code = p.main) = 1
	   AND (p.addon IS NULL OR (SELECT a.sellable FROM provider_components a WHERE a.code = p.addon) = 1)`

// SellablePlans reads the plans that can be bought, and when prices were compared.
func (db *Store) SellablePlans(ctx context.Context, provider string) (plans []subscription.Plan, verified time.Time, err error) {
	var at sql.NullInt64
	rows, err := db.engine.Read(ctx).Query(`
		SELECT p.*, (SELECT v.verified_at FROM catalogue_comparisons v WHERE v.provider = $1)
		  FROM (`+Sellable+`) p ORDER BY p.id`, provider)
	plans, err = Collect(rows, err, func(row Row) (subscription.Plan, error) { return readPlan(row, &at) })
	return plans, Time(at), err
}

// Compared reads the times of the last successful and the last attempted comparison.
func (db *Store) Compared(ctx context.Context, provider string) (verifiedAt, attemptedAt time.Time, err error) {
	var verified, attempted sql.NullInt64
	err = db.engine.Lookup(ctx).QueryRow(`SELECT verified_at, attempted_at FROM catalogue_comparisons WHERE provider = $1`, provider).Scan(&verified, &attempted)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return verifiedAt, attemptedAt, fmt.Errorf("read when prices were compared: %w", err)
	}
	return Time(verified), Time(attempted), nil
}

// RecordFailure records a failed comparison; the last successful one stays.
func (db *Store) RecordFailure(ctx context.Context, provider, problem string, at time.Time) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`
			INSERT INTO catalogue_comparisons (provider, attempted_at, problem) VALUES ($1, $2, $3)
			    ON CONFLICT (provider) DO UPDATE SET attempted_at = $2, problem = $3`, provider, at.UnixMilli(), problem)
		return err
	})
}

// RecordComparison replaces the stored catalogue of the provider. Components that it no longer
// lists are kept as withdrawn, because plans may refer to them.
func (db *Store) RecordComparison(ctx context.Context, comparison catalogue.Comparison) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		// The comparison's row first: its lock serializes nodes that compare at the same
		// time.
		_, err := tx.Exec(`
			INSERT INTO catalogue_comparisons (provider, verified_at, attempted_at) VALUES ($1, $2, $2)
			    ON CONFLICT (provider) DO UPDATE SET verified_at = $2, attempted_at = $2, problem = ''`,
			comparison.Provider, comparison.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("write the comparison: %w", err)
		}
		if _, err := tx.Exec(`UPDATE provider_components SET sellable = 0 WHERE sellable = 1`); err != nil {
			return fmt.Errorf("withdraw components: %w", err)
		}
		for _, component := range comparison.Components {
			_, err := tx.Exec(`
				INSERT INTO provider_components (code, name, role, sellable, seen_at) VALUES ($1, $2, $3, 1, $4)
				    ON CONFLICT (code) DO UPDATE SET name = excluded.name, role = excluded.role, sellable = 1, seen_at = excluded.seen_at`,
				component.Code, component.Name, component.Role, comparison.At.UnixMilli())
			if err != nil {
				return fmt.Errorf("write component %s: %w", component.Code, err)
			}
		}
		return nil
	})
}
