package sqlite

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

var _ catalogue.Store = (*DB)(nil)

const planColumns = `p.id, p.name, p.description, p.price_paise, p.months, p.type, p.main, p.addon, p.retired, p.version, p.updated_at`

func readPlan(row scanner) (subscription.Plan, error) {
	var p subscription.Plan
	var price int64
	var addon sql.NullString
	var updated sql.NullInt64
	err := row.Scan(&p.ID, &p.Name, &p.Description, &price, &p.Months, &p.Type, &p.Main, &addon, &p.Retired, &p.Version, &updated)
	p.Price, p.Addon, p.UpdatedAt = money.Paise(price), addon.String, moment(updated)
	return p, err
}

// SetPlan makes or changes a plan and keeps the price it had.
func (db *DB) SetPlan(ctx context.Context, act admin.StaffAction, plan subscription.Plan) (subscription.Plan, error) {
	var written subscription.Plan
	err := db.writer.do(ctx, func(tx *tx) (err error) {
		before, _, err := planByID(tx, plan.ID)
		if err != nil {
			return err
		}
		comparison, err := planComparison(tx, plan.ID)
		if err != nil {
			return err
		}
		if written, err = setPlan(tx, act, before, plan); err != nil {
			return err
		}
		return act.CheckPlanChange(before, plan, comparison)
	})
	return written, err
}

// changePlan does what was approved, if the plan still has the version that it was
// approved from.
func changePlan(tx *tx, act admin.StaffAction, plan subscription.Plan) (subscription.Plan, error) {
	before, _, err := planByID(tx, plan.ID)
	if err != nil {
		return plan, err
	}
	if before.Version != plan.Version {
		return plan, admin.RefusePlanChanged(plan.ID)
	}
	return setPlan(tx, act, before, plan)
}

// setPlan writes a plan, given what it was before; version zero if it is new.
func setPlan(tx *tx, act admin.StaffAction, before, plan subscription.Plan) (subscription.Plan, error) {
	if err := checkComponent(tx, plan.Main, catalogue.Main); err != nil {
		return plan, err
	}
	if plan.Addon != "" {
		if err := checkComponent(tx, plan.Addon, catalogue.Addon); err != nil {
			return plan, err
		}
	}
	written, err := readPlan(tx.queryRow(`
		INSERT INTO plans AS p (id, name, description, price_paise, months, type, main, addon, retired, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9)
		    ON CONFLICT (id) DO UPDATE SET
		       name = excluded.name, description = excluded.description, price_paise = excluded.price_paise,
		       months = excluded.months, type = excluded.type, main = excluded.main, addon = excluded.addon,
		       retired = 0, version = p.version + 1, updated_at = excluded.updated_at
		RETURNING id, name, description, price_paise, months, type, main, addon, retired, version, updated_at`,
		plan.ID, plan.Name, plan.Description, plan.Price.Paise(), plan.Months, plan.Type, plan.Main,
		sql.NullString{String: plan.Addon, Valid: plan.Addon != ""}, plan.UpdatedAt.UnixMilli()))
	if err != nil {
		return plan, fmt.Errorf("write plan %s: %w", plan.ID, err)
	}
	return written, recordPlan(tx, act, before, before.Version > 0, written)
}

// PlanComparison reads what a change of a plan is compared with.
func (db *DB) PlanComparison(ctx context.Context, id string) (admin.PlanComparison, error) {
	return planComparison(db.read(ctx), id)
}

func planComparison(from querier, id string) (admin.PlanComparison, error) {
	var c admin.PlanComparison
	rows, err := from.query(`
		SELECT h.plan_id, h.name, '', h.price_paise, h.months, h.type, h.main, h.addon, h.retired, h.version, h.since
		  FROM plan_history h ORDER BY h.plan_id, h.version`)
	if c.Versions, err = collect(rows, err, readPlan); err != nil {
		return c, fmt.Errorf("read the versions of the plans: %w", err)
	}
	var approved sql.NullInt64
	err = from.queryRow(`
		SELECT max(decided_at) FROM proposals WHERE kind = 'plan' AND subject = ?1 AND status = 'approved'`, "plan "+id).Scan(&approved)
	if err != nil {
		return c, fmt.Errorf("look for an approved change of plan %s: %w", id, err)
	}
	c.Approved = moment(approved)
	if known := slices.ContainsFunc(c.Versions, func(p subscription.Plan) bool { return p.ID == id }); !known {
		c.Staff, err = staffAccess(from)
	}
	return c, err
}

// RetirePlan takes a plan out of the catalogue.
func (db *DB) RetirePlan(ctx context.Context, act admin.StaffAction, id string) error {
	return db.writer.do(ctx, func(tx *tx) error {
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
		_, err = tx.exec(`UPDATE plans SET retired = 1, version = version + 1, updated_at = ?2 WHERE id = ?1`, id, act.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("retire plan %s: %w", id, err)
		}
		after, _, err := planByID(tx, id)
		if err != nil {
			return err
		}
		return recordPlan(tx, act, before, true, after)
	})
}

// recordPlan keeps the plan's new version in its history and the act beside it.
func recordPlan(tx *tx, act admin.StaffAction, before subscription.Plan, known bool, after subscription.Plan) error {
	_, err := tx.exec(`
		INSERT INTO plan_history (plan_id, version, name, price_paise, months, type, main, addon, retired, since)
		SELECT id, version, name, price_paise, months, type, main, addon, retired, updated_at FROM plans WHERE id = ?1`, after.ID)
	if err != nil {
		return fmt.Errorf("keep the history of plan %s: %w", after.ID, err)
	}
	var was any
	if known {
		was = admin.PlanState(before)
	}
	return logAct(tx, act, 0, "plan "+after.ID, was, admin.PlanState(after))
}

// checkComponent refuses what the provider did not sell when last asked.
func checkComponent(tx *tx, code string, role catalogue.Role) error {
	var found string
	var sellable bool
	err := tx.queryRow(`SELECT role, sellable FROM provider_components WHERE code = ?1`, code).Scan(&found, &sellable)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return refuseComponent(tx, code)
	case err != nil:
		return fmt.Errorf("look up component %s: %w", code, err)
	case !sellable:
		return admin.Refuse("the provider no longer sells component %q", code)
	case catalogue.Role(found) != role:
		return admin.Refuse("component %q is a %s component of the provider's; it cannot stand as %s", code, catalogue.Role(found), role)
	}
	return nil
}

// refuseComponent tells a component that the provider does not have from a
// catalogue that nobody has read.
func refuseComponent(tx *tx, code string) error {
	var read bool
	if err := tx.queryRow(`SELECT EXISTS (SELECT 1 FROM provider_components)`).Scan(&read); err != nil {
		return fmt.Errorf("look up component %s: %w", code, err)
	}
	if !read {
		return admin.Refuse("the provider's catalogue has not been read yet: a node does that when it starts; start one, or try again in a moment")
	}
	return admin.Refuse("the provider's catalogue has no component %q", code)
}

func planByID(tx *tx, id string) (subscription.Plan, bool, error) {
	plan, err := readPlan(tx.queryRow(`SELECT `+planColumns+` FROM plans p WHERE p.id = ?1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return plan, false, nil
	}
	if err != nil {
		return plan, false, fmt.Errorf("read plan %s: %w", id, err)
	}
	return plan, true, nil
}

// AllPlans reads every plan, retired ones too.
func (db *DB) AllPlans(ctx context.Context) ([]subscription.Plan, error) {
	rows, err := db.read(ctx).query(`SELECT ` + planColumns + ` FROM plans p ORDER BY p.id`)
	return collect(rows, err, readPlan)
}

// sellable picks the plans whose every component the provider sells.
const sellable = `
	SELECT ` + planColumns + `
	  FROM plans p
	  JOIN provider_components m ON m.code = p.main AND m.sellable = 1
	  LEFT JOIN provider_components a ON a.code = p.addon
	 WHERE p.retired = 0 AND (p.addon IS NULL OR a.sellable = 1)`

// SellablePlans reads what can be bought.
func (db *DB) SellablePlans(ctx context.Context) ([]subscription.Plan, error) {
	rows, err := db.read(ctx).query(sellable + ` ORDER BY p.id`)
	return collect(rows, err, readPlan)
}

// sellablePlan reads one plan, if it can be bought.
func sellablePlan(from querier, id string) (subscription.Plan, bool, error) {
	plan, err := readPlan(from.queryRow(sellable+` AND p.id = ?1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return plan, false, nil
	}
	return plan, err == nil, err
}

// Compared reads when prices were last compared, with success and at all.
func (db *DB) Compared(ctx context.Context, provider string) (good, tried time.Time, err error) {
	var verified, attempted sql.NullInt64
	err = db.askRow(ctx).queryRow(`SELECT verified_at, attempted_at FROM catalogue_comparisons WHERE provider = ?1`, provider).Scan(&verified, &attempted)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return good, tried, fmt.Errorf("read when prices were compared: %w", err)
	}
	return moment(verified), moment(attempted), nil
}

// RecordFailure notes a comparison that could not be made; the last good one
// stays.
func (db *DB) RecordFailure(ctx context.Context, provider, problem string, at time.Time) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`
			INSERT INTO catalogue_comparisons (provider, attempted_at, problem) VALUES (?1, ?2, ?3)
			    ON CONFLICT (provider) DO UPDATE SET attempted_at = ?2, problem = ?3`, provider, at.UnixMilli(), problem)
		return err
	})
}

// RecordComparison replaces what is known of the provider's catalogue. What it
// no longer lists stays known, as withdrawn, because plans may refer to it.
func (db *DB) RecordComparison(ctx context.Context, comparison catalogue.Comparison) error {
	return db.writer.do(ctx, func(tx *tx) error {
		if _, err := tx.exec(`UPDATE provider_components SET sellable = 0`); err != nil {
			return fmt.Errorf("withdraw components: %w", err)
		}
		for _, component := range comparison.Components {
			_, err := tx.exec(`
				INSERT INTO provider_components (code, name, role, sellable, seen_at) VALUES (?1, ?2, ?3, 1, ?4)
				    ON CONFLICT (code) DO UPDATE SET name = excluded.name, role = excluded.role, sellable = 1, seen_at = excluded.seen_at`,
				component.Code, component.Name, component.Role, comparison.At.UnixMilli())
			if err != nil {
				return fmt.Errorf("write component %s: %w", component.Code, err)
			}
		}
		_, err := tx.exec(`
			INSERT INTO catalogue_comparisons (provider, verified_at, attempted_at) VALUES (?1, ?2, ?2)
			    ON CONFLICT (provider) DO UPDATE SET verified_at = ?2, attempted_at = ?2, problem = ''`,
			comparison.Provider, comparison.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("write the comparison: %w", err)
		}
		return nil
	})
}
