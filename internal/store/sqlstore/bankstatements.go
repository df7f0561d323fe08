package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
)

// lineChunk is how many bank lines share a commit. Larger commits would delay requests on
// SQLite.
const lineChunk = 200

const statementColumns = `id, file_name, actor, uploaded_at, credits, known, debits, skipped, columns`

func readStatement(row Row) (s admin.BankStatement, err error) {
	var at sql.NullInt64
	err = row.Scan(&s.ID, &s.FileName, &s.Actor, &at, &s.Credits, &s.Known, &s.Debits, &s.Skipped, &s.Columns)
	s.At = Time(at)
	return s, err
}

// ImportStatement stores a statement in several commits. If it is interrupted, uploading the
// file again stores the rest.
func (db *Store) ImportStatement(
	ctx context.Context, action admin.StaffAction, statement admin.BankStatement, header string, lines []admin.BankLine, removeBefore time.Time,
) (stored admin.BankStatement, known bool, err error) {
	first, uploaded, err := db.uploadedLines(ctx, lines)
	if err != nil {
		return stored, false, err
	}
	if len(uploaded) == len(lines) {
		stored, err = db.BankStatement(ctx, first)
		return stored, true, err
	}
	lines = slices.DeleteFunc(slices.Clone(lines), func(line admin.BankLine) bool { return uploaded[line.Key] })
	err = db.engine.Write(ctx, func(tx Tx) error {
		stored = statement
		err := tx.QueryRow(`
			INSERT INTO bank_statements (file_name, actor, uploaded_at, credits, known, debits, skipped, columns)
			VALUES ($1, $2, $3, 0, $4, $5, $6, $7) RETURNING id`,
			statement.FileName, statement.Actor, action.At.UnixMilli(), len(uploaded), statement.Debits, statement.Skipped, statement.Columns).Scan(&stored.ID)
		if err != nil {
			return fmt.Errorf("save the bank statement: %w", err)
		}
		_, err = tx.Exec(`
			INSERT INTO bank_columns (header, columns, actor, saved_at) VALUES ($1, $2, $3, $4)
			    ON CONFLICT (header) DO UPDATE SET columns = excluded.columns, actor = excluded.actor, saved_at = excluded.saved_at`,
			header, statement.Columns, action.Actor, action.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("save the columns of the bank statement: %w", err)
		}
		return logAction(tx, action, 0, fmt.Sprintf("bank statement %d", stored.ID), nil, map[string]any{"file": stored.FileName, "credits": len(lines)})
	})
	if err != nil {
		return stored, false, err
	}
	for chunk := range slices.Chunk(lines, lineChunk) {
		if err := db.engine.Write(ctx, func(tx Tx) error { return insertLines(tx, stored.ID, chunk) }); err != nil {
			return stored, false, err
		}
	}
	if err := db.removeOldLines(ctx, removeBefore); err != nil {
		return stored, false, err
	}
	stored, err = db.BankStatement(ctx, stored.ID)
	return stored, false, err
}

// insertLines stores lines and counts them. A line that another upload has stored meanwhile
// counts as known.
func insertLines(tx Tx, statement int64, lines []admin.BankLine) error {
	inserted := int64(0)
	for _, line := range lines {
		n, err := tx.Exec(`
			INSERT INTO bank_lines (statement_id, number, paid_on, amount_paise, narration, reference, reference_key, line_key)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			statement, line.Number, dayText(line.PaidOn), line.Amount.Paise(), line.Narration, line.Reference, admin.NormaliseReference(line.Reference), line.Key)
		if err != nil {
			return fmt.Errorf("save line %d of the bank statement: %w", line.Number, err)
		}
		inserted += n
	}
	_, err := tx.Exec(`UPDATE bank_statements SET credits = credits + $2, known = known + $3 WHERE id = $1`, statement, inserted, int64(len(lines))-inserted)
	if err != nil {
		return fmt.Errorf("count the lines of the bank statement: %w", err)
	}
	return nil
}

// uploadedLines returns which of the lines are stored, by their keys, and the first statement
// that has one.
func (db *Store) uploadedLines(ctx context.Context, lines []admin.BankLine) (first int64, uploaded map[string]bool, err error) {
	uploaded = map[string]bool{}
	for chunk := range slices.Chunk(lines, lineChunk) {
		keys := make([]string, len(chunk))
		for i, line := range chunk {
			keys[i] = line.Key
		}
		rows, err := db.engine.Read(ctx).Query(`SELECT statement_id, line_key FROM bank_lines WHERE line_key = ANY ($1::text[])`, keys)
		_, err = Collect(rows, err, func(row Row) (struct{}, error) {
			var id int64
			var key string
			err := row.Scan(&id, &key)
			uploaded[key] = true
			if first == 0 || id < first {
				first = id
			}
			return struct{}{}, err
		})
		if err != nil {
			return 0, nil, fmt.Errorf("look for lines that were uploaded before: %w", err)
		}
	}
	return first, uploaded, nil
}

// removeOldLines removes lines without an announcement from before a day, so many at once that
// no request waits long.
func (db *Store) removeOldLines(ctx context.Context, before time.Time) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		rows, err := tx.Query(`SELECT line_key FROM bank_lines WHERE announcement_id IS NULL AND paid_on < $1 ORDER BY paid_on LIMIT 1000`, dayText(before))
		keys, err := Collect(rows, err, func(row Row) (key string, err error) {
			err = row.Scan(&key)
			return key, err
		})
		if err != nil {
			return fmt.Errorf("look for old bank lines: %w", err)
		}
		for _, key := range keys {
			if _, err := tx.Exec(`DELETE FROM bank_lines WHERE line_key = $1 AND coalesce(announcement_id, 0) = 0`, key); err != nil {
				return fmt.Errorf("remove an old bank line: %w", err)
			}
		}
		return nil
	})
}

// MatchLines records the announcements of lines. A line or an announcement that has another
// one meanwhile is left as it is, and so is a line whose reference another announcement has,
// or another one's line.
func (db *Store) MatchLines(ctx context.Context, matches []admin.Match) error {
	for chunk := range slices.Chunk(matches, lineChunk) {
		if err := db.engine.Write(ctx, func(tx Tx) error { return matchLines(tx, chunk) }); err != nil {
			return err
		}
	}
	return nil
}

func matchLines(tx Tx, matches []admin.Match) error {
	// Top-ups, proposals and announcements of the operators wait: each sees the line of an
	// announcement that it closes.
	if err := lockAnnouncers(tx, matches); err != nil {
		return err
	}
	for _, m := range matches {
		linked, err := tx.Exec(`
			UPDATE bank_lines SET announcement_id = $3
			 WHERE statement_id = $1 AND number = $2 AND coalesce(announcement_id, 0) = 0
			   AND EXISTS (SELECT 1 FROM payment_announcements a WHERE a.id = $3 AND a.state = 'announced')
			   AND NOT EXISTS (SELECT 1 FROM payment_announcements o
			                    WHERE o.reference_key = bank_lines.reference_key AND o.id <> $3 AND o.state <> 'rejected' AND o.state <> 'withdrawn')
			   AND NOT EXISTS (SELECT 1 FROM payment_announcements o WHERE o.bank_key = bank_lines.reference_key AND o.bank_key IS NOT NULL)`,
			m.Statement, m.Number, m.Announcement)
		if err != nil {
			return fmt.Errorf("match line %d of bank statement %d: %w", m.Number, m.Statement, err)
		}
		if linked == 0 {
			continue
		}
		_, err = tx.Exec(`
			UPDATE payment_announcements
			   SET state = 'matched', bank_reference = (SELECT l.reference FROM bank_lines l WHERE l.statement_id = $2 AND l.number = $3),
			       bank_key = (SELECT l.reference_key FROM bank_lines l WHERE l.statement_id = $2 AND l.number = $3)
			 WHERE id = $1`, m.Announcement, m.Statement, m.Number)
		if err != nil {
			return fmt.Errorf("match announcement %d: %w", m.Announcement, err)
		}
	}
	return nil
}

// lockAnnouncers locks the operators of announcements, in the order of their ids.
func lockAnnouncers(tx Tx, matches []admin.Match) error {
	var operators []int64
	for _, m := range matches {
		var id int64
		err := tx.QueryRow(`SELECT operator_id FROM payment_announcements WHERE id = $1`, m.Announcement).Scan(&id)
		if err != nil {
			return fmt.Errorf("read the operator of announcement %d: %w", m.Announcement, err)
		}
		operators = append(operators, id)
	}
	slices.Sort(operators)
	for _, id := range slices.Compact(operators) {
		if _, err := lockOperator(tx, id); err != nil {
			return err
		}
	}
	return nil
}

const lineColumns = `l.statement_id, l.number, l.paid_on, l.amount_paise, l.narration, l.reference, l.line_key`

func lineFields(l *admin.BankLine) (into []any, done func() error) {
	var paise int64
	var paidOn string
	return []any{&l.Statement, &l.Number, &paidOn, &paise, &l.Narration, &l.Reference, &l.Key}, func() (err error) {
		l.Amount = money.Paise(paise)
		l.PaidOn, err = readDay(paidOn)
		return err
	}
}

// UnmatchedLines reads the newest lines without an announcement.
func (db *Store) UnmatchedLines(ctx context.Context, limit int) ([]admin.BankLine, error) {
	stmt := statement{`
		SELECT ` + lineColumns + `,
		       coalesce((SELECT r.operator_id FROM credited_references r WHERE r.way = 'topup' AND r.normalised = l.reference_key AND r.copy = 0), 0)
		  FROM bank_lines l WHERE l.announcement_id IS NULL ORDER BY l.paid_on DESC LIMIT $1`, []any{limit}}
	return page(ctx, db, stmt, func(row Row) (l admin.BankLine, err error) {
		into, done := lineFields(&l)
		if err := row.Scan(append(into, &l.CreditedTo)...); err != nil {
			return l, err
		}
		return l, done()
	})
}

// BankLines reads the lines of a statement, with what became of them.
func (db *Store) BankLines(ctx context.Context, statement int64) ([]admin.BankLine, error) {
	return db.linesWhere(ctx, `l.statement_id = $1`, statement)
}

// LinesOfAnnouncement reads the lines of an announcement.
func (db *Store) LinesOfAnnouncement(ctx context.Context, announcement int64) ([]admin.BankLine, error) {
	return db.linesWhere(ctx, `l.announcement_id = $1`, announcement)
}

// linesWhere reads the lines that a condition, a literal of this file, selects.
func (db *Store) linesWhere(ctx context.Context, condition string, id int64) ([]admin.BankLine, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+lineColumns+`, l.announcement_id, coalesce(e.operator_id, 0), coalesce(e.amount_paise, 0), coalesce(e.reference, ''), e.created_at, coalesce(q.id, 0), q.made_at
		  FROM bank_lines l
		  LEFT JOIN payment_announcements a ON a.id = l.announcement_id
		  LEFT JOIN credited_references ra ON ra.way = 'topup' AND ra.normalised = a.reference_key AND ra.copy = 0
		  LEFT JOIN credited_references rl ON rl.way = 'topup' AND rl.normalised = l.reference_key AND rl.copy = 0
		  LEFT JOIN wallet_entries e ON e.operator_id = coalesce(rl.operator_id, ra.operator_id) AND e.seq = coalesce(rl.seq, ra.seq)
		  LEFT JOIN proposals q ON q.reference_key = l.reference_key AND q.status = 'open' AND q.reference_key IS NOT NULL
		 WHERE `+condition+` ORDER BY l.statement_id, l.number`, id)
	lines, err := Collect(rows, err, func(row Row) (l admin.BankLine, err error) {
		into, done := lineFields(&l)
		var announcement, credited, proposed sql.NullInt64
		var paise int64
		if err := row.Scan(append(into, &announcement, &l.CreditedTo, &paise, &l.CreditedUnder, &credited, &l.Proposal, &proposed)...); err != nil {
			return l, err
		}
		l.Announcement.ID, l.CreditedAs, l.CreditedAt, l.ProposedAt = announcement.Int64, money.Paise(paise), Time(credited), Time(proposed)
		return l, done()
	})
	if err != nil {
		return nil, fmt.Errorf("read bank lines: %w", err)
	}
	return lines, db.fillAnnouncements(ctx, lines)
}

// fillAnnouncements reads the announcements that lines name by their ids.
func (db *Store) fillAnnouncements(ctx context.Context, lines []admin.BankLine) error {
	var ids []int64
	for _, line := range lines {
		if line.Announcement.ID != 0 {
			ids = append(ids, line.Announcement.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	byID, err := db.announcementsByID(ctx, ids)
	if err != nil {
		return fmt.Errorf("read the announcements of bank lines: %w", err)
	}
	for i := range lines {
		lines[i].Announcement = byID[lines[i].Announcement.ID]
	}
	return nil
}

func (db *Store) announcementsByID(ctx context.Context, ids []int64) (map[int64]admin.Announcement, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT `+announcementColumns+` FROM `+announcementTables+` WHERE a.id = ANY ($1::bigint[])`, ids)
	found, err := Collect(rows, err, readAnnouncement)
	byID := map[int64]admin.Announcement{}
	for _, a := range found {
		byID[a.ID] = a
	}
	return byID, err
}

// BankStatement reads one statement.
func (db *Store) BankStatement(ctx context.Context, id int64) (admin.BankStatement, error) {
	s, err := readStatement(db.engine.Read(ctx).QueryRow(`SELECT `+statementColumns+` FROM bank_statements WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return s, admin.Refuse("there is no bank statement %d", id)
	}
	if err != nil {
		return s, fmt.Errorf("read bank statement %d: %w", id, err)
	}
	return s, nil
}

// BankStatements reads the latest statements, newest first.
func (db *Store) BankStatements(ctx context.Context, limit int) ([]admin.BankStatement, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT `+statementColumns+` FROM bank_statements ORDER BY id DESC LIMIT $1`, limit)
	return Collect(rows, err, readStatement)
}

// BankColumns reads the columns that were chosen for a header; empty if none were.
func (db *Store) BankColumns(ctx context.Context, header string) (columns string, err error) {
	err = db.engine.Read(ctx).QueryRow(`SELECT columns FROM bank_columns WHERE header = $1`, header).Scan(&columns)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the columns of a bank statement: %w", err)
	}
	return columns, nil
}
