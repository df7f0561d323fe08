package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
)

// person is the personal data of a subscriber.
type person struct {
	id, mobile, name, email, address string
	operatorID                       int64
	expires                          sql.NullInt64
	// others are the box number, and what stood in place of any of these before.
	others []string
}

func personByID(from Querier, id, lock string) (p person, err error) {
	var box string
	err = from.QueryRow(`SELECT id, operator_id, mobile, name, email, address, box_number, expires_at FROM subscribers WHERE id = $1`+lock, id).
		Scan(&p.id, &p.operatorID, &p.mobile, &p.name, &p.email, &p.address, &box, &p.expires)
	if errors.Is(err, sql.ErrNoRows) {
		return p, admin.Refuse("there is no subscriber %s", id)
	}
	if err != nil {
		return p, fmt.Errorf("read subscriber %s: %w", id, err)
	}
	rows, err := from.Query(`
		SELECT old_value FROM contact_changes
		 WHERE subscriber_id = $1 AND field IN ('full_name', 'email', 'address', 'box_number')`, id)
	p.others, err = Collect(rows, err, func(row Row) (text string, err error) { return text, row.Scan(&text) })
	if err != nil {
		return p, fmt.Errorf("read what subscriber %s had before: %w", id, err)
	}
	p.others = append(p.others, box)
	return p, nil
}

// itsOperations lists a subscriber's operations, and the failed activations of its number, which may
// have had another id. The second part reads all operations.
func itsOperations(from Querier, p person) ([]string, error) {
	rows, err := from.Query(`
		SELECT id FROM operations WHERE subscriber_id = $1 AND mobile = $2
		 UNION SELECT id FROM operations WHERE mobile = $2 AND kind = 'activate' AND status = 'failed'
		 ORDER BY 1`, p.id, p.number())
	return Collect(rows, err, func(row Row) (id string, err error) { return id, row.Scan(&id) })
}

// number is the mobile number that the subscriber's operations have.
func (p person) number() string { return subscription.NumberInUse(p.operatorID, p.mobile) }

// rowsAtOnce bounds how many bulk rows one transaction changes.
const rowsAtOnce = 100

// ForgetSubscriber replaces the personal data of a subscriber. A second call completes what an
// interrupted one has left.
func (db *Store) ForgetSubscriber(ctx context.Context, action admin.StaffAction, id string, keep time.Duration) (f admin.Forgotten, err error) {
	p, err := personByID(db.engine.Read(ctx), id, "")
	if err != nil {
		return f, err
	}
	// Read before the transaction: looking for a number takes long in a large store, and nobody can
	// add operations to a subscriber that is not found any more, or activate a number that has one.
	var operations []string
	if !subscription.IsForgotten(p.mobile) {
		if operations, err = itsOperations(db.engine.Read(ctx), p); err != nil {
			return f, fmt.Errorf("look for the operations of subscriber %s: %w", id, err)
		}
	}
	// Bulk renewals first: they are found by the number, too.
	bulkRows, err := db.forgetBulkRows(ctx, action, p, keep)
	if err != nil {
		return f, err
	}
	err = db.engine.Write(ctx, func(tx Tx) error {
		f = admin.Forgotten{OperatorID: p.operatorID, BulkRows: bulkRows, Already: subscription.IsForgotten(p.mobile)}
		if f.Already {
			return action.Permitted()
		}
		now, err := personByID(tx, id, ` FOR UPDATE`)
		if err != nil {
			return err
		}
		if now.mobile != p.mobile {
			return admin.Refuse("subscriber %s has just been changed: try again", id)
		}
		if err := refuseForgetting(tx, now, action.At, keep); err != nil {
			return err
		}
		// Reserved since the list was read, and settled.
		again, err := tx.Query(`SELECT id FROM operations WHERE subscriber_id = $1 AND mobile = $2`, id, p.number())
		present, err := Collect(again, err, func(row Row) (id string, err error) { return id, row.Scan(&id) })
		if err != nil {
			return fmt.Errorf("read the operations of subscriber %s: %w", id, err)
		}
		all := map[string]bool{}
		for _, operation := range append(present, operations...) {
			if all[operation] {
				continue
			}
			all[operation] = true
			texts, err := forgetInOperation(tx, p, operation)
			if err != nil {
				return fmt.Errorf("forget the customer of %s: %w", operation, err)
			}
			f.Texts += texts
		}
		f.Operations = len(all)
		if err := forgetPerson(tx, now); err != nil {
			return fmt.Errorf("forget subscriber %s: %w", id, err)
		}
		return logAction(tx, action, p.operatorID, "subscriber "+id, nil, map[string]any{
			"operations": f.Operations, "bulk_rows": f.BulkRows, "texts": f.Texts,
		})
	})
	return f, err
}

// refuseForgetting refuses while a subscriber's data may still be needed.
func refuseForgetting(from Querier, p person, now time.Time, keep time.Duration) error {
	if !p.expires.Valid {
		return admin.Refuse("subscriber %s is being activated: wait until that has an outcome", p.id)
	}
	last := Time(p.expires)
	if last.After(now) {
		return admin.Refuse("the subscription of subscriber %s runs until %s: the provider is called with its mobile number", p.id, moment(last))
	}
	var open string
	err := from.QueryRow(`
		SELECT id FROM operations
		 WHERE subscriber_id = $1 AND (status IN ('processing', 'needs_review') OR next_check_at IS NOT NULL OR addon_next_at IS NOT NULL)
		 UNION ALL SELECT id FROM operations WHERE status = 'failed' AND next_check_at IS NOT NULL AND mobile = $2
		 UNION ALL SELECT operation_id FROM reversals WHERE subscriber_id = $1 AND next_at IS NOT NULL
		 LIMIT 1`, p.id, p.number()).Scan(&open)
	if err == nil {
		return admin.Refuse("operation %s of subscriber %s is still followed up with the provider: wait until that ends, or settle it", open, p.id)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("look for open operations of subscriber %s: %w", p.id, err)
	}
	var exception int64
	err = from.QueryRow(`
		SELECT x.id FROM exceptions x JOIN operations o ON o.id = x.operation_id WHERE o.subscriber_id = $1 AND x.closed_at IS NULL LIMIT 1`, p.id).Scan(&exception)
	if err == nil {
		return admin.Refuse("exception %d of subscriber %s is open: close it first", exception, p.id)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("look for open exceptions of subscriber %s: %w", p.id, err)
	}
	var completed sql.NullInt64
	if err := from.QueryRow(`SELECT max(completed_at) FROM operations WHERE subscriber_id = $1`, p.id).Scan(&completed); err != nil {
		return fmt.Errorf("read the operations of subscriber %s: %w", p.id, err)
	}
	if at := Time(completed); at.After(last) {
		last = at
	}
	if until := last.Add(keep); until.After(now) {
		return admin.Refuse("subscriber %s must be kept until %s: retention.personal_data is %s, from %s", p.id, moment(until), keep, moment(last))
	}
	return nil
}

func moment(at time.Time) string { return at.In(subscription.IST).Format(time.DateTime) }

// forgetPerson replaces the data of the subscriber itself, and what it can be searched by.
func forgetPerson(tx Tx, p person) error {
	for _, step := range []struct {
		text string
		args []any
	}{
		{`UPDATE subscribers SET name = $2, mobile = $3, email = '', address = '', area = '', box_number = '', notes = '', version = version + 1 WHERE id = $1`,
			[]any{p.id, subscription.ForgottenName, subscription.ForgottenHolder(p.id)}},
		{`DELETE FROM contact_changes WHERE subscriber_id = $1`, []any{p.id}},
		{`DELETE FROM contact_states WHERE subscriber_id = $1`, []any{p.id}},
		{`DELETE FROM subscriber_terms WHERE subscriber_id = $1`, []any{p.id}},
		{`INSERT INTO subscriber_terms (operator_id, kind, term, subscriber_id) VALUES ($2, 'name', $3, $1), ($2, 'word', lower($1::text), $1)`,
			[]any{p.id, p.operatorID, subscription.ForgottenName}},
	} {
		if _, err := tx.Exec(step.text, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// forgetInOperation replaces name and number of an operation, and the texts that have any of the data:
// what the provider said, and the details of exceptions. It returns how many texts.
func forgetInOperation(tx Tx, p person, id string) (texts int, err error) {
	_, err = tx.Exec(`UPDATE operations SET customer_name = $2, mobile = $3 WHERE id = $1`, id, subscription.ForgottenName, subscription.ForgottenMobile)
	if err != nil {
		return 0, err
	}
	for _, table := range []struct{ read, write string }{
		{`SELECT 0, provider_message FROM operations WHERE id = $1`, `UPDATE operations SET provider_message = $2 WHERE id = $3 AND $1 = 0`},
		{`SELECT id, detail FROM provider_calls WHERE operation_id = $1`, `UPDATE provider_calls SET detail = $2 WHERE id = $1 AND operation_id = $3`},
		{`SELECT requested_at, message FROM reversals WHERE operation_id = $1`, `UPDATE reversals SET message = $2 WHERE requested_at = $1 AND operation_id = $3`},
		{`SELECT id, detail FROM exceptions WHERE operation_id = $1`, `UPDATE exceptions SET detail = $2 WHERE id = $1 AND operation_id = $3`},
	} {
		type row struct {
			id   int64
			text string
		}
		found, err := tx.Query(table.read, id)
		rows, err := Collect(found, err, func(from Row) (r row, err error) { return r, from.Scan(&r.id, &r.text) })
		if err != nil {
			return texts, err
		}
		for _, r := range rows {
			without := p.without(r.text)
			if without == r.text {
				continue
			}
			if _, err := tx.Exec(table.write, r.id, without, id); err != nil {
				return texts, err
			}
			texts++
		}
	}
	return texts, nil
}

// shortestText is how long a name or an address must be to be looked for in other texts.
const shortestText = 3

// without replaces the data in a text.
func (p person) without(text string) string {
	text = strings.ReplaceAll(text, p.number(), subscription.ForgottenMobile)
	for _, data := range append([]string{p.address, p.email, p.name}, p.others...) {
		if len(data) >= shortestText {
			text = strings.ReplaceAll(text, data, subscription.ForgottenName)
		}
	}
	return text
}

// forgetBulkRows replaces name and number in bulk renewals, any operator's.
func (db *Store) forgetBulkRows(ctx context.Context, action admin.StaffAction, p person, keep time.Duration) (changed int, err error) {
	if err := refuseForgetting(db.engine.Read(ctx), p, action.At, keep); err != nil {
		return 0, err
	}
	type place struct {
		operatorID int64
		job        string
		number     int
	}
	for {
		rows, err := db.engine.Read(ctx).Query(`
			SELECT operator_id, job_id, number FROM bulk_rows
			 WHERE (subscriber_id = $1 AND operator_id = $4 OR mobile = $2) AND mobile <> $3 LIMIT $5`,
			p.id, p.number(), subscription.ForgottenMobile, p.operatorID, rowsAtOnce)
		places, err := Collect(rows, err, func(row Row) (at place, err error) {
			return at, row.Scan(&at.operatorID, &at.job, &at.number)
		})
		if err != nil {
			return changed, fmt.Errorf("look for bulk renewals of subscriber %s: %w", p.id, err)
		}
		if len(places) == 0 {
			return changed, nil
		}
		err = db.engine.Write(ctx, func(tx Tx) error {
			if err := action.Permitted(); err != nil {
				return err
			}
			for _, at := range places {
				_, err := tx.Exec(`UPDATE bulk_rows SET customer_name = $4, mobile = $5 WHERE operator_id = $1 AND job_id = $2 AND number = $3`,
					at.operatorID, at.job, at.number, subscription.ForgottenName, subscription.ForgottenMobile)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return changed, fmt.Errorf("forget the bulk renewals of subscriber %s: %w", p.id, err)
		}
		changed += len(places)
	}
}

// ExportSubscriber reads all that the store has about a subscriber.
func (db *Store) ExportSubscriber(ctx context.Context, id string) (data admin.SubscriberData, err error) {
	if data.OperatorID, data.Subscription, err = db.FindSubscriber(ctx, id); err != nil {
		return data, err
	}
	from := db.engine.Read(ctx)
	p, err := personByID(from, id, "")
	if err != nil {
		return data, err
	}
	operations, err := itsOperations(from, p)
	if err != nil {
		return data, fmt.Errorf("look for the operations of subscriber %s: %w", id, err)
	}
	if subscription.IsForgotten(p.mobile) { // the number of all who were forgotten
		operations = nil
		list, err := db.ListOperations(ctx, admin.OperationFilter{OperatorID: data.OperatorID, Subscriber: id, OldestFirst: true, Limit: 100_000})
		if err != nil {
			return data, err
		}
		for _, op := range list {
			operations = append(operations, op.ID)
		}
	}
	subjects := []string{"subscriber " + id}
	for _, operation := range operations {
		history, err := db.OperationHistory(ctx, operation)
		if err != nil {
			return data, err
		}
		data.Operations = append(data.Operations, history)
		subjects = append(subjects, "operation "+operation, "addon of "+operation)
	}
	for _, part := range []struct {
		what string
		read func() error
	}{
		{"ledger", func() error {
			rows, err := from.Query(`SELECT `+ledgerEntryColumns+` FROM ledger WHERE operation_id = ANY ($1::text[]) OR reversal_of = ANY ($1::text[]) ORDER BY id`, operations)
			data.Ledger, err = Collect(rows, err, readLedgerEntry)
			return err
		}},
		{"contact data", func() error {
			data.ContactChanges, err = contactChanges(from, id, math.MaxInt32)
			return err
		}},
		{"exceptions", func() error {
			rows, err := from.Query(`SELECT `+exceptionColumns+` FROM exceptions WHERE operation_id = ANY ($1::text[]) ORDER BY id`, operations)
			data.Exceptions, err = Collect(rows, err, readException)
			return err
		}},
		{"bulk renewals", func() error {
			rows, err := from.Query(`
				SELECT job_id, number, mobile, customer_name, plan_id, state, coalesce(operation_id, ''), begun_at, ended_at
				  FROM bulk_rows WHERE operator_id = $1 AND subscriber_id = $2 ORDER BY job_id, number`, data.OperatorID, id)
			data.BulkRows, err = Collect(rows, err, func(row Row) (r admin.BulkRowEntry, err error) {
				var begun, ended sql.NullInt64
				err = row.Scan(&r.JobID, &r.Number, &r.Mobile, &r.Name, &r.PlanID, &r.State, &r.TransactionID, &begun, &ended)
				r.BegunAt, r.EndedAt = Time(begun), Time(ended)
				return r, err
			})
			return err
		}},
		{"staff actions", func() error {
			rows, err := from.Query(`SELECT `+auditColumns+` FROM staff_acts WHERE subject = ANY ($1::text[]) ORDER BY id`, subjects)
			data.Actions, err = Collect(rows, err, readAuditEntry)
			return err
		}},
	} {
		if err := part.read(); err != nil {
			return data, fmt.Errorf("read the %s of subscriber %s: %w", part.what, id, err)
		}
	}
	return data, nil
}
