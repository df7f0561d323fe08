package sqlstore

// Choosable is something that the command line completes.
type Choosable string

// What the command line completes.
const (
	Operators        Choosable = "operators"
	DeletedOperators Choosable = "deleted operators"
	Plans            Choosable = "plans"
	APIKeys          Choosable = "keys"
	Logins           Choosable = "logins"
	Components       Choosable = "components"
	Reviews          Choosable = "reviews"
)

// Choice is a value with what it stands for.
type Choice struct{ Value, Description string }

// choiceQueries are limited: nobody looks through more.
var choiceQueries = map[Choosable]string{
	Operators:        `SELECT CAST(id AS TEXT), name FROM operators WHERE status <> 'deleted' ORDER BY id LIMIT 1000`,
	DeletedOperators: `SELECT CAST(id AS TEXT), name FROM operators WHERE status = 'deleted' ORDER BY id LIMIT 1000`,
	Plans:            `SELECT id, name FROM plans WHERE retired = 0 ORDER BY id LIMIT 1000`,
	APIKeys: `SELECT CAST(c.id AS TEXT), o.name FROM credentials c JOIN operators o ON o.id = c.operator_id
	           WHERE c.revoked_at IS NULL ORDER BY c.id DESC LIMIT 1000`,
	Logins:     `SELECT username, name FROM logins ORDER BY username LIMIT 1000`,
	Components: `SELECT role || '=' || code, name FROM provider_components WHERE sellable = 1 ORDER BY role DESC, code LIMIT 1000`,
	Reviews: `SELECT p.id, o.name FROM operations p JOIN operators o ON o.id = p.operator_id
	           WHERE p.status = 'needs_review' ORDER BY p.review_since LIMIT 100`,
}

// ReadChoices reads what there is to choose from.
func ReadChoices(from Querier, what Choosable) ([]Choice, error) {
	rows, err := from.Query(choiceQueries[what])
	return Collect(rows, err, func(row Row) (c Choice, err error) {
		err = row.Scan(&c.Value, &c.Description)
		return c, err
	})
}
