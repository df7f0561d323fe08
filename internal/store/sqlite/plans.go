package sqlite

import (
	"database/sql"
	"errors"

	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// sellablePlan reads one plan, if it can be bought.
func sellablePlan(from sqlstore.Querier, id string) (subscription.Plan, bool, error) {
	plan, err := sqlstore.ReadPlan(from.QueryRow(sqlstore.Sellable+` AND p.id = ?1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return plan, false, nil
	}
	return plan, err == nil, err
}
