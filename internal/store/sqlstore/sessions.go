package sqlstore

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

// AccountByUsername reads the account of a username.
func (db *Store) AccountByUsername(ctx context.Context, username string) (login.Account, bool, error) {
	account, err := readAccount(db.engine.Lookup(ctx).QueryRow(`SELECT `+accountColumns+` FROM`+accountTables+`WHERE p.username = $1`, username))
	if errors.Is(err, sql.ErrNoRows) {
		return login.Account{}, false, nil
	}
	return account, err == nil, err
}

const sessionColumns = `s.id, s.created_at, s.seen_at, s.stepped_up_at, s.code_given = 1, s.address, s.agent, `

func readSession(row Row) (login.Record, error) {
	var s login.Record
	var r accountRow
	var created, seen, steppedUp sql.NullInt64
	var address string
	err := row.Scan(append([]any{&s.ID, &created, &seen, &steppedUp, &s.CodeVerified, &address, &s.Agent}, r.targets()...)...)
	s.CreatedAt, s.SeenAt, s.SteppedUpAt, s.Account = Time(created), Time(seen), Time(steppedUp), r.account()
	if address != "" && err == nil {
		s.Address, err = netip.ParseAddr(address)
	}
	return s, err
}

// OpenSession begins a session, if the account has not changed since it was read.
func (db *Store) OpenSession(ctx context.Context, o login.NewSession) error {
	s := o.Record
	return db.engine.Write(ctx, func(tx Tx) error {
		var signedIn time.Time
		if !s.Account.SecondFactor() {
			signedIn = s.CreatedAt
		}
		changed, err := tx.Exec(`
			UPDATE logins
			   SET last_sign_in = coalesce($3::bigint, last_sign_in), password_hash = CASE WHEN $4::text = '' THEN password_hash ELSE $4 END
			 WHERE id = $1 AND version = $2 AND disabled = 0`, s.Account.ID, s.Account.Version, Millis(signedIn), o.RenewedHash)
		if err != nil {
			return fmt.Errorf("record a sign-in: %w", err)
		}
		if changed == 0 {
			return login.ErrChanged
		}
		_, err = tx.Exec(`
			INSERT INTO login_sessions (id, token_hash, login_id, created_at, seen_at, stepped_up_at, code_given, address, agent)
			VALUES ($1, $2, $3, $4, $5, $6, $7::boolean::int, $8, $9)`,
			s.ID, o.Token[:], s.Account.ID, s.CreatedAt.UnixMilli(), s.SeenAt.UnixMilli(), Millis(s.SteppedUpAt), s.CodeVerified, addressText(s.Address), s.Agent)
		if err != nil {
			return fmt.Errorf("add the session: %w", err)
		}
		return nil
	})
}

// addressText returns an empty string for an unknown address.
func addressText(address netip.Addr) string {
	if !address.IsValid() {
		return ""
	}
	return address.String()
}

// SessionByToken reads a session and its person.
func (db *Store) SessionByToken(ctx context.Context, token login.TokenHash) (login.Record, bool, error) {
	record, err := readSession(db.engine.Lookup(ctx).QueryRow(`
		SELECT `+sessionColumns+accountColumns+`
		  FROM login_sessions s JOIN logins p ON p.id = s.login_id LEFT JOIN operators o ON o.id = p.operator_id
		 WHERE s.token_hash = $1`, token[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return login.Record{}, false, nil
	}
	return record, err == nil, err
}

// TouchSession records that a session is in use. The later of two times wins.
func (db *Store) TouchSession(ctx context.Context, token login.TokenHash, at time.Time) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE login_sessions SET seen_at = $2 WHERE token_hash = $1 AND seen_at < $2`, token[:], at.UnixMilli())
		return err
	})
}

// UpgradeSession uses up a proof and gives the session another token.
func (db *Store) UpgradeSession(ctx context.Context, upgrade login.SessionUpgrade) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		if err := spend(tx, upgrade); err != nil {
			return err
		}
		err := replaceToken(tx, upgrade.PersonID, upgrade.Old, upgrade.New, upgrade.SteppedUpAt, upgrade.Proof.Present())
		if err != nil || upgrade.Begins == nil {
			return err
		}
		return saveChallenge(tx, *upgrade.Begins)
	})
}

// spend uses up a code. The WHERE clause checks that it was not used before, instead of an
// earlier read: of two requests with the same code, one gets login.ErrUsed.
func spend(tx Tx, upgrade login.SessionUpgrade) error {
	var signedIn time.Time
	if upgrade.SigningIn {
		signedIn = upgrade.SteppedUpAt
	}
	changed, err := tx.Exec(`
		UPDATE logins SET last_sign_in = coalesce($3::bigint, last_sign_in) WHERE id = $1 AND version = $2 AND disabled = 0`,
		upgrade.PersonID, upgrade.Version, Millis(signedIn))
	if err != nil {
		return fmt.Errorf("record a proof: %w", err)
	}
	if changed == 0 {
		return login.ErrChanged
	}
	switch {
	case upgrade.Proof.Passkey != nil:
		changed, err = spendPasskey(tx, upgrade.PersonID, *upgrade.Proof.Passkey, upgrade.SteppedUpAt)
	case upgrade.Proof.Recovery != nil:
		changed, err = tx.Exec(`
			UPDATE login_recovery_codes SET used_at = $3 WHERE login_id = $1 AND code_hash = $2 AND used_at IS NULL`,
			upgrade.PersonID, upgrade.Proof.Recovery, upgrade.SteppedUpAt.UnixMilli())
	case upgrade.Proof.Step != 0:
		changed, err = tx.Exec(`UPDATE logins SET totp_step = $2 WHERE id = $1 AND totp_step < $2`, upgrade.PersonID, upgrade.Proof.Step)
	}
	if err != nil {
		return fmt.Errorf("use up a code: %w", err)
	}
	if changed == 0 {
		return login.ErrUsed
	}
	return nil
}

// replaceToken gives an existing session another token.
func replaceToken(tx Tx, personID int64, old, fresh login.TokenHash, steppedUp time.Time, codeGiven bool) error {
	changed, err := tx.Exec(`
		UPDATE login_sessions SET token_hash = $3, stepped_up_at = $4, code_given = greatest(code_given, $5::boolean::int)
		 WHERE token_hash = $2 AND login_id = $1`, personID, old[:], fresh[:], Millis(steppedUp), codeGiven)
	if err != nil {
		return fmt.Errorf("replace a session's token: %w", err)
	}
	if changed == 0 {
		return login.ErrChanged
	}
	return nil
}

// CloseSession ends a session.
func (db *Store) CloseSession(ctx context.Context, token login.TokenHash) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`DELETE FROM login_sessions WHERE token_hash = $1`, token[:])
		return err
	})
}

func closeSessions(tx Tx, personID int64) error {
	if _, err := tx.Exec(`DELETE FROM login_sessions WHERE login_id = $1`, personID); err != nil {
		return fmt.Errorf("end the sessions of login %d: %w", personID, err)
	}
	return nil
}

// closeOthers ends a person's sessions except one.
func closeOthers(tx Tx, personID int64, kept login.TokenHash) error {
	if _, err := tx.Exec(`DELETE FROM login_sessions WHERE login_id = $1 AND token_hash <> $2`, personID, kept[:]); err != nil {
		return fmt.Errorf("end the other sessions of login %d: %w", personID, err)
	}
	return nil
}

// ownLogin makes a change of a person's own login, with its audit entry, unless the login
// has changed since the person proved who they are.
func (db *Store) ownLogin(ctx context.Context, own login.OwnAction, personID, version int64, change func(Tx) error) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		before, err := lockAccount(tx, personID)
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
		return logLogin(tx, admin.StaffAction{Actor: own.Actor, Action: own.Action, At: own.At}, &before, after)
	})
}

// ChangePassword replaces a password, and ends all other sessions of the person.
func (db *Store) ChangePassword(ctx context.Context, own login.OwnAction, c login.PasswordChange) error {
	return db.ownLogin(ctx, own, c.PersonID, c.Version, func(tx Tx) error {
		err := changeLogin(tx, c.PersonID, `password_hash = $2, password_changed_at = $3, must_change_password = 0, browser_epoch = browser_epoch + 1`, c.Hash, own.At.UnixMilli())
		if err != nil {
			return err
		}
		if err := replaceToken(tx, c.PersonID, c.Old, c.New, c.SteppedUpAt, false); err != nil {
			return err
		}
		return closeOthers(tx, c.PersonID, c.New)
	})
}

// SetLanguage sets the language of the pages for a person.
func (db *Store) SetLanguage(ctx context.Context, personID int64, language string) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE logins SET language = $2 WHERE id = $1`, personID, language)
		return err
	})
}

// SessionsOf lists a person's sessions, the last used first.
func (db *Store) SessionsOf(ctx context.Context, personID int64) ([]login.Record, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+sessionColumns+accountColumns+`
		  FROM login_sessions s JOIN logins p ON p.id = s.login_id LEFT JOIN operators o ON o.id = p.operator_id
		 WHERE s.login_id = $1 ORDER BY s.seen_at DESC`, personID)
	return Collect(rows, err, readSession)
}

// CloseSessionOf ends a session by its public id, if it is that person's.
func (db *Store) CloseSessionOf(ctx context.Context, personID int64, id string) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`DELETE FROM login_sessions WHERE id = $2 AND login_id = $1`, personID, id)
		return err
	})
}

// PurgeSessions removes some sessions that were last used before a time.
func (db *Store) PurgeSessions(ctx context.Context, seenBefore time.Time, limit int) (removed int, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			DELETE FROM login_sessions
			 WHERE id IN (SELECT id FROM login_sessions WHERE seen_at <= $1 ORDER BY seen_at LIMIT $2)`, seenBefore.UnixMilli(), limit)
		removed = int(changed)
		return err
	})
	return removed, err
}

// RecoveryCodesLeft counts a person's recovery codes that were not used.
func (db *Store) RecoveryCodesLeft(ctx context.Context, personID int64) (left int, err error) {
	err = db.engine.Read(ctx).QueryRow(`SELECT count(*) FROM login_recovery_codes WHERE login_id = $1 AND used_at IS NULL`, personID).Scan(&left)
	return left, err
}
