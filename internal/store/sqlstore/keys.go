package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
)

// CredentialColumns are those of a credential c.
const CredentialColumns = `c.id, c.operator_id, c.key_hash, c.hint, c.sealed_secret, c.permissions,
	c.revoked_at, c.expires_at, c.replaced_by, c.version, c.created_at`

// ReadCredential reads CredentialColumns.
func ReadCredential(row Row) (access.Credential, error) {
	var c access.Credential
	var hash []byte
	var permissions string
	var revoked, expires, replacedBy, created sql.NullInt64
	err := row.Scan(&c.ID, &c.OperatorID, &hash, &c.Hint, &c.SealedSecret, &permissions,
		&revoked, &expires, &replacedBy, &c.Version, &created)
	if err != nil {
		return c, err
	}
	copy(c.KeyHash[:], hash)
	c.RevokedAt, c.ExpiresAt, c.ReplacedBy, c.CreatedAt = Time(revoked), Time(expires), replacedBy.Int64, Time(created)
	c.Permissions, err = access.ParsePermissionSet(permissions)
	return c, err
}

func keyByID(from Querier, id int64) (access.Credential, error) {
	return keyWhere(from, `c.id = $1`, id)
}

// lockKey reads a key that is about to be changed.
func lockKey(tx Tx, id int64) (access.Credential, error) {
	return keyWhere(tx, `c.id = $1 FOR NO KEY UPDATE`, id)
}

// keyWhere reads the key that a condition, a literal of this file, selects by its id.
func keyWhere(from Querier, condition string, id int64) (access.Credential, error) {
	credential, err := ReadCredential(from.QueryRow(`SELECT `+CredentialColumns+` FROM credentials c WHERE `+condition, id))
	if errors.Is(err, sql.ErrNoRows) {
		return credential, admin.Refuse("there is no key %d", id)
	}
	if err != nil {
		return credential, fmt.Errorf("read key %d: %w", id, err)
	}
	return credential, nil
}

// IssueKey writes a new key.
func (db *Store) IssueKey(ctx context.Context, action admin.StaffAction, key access.Credential) (access.Credential, error) {
	err := db.engine.Write(ctx, func(tx Tx) error {
		if _, err := undeletedOperator(tx, key.OperatorID); err != nil {
			return err
		}
		var err error
		if key, err = insertKey(tx, key); err != nil {
			return err
		}
		return logAction(tx, action, key.OperatorID, fmt.Sprintf("key %d", key.ID), nil, admin.KeyState(key))
	})
	return key, err
}

func insertKey(tx Tx, key access.Credential) (access.Credential, error) {
	err := tx.QueryRow(`
		INSERT INTO credentials (operator_id, key_hash, hint, sealed_secret, permissions, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		RETURNING id, version`,
		key.OperatorID, key.KeyHash[:], key.Hint, key.SealedSecret, key.Permissions.String(), key.CreatedAt.UnixMilli(),
	).Scan(&key.ID, &key.Version)
	if err != nil {
		return key, fmt.Errorf("add the key: %w", err)
	}
	return key, checkSealing(tx, key.SealedSecret)
}

// RotateKey writes the successor and sets when the old key expires, in one transaction.
func (db *Store) RotateKey(ctx context.Context, action admin.StaffAction, oldID int64, oldExpires time.Time, successor access.Credential) (access.Credential, error) {
	err := db.engine.Write(ctx, func(tx Tx) error {
		old, err := lockKey(tx, oldID)
		if err != nil {
			return err
		}
		if _, err := undeletedOperator(tx, old.OperatorID); err != nil {
			return err
		}
		if !old.RevokedAt.IsZero() {
			return admin.Refuse("key %d was revoked: issue a new one instead of rotating it", oldID)
		}
		if old.ReplacedBy != 0 {
			return admin.Refuse("key %d was rotated to key %d already: rotate that one", oldID, old.ReplacedBy)
		}
		// The old key's permissions are read in this transaction: a permission that was
		// just removed must not come back with the successor.
		successor.Permissions = old.Permissions
		if successor, err = insertKey(tx, successor); err != nil {
			return err
		}
		after, err := changeKey(tx, oldID, `expires_at = $2, replaced_by = $3`, oldExpires.UnixMilli(), successor.ID)
		if err != nil {
			return err
		}
		if err := logAction(tx, action, old.OperatorID, fmt.Sprintf("key %d", oldID), admin.KeyState(old), admin.KeyState(after)); err != nil {
			return err
		}
		action.Voucher = "" // this is the second entry of one action: its reason repeats the voucher
		return logAction(tx, action, old.OperatorID, fmt.Sprintf("key %d", successor.ID), nil, admin.KeyState(successor))
	})
	return successor, err
}

// RevokeKey ends a key at once.
func (db *Store) RevokeKey(ctx context.Context, action admin.StaffAction, id int64) error {
	return db.actOnKey(ctx, action, id, func(tx Tx, before access.Credential) (access.Credential, error) {
		if !before.RevokedAt.IsZero() {
			return before, admin.Refuse("key %d was revoked already", id)
		}
		return changeKey(tx, id, `revoked_at = $2`, action.At.UnixMilli())
	})
}

// PermitKey replaces a key's permissions.
func (db *Store) PermitKey(ctx context.Context, action admin.StaffAction, id int64, permissions access.Permissions) error {
	return db.actOnKey(ctx, action, id, func(tx Tx, before access.Credential) (access.Credential, error) {
		if !before.RevokedAt.IsZero() {
			return before, admin.Refuse("key %d was revoked: its permissions no longer matter", id)
		}
		if err := action.CheckStepUp(admin.PermissionsWiden(before.Permissions, permissions)); err != nil {
			return before, err
		}
		return changeKey(tx, id, `permissions = $2`, permissions.String())
	})
}

func (db *Store) actOnKey(ctx context.Context, action admin.StaffAction, id int64, change func(Tx, access.Credential) (access.Credential, error)) error {
	return db.engine.Write(ctx, func(tx Tx) error {
		if err := guardOwner(tx, action); err != nil {
			return err
		}
		before, err := lockKey(tx, id)
		if err != nil {
			return err
		}
		if !action.Covers(before.OperatorID) {
			return admin.Refuse("there is no key %d", id)
		}
		after, err := change(tx, before)
		if err != nil {
			return err
		}
		return logAction(tx, action, before.OperatorID, fmt.Sprintf("key %d", id), admin.KeyState(before), admin.KeyState(after))
	})
}

// changeKey sets columns of a key, by a literal of this file, and its version.
func changeKey(tx Tx, id int64, set string, args ...any) (access.Credential, error) {
	changed, err := tx.Exec(`UPDATE credentials SET `+set+`, version = version + 1 WHERE id = $1`, append([]any{id}, args...)...)
	if err != nil {
		return access.Credential{}, fmt.Errorf("change key %d: %w", id, err)
	}
	if changed != 1 {
		return access.Credential{}, fmt.Errorf("change key %d: %d rows changed", id, changed)
	}
	return keyByID(tx, id)
}

// Key reads one key.
func (db *Store) Key(ctx context.Context, id int64) (access.Credential, error) {
	return keyByID(db.engine.Read(ctx), id)
}

// FindKeys reads all keys: an operator has few.
func (db *Store) FindKeys(ctx context.Context, hint string, limit int) ([]access.Credential, error) {
	rows, err := db.engine.Read(ctx).Query(`SELECT `+CredentialColumns+` FROM credentials c WHERE strpos(c.hint, $1) = 1 ORDER BY c.id DESC LIMIT $2`, hint, limit)
	return Collect(rows, err, ReadCredential)
}

// Keys reads all keys of an operator.
func (db *Store) Keys(ctx context.Context, operatorID int64) ([]access.Credential, error) {
	if _, err := operatorByID(db.engine.Read(ctx), operatorID); err != nil {
		return nil, err
	}
	rows, err := db.engine.Read(ctx).Query(`SELECT `+CredentialColumns+` FROM credentials c WHERE c.operator_id = $1 ORDER BY c.id`, operatorID)
	return Collect(rows, err, ReadCredential)
}
