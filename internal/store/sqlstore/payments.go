package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// announcementColumns are read from payment_announcements a and the open proposal of its
// top-up, if there is one: pa is under the announced reference, pb under the bank's.
const announcementColumns = `a.id, a.operator_id, a.code, a.amount_paise, a.method, a.reference, coalesce(a.bank_reference, ''), a.paid_on, a.note, a.actor, a.announced_at,
	a.state, coalesce(a.decided_by, ''), a.decided_at, a.answer, coalesce(a.credited_paise, 0), coalesce(pb.id, pa.id, 0), coalesce(pb.made_at, pa.made_at)`

const announcementTables = `payment_announcements a
	  LEFT JOIN proposals pa ON pa.reference_key = a.reference_key AND pa.status = 'open' AND pa.reference_key IS NOT NULL AND a.decided_at IS NULL
	  LEFT JOIN proposals pb ON pb.reference_key = a.bank_key AND pb.status = 'open' AND pb.reference_key IS NOT NULL AND a.decided_at IS NULL`

func readAnnouncement(row Row) (a admin.Announcement, err error) {
	var amount, credited int64
	var paidOn string
	var at, decided, proposed sql.NullInt64
	err = row.Scan(
		&a.ID, &a.OperatorID, &a.Code, &amount, &a.Method, &a.Reference, &a.BankReference, &paidOn, &a.Note, &a.Actor, &at,
		&a.State, &a.DecidedBy, &decided, &a.Answer, &credited, &a.Proposal, &proposed)
	if err != nil {
		return a, err
	}
	a.Amount, a.Credited = money.Paise(amount), money.Paise(credited)
	a.At, a.DecidedAt, a.ProposedAt = Time(at), Time(decided), Time(proposed)
	a.PaidOn, err = readDay(paidOn)
	return a, err
}

// Days are stored as text, 2026-11-19.

func readDay(text string) (time.Time, error) {
	return time.ParseInLocation(time.DateOnly, text, subscription.IST)
}

func dayText(t time.Time) string { return t.In(subscription.IST).Format(time.DateOnly) }

// Announce stores an announced payment.
func (db *Store) Announce(ctx context.Context, action admin.StaffAction, wanted admin.Announcement, limit int) (made admin.Announcement, known bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		made, known = admin.Announcement{}, false
		// The operator's row is locked: a top-up of it waits, or its reference is seen here.
		operator, err := undeletedOperator(tx, wanted.OperatorID)
		if err != nil {
			return err
		}
		if operator.Status != subscription.OperatorActive {
			return admin.RefuseSuspended(operator.ID)
		}
		if made, known, err = announcedBefore(tx, wanted); known || err != nil {
			return err
		}
		open, _, err := openAnnouncements(tx, wanted.OperatorID)
		if err != nil {
			return err
		}
		if open >= limit {
			return admin.Refuse("%d announced payments are open, which is the most: wait until some are credited, or withdraw those that were not made", open)
		}
		var id int64
		err = tx.QueryRow(`
			INSERT INTO payment_announcements (operator_id, code, amount_paise, method, reference, reference_key, paid_on, note, actor, announced_at, state)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'announced')
			RETURNING id`,
			wanted.OperatorID, wanted.Code, wanted.Amount.Paise(), wanted.Method, wanted.Reference, admin.NormaliseReference(wanted.Reference),
			dayText(wanted.PaidOn), wanted.Note, wanted.Actor, action.At.UnixMilli()).Scan(&id)
		if err != nil {
			return fmt.Errorf("save the announced payment: %w", err)
		}
		if made, err = announcementByID(tx, id); err != nil {
			return err
		}
		return logAction(tx, action, made.OperatorID, made.Subject(), nil, admin.AnnouncementStateOf(made))
	})
	if db.engine.IsDuplicate(err) {
		err = admin.RefuseAnnounced(wanted.Reference) // another one was announced meanwhile
	}
	return made, known && err == nil, err
}

// announcedBefore finds the operator's open announcement of the same payment, and refuses a
// reference that is another's, or its bank line's, or was credited, and a code that was used.
func announcedBefore(tx Tx, wanted admin.Announcement) (before admin.Announcement, known bool, err error) {
	key := admin.NormaliseReference(wanted.Reference)
	before, err = readAnnouncement(tx.QueryRow(`
		SELECT `+announcementColumns+` FROM `+announcementTables+`
		 WHERE a.reference_key = $1 AND a.state <> 'rejected' AND a.state <> 'withdrawn'`, key))
	if errors.Is(err, sql.ErrNoRows) {
		before, err = readAnnouncement(tx.QueryRow(`
			SELECT `+announcementColumns+` FROM `+announcementTables+`
			 WHERE a.bank_key = $1 AND a.bank_key IS NOT NULL LIMIT 1`, key))
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return before, false, fmt.Errorf("look for an announcement of the payment: %w", err)
	case before.OperatorID == wanted.OperatorID && before.Amount == wanted.Amount && before.Open():
		return before, true, nil
	case before.State == admin.Credited:
		return before, false, admin.RefuseCredited(wanted.Reference)
	default:
		return before, false, admin.RefuseAnnounced(wanted.Reference)
	}
	var credited, codes int
	err = tx.QueryRow(`
		SELECT (SELECT count(*) FROM credited_references WHERE way = 'topup' AND normalised = $1),
		       (SELECT count(*) FROM payment_announcements WHERE code = $2)`, key, wanted.Code).Scan(&credited, &codes)
	switch {
	case err != nil:
		return before, false, fmt.Errorf("look up the reference of the payment: %w", err)
	case credited > 0:
		return before, false, admin.RefuseCredited(wanted.Reference)
	case codes > 0:
		return before, false, admin.ErrCodeTaken
	}
	return before, false, nil
}

// CloseAnnouncement rejects or withdraws an announcement. Its bank lines have none then.
func (db *Store) CloseAnnouncement(ctx context.Context, action admin.StaffAction, id int64, as admin.AnnouncementState) (admin.Announcement, error) {
	var closed admin.Announcement
	err := db.engine.Write(ctx, func(tx Tx) error {
		before, err := announcementByID(tx, id)
		if err != nil {
			return err
		}
		// Top-ups and proposals of the operator wait.
		operator, err := lockOperator(tx, before.OperatorID)
		if err != nil {
			return err
		}
		if action.OperatorScope != 0 && operator.Status != subscription.OperatorActive {
			return admin.RefuseSuspended(operator.ID)
		}
		if before, err = announcementByID(tx, id); err != nil {
			return err
		}
		if before = before.AsOf(action.At); !before.Open() {
			return admin.RefuseDecided(before)
		}
		_, err = tx.Exec(`
			UPDATE payment_announcements SET state = $2, decided_by = $3, decided_at = $4, answer = $5, bank_reference = NULL, bank_key = NULL WHERE id = $1`,
			id, as, action.Actor, action.At.UnixMilli(), action.Reason)
		if err != nil {
			return fmt.Errorf("close announcement %d: %w", id, err)
		}
		if _, err := tx.Exec(`UPDATE bank_lines SET announcement_id = NULL WHERE announcement_id = $1`, id); err != nil {
			return fmt.Errorf("free the lines of announcement %d: %w", id, err)
		}
		if closed, err = announcementByID(tx, id); err != nil {
			return err
		}
		return logAction(tx, action, closed.OperatorID, closed.Subject(), admin.AnnouncementStateOf(before), admin.AnnouncementStateOf(closed))
	})
	return closed, err
}

// announcedPayment is an open announcement of a payment that is to be credited.
type announcedPayment struct {
	id   int64
	code string
	// other is the payment's other reference: that of the announcement's bank line, or, where
	// it is credited under that one, the operator's. Empty if there is none.
	other string
}

// announcementOf finds the operator's open announcement of a payment; its id is zero if there is
// none. The operator's row is locked: nothing is matched or announced meanwhile.
func announcementOf(tx Tx, operatorID int64, reference string) (found announcedPayment, err error) {
	key := admin.NormaliseReference(reference)
	err = tx.QueryRow(`
		SELECT a.id, a.code, CASE WHEN a.reference_key <> $2 THEN a.reference WHEN a.bank_key <> $2 THEN a.bank_reference ELSE '' END
		  FROM payment_announcements a
		 WHERE a.operator_id = $1 AND a.decided_at IS NULL AND (a.reference_key = $2 OR a.bank_key = $2) LIMIT 1`,
		operatorID, key).Scan(&found.id, &found.code, &found.other)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return found, fmt.Errorf("look for an announcement of %s: %w", reference, err)
	}
	return found, nil
}

// creditAnnouncement closes the announcement of a payment that is being credited. The wallet's
// last entry is the credit.
func creditAnnouncement(tx Tx, action admin.StaffAction, paid admin.TopUp, announced announcedPayment) error {
	if announced.id == 0 {
		return nil
	}
	_, err := tx.Exec(`
		UPDATE payment_announcements
		   SET state = 'credited', decided_by = $3, decided_at = $4, credited_paise = $5,
		       credited_seq = (SELECT w.entries FROM wallets w WHERE w.operator_id = $2)
		 WHERE id = $1`,
		announced.id, paid.OperatorID, action.Actor, action.At.UnixMilli(), paid.Amount.Paise())
	if err != nil {
		return fmt.Errorf("close the announcement of %s: %w", paid.Reference, err)
	}
	return nil
}

func announcementByID(from Querier, id int64) (admin.Announcement, error) {
	a, err := readAnnouncement(from.QueryRow(`SELECT `+announcementColumns+` FROM `+announcementTables+` WHERE a.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return a, admin.RefuseNoAnnouncement(id)
	}
	if err != nil {
		return a, fmt.Errorf("read announced payment %d: %w", id, err)
	}
	return a, nil
}

// Announcement reads one announced payment.
func (db *Store) Announcement(ctx context.Context, id int64) (admin.Announcement, error) {
	return announcementByID(db.engine.Read(ctx), id)
}

// Announcements reads announced payments, newest first.
func (db *Store) Announcements(ctx context.Context, filter admin.AnnouncementFilter) ([]admin.Announcement, error) {
	which, args := ``, []any{filter.Limit}
	with := func(condition string, arg any) {
		args = append(args, arg)
		which += fmt.Sprintf(condition, len(args))
	}
	if filter.OperatorID != 0 {
		with(` AND a.operator_id = $%d`, filter.OperatorID)
	}
	if filter.Before != 0 {
		with(` AND a.id < $%d`, filter.Before)
	}
	if filter.Open {
		which += ` AND a.decided_at IS NULL`
	}
	return page(ctx, db, statement{`
		SELECT ` + announcementColumns + ` FROM ` + announcementTables + `
		 WHERE a.id > 0` + which + ` ORDER BY a.id DESC LIMIT $1`, args}, readAnnouncement)
}

// OpenAnnouncements counts and adds up the open announcements.
func (db *Store) OpenAnnouncements(ctx context.Context, operatorID int64) (count int, sum money.Amount, err error) {
	return openAnnouncements(db.engine.Read(ctx), operatorID)
}

func openAnnouncements(from RowQuerier, operatorID int64) (count int, sum money.Amount, err error) {
	query, args := `SELECT count(*), coalesce(sum(amount_paise), 0)::bigint FROM payment_announcements WHERE decided_at IS NULL`, []any{}
	if operatorID != 0 {
		query, args = query+` AND operator_id = $1`, append(args, operatorID)
	}
	var paise int64
	if err := from.QueryRow(query, args...).Scan(&count, &paise); err != nil {
		return 0, money.Amount{}, fmt.Errorf("add up the announced payments: %w", err)
	}
	return count, money.Paise(paise), nil
}
