package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

var _ login.Store = (*DB)(nil)

// AccountByUsername reads whoever has a username.
func (db *DB) AccountByUsername(ctx context.Context, username string) (login.Account, bool, error) {
	account, err := readAccount(db.askRow(ctx).queryRow(`SELECT `+accountColumns+` FROM`+accountTables+`WHERE p.username = ?1`, username))
	if errors.Is(err, sql.ErrNoRows) {
		return login.Account{}, false, nil
	}
	return account, err == nil, err
}

const sessionColumns = `s.id, s.created_at, s.seen_at, s.stepped_up_at, s.code_given, s.address, s.agent, `

func readSession(row scanner) (login.Record, error) {
	var s login.Record
	var r accountRow
	var created, seen, steppedUp sql.NullInt64
	var address string
	err := row.Scan(append([]any{&s.ID, &created, &seen, &steppedUp, &s.CodeVerified, &address, &s.Agent}, r.places()...)...)
	s.CreatedAt, s.SeenAt, s.SteppedUpAt, s.Account = moment(created), moment(seen), moment(steppedUp), r.account()
	if address != "" && err == nil {
		s.Address, err = netip.ParseAddr(address)
	}
	return s, err
}

// OpenSession begins a session. The account's own row says first whether it is still
// the one that was looked at.
func (db *DB) OpenSession(ctx context.Context, o login.NewSession) error {
	s := o.Record
	return db.writer.do(ctx, func(tx *tx) error {
		var signedIn time.Time
		if !s.Account.SecondFactor() {
			signedIn = s.CreatedAt
		}
		changed, err := tx.exec(`
			UPDATE logins
			   SET last_sign_in = coalesce(?3, last_sign_in), password_hash = CASE WHEN ?4 = '' THEN password_hash ELSE ?4 END
			 WHERE id = ?1 AND version = ?2 AND disabled = 0`, s.Account.ID, s.Account.Version, millis(signedIn), o.RenewedHash)
		if err != nil {
			return fmt.Errorf("note a sign-in: %w", err)
		}
		if changed == 0 {
			return login.ErrChanged
		}
		_, err = tx.exec(`
			INSERT INTO login_sessions (id, token_hash, login_id, created_at, seen_at, stepped_up_at, code_given, address, agent)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`,
			s.ID, o.Token[:], s.Account.ID, s.CreatedAt.UnixMilli(), s.SeenAt.UnixMilli(), millis(s.SteppedUpAt), s.CodeVerified, addressText(s.Address), s.Agent)
		if err != nil {
			return fmt.Errorf("add the session: %w", err)
		}
		return nil
	})
}

// addressText is empty for an address that is not known.
func addressText(address netip.Addr) string {
	if !address.IsValid() {
		return ""
	}
	return address.String()
}

// SessionByToken reads a session and its person.
func (db *DB) SessionByToken(ctx context.Context, token login.TokenHash) (login.Record, bool, error) {
	record, err := readSession(db.askRow(ctx).queryRow(`
		SELECT `+sessionColumns+accountColumns+`
		  FROM login_sessions s JOIN logins p ON p.id = s.login_id LEFT JOIN operators o ON o.id = p.operator_id
		 WHERE s.token_hash = ?1`, token[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return login.Record{}, false, nil
	}
	return record, err == nil, err
}

// TouchSession notes that a session is in use. Of two that say so the later wins.
func (db *DB) TouchSession(ctx context.Context, token login.TokenHash, at time.Time) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`UPDATE login_sessions SET seen_at = ?2 WHERE token_hash = ?1 AND seen_at < ?2`, token[:], at.UnixMilli())
		return err
	})
}

// UpgradeSession uses a proof up and gives the session another token.
func (db *DB) UpgradeSession(ctx context.Context, rise login.SessionUpgrade) error {
	return db.writer.do(ctx, func(tx *tx) error {
		if err := spend(tx, rise); err != nil {
			return err
		}
		err := replaceToken(tx, rise.PersonID, rise.Old, rise.New, rise.SteppedUpAt, rise.Proof.Present())
		if err != nil || rise.Begins == nil {
			return err
		}
		return keepChallenge(tx, *rise.Begins)
	})
}

// spend uses a code up. That it was not used before is in the WHERE clause, not read
// first: of two who show the same one, one is told that it is spent.
func spend(tx *tx, rise login.SessionUpgrade) error {
	var signedIn time.Time
	if rise.SigningIn {
		signedIn = rise.SteppedUpAt
	}
	changed, err := tx.exec(`
		UPDATE logins SET last_sign_in = coalesce(?3, last_sign_in) WHERE id = ?1 AND version = ?2 AND disabled = 0`,
		rise.PersonID, rise.Version, millis(signedIn))
	if err != nil {
		return fmt.Errorf("note a proof: %w", err)
	}
	if changed == 0 {
		return login.ErrChanged
	}
	switch {
	case rise.Proof.Passkey != nil:
		changed, err = spendPasskey(tx, rise.PersonID, *rise.Proof.Passkey, rise.SteppedUpAt)
	case rise.Proof.Recovery != nil:
		changed, err = tx.exec(`
			UPDATE login_recovery_codes SET used_at = ?3 WHERE login_id = ?1 AND code_hash = ?2 AND used_at IS NULL`,
			rise.PersonID, rise.Proof.Recovery, rise.SteppedUpAt.UnixMilli())
	case rise.Proof.Step != 0:
		changed, err = tx.exec(`UPDATE logins SET totp_step = ?2 WHERE id = ?1 AND totp_step < ?2`, rise.PersonID, rise.Proof.Step)
	}
	if err != nil {
		return fmt.Errorf("use a code up: %w", err)
	}
	if changed == 0 {
		return login.ErrUsed
	}
	return nil
}

// replaceToken gives a session that is still there another token.
func replaceToken(tx *tx, personID int64, old, fresh login.TokenHash, steppedUp time.Time, codeGiven bool) error {
	changed, err := tx.exec(`
		UPDATE login_sessions SET token_hash = ?3, stepped_up_at = ?4, code_given = max(code_given, ?5)
		 WHERE token_hash = ?2 AND login_id = ?1`, personID, old[:], fresh[:], millis(steppedUp), codeGiven)
	if err != nil {
		return fmt.Errorf("replace a session's token: %w", err)
	}
	if changed == 0 {
		return login.ErrChanged
	}
	return nil
}

// CloseSession ends a session.
func (db *DB) CloseSession(ctx context.Context, token login.TokenHash) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`DELETE FROM login_sessions WHERE token_hash = ?1`, token[:])
		return err
	})
}

func closeSessions(tx *tx, personID int64) error {
	if _, err := tx.exec(`DELETE FROM login_sessions WHERE login_id = ?1`, personID); err != nil {
		return fmt.Errorf("end the sessions of login %d: %w", personID, err)
	}
	return nil
}

// closeOthers ends a person's sessions but for one.
func closeOthers(tx *tx, personID int64, but login.TokenHash) error {
	if _, err := tx.exec(`DELETE FROM login_sessions WHERE login_id = ?1 AND token_hash <> ?2`, personID, but[:]); err != nil {
		return fmt.Errorf("end the other sessions of login %d: %w", personID, err)
	}
	return nil
}

// ownLogin makes a change that somebody makes to their own login, with its row in the
// log of acts, unless the login has moved since they were asked to prove themselves.
func (db *DB) ownLogin(ctx context.Context, deed login.OwnAction, personID, version int64, change func(*tx) error) error {
	return db.writer.do(ctx, func(tx *tx) error {
		before, err := accountByID(tx, personID)
		if err != nil {
			return err
		}
		if before.Version != version || before.Disabled {
			return login.ErrChanged
		}
		if err := change(tx); err != nil {
			return err
		}
		after, err := accountByID(tx, personID)
		if err != nil {
			return err
		}
		return logLogin(tx, admin.StaffAction{Actor: deed.Actor, Action: deed.Action, At: deed.At}, &before, after)
	})
}

// ChangePassword replaces a password, and ends every session but the one that it was
// done in.
func (db *DB) ChangePassword(ctx context.Context, deed login.OwnAction, c login.PasswordChange) error {
	return db.ownLogin(ctx, deed, c.PersonID, c.Version, func(tx *tx) error {
		err := changeLogin(tx, c.PersonID, `password_hash = ?2, password_changed_at = ?3, must_change_password = 0, browser_epoch = browser_epoch + 1`, c.Hash, deed.At.UnixMilli())
		if err != nil {
			return err
		}
		if err := replaceToken(tx, c.PersonID, c.Old, c.New, c.SteppedUpAt, false); err != nil {
			return err
		}
		return closeOthers(tx, c.PersonID, c.New)
	})
}

// SetLanguage chooses what the pages speak to somebody.
func (db *DB) SetLanguage(ctx context.Context, personID int64, language string) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`UPDATE logins SET language = ?2 WHERE id = ?1`, personID, language)
		return err
	})
}

// SessionsOf lists a person's sessions, the last used first.
func (db *DB) SessionsOf(ctx context.Context, personID int64) ([]login.Record, error) {
	rows, err := db.read(ctx).query(`
		SELECT `+sessionColumns+accountColumns+`
		  FROM login_sessions s JOIN logins p ON p.id = s.login_id LEFT JOIN operators o ON o.id = p.operator_id
		 WHERE s.login_id = ?1 ORDER BY s.seen_at DESC`, personID)
	return collect(rows, err, readSession)
}

// CloseSessionOf ends a session by its public name, if it is that person's.
func (db *DB) CloseSessionOf(ctx context.Context, personID int64, id string) error {
	return db.writer.do(ctx, func(tx *tx) error {
		_, err := tx.exec(`DELETE FROM login_sessions WHERE id = ?2 AND login_id = ?1`, personID, id)
		return err
	})
}

// PurgeSessions removes some of those that nobody has used for long.
func (db *DB) PurgeSessions(ctx context.Context, seenBefore time.Time, most int) (removed int, err error) {
	err = db.writer.do(ctx, func(tx *tx) error {
		changed, err := tx.exec(`
			DELETE FROM login_sessions
			 WHERE id IN (SELECT id FROM login_sessions WHERE seen_at <= ?1 ORDER BY seen_at LIMIT ?2)`, seenBefore.UnixMilli(), most)
		removed = int(changed)
		return err
	})
	return removed, err
}

// RecoveryCodesLeft counts a person's recovery codes that were not used.
func (db *DB) RecoveryCodesLeft(ctx context.Context, personID int64) (left int, err error) {
	err = db.read(ctx).queryRow(`SELECT count(*) FROM login_recovery_codes WHERE login_id = ?1 AND used_at IS NULL`, personID).Scan(&left)
	return left, err
}
