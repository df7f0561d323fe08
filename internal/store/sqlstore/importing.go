package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// CheckImport checks rows against the store. Mobiles and ids that can be released at
// that time are free.
func (db *Store) CheckImport(ctx context.Context, rows []admin.ImportRow, now time.Time) ([]admin.ImportResult, error) {
	results := make([]admin.ImportResult, len(rows))
	err := db.engine.Snapshot(ctx, func(from Querier) error {
		for i, row := range rows {
			var err error
			if results[i], err = checkImportRow(from, row, now); err != nil {
				return err
			}
		}
		return nil
	})
	return results, err
}

// checkImportRow returns every problem of a row. Fields that the row lacks are not checked.
func checkImportRow(from Querier, row admin.ImportRow, now time.Time) (admin.ImportResult, error) {
	var problems []string
	if row.OperatorID != 0 {
		operator, err := operatorByID(from, row.OperatorID)
		var refusal *admin.Refusal
		switch {
		case errors.As(err, &refusal):
			problems = append(problems, refusal.Reason)
		case err != nil:
			return admin.ImportResult{}, err
		case operator.Status == subscription.OperatorDeleted:
			problems = append(problems, fmt.Sprintf("operator %d was deleted", row.OperatorID))
		}
	}
	if row.PlanID != "" {
		var known bool
		if err := from.QueryRow(`SELECT EXISTS (SELECT 1 FROM plans WHERE id = $1)`, row.PlanID).Scan(&known); err != nil {
			return admin.ImportResult{}, fmt.Errorf("look up plan %s: %w", row.PlanID, err)
		}
		if !known {
			problems = append(problems, fmt.Sprintf("there is no plan %s", row.PlanID))
		}
	}
	found, known, err := foundForImport(from, row, now)
	if err != nil {
		return admin.ImportResult{}, err
	}
	return admin.ImportResult{Known: known, Problem: strings.Join(append(problems, found...), "; ")}, nil
}

// foundForImport looks for subscribers that have the row's id or mobile.
func foundForImport(from Querier, row admin.ImportRow, now time.Time) (problems []string, known bool, err error) {
	var free []lapsed
	if !now.IsZero() { // zero: they were released before
		if free, err = lapsedHolders(from, subscription.Claim{Mobile: row.Mobile, SubscriberID: row.SubscriberID}, now, ""); err != nil {
			return nil, false, err
		}
	}
	// A row is known if its subscriber was imported with the same values, even if it has been
	// renewed, or its contact data has been changed, since.
	found, err := from.Query(`
		SELECT s.id, s.mobile, s.operator_id, s.name, coalesce(c.plan_id, ''), c.ends_at,
		       coalesce((SELECT h.old_value FROM contact_changes h WHERE h.subscriber_id = s.id AND h.field = 'full_name' ORDER BY h.seq LIMIT 1), s.name)
		  FROM subscribers s LEFT JOIN cycles c ON c.subscriber_id = s.id AND c.seq = 1 AND c.operation_id IS NULL
		 WHERE s.id = $1 OR s.mobile = $2`, row.SubscriberID, row.Mobile)
	results, err := Collect(found, err, func(r Row) (admin.ImportResult, error) {
		var id, mobile, name, plan, firstName string
		var operatorID int64
		var ends sql.NullInt64
		if err := r.Scan(&id, &mobile, &operatorID, &name, &plan, &ends, &firstName); err != nil {
			return admin.ImportResult{}, err
		}
		same := id == row.SubscriberID && mobile == row.Mobile && operatorID == row.OperatorID
		switch {
		case slices.ContainsFunc(free, func(l lapsed) bool { return l.id == id }):
			return admin.ImportResult{}, nil
		case same && (name == row.Name || firstName == row.Name) && plan == row.PlanID && Time(ends).Equal(row.Expires):
			return admin.ImportResult{Known: true}, nil
		case same:
			return admin.ImportResult{Problem: fmt.Sprintf("subscriber %s is there already, with another name, plan or expiry", id)}, nil
		case id == row.SubscriberID:
			return admin.ImportResult{Problem: fmt.Sprintf("subscriber_id %s belongs to another subscriber", id)}, nil
		}
		return admin.ImportResult{Problem: fmt.Sprintf("mobile %s belongs to another subscriber", mobile)}, nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("look for subscriber %s: %w", row.SubscriberID, err)
	}
	for _, result := range results {
		if result.Problem != "" {
			problems = append(problems, result.Problem)
		}
		known = known || result.Known
	}
	return problems, known && len(problems) == 0, nil
}

// importTries is how often a batch is tried if its ids or mobiles are taken meanwhile.
const importTries = 10

// ImportSubscribers adds the rows that are new, all or none: a row that has become
// invalid since the check refuses the whole batch.
func (db *Store) ImportSubscribers(ctx context.Context, action admin.StaffAction, rows []admin.ImportRow) (int, error) {
	for try := 1; ; try++ {
		added, err := db.importSubscribers(ctx, action, rows)
		if try == importTries || !db.engine.IsDuplicate(err) {
			return added, err
		}
		// An id or mobile was taken since the check. The next try finds it taken.
	}
}

func (db *Store) importSubscribers(ctx context.Context, action admin.StaffAction, rows []admin.ImportRow) (int, error) {
	added := 0
	err := db.engine.Write(ctx, func(tx Tx) error {
		added = 0
		if err := lockOperators(tx, rows); err != nil {
			return err
		}
		operators := map[int64]int{}
		for _, row := range rows {
			result, err := checkImportRow(tx, row, time.Time{})
			if err != nil {
				return err
			}
			if result.Problem != "" {
				return admin.Refuse("line %d: %s", row.Line, result.Problem)
			}
			if result.Known {
				continue
			}
			if err := addImported(tx, action, row); err != nil {
				return err
			}
			operators[row.OperatorID]++
			added++
		}
		// One entry per operator, so that each operator's audit log shows its own.
		for operatorID, count := range operators {
			err := logAction(tx, action, operatorID, fmt.Sprintf("subscribers of lco %d", operatorID), nil, map[string]any{"imported": count})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

// lockOperators serializes batches for the same operators, so that the second finds the
// rows of the first, and prevents an operator from being deleted meanwhile.
func lockOperators(tx Tx, rows []admin.ImportRow) error {
	var ids []int64
	for _, row := range rows {
		if !slices.Contains(ids, row.OperatorID) {
			ids = append(ids, row.OperatorID)
		}
	}
	_, err := tx.Exec(`SELECT id FROM operators WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE`, ids)
	if err != nil {
		return fmt.Errorf("lock the operators: %w", err)
	}
	return nil
}

func addImported(tx Tx, action admin.StaffAction, row admin.ImportRow) error {
	now, expires := action.At.UnixMilli(), row.Expires.UnixMilli()
	_, err := tx.Exec(`
		INSERT INTO subscribers (id, operator_id, mobile, name, connection_type, expires_at, activated_at, created_at,
		       email, area, address, box_number, notes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11, $12)`,
		row.SubscriberID, row.OperatorID, row.Mobile, row.Name, subscription.DefaultConnectionType, expires, now,
		row.Contact.Email, row.Contact.Area, row.Contact.Address, row.Contact.BoxNumber, row.Contact.Notes)
	if err != nil {
		return fmt.Errorf("add subscriber %s: %w", row.SubscriberID, err)
	}
	_, err = tx.Exec(`
		INSERT INTO cycles (subscriber_id, seq, operation_id, plan_id, starts_at, ends_at, created_at)
		VALUES ($1, 1, NULL, $2, $3, $4, $5)`, row.SubscriberID, row.PlanID, min(now, expires), expires, now)
	if err != nil {
		return fmt.Errorf("add the cycle of subscriber %s: %w", row.SubscriberID, err)
	}
	return nil
}

// FindSubscriber reads a subscriber of any operator.
func (db *Store) FindSubscriber(ctx context.Context, id string) (int64, operation.Subscription, error) {
	var operatorID int64
	err := db.engine.Read(ctx).QueryRow(`SELECT operator_id FROM subscribers WHERE id = $1`, id).Scan(&operatorID)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, operation.Subscription{}, admin.Refuse("there is no subscriber %s", id)
	}
	if err != nil {
		return 0, operation.Subscription{}, fmt.Errorf("find subscriber %s: %w", id, err)
	}
	found, exists, err := db.engine.SubscriptionOf(ctx, operatorID, id, "")
	if err == nil && !exists {
		err = admin.Refuse("there is no subscriber %s", id)
	}
	return operatorID, found, err
}
