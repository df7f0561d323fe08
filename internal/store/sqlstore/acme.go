package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/acmecert"
)

// ACMEState reads what is known of a certificate; nothing if no node has ordered it.
func (db *Store) ACMEState(ctx context.Context, id string) (acmecert.State, error) {
	return ReadACMEState(db.engine.Lookup(ctx), id)
}

// ReadACMEState is ACMEState for a command that only looks.
func ReadACMEState(from RowQuerier, id string) (s acmecert.State, err error) {
	var expires, renew, lease, next int64
	err = from.QueryRow(`
		SELECT version, expires_at, renew_at, node, lease_until, failures, problem, next_try_at
		  FROM acme_certificates WHERE id = $1`, id).Scan(&s.Version, &expires, &renew, &s.Node, &lease, &s.Failures, &s.Problem, &next)
	if errors.Is(err, sql.ErrNoRows) {
		return acmecert.State{}, nil
	}
	if err != nil {
		return s, fmt.Errorf("read the state of the TLS certificate: %w", err)
	}
	s.Expires, s.RenewAt, s.LeaseUntil, s.NextTry = fromMillis(expires), fromMillis(renew), fromMillis(lease), fromMillis(next)
	return s, nil
}

// fromMillis returns a time from a column that has 0 for none.
func fromMillis(ms int64) time.Time { return Time(sql.NullInt64{Int64: ms, Valid: ms != 0}) }

// ACMECertificates lists the certificates that have not expired. There are few: one for each
// authority and set of names that was configured.
func (db *Store) ACMECertificates(ctx context.Context, now time.Time) ([]string, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT id FROM acme_certificates WHERE expires_at > $1 ORDER BY id`, now.UnixMilli())
	ids, err := Collect(rows, err, func(row Row) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the TLS certificates: %w", err)
	}
	return ids, nil
}

// ACMESecret reads a sealed secret; nil if there is none.
func (db *Store) ACMESecret(ctx context.Context, id string) (sealed []byte, err error) {
	err = db.engine.Lookup(ctx).QueryRow(`SELECT sealed FROM acme_secrets WHERE id = $1`, id).Scan(&sealed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read a sealed key: %w", err)
	}
	return sealed, nil
}

// SaveACMESecret stores a sealed secret in place of the one before.
func (db *Store) SaveACMESecret(ctx context.Context, id string, sealed []byte) error {
	return db.engine.Write(ctx, func(tx Tx) error { return saveACMESecret(tx, id, sealed) })
}

func saveACMESecret(tx Tx, id string, sealed []byte) error {
	_, err := tx.Exec(`INSERT INTO acme_secrets (id, sealed) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed`, id, sealed)
	if err != nil {
		return fmt.Errorf("store a sealed key: %w", err)
	}
	return checkSealing(tx, sealed)
}

// ClaimACMEOrder takes the lease on an order if it is due and free. That is checked in the
// statement: of nodes that all found it due, one orders.
func (db *Store) ClaimACMEOrder(ctx context.Context, c acmecert.Claim) (claimed bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			INSERT INTO acme_certificates AS c (id, node, lease_until) VALUES ($1, $2, $4)
			    ON CONFLICT (id) DO UPDATE SET node = excluded.node, lease_until = excluded.lease_until
			 WHERE c.renew_at <= $3 AND c.next_try_at <= $3 AND c.lease_until <= $3`,
			c.ID, c.Node, c.Now.UnixMilli(), c.Until.UnixMilli())
		claimed = changed > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claim the order of the TLS certificate: %w", err)
	}
	return claimed, nil
}

// ExtendACMEOrder extends a lease that the caller still has.
func (db *Store) ExtendACMEOrder(ctx context.Context, c acmecert.Claim) (held bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`UPDATE acme_certificates SET lease_until = $4 WHERE id = $1 AND node = $2 AND lease_until > $3`,
			c.ID, c.Node, c.Now.UnixMilli(), c.Until.UnixMilli())
		held = changed > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("extend the lease on the order of the TLS certificate: %w", err)
	}
	return held, nil
}

// FinishACMEOrder stores a new certificate, and removes what has expired.
func (db *Store) FinishACMEOrder(ctx context.Context, c acmecert.Claim, issued acmecert.Issued) (held bool, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		changed, err := tx.Exec(`
			UPDATE acme_certificates
			   SET version = version + 1, expires_at = $3, renew_at = $4, lease_until = 0, failures = 0, problem = '', next_try_at = 0
			 WHERE id = $1 AND node = $2 AND lease_until > $5`,
			c.ID, c.Node, issued.Expires.UnixMilli(), issued.RenewAt.UnixMilli(), c.Now.UnixMilli())
		if held = changed > 0; err != nil || !held {
			return err
		}
		if err := saveACMESecret(tx, c.ID, issued.Sealed); err != nil {
			return err
		}
		for _, statement := range []string{
			`DELETE FROM acme_secrets WHERE id IN (SELECT id FROM acme_certificates WHERE expires_at <= $1 AND lease_until <= $1)`,
			`DELETE FROM acme_certificates WHERE expires_at <= $1 AND lease_until <= $1`,
			`DELETE FROM acme_challenges WHERE expires_at <= $1`,
		} {
			if _, err := tx.Exec(statement, c.Now.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("store the TLS certificate: %w", err)
	}
	return held, nil
}

// FailACMEOrder ends a lease, and counts a failure if there is a problem.
func (db *Store) FailACMEOrder(ctx context.Context, c acmecert.Claim, problem string, nextTry time.Time) error {
	err := db.engine.Write(ctx, func(tx Tx) error {
		if problem == "" {
			_, err := tx.Exec(`UPDATE acme_certificates SET lease_until = 0 WHERE id = $1 AND node = $2`, c.ID, c.Node)
			return err
		}
		_, err := tx.Exec(`
			UPDATE acme_certificates SET lease_until = 0, failures = failures + 1, problem = $3, next_try_at = $4
			 WHERE id = $1 AND node = $2`, c.ID, c.Node, problem, nextTry.UnixMilli())
		return err
	})
	if err != nil {
		return fmt.Errorf("record that the TLS certificate was not ordered: %w", err)
	}
	return nil
}

// RetryACMEOrder ends the pause after a failed order.
func (db *Store) RetryACMEOrder(ctx context.Context, id string) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE acme_certificates SET next_try_at = 0 WHERE id = $1`, id)
		return err
	})
}

// DropACMECertificate makes a certificate due that cannot be used.
func (db *Store) DropACMECertificate(ctx context.Context, id string, version int64) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE acme_certificates SET expires_at = 0, renew_at = 0 WHERE id = $1 AND version = $2`, id, version)
		return err
	})
}

// TakeOverACMEOrders ends all leases. The caller must know that no other node is running.
func (db *Store) TakeOverACMEOrders(ctx context.Context) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`UPDATE acme_certificates SET lease_until = 0 WHERE lease_until > 0`)
		return err
	})
}

// SaveACMEChallenge stores what to answer with at a name, in place of the one before.
func (db *Store) SaveACMEChallenge(ctx context.Context, c acmecert.Challenge) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		_, err := tx.Exec(`
			INSERT INTO acme_challenges (name, account, token, expires_at) VALUES ($1, $2, $3, $4)
			    ON CONFLICT (name) DO UPDATE SET account = excluded.account, token = excluded.token, expires_at = excluded.expires_at`,
			c.Name, c.Account, c.Token, c.Expires.UnixMilli())
		return err
	})
}

// ACMEChallenge reads what to answer with at a name, by two primary keys.
func (db *Store) ACMEChallenge(ctx context.Context, name string, now time.Time) (c acmecert.Challenge, sealed []byte, found bool, err error) {
	c.Name = name
	var expires int64
	err = db.engine.Lookup(ctx).QueryRow(`
		SELECT c.account, c.token, c.expires_at, s.sealed FROM acme_challenges c JOIN acme_secrets s ON s.id = c.account
		 WHERE c.name = $1 AND c.expires_at > $2`, name, now.UnixMilli()).Scan(&c.Account, &c.Token, &expires, &sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil, false, nil
	}
	if err != nil {
		return c, nil, false, fmt.Errorf("read the challenge for %s: %w", name, err)
	}
	c.Expires = fromMillis(expires)
	return c, sealed, true, nil
}
