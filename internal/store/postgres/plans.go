package postgres

import (
	"database/sql"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// offerColumns are the columns of a plan p, which are NULL if it cannot be bought.
const offerColumns = `p.id, p.name, p.description, p.price_paise, p.months, p.type, p.main, p.addon, p.retired, p.version, p.updated_at`

// nullablePlan is scanned from offerColumns.
type nullablePlan struct {
	id, name, description, kind, main, addon sql.NullString
	price, months, version, updated          sql.NullInt64
	retired                                  sql.NullBool
}

func (p *nullablePlan) targets() []any {
	return []any{&p.id, &p.name, &p.description, &p.price, &p.months, &p.kind, &p.main, &p.addon, &p.retired, &p.version, &p.updated}
}

func (p *nullablePlan) found() (subscription.Plan, bool) {
	return subscription.Plan{
		ID: p.id.String, Name: p.name.String, Description: p.description.String, Price: money.Paise(p.price.Int64),
		Months: int(p.months.Int64), Type: subscription.PlanType(p.kind.String), Main: p.main.String, Addon: p.addon.String,
		Retired: p.retired.Bool, Version: p.version.Int64, UpdatedAt: sqlstore.Time(p.updated),
	}, p.id.Valid
}
