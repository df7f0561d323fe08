package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

// Contact reads the contact data of an operator's own subscriber.
func (db *Store) Contact(ctx context.Context, operatorID int64, subscriberID string, changes int) (record admin.ContactRecord, found bool, err error) {
	err = db.engine.Snapshot(ctx, func(from Querier) error {
		if record, err = contactOf(from, operatorID, subscriberID, ""); err != nil {
			return err
		}
		found = record.SubscriberID != ""
		if found && changes > 0 {
			record.Changes, err = contactChanges(from, subscriberID, changes)
		}
		return err
	})
	return record, found, err
}

// contactOf reads contact data without its changes; empty if there is no such subscriber.
func contactOf(from Querier, operatorID int64, subscriberID, lock string) (r admin.ContactRecord, err error) {
	var expires, at sql.NullInt64
	err = from.QueryRow(`
		SELECT s.id, s.mobile, s.name, s.email, s.area, s.address, s.box_number, s.notes, s.expires_at FROM subscribers s
		 WHERE s.id = $1 AND s.operator_id = $2`+lock, subscriberID, operatorID).
		Scan(&r.SubscriberID, &r.Mobile, &r.Name, &r.Email, &r.Area, &r.Address, &r.BoxNumber, &r.Notes, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read the contact data of subscriber %s: %w", subscriberID, err)
	}
	err = from.QueryRow(`SELECT version, state, message, at FROM contact_states WHERE subscriber_id = $1`, subscriberID).
		Scan(&r.Version, &r.State, &r.Message, &at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("read the state of the contact data of subscriber %s: %w", subscriberID, err)
	}
	r.Settled, r.At = expires.Valid, Time(at)
	return r, nil
}

// contactChanges reads the latest changes of contact data, newest first.
func contactChanges(from Querier, subscriberID string, limit int) ([]admin.ContactChange, error) {
	rows, err := from.Query(`
		SELECT c.field, c.old_value, c.new_value, c.actor, coalesce(l.name, ''), c.at
		  FROM contact_changes c LEFT JOIN logins l ON l.username = substr(c.actor, 5) AND c.actor LIKE 'web:%'
		 WHERE c.subscriber_id = $1 ORDER BY c.seq DESC LIMIT $2`, subscriberID, limit)
	list, err := Collect(rows, err, func(row Row) (c admin.ContactChange, err error) {
		var at sql.NullInt64
		err = row.Scan(&c.Field, &c.Old, &c.New, &c.Actor, &c.Name, &at)
		c.At = Time(at)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the changes of the contact data of subscriber %s: %w", subscriberID, err)
	}
	return list, nil
}

// BoxHolder finds who has a box number, by the words that subscribers are searched by.
func (db *Store) BoxHolder(ctx context.Context, q admin.BoxQuery) (holder admin.BoxHolder, found bool, err error) {
	err = db.engine.Read(ctx).QueryRow(`
		SELECT s.id, s.name FROM subscriber_terms t`+db.dialect.JoinSubscribers+`
		 WHERE t.operator_id = $1 AND t.kind = 'word' AND t.term = $2 AND s.operator_id + 0 = $1 AND lower(s.box_number COLLATE "C") = $2 AND s.id <> $3
		 ORDER BY t.subscriber_id LIMIT 1`, q.OperatorID, strings.ToLower(q.BoxNumber), q.Except).Scan(&holder.SubscriberID, &holder.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return admin.BoxHolder{}, false, nil
	}
	if err != nil {
		return admin.BoxHolder{}, false, fmt.Errorf("look for box number %s: %w", q.BoxNumber, err)
	}
	return holder, true, nil
}

// ChangeContact changes contact data, and records what has changed.
func (db *Store) ChangeContact(ctx context.Context, action admin.StaffAction, edit admin.ContactEdit) (version int64, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		operator, err := undeletedOperator(tx, edit.OperatorID)
		if err != nil {
			return err
		}
		if operator.Status != subscription.OperatorActive {
			return admin.RefuseSuspended(operator.ID)
		}
		before, err := contactOf(tx, edit.OperatorID, edit.SubscriberID, ` FOR UPDATE`)
		switch {
		case err != nil:
			return err
		case before.SubscriberID == "":
			return admin.Refuse("there is no subscriber %s under this account", edit.SubscriberID)
		case subscription.IsForgotten(before.Mobile):
			return admin.Refuse("the personal data of subscriber %s was removed for good", edit.SubscriberID)
		case !before.Settled:
			return admin.Refuse("the activation of subscriber %s is not settled yet", edit.SubscriberID)
		case before.Version != edit.Seen:
			return admin.ErrContactChanged
		}
		version = before.Version
		var fields []string
		for _, field := range operation.ContactFields {
			was, is := *field.At(&before.Contact), *field.At(&edit.Contact)
			if was == is {
				continue
			}
			version++
			fields = append(fields, field.Name)
			_, err := tx.Exec(`
				INSERT INTO contact_changes (subscriber_id, seq, field, old_value, new_value, actor, at)
				VALUES ($1, $2, $3, $4, $5, $6, $7)`, edit.SubscriberID, version, field.Name, was, is, action.Actor, action.At.UnixMilli())
			if err != nil {
				return fmt.Errorf("record a change of subscriber %s: %w", edit.SubscriberID, err)
			}
		}
		if len(fields) == 0 {
			return action.Permitted()
		}
		_, err = tx.Exec(`
			UPDATE subscribers SET name = $2, email = $3, area = $4, address = $5, box_number = $6, notes = $7, version = version + 1 WHERE id = $1`,
			edit.SubscriberID, edit.Contact.Name, edit.Contact.Email, edit.Contact.Area, edit.Contact.Address, edit.Contact.BoxNumber, edit.Contact.Notes)
		if err != nil {
			return fmt.Errorf("change the contact data of subscriber %s: %w", edit.SubscriberID, err)
		}
		_, err = tx.Exec(`
			INSERT INTO contact_states (subscriber_id, version, state, message, at) VALUES ($1, $2, 'untold', '', $3)
			ON CONFLICT (subscriber_id) DO UPDATE SET version = excluded.version, state = excluded.state, message = '', at = excluded.at`,
			edit.SubscriberID, version, action.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("change the contact data of subscriber %s: %w", edit.SubscriberID, err)
		}
		return logAction(tx, action, edit.OperatorID, "subscriber "+edit.SubscriberID, nil, map[string]any{"fields": strings.Join(fields, ", ")})
	})
	return version, err
}

// SetContactState records whether the provider has a version of the contact data.
func (db *Store) SetContactState(ctx context.Context, subscriberID string, version int64, state admin.ContactState, message string, at time.Time) error {
	err := db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE contact_states SET state = $3, message = $4, at = $5 WHERE subscriber_id = $1 AND version = $2`,
			subscriberID, version, state, message, at.UnixMilli())
		return err
	})
	if err != nil {
		return fmt.Errorf("record what the provider has of subscriber %s: %w", subscriberID, err)
	}
	return nil
}
