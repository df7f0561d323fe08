package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

const (
	accountColumns = `p.id, p.realm, p.operator_id, p.username, p.name, p.role, p.language, p.must_change_password = 1, p.disabled = 1,
	p.created_at, p.last_sign_in, p.password_hash, p.password_changed_at, p.totp, p.totp_step, p.version, o.status,
	coalesce(o.second_factor_required, 0) = 1, coalesce(o.name, ''), p.browser_epoch, p.factor_notice,
	(SELECT count(*) FROM login_passkeys k WHERE k.login_id = p.id)`
	accountTables = ` logins p LEFT JOIN operators o ON o.id = p.operator_id `
)

// accountRow is where a row of accountColumns is scanned to.
type accountRow struct {
	login.Account
	operatorID, created, lastSignIn, changed sql.NullInt64
	operatorStatus                           sql.NullString
}

func (r *accountRow) targets() []any {
	return []any{
		&r.ID, &r.Realm, &r.operatorID, &r.Username, &r.Name, &r.Role, &r.Language, &r.MustChangePassword, &r.Disabled,
		&r.created, &r.lastSignIn, &r.PasswordHash, &r.changed, &r.SealedTOTP, &r.TOTPStep, &r.Version, &r.operatorStatus,
		&r.OperatorRequiresTOTP, &r.OperatorName, &r.BrowserEpoch, &r.FactorNotice, &r.Passkeys,
	}
}

func (r *accountRow) account() login.Account {
	a := r.Account
	a.OperatorID, a.CreatedAt, a.LastSignIn, a.PasswordChangedAt = r.operatorID.Int64, Time(r.created), Time(r.lastSignIn), Time(r.changed)
	a.TOTP = a.SealedTOTP != nil
	a.PasswordEnds = a.Ends()
	a.OperatorSuspended = r.operatorStatus.String == string(subscription.OperatorInactive)
	a.OperatorDeleted = r.operatorStatus.String == string(subscription.OperatorDeleted)
	return a
}

func readAccount(row Row) (login.Account, error) {
	var r accountRow
	err := row.Scan(r.targets()...)
	return r.account(), err
}

// accountByID returns a refusal if there is no such login.
func accountByID(from Querier, id int64) (login.Account, error) {
	return accountWhere(from, `p.id = $1`, id)
}

// lockAccount reads and locks a login that is about to be changed.
func lockAccount(tx Tx, id int64) (login.Account, error) {
	return accountWhere(tx, `p.id = $1 FOR NO KEY UPDATE OF p`, id)
}

// accountWhere reads the login that a condition, a literal of this file, selects by its id.
func accountWhere(from Querier, condition string, id int64) (login.Account, error) {
	account, err := readAccount(from.QueryRow(`SELECT `+accountColumns+` FROM`+accountTables+`WHERE `+condition, id))
	if errors.Is(err, sql.ErrNoRows) {
		return account, admin.Refuse("there is no login %d", id)
	}
	if err != nil {
		return account, fmt.Errorf("read login %d: %w", id, err)
	}
	return account, nil
}

// CreateLogin writes a new login. A unique index refuses a username that is taken.
func (db *Store) CreateLogin(ctx context.Context, action admin.StaffAction, account login.Account) (made login.Person, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		made, err = createLogin(tx, action, account, "")
		return err
	})
	return made, err
}

// createLogin writes a new login; proposer is empty if no proposal was needed.
func createLogin(tx Tx, action admin.StaffAction, account login.Account, proposer string) (login.Person, error) {
	if err := guardOwner(tx, action); err != nil {
		return account.Person, err
	}
	if account.Realm == login.Operator {
		if _, err := undeletedOperator(tx, account.OperatorID); err != nil {
			return account.Person, err
		}
	}
	if admin.Approves(account.Role) {
		if err := refuseUnapproved(tx, action, 0, proposer); err != nil {
			return account.Person, err
		}
	}
	err := tx.QueryRow(`
		INSERT INTO logins (realm, operator_id, username, name, role, language, password_hash, password_changed_at, must_change_password, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::boolean::int, $8)
		    ON CONFLICT (username) DO NOTHING
		RETURNING id`,
		account.Realm, sql.NullInt64{Int64: account.OperatorID, Valid: account.OperatorID != 0}, account.Username, account.Name, account.Role,
		account.Language, account.PasswordHash, account.CreatedAt.UnixMilli(), account.MustChangePassword).Scan(&account.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return account.Person, refuseTaken(account.Username)
	}
	if err != nil {
		return account.Person, fmt.Errorf("add the login: %w", err)
	}
	after, err := accountByID(tx, account.ID)
	if err != nil {
		return account.Person, err
	}
	if err := grant(tx, action, after.Person, admin.GrantedLogin, proposer); err != nil {
		return account.Person, err
	}
	return after.Person, logLogin(tx, action, nil, after)
}

// logLogin adds a change of a login to the audit log.
func logLogin(tx Tx, action admin.StaffAction, before *login.Account, after login.Account) error {
	var was any
	if before != nil {
		was = admin.LoginState(*before)
	}
	return logAction(tx, action, after.OperatorID, fmt.Sprintf("login %d", after.ID), was, admin.LoginState(after))
}

// ChangeLogin changes a login's terms. Disabling a login ends its sessions and forgets its
// known browsers.
func (db *Store) ChangeLogin(ctx context.Context, action admin.StaffAction, id int64, change admin.LoginChange) (after login.Person, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		after, err = changeTerms(tx, action, id, change, "")
		return err
	})
	return after, err
}

// changeTerms changes a login; proposer is empty if no proposal was needed.
func changeTerms(tx Tx, action admin.StaffAction, id int64, change admin.LoginChange, proposer string) (login.Person, error) {
	return actOnLogin(tx, action, id, func(before login.Account) error {
		if err := action.CheckStepUp(change.Widens(before.Person)); err != nil {
			return err
		}
		after := change.Apply(before.Person)
		if err := change.CheckRole(before.Person); err != nil {
			return err
		}
		if action.OperatorScope != 0 && change.RemovesOwner(before.Person) {
			if err := refuseLastOwner(tx, before); err != nil {
				return err
			}
		}
		if admin.Raises(before.Role, after.Role) {
			if err := refuseUnapproved(tx, action, id, proposer); err != nil {
				return err
			}
			if err := grant(tx, action, after, admin.GrantedRole, proposer); err != nil {
				return err
			}
		}
		if err := changeLogin(tx, id, `name = $2, role = $3, disabled = $4::boolean::int, browser_epoch = browser_epoch + $4::boolean::int`, after.Name, after.Role, after.Disabled); err != nil {
			return err
		}
		if err := lapseProposals(tx, action, after); err != nil {
			return err
		}
		if after.Disabled {
			return closeSessions(tx, id)
		}
		return nil
	})
}

// ResetPassword sets a password that the person has to change, and ends their sessions.
func (db *Store) ResetPassword(ctx context.Context, action admin.StaffAction, id int64, hash string) (after login.Person, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		after, err = resetPassword(tx, action, id, hash, "")
		return err
	})
	return after, err
}

func resetPassword(tx Tx, action admin.StaffAction, id int64, hash, proposer string) (login.Person, error) {
	return actOnLogin(tx, action, id, func(before login.Account) error {
		if err := resetAccess(tx, action, before.Person, admin.GrantedPassword, proposer); err != nil {
			return err
		}
		if err := changeLogin(tx, id, `password_hash = $2, password_changed_at = $3, must_change_password = 1, browser_epoch = browser_epoch + 1`, hash, action.At.UnixMilli()); err != nil {
			return err
		}
		return closeSessions(tx, id)
	})
}

// ResetTOTP removes all second factors of a person who lost them, and ends their sessions.
func (db *Store) ResetTOTP(ctx context.Context, action admin.StaffAction, id int64) (after login.Person, err error) {
	err = db.engine.Write(ctx, func(tx Tx) error {
		after, err = resetTOTP(tx, action, id, "")
		return err
	})
	return after, err
}

func resetTOTP(tx Tx, action admin.StaffAction, id int64, proposer string) (login.Person, error) {
	return actOnLogin(tx, action, id, func(before login.Account) error {
		if !before.SecondFactor() {
			return admin.Refuse("login %s has no second factor", before.Username)
		}
		if err := resetAccess(tx, action, before.Person, admin.GrantedTOTP, proposer); err != nil {
			return err
		}
		if err := dropFactors(tx, action, before); err != nil {
			return err
		}
		return closeSessions(tx, id)
	})
}

// dropFactors removes all second factors of a person, and leaves a notice of who did it.
func dropFactors(tx Tx, action admin.StaffAction, before login.Account) error {
	notice, err := login.AddNotice(before.FactorNotice, login.FactorNotice{What: login.FactorsReset, At: action.At, By: action.Actor})
	if err != nil {
		return err
	}
	if err := changeLogin(tx, before.ID, `totp = NULL, totp_pending = NULL, factor_notice = $2, browser_epoch = browser_epoch + 1`, notice); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM login_passkeys WHERE login_id = $1`, before.ID); err != nil {
		return fmt.Errorf("drop passkeys: %w", err)
	}
	return replaceRecoveryCodes(tx, before.ID, login.RecoveryCodes{})
}

// resetAccess records who resets a login's password or second factor, and refuses if that
// needs the approval of a second person.
func resetAccess(tx Tx, action admin.StaffAction, person login.Person, what admin.GrantKind, proposer string) error {
	if admin.Approves(person.Role) {
		if err := refuseUnapproved(tx, action, person.ID, proposer); err != nil {
			return err
		}
	}
	return grant(tx, action, person, what, proposer)
}

func actOnLogin(tx Tx, action admin.StaffAction, id int64, change func(login.Account) error) (login.Person, error) {
	if err := guardOwner(tx, action); err != nil {
		return login.Person{}, err
	}
	before, err := lockAccount(tx, id)
	if err != nil {
		return login.Person{}, err
	}
	if !action.Covers(before.OperatorID) {
		return login.Person{}, admin.Refuse("there is no login %d", id)
	}
	if err := change(before); err != nil {
		return login.Person{}, err
	}
	after, err := accountByID(tx, id)
	if err != nil {
		return login.Person{}, err
	}
	return after.Person, logLogin(tx, action, &before, after)
}

// changeLogin sets columns of a login, by a literal of this package, and its version.
func changeLogin(tx Tx, id int64, set string, args ...any) error {
	changed, err := tx.Exec(`UPDATE logins SET `+set+`, version = version + 1 WHERE id = $1`, append([]any{id}, args...)...)
	if err != nil {
		return fmt.Errorf("change login %d: %w", id, err)
	}
	if changed != 1 {
		return fmt.Errorf("change login %d: %d rows changed", id, changed)
	}
	return nil
}

// Login reads one login.
func (db *Store) Login(ctx context.Context, id int64) (login.Person, error) {
	account, err := accountByID(db.engine.Read(ctx), id)
	return account.Person, err
}

// LoginNamed reads the login of a username.
func (db *Store) LoginNamed(ctx context.Context, username string) (login.Person, error) {
	account, found, err := db.AccountByUsername(ctx, username)
	if err == nil && !found {
		err = admin.Refuse("there is no login %s", username)
	}
	return account.Person, err
}

// Logins reads the logins of a realm, or of one operator.
func (db *Store) Logins(ctx context.Context, filter admin.LoginFilter) ([]login.Person, error) {
	rows, err := db.engine.Read(ctx).Query(`
		SELECT `+accountColumns+` FROM`+accountTables+`
		 WHERE ($1::text = '' OR p.realm = $1) AND ($2::bigint = 0 OR p.operator_id = $2) ORDER BY p.username`, filter.Realm, filter.OperatorID)
	return Collect(rows, err, func(row Row) (login.Person, error) {
		account, err := readAccount(row)
		return account.Person, err
	})
}
