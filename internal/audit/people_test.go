package audit_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

var desktop = netip.MustParseAddr("192.0.2.7")

// createLogins makes the logins of a fixture, with whatever staff and people themselves do to
// one. Ravi (1) has a password and a second factor of his own, Meena (2) is the first
// operator's and has a new password to replace, Tara (3) is switched off, and Uma (4)
// has lost her telephone.
func (s *testEnv) createLogins() {
	s.create("ravi", login.Finance, 0)
	s.create("meena", login.Owner, 1)
	s.create("tara", login.Administrator, 0)
	s.create("uma", login.Support, 0)
	s.enrol("ravi", madeUp)
	s.enrol("uma", madeUp)
	ctx := s.Context()
	_, _, err := s.service.ResetPassword(ctx, 2)
	s.ok(err)
	must[login.Person](s)(s.service.ChangeLogin(ctx, 3, admin.LoginChange{Role: new(login.Viewer), Disabled: new(true)}))
	must[login.Person](s)(s.service.ResetTOTP(ctx, 4))
	s.advance(time.Hour)
}

const madeUp, chosen = "made up for them", "chosen by themselves"

func (s *testEnv) create(username string, role login.Role, operator int64) {
	s.Helper()
	_, _, err := s.service.CreateLogin(s.Context(), admin.NewLogin{Username: username, Name: "Name of " + username, Role: role, OperatorID: operator, Password: madeUp})
	s.ok(err)
}

// enrol signs a person in, chooses a password and sets up a second factor.
func (s *testEnv) enrol(username, password string) {
	s.Helper()
	ctx, people := s.Context(), login.New(s.store, s.vault, login.Config{Now: s.clock})
	token, _, err := people.SignIn(ctx, login.Attempt{Username: username, Password: password, Address: desktop})
	s.ok(err)
	token, _, err = people.ChangePassword(ctx, token, password, chosen, desktop)
	s.ok(err)
	offer, token, _, err := people.BeginTOTP(ctx, token, login.Credentials{Password: chosen}, desktop)
	s.ok(err)
	_, _, _, err = people.ConfirmTOTP(ctx, token, offer.Ticket, s.codeNow(offer.Secret), netip.Addr{})
	s.ok(err)
}

// codeNow is what an app shows that was given a secret: RFC 6238, by our own hand.
func (s *testEnv) codeNow(secret string) string {
	s.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	s.ok(err)
	mac := hmac.New(sha1.New, key)
	s.ok(binary.Write(mac, binary.BigEndian, s.clock().Unix()/30))
	sum := mac.Sum(nil)
	from := sum[19] & 15
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[from:])&0x7fffffff)%1_000_000)
}

var loginDamage = []damage{
	{
		name: "a changed role", want: []string{"A11"}, subject: "login 1",
		sql: `UPDATE logins SET role = 'administrator' WHERE id = 1`,
	}, {
		name: "a login switched on again", want: []string{"A11"}, subject: "login 3",
		sql: `UPDATE logins SET disabled = 0 WHERE id = 3`,
	}, {
		name: "a login that sees another operator's books", want: []string{"A11"}, subject: "login 2",
		sql: `UPDATE logins SET operator_id = 2 WHERE id = 2`,
	}, {
		name: "a login of an operator that is missing", want: []string{"O2", "A11"}, subject: "login 2",
		sql: `UPDATE logins SET operator_id = 99 WHERE id = 2`,
	}, {
		name: "an operator's login among the staff", want: []string{"A11"}, subject: "login 2",
		sql: `UPDATE logins SET realm = 'staff', operator_id = NULL, role = 'viewer' WHERE id = 2`,
	}, {
		name: "a changed username", want: []string{"A11"}, subject: "login 1",
		sql: `UPDATE logins SET username = 'asha' WHERE id = 1`,
	}, {
		name: "a changed name of a login", want: []string{"A11"}, subject: "login 1",
		sql: `UPDATE logins SET name = 'Asha' WHERE id = 1`,
	}, {
		name: "a login without its staff action", want: []string{"A11"}, subject: "login 77",
		sql: `INSERT INTO logins (id, realm, username, name, role, language, password_hash, password_changed_at, must_change_password, created_at)
		      VALUES (77, 'staff', 'mallory', 'Mallory', 'administrator', 'en', 'x', 0, 0, 0)`,
	}, {
		name: "a login that went", want: []string{"A11"}, subject: "login 4",
		sql: `DELETE FROM logins WHERE id = 4`,
	}, {
		name: "a removed second factor", want: []string{"A11"}, subject: "login 1",
		sql: `UPDATE logins SET totp = NULL WHERE id = 1; DELETE FROM login_recovery_codes WHERE login_id = 1`,
	}, {
		name: "an added second factor", want: []string{"A11"}, subject: "login 3",
		sql: `UPDATE logins SET totp = x'00' WHERE id = 3`,
	}, {
		name: "a password that is not to be replaced", want: []string{"A11"}, subject: "login 2",
		sql: `UPDATE logins SET must_change_password = 0 WHERE id = 2`,
	}, {
		name: "a changed password time", want: []string{"A11"}, subject: "login 1",
		sql: `UPDATE logins SET password_changed_at = password_changed_at + 1000 WHERE id = 1`,
	}, {
		name: "a recovery code too many", want: []string{"A11"}, subject: "login 1",
		sql: `INSERT INTO login_recovery_codes (login_id, code_hash) VALUES (1, zeroblob(32))`,
	}, {
		name: "a recovery code without a second factor", want: []string{"A11"}, subject: "login 2",
		sql: `INSERT INTO login_recovery_codes (login_id, code_hash) VALUES (2, zeroblob(32))`,
	}, {
		name: "a recovery code of a missing login", want: []string{"A11"}, subject: "login 99",
		sql: `INSERT INTO login_recovery_codes (login_id, code_hash) VALUES (99, zeroblob(32))`,
	}, {
		name: "an added passkey", want: []string{"A11"}, subject: "login 2",
		sql: `INSERT INTO login_passkeys (login_id, site_id, credential_id, public_key, sign_count, backup_eligible, transports, name, created_at)
		      SELECT 2, 'localhost', hash, hash, 0, 0, '', 'Mallory', 0 FROM staff_acts WHERE id = 1`,
	}, {
		name: "a change of a login that moved no version", want: []string{"A3"}, subject: "login 1",
		sql: `UPDATE logins SET version = version - 1 WHERE id = 1`,
	}, {
		name: "a login whose making was taken out of the log", want: []string{"A11", "A9", "A3"}, subject: "login 4",
		sql: `DELETE FROM staff_acts WHERE subject = 'login 4' AND action = 'login create'`,
	}, {
		name: "a login that was said and not made", want: []string{"A11", "A9"}, subject: "login 77",
		sql: `INSERT INTO staff_acts SELECT 999, operator_id, actor, action, 'login 77', before_state, after_state, reason, at, hash, origin, NULL, NULL
		        FROM staff_acts WHERE subject = 'login 1' AND action = 'login create'`,
	}, {
		name: "a rewritten staff action on a login", want: []string{"A11", "A9"}, subject: "login 3",
		sql: `UPDATE staff_acts SET after_state = replace(after_state, '"viewer"', '"administrator"') WHERE subject = 'login 3' AND action = 'login set'`,
	},
}

// A violation names the login, what differs, and what to do.
func TestAudit_LoginViolationSaysWhatToDo(t *testing.T) {
	s := healthyStore(t)
	damage{sql: `UPDATE logins SET role = 'administrator', disabled = 0 WHERE id = 3`}.plant(t, s)
	report, err := audited(t, s.path, s.now)
	if err != nil || len(report.Violations) != 1 {
		t.Fatalf("%v, %v; want one violation", report.Violations, err)
	}
	for _, want := range []string{
		`A11 login 3: "tara" is not as staff action `, `disabled is "false"; expected "true"`, `role is "administrator"; expected "viewer"`,
		"coax admin login set --username tara --status disabled",
	} {
		if told := report.Violations[0].String(); !strings.Contains(told, want) {
			t.Errorf("it says %q; want %q in it", told, want)
		}
	}
}

// A later action on a login that was tampered with does not hide that.
func TestAudit_ReportsLoginRepairedLater(t *testing.T) {
	place := healthyStore(t)
	damage{sql: `UPDATE logins SET role = 'administrator' WHERE id = 1`}.plant(t, place)
	s := openEnv(t, place.path)
	s.now = place.now
	must[login.Person](s)(s.service.ChangeLogin(t.Context(), 1, admin.LoginChange{Role: new(login.Finance)}))
	s.ok(s.store.Close())
	report, err := audited(t, place.path, place.now)
	if err != nil || len(report.Violations) != 1 || !strings.Contains(report.Violations[0].Detail, `found it changed by nobody: role is "administrator"; expected "finance"`) {
		t.Errorf("%v, %v; want the staff action that found it changed", report.Violations, err)
	}
}

// A store from before there were logins can be audited.
func TestAudit_StoreBeforeLogins(t *testing.T) {
	s := openEnv(t, newStorePath(t))
	place := fixture{path: s.path, now: s.now}
	_, err := s.service.CreateOperator(t.Context(), "Asha Cable", admin.OperatorChange{})
	s.ok(err)
	s.ok(s.store.Close())
	migration := "5"
	if pgtest.Chosen() {
		migration = "3"
	}
	damage{sql: `DROP TABLE login_challenges; DROP TABLE login_passkeys; DROP TABLE login_sessions; DROP TABLE login_recovery_codes; DROP TABLE logins;
		DROP TABLE login_grants; DELETE FROM schema_tolerance WHERE migration = ` + migration}.plant(t, place)
	report, err := audited(t, place.path, place.now)
	if err != nil || !report.OK || report.Counts.Operators != 1 {
		t.Errorf("%+v, %v; want it clean", report, err)
	}
}
