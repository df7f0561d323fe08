package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

// StaffAccess reads every staff login and who gave it access.
func (db *Store) StaffAccess(ctx context.Context) (staff admin.StaffAccess, err error) {
	err = db.engine.Snapshot(ctx, func(q Querier) error {
		staff, err = staffAccess(q)
		return err
	})
	return staff, err
}

// staffAccess relies on staff logins being those without an operator.
func staffAccess(from Querier) (staff admin.StaffAccess, err error) {
	rows, err := from.Query(`SELECT ` + accountColumns + ` FROM` + accountTables + `WHERE p.operator_id IS NULL ORDER BY p.id`)
	staff.People, err = Collect(rows, err, func(row Row) (login.Person, error) {
		account, err := readAccount(row)
		return account.Person, err
	})
	if err != nil {
		return staff, fmt.Errorf("read the staff logins: %w", err)
	}
	rows, err = from.Query(`SELECT login_id, what, actor, alone = 1, saw_password = 1, at FROM login_grants ORDER BY login_id, at, what, actor`)
	staff.Grants, err = Collect(rows, err, func(row Row) (g admin.Grant, err error) {
		var at sql.NullInt64
		err = row.Scan(&g.LoginID, &g.What, &g.Actor, &g.WithoutApproval, &g.SawPassword, &at)
		g.At = Time(at)
		return g, err
	})
	if err != nil {
		return staff, fmt.Errorf("read who gave logins access: %w", err)
	}
	return staff, nil
}

// refuseUnapproved refuses to give a login the right to approve, where an action of the
// console needs the approval of a second person and has none.
func refuseUnapproved(tx Tx, action admin.StaffAction, about int64, proposer string) error {
	if !action.Limited() || proposer != "" {
		return nil
	}
	staff, err := staffAccess(tx)
	if err != nil {
		return err
	}
	if staff.HasApprover(action.Actor, about) {
		return admin.RefuseWithoutApproval()
	}
	return nil
}

// grant records who gave a staff login its access, and replaces the previous record.
func grant(tx Tx, action admin.StaffAction, person login.Person, what admin.GrantKind, proposer string) error {
	if person.Realm != login.Staff {
		return nil
	}
	var staff admin.StaffAccess // before the change
	if action.Limited() {
		var err error
		if staff, err = staffAccess(tx); err != nil {
			return err
		}
	}
	if what != admin.GrantedLogin { // a new login has none
		if _, err := tx.Exec(`DELETE FROM login_grants WHERE login_id = $1 AND what = $2`, person.ID, what); err != nil {
			return fmt.Errorf("delete who gave login %d access: %w", person.ID, err)
		}
	}
	if what == admin.GrantedPassword {
		if _, err := tx.Exec(`UPDATE login_grants SET saw_password = 0 WHERE login_id = $1 AND saw_password = 1`, person.ID); err != nil {
			return fmt.Errorf("delete who saw the password of login %d: %w", person.ID, err)
		}
	}
	for _, g := range action.Grants(staff, person, what, proposer) {
		_, err := tx.Exec(`INSERT INTO login_grants (login_id, what, actor, alone, saw_password, at) VALUES ($1, $2, $3, $4::boolean::int, $5::boolean::int, $6)`,
			g.LoginID, g.What, g.Actor, g.WithoutApproval, g.SawPassword, g.At.UnixMilli())
		if err != nil {
			return fmt.Errorf("record who gave login %d access: %w", person.ID, err)
		}
	}
	return nil
}

// lapseProposals marks the open proposals that maker may no longer make as lapsed.
func lapseProposals(tx Tx, action admin.StaffAction, maker login.Person) error {
	rows, err := tx.Query(`SELECT `+proposalColumns+` FROM proposals WHERE maker = $1 AND status = 'open' ORDER BY id`, admin.ConsoleActor(maker))
	open, err := Collect(rows, err, readProposal)
	if err != nil {
		return fmt.Errorf("read the proposals of login %d: %w", maker.ID, err)
	}
	for _, p := range open {
		if p.MakerMayPropose(maker) {
			continue
		}
		lapsed := action.At
		if p = p.At(action.At); p.Status == admin.ProposalLapsed {
			lapsed = p.DecidedAt
		}
		if _, err := tx.Exec(`UPDATE proposals SET status = 'lapsed', decided_at = $2 WHERE id = $1 AND status = 'open'`, p.ID, lapsed.UnixMilli()); err != nil {
			return fmt.Errorf("mark proposal %d as lapsed: %w", p.ID, err)
		}
	}
	return nil
}

// checkMaker refuses a proposal whose maker was disabled, or lost the right to make
// it, since they signed in.
func checkMaker(tx Tx, p admin.Proposal) error {
	maker, err := readAccount(tx.QueryRow(`SELECT `+accountColumns+` FROM`+accountTables+`WHERE p.username = $1 FOR SHARE OF p`, admin.Username(p.Maker)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the login of %s: %w", p.Maker, err)
	}
	return admin.StaffAccess{People: []login.Person{maker.Person}}.CheckMaker(p)
}

// mayApprove refuses an approval by a person who lacks the right.
func mayApprove(tx Tx, a admin.Approval, p admin.Proposal) error {
	staff, err := staffAccess(tx)
	if err != nil {
		return err
	}
	if !a.Action.Limited() {
		return staff.CheckMaker(p)
	}
	return staff.MayApprove(p, a.Action.Actor, a.Action.At, a.NewLoginWait)
}

// carryOutOnLogin carries out a proposal about an existing login.
func carryOutOnLogin(tx Tx, a admin.Approval, p admin.Proposal) (login.Person, error) {
	id, wanted, err := p.Login()
	if err != nil {
		return login.Person{}, err
	}
	person, err := lockAccount(tx, id)
	if err == nil {
		err = p.CheckLogin(person.Person)
	}
	if err != nil {
		return login.Person{}, err
	}
	switch p.Kind {
	case admin.ProposedRole:
		return changeTerms(tx, a.CarryOut, id, admin.LoginChange{Role: &wanted.Role}, p.Maker)
	case admin.ProposedPassword:
		return resetPassword(tx, a.CarryOut, id, a.PasswordHash, p.Maker)
	}
	return resetTOTP(tx, a.CarryOut, id, p.Maker)
}

// checkLoginProposal refuses a proposal about a login that could not be carried out now.
func checkLoginProposal(tx Tx, p admin.Proposal) error {
	id, wanted, err := p.Login()
	if err != nil {
		return err
	}
	if p.Kind != admin.ProposedLogin {
		account, err := accountByID(tx, id)
		if err != nil {
			return err
		}
		return p.CheckLogin(account.Person)
	}
	var taken bool
	if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM logins WHERE username = $1)`, wanted.Username).Scan(&taken); err != nil {
		return fmt.Errorf("look for login %s: %w", wanted.Username, err)
	}
	if taken {
		return refuseTaken(wanted.Username)
	}
	return nil
}

func refuseTaken(username string) error {
	return admin.Refuse("there is a login %s already: choose another username", username)
}

// lockApprovalLogins locks the logins that an approval depends on or changes, before the
// operator and the proposal. Every change of a login locks it first, too, and the
// proposals of its person after it.
func lockApprovalLogins(tx Tx, a admin.Approval) error {
	p, err := proposalByID(tx, a.Proposal.ID)
	if err != nil {
		return err
	}
	var target int64
	if p.AboutLogin() {
		if target, _, err = p.Login(); err != nil {
			return err
		}
	}
	rows, err := tx.Query(`SELECT id FROM logins WHERE username IN ($1, $2) OR id = $3 ORDER BY id FOR NO KEY UPDATE`,
		admin.Username(p.Maker), admin.Username(a.Action.Actor), target)
	_, err = Collect(rows, err, func(row Row) (id int64, err error) {
		err = row.Scan(&id)
		return id, err
	})
	if err != nil {
		return fmt.Errorf("lock the logins of proposal %d: %w", p.ID, err)
	}
	return nil
}
