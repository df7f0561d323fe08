package audit

import "database/sql"

// planVersion is a plan as it was from one moment on.
type planVersion struct {
	plan, name, kind, main, addon string
	version, price, months, since int64
	retired                       flag
	description                   string // of the present version only
}

// same compares the fields that both a plan and its history have.
func (p planVersion) same(q planVersion) bool {
	p.description, q.description = "", ""
	return p == q
}

// readPlans reads the history of every plan and compares the plans with it.
func (a *auditor) readPlans() {
	read := func(row scanner, p *planVersion) string {
		var addon sql.NullString
		row(&p.plan, &p.version, &p.name, &p.price, &p.months, &p.kind, &p.main, &addon, &p.retired, &p.since, &p.description)
		p.addon = addon.String
		return p.plan
	}
	history := open(a, "plan_history", `
		SELECT plan_id, version, name, price_paise, months, type, main, addon, retired, since, ''
		  FROM plan_history ORDER BY plan_id `+bytewise+`, version`, read)
	plans := open(a, "plans", `
		SELECT id, version, name, price_paise, months, type, main, addon, retired, updated_at, description
		  FROM plans ORDER BY id `+bytewise, read)
	walk(func(id string) {
		subject := "plan " + id
		for _, version := range history.take(id) {
			a.checkPlanVersion(subject, version)
			a.plans[id] = append(a.plans[id], version)
		}
		present := plans.take(id)
		versions := a.plans[id]
		switch {
		case len(present) != 1:
			a.found("P1", subject, "there are %d plans of this id; expected 1", len(present))
			return
		case len(versions) == 0:
			a.found("P1", subject, "its history is empty; expected version %d there", present[0].version)
			return
		}
		a.descriptions[id] = present[0].description
		newest := versions[len(versions)-1]
		if !newest.same(present[0]) {
			a.found("P1", subject, "it is version %d at %s since %s; expected what its history ends with, version %d at %s since %s",
				present[0].version, rupees(present[0].price), moment(present[0].since), newest.version, rupees(newest.price), moment(newest.since))
		}
	}, history, plans)
	a.report.Counts.Plans, a.report.Counts.PlanVersions = plans.count, history.count
}

func (a *auditor) checkPlanVersion(subject string, version planVersion) {
	before := a.plans[version.plan]
	if expected := int64(len(before)) + 1; version.version != expected {
		a.found("P1", subject, "its history goes on with version %d; expected version %d", version.version, expected)
	}
	if version.price < 1 {
		a.found("P1", subject, "version %d costs %s; expected at least %s", version.version, rupees(version.price), rupees(1))
	}
	if len(before) > 0 && version.since < before[len(before)-1].since-queueSlackMS {
		a.found("P1", subject, "version %d holds since %s; expected no earlier than the version before, %s",
			version.version, moment(version.since), moment(before[len(before)-1].since))
	}
}

// checkPrice compares an operation with the plan version that it was priced from.
func (a *auditor) checkPrice(op *operation) {
	var sold, next *planVersion
	versions := a.plans[op.plan]
	for i := range versions {
		if versions[i].version == op.planVersion {
			sold = &versions[i]
			if i+1 < len(versions) {
				next = &versions[i+1]
			}
		}
	}
	subject := op.subject()
	if sold == nil {
		a.found("M6", subject, "it was priced from version %d of plan %s, which never was", op.planVersion, op.plan)
		return
	}
	if op.amount != sold.price {
		a.found("M6", subject, "it charges %s; expected %s, the price of version %d of plan %s",
			rupees(op.amount), rupees(sold.price), sold.version, op.plan)
	}
	if op.planName != sold.name || op.months != sold.months || op.main != sold.main || op.addon != sold.addon {
		a.found("M6", subject, "it bought %q, %d months of %s and %q; expected what version %d of plan %s was, %q, %d months of %s and %q",
			op.planName, op.months, op.main, op.addon, sold.version, op.plan, sold.name, sold.months, sold.main, sold.addon)
	}
	if sold.retired {
		a.found("M6", subject, "version %d of plan %s was retired; expected one that was sold", sold.version, op.plan)
	}
	if op.reserved() < sold.since-clockSlackMS {
		a.found("M6", subject, "it was reserved at %s from version %d of plan %s, which holds only since %s",
			moment(op.reserved()), sold.version, op.plan, moment(sold.since))
	}
	// An order may have been made before a plan was retired, and carried out after it.
	if next != nil && op.adopted() && bool(next.retired) {
		next = nil
	}
	if next != nil && op.reserved() > next.since+queueSlackMS {
		a.found("M6", subject, "it was reserved at %s from version %d of plan %s, which version %d replaced at %s",
			moment(op.reserved()), sold.version, op.plan, next.version, moment(next.since))
	}
}
