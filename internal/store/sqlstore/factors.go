package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/login"
)

// ChangeFactors changes a person's second factors and ends all their other sessions.
func (db *Store) ChangeFactors(ctx context.Context, own login.OwnAction, c login.FactorChange) error {
	return db.ownLogin(ctx, own, c.PersonID, c.Version, func(tx Tx) error {
		err := spend(tx, login.SessionUpgrade{PersonID: c.PersonID, Version: c.Version, Proof: c.Proof, SteppedUpAt: c.At})
		if err != nil {
			return err
		}
		if c.Challenge != nil {
			spent, err := spendChallenge(tx, *c.Challenge)
			if err != nil {
				return err
			}
			if !spent {
				return login.ErrUsed
			}
		}
		if err := changeLogin(tx, c.PersonID, `factor_notice = $2, browser_epoch = browser_epoch + 1`, c.Notice); err != nil {
			return err
		}
		if err := changeFactors(tx, c); err != nil {
			return err
		}
		if err := replaceToken(tx, c.PersonID, c.Old, c.New, c.At, c.Proof.Present() || c.Challenge != nil); err != nil {
			return err
		}
		return closeOthers(tx, c.PersonID, c.New)
	})
}

// changeFactors writes the changed factors.
func changeFactors(tx Tx, c login.FactorChange) error {
	if c.SetTOTP != nil {
		_, err := tx.Exec(`UPDATE logins SET totp = $2, totp_pending = NULL, totp_step = $3 WHERE id = $1`, c.PersonID, c.SetTOTP.Sealed, c.SetTOTP.Step)
		if err != nil {
			return fmt.Errorf("set up codes: %w", err)
		}
		if err := checkSealing(tx, c.SetTOTP.Sealed); err != nil {
			return err
		}
	}
	if c.DropTOTP {
		if _, err := tx.Exec(`UPDATE logins SET totp = NULL, totp_pending = NULL WHERE id = $1`, c.PersonID); err != nil {
			return fmt.Errorf("remove codes: %w", err)
		}
	}
	if p := c.AddPasskey; p != nil {
		changed, err := tx.Exec(`
			INSERT INTO login_passkeys (login_id, site_id, credential_id, public_key, sign_count, backup_eligible, transports, name, created_at)
			VALUES ($1, $2, $3, $4, $5, $6::boolean::int, $7, $8, $9)
			    ON CONFLICT (credential_id) DO NOTHING`,
			c.PersonID, p.SiteID, p.Key.CredentialID, p.Key.PublicKey, int64(p.Key.SignCount), p.Key.BackupEligible, p.Key.Transports, p.Name, p.CreatedAt.UnixMilli())
		if err != nil {
			return fmt.Errorf("add a passkey: %w", err)
		}
		if changed == 0 {
			return login.ErrPasskeyExists
		}
	}
	if c.DropPasskey != 0 {
		changed, err := tx.Exec(`DELETE FROM login_passkeys WHERE id = $2 AND login_id = $1`, c.PersonID, c.DropPasskey)
		if err != nil {
			return fmt.Errorf("remove a passkey: %w", err)
		}
		if changed == 0 {
			return login.ErrChanged
		}
	}
	if c.RecoveryCodes == nil {
		return nil
	}
	return replaceRecoveryCodes(tx, c.PersonID, *c.RecoveryCodes)
}

func replaceRecoveryCodes(tx Tx, personID int64, codes login.RecoveryCodes) error {
	if _, err := tx.Exec(`DELETE FROM login_recovery_codes WHERE login_id = $1`, personID); err != nil {
		return fmt.Errorf("drop recovery codes: %w", err)
	}
	for _, hash := range codes.Hashes {
		_, err := tx.Exec(`INSERT INTO login_recovery_codes (login_id, code_hash, salt) VALUES ($1, $2, $3)`, personID, hash, nullText(codes.Salt))
		if err != nil {
			return fmt.Errorf("add a recovery code: %w", err)
		}
	}
	return nil
}

// nullText returns NULL for an empty string.
func nullText(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

// spendPasskey uses up the challenge that a passkey has answered. Of two requests with
// the same answer or the same counter, one gets login.ErrUsed.
func spendPasskey(tx Tx, personID int64, p login.PasskeyProof, at time.Time) (changed int64, err error) {
	if spent, err := spendChallenge(tx, p.Challenge); err != nil || !spent {
		return 0, err
	}
	changed, err = tx.Exec(`
		UPDATE login_passkeys SET sign_count = $3, last_used_at = $4
		 WHERE id = $2 AND login_id = $1 AND (sign_count < $3 OR sign_count = 0 AND $3::bigint = 0)`, personID, p.ID, int64(p.SignCount), at.UnixMilli())
	return changed, err
}

// spendChallenge uses up a challenge; false if it was used before.
func spendChallenge(tx Tx, ref login.ChallengeRef) (bool, error) {
	changed, err := tx.Exec(`DELETE FROM login_challenges WHERE session_id = $1 AND kind = $2 AND ticket_hash = $3`, ref.SessionID, ref.Kind, ref.Ticket[:])
	if err != nil {
		return false, fmt.Errorf("use up a challenge: %w", err)
	}
	return changed > 0, nil
}

// SaveChallenge saves a challenge of a session.
func (db *Store) SaveChallenge(ctx context.Context, c login.Challenge) error {
	return db.engine.Write(ctx, func(tx Tx) error { return saveChallenge(tx, c) })
}

func saveChallenge(tx Tx, c login.Challenge) error {
	changed, err := tx.Exec(`
		INSERT INTO login_challenges (session_id, kind, ticket_hash, state, expires_at)
		SELECT s.id, $2::text, $3::bytea, $4::bytea, $5::bigint FROM login_sessions s WHERE s.id = $1
		    ON CONFLICT (session_id, kind) DO UPDATE SET ticket_hash = excluded.ticket_hash, state = excluded.state, expires_at = excluded.expires_at`,
		c.SessionID, c.Kind, c.Ticket[:], c.State, c.ExpiresAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("save a challenge: %w", err)
	}
	if changed == 0 {
		return login.ErrChanged // the session has ended
	}
	return nil
}

// ChallengeOf reads a challenge of a session.
func (db *Store) ChallengeOf(ctx context.Context, sessionID string, kind login.ChallengeKind) (login.Challenge, bool, error) {
	c := login.Challenge{ChallengeRef: login.ChallengeRef{SessionID: sessionID, Kind: kind}}
	var ticket []byte
	var expires sql.NullInt64
	err := db.engine.Read(ctx).QueryRow(`SELECT ticket_hash, state, expires_at FROM login_challenges WHERE session_id = $1 AND kind = $2`, sessionID, kind).
		Scan(&ticket, &c.State, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return c, false, nil
	}
	copy(c.Ticket[:], ticket)
	c.ExpiresAt = Time(expires)
	return c, err == nil, err
}

// Passkeys lists a person's passkeys, the oldest first.
func (db *Store) Passkeys(ctx context.Context, personID int64) ([]login.Passkey, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT id, site_id, credential_id, public_key, sign_count, backup_eligible = 1, transports, name, created_at, last_used_at
		  FROM login_passkeys WHERE login_id = $1 ORDER BY id`, personID)
	return Collect(rows, err, func(row Row) (login.Passkey, error) {
		var p login.Passkey
		var created, used sql.NullInt64
		err := row.Scan(&p.ID, &p.SiteID, &p.Key.CredentialID, &p.Key.PublicKey, &p.Key.SignCount, &p.Key.BackupEligible, &p.Key.Transports, &p.Name, &created, &used)
		p.CreatedAt, p.LastUsedAt = Time(created), Time(used)
		return p, err
	})
}

// RecoverySalt reads the salt of a person's recovery codes.
func (db *Store) RecoverySalt(ctx context.Context, personID int64) (string, error) {
	var salt sql.NullString
	err := db.engine.Read(ctx).QueryRow(`SELECT max(salt) FROM login_recovery_codes WHERE login_id = $1`, personID).Scan(&salt)
	return salt.String, err
}

// ReplaceFactorNotice saves the part of a notice that a person has not dismissed. It changes
// nothing if the notice has grown meanwhile.
func (db *Store) ReplaceFactorNotice(ctx context.Context, personID int64, was, left string) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE logins SET factor_notice = $3 WHERE id = $1 AND factor_notice = $2`, personID, was, left)
		return err
	})
}
