package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

// newAccount returns a staff login as the login service would store it.
func newAccount(username string) login.Account {
	return login.Account{
		Person: login.Person{
			Realm: login.Staff, Username: username, Name: "Asha Rao", Role: login.Finance, Language: login.English,
			MustChangePassword: true, CreatedAt: noon,
		},
		PasswordHash: "$hash of " + username,
	}
}

// newOpening returns a session whose token is its own id.
func newOpening(account login.Account, at time.Time) login.NewSession {
	id := fmt.Sprintf("session-%d-%d", account.ID, at.UnixNano())
	return login.NewSession{
		Token: login.HashToken(id),
		Record: login.Record{
			ID: id, CreatedAt: at, SeenAt: at, SteppedUpAt: at, Address: netip.MustParseAddr("192.0.2.7"), Agent: "Firefox", Account: account,
		},
	}
}

// account creates a login and reads it back.
func (h *harness) account(account login.Account) login.Account {
	h.Helper()
	_, err := h.CreateLogin(h.Context(), staffAction("login create"), account)
	h.must(err)
	return h.known(account.Username)
}

func (h *harness) known(username string) login.Account {
	h.Helper()
	account, found, err := h.AccountByUsername(h.Context(), username)
	h.must(err)
	if !found {
		h.Fatalf("there is no login %s", username)
	}
	return account
}

// signIn opens a session of a login at a time.
func (h *harness) signIn(account login.Account, at time.Time) login.TokenHash {
	h.Helper()
	opening := newOpening(account, at)
	h.must(h.OpenSession(h.Context(), opening))
	return opening.Token
}

// session reads the session of a token.
func (h *harness) session(token login.TokenHash) (record login.Record, found bool) {
	h.Helper()
	record, found, err := h.SessionByToken(h.Context(), token)
	h.must(err)
	return record, found
}

func ownAction(action string) login.OwnAction {
	return login.OwnAction{Actor: "web:asha", Action: action, At: noon}
}

var loginTests = []test{
	{"a login survives a restart", loginRoundTrip},
	{"a username is unique under concurrency", usernameUnique},
	{"an operator's login needs an existing operator", ownersBelong},
	{"a disabled or reset login is signed out everywhere", resetsSignOut},
	{"a login cannot move between staff and operators", loginSideFixed},
	{"login changes are audited, without secrets", loginChangesAudited},
}

func loginRoundTrip(h *harness) {
	operator := h.operator("Asha Cable")
	staff := h.account(newAccount("asha"))
	owner := newAccount("owner@example.in")
	owner.Realm, owner.Role, owner.OperatorID, owner.MustChangePassword = login.Operator, login.Owner, operator.ID, false
	owner = h.account(owner)
	h.must(h.SetLanguage(h.Context(), owner.ID, login.Hindi))
	owner.Language = login.Hindi
	h.reopen()
	for _, want := range []login.Account{staff, owner} {
		got := h.known(want.Username)
		if fmt.Sprint(got) != fmt.Sprint(want) || got.PasswordHash != "$hash of "+want.Username || got.Version != 1 || !got.PasswordChangedAt.Equal(noon) {
			h.Errorf("read back %+v; want %+v", got, want)
		}
		person, err := h.Login(h.Context(), want.ID)
		h.must(err)
		if person != want.Person {
			h.Errorf("the person is %+v; want %+v", person, want.Person)
		}
	}
	for _, row := range []struct {
		filter admin.LoginFilter
		want   []login.Person
	}{
		{admin.LoginFilter{}, []login.Person{staff.Person, owner.Person}},
		{admin.LoginFilter{Realm: login.Staff}, []login.Person{staff.Person}},
		{admin.LoginFilter{OperatorID: operator.ID}, []login.Person{owner.Person}},
		{admin.LoginFilter{OperatorID: operator.ID + 1}, []login.Person{}},
	} {
		got, err := h.Logins(h.Context(), row.filter)
		h.must(err)
		if !slices.Equal(got, row.want) {
			h.Errorf("%+v picks %+v; want %+v", row.filter, got, row.want)
		}
	}
	_, err := h.Login(h.Context(), 4711)
	h.refused("an unknown id", err)
	_, err = h.LoginNamed(h.Context(), "nobody")
	h.refused("an unknown username", err)
}

func usernameUnique(h *harness) {
	var made, refused atomic.Int32
	concurrently(8, func(int) {
		_, err := h.CreateLogin(h.Context(), staffAction("login create"), newAccount("asha"))
		switch err.(type) {
		case nil:
			made.Add(1)
		case *admin.Refusal:
			refused.Add(1)
		default:
			h.Errorf("create: %v", err)
		}
	})
	if made.Load() != 1 || refused.Load() != 7 {
		h.Errorf("made %d times, refused %d; want 1 and 7", made.Load(), refused.Load())
	}
}

func ownersBelong(h *harness) {
	gone := h.operator("gone")
	owner := newAccount("owner")
	owner.Realm, owner.Role, owner.OperatorID = login.Operator, login.Owner, gone.ID
	known := h.account(owner)
	token := h.signIn(known, noon)
	if known.OperatorDeleted {
		h.Error("the operator counts as deleted before it is")
	}
	inactive := subscription.OperatorInactive
	_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), gone.ID, admin.OperatorChange{Status: &inactive})
	h.must(err)
	if record, _ := h.session(token); record.Account.OperatorDeleted {
		h.Error("a suspended operator counts as deleted")
	}
	h.must(h.DeleteOperator(h.Context(), staffAction("lco delete"), gone.ID))
	record, found := h.session(token)
	if !found || !record.Account.OperatorDeleted || !h.known("owner").OperatorDeleted {
		h.Errorf("found %v: the login does not know that its operator was deleted", found)
	}
	for _, id := range []int64{gone.ID, 4711} {
		owner.Username, owner.OperatorID = name("owner", int(id)), id
		_, err := h.CreateLogin(h.Context(), staffAction("login create"), owner)
		h.refused("an owner of no operator", err)
	}
}

func resetsSignOut(h *harness) {
	asha, other := h.account(newAccount("asha")), h.account(newAccount("other"))
	others := h.signIn(other, noon)
	yes, no := true, false
	for what, change := range map[string]func() (login.Person, error){
		"disabled": func() (login.Person, error) {
			return h.ChangeLogin(h.Context(), staffAction("login set"), asha.ID, admin.LoginChange{Disabled: &yes})
		},
		"a new password": func() (login.Person, error) {
			return h.ResetPassword(h.Context(), staffAction("login reset-password"), asha.ID, "$another")
		},
		"no second factor": func() (login.Person, error) {
			return h.ResetTOTP(h.Context(), staffAction("login reset-totp"), asha.ID)
		},
	} {
		_, err := h.ChangeLogin(h.Context(), staffAction("login set"), asha.ID, admin.LoginChange{Disabled: &no})
		h.must(err)
		token := h.signIn(h.known("asha"), noon)
		h.setUpTOTP("asha", token, "fresh "+what, 1)
		before := h.known("asha")
		_, err = change()
		h.must(err)
		if _, found := h.session(login.HashToken("fresh " + what)); found {
			h.Errorf("%s: still signed in", what)
		}
		if got := h.known("asha"); got.Version != before.Version+1 {
			h.Errorf("%s: version %d after %d", what, got.Version, before.Version)
		}
		// A sign-in with the old password, checked a moment before, comes too late.
		if err := h.OpenSession(h.Context(), newOpening(before, noon)); !errors.Is(err, login.ErrChanged) {
			h.Errorf("%s: a session by the old password: %v; want ErrMoved", what, err)
		}
	}
	_, err := h.ChangeLogin(h.Context(), staffAction("login set"), asha.ID, admin.LoginChange{Disabled: &yes})
	h.must(err)
	if err := h.OpenSession(h.Context(), newOpening(h.known("asha"), noon)); !errors.Is(err, login.ErrChanged) {
		h.Errorf("a session of a disabled login: %v; want ErrMoved", err)
	}
	if _, found := h.session(others); !found {
		h.Error("another login was signed out too")
	}
	_, err = h.ResetTOTP(h.Context(), staffAction("login reset-totp"), other.ID)
	h.refused("reset a missing second factor", err)
}

func loginSideFixed(h *harness) {
	operator := h.operator("one")
	staff := h.account(newAccount("staff"))
	owner := newAccount("owner")
	owner.Realm, owner.Role, owner.OperatorID = login.Operator, login.Owner, operator.ID
	owner = h.account(owner)
	for _, row := range []struct {
		id      int64
		role    login.Role
		refused bool
	}{
		{staff.ID, login.Viewer, false}, {staff.ID, login.Owner, true}, {staff.ID, "king", true},
		{owner.ID, login.Owner, false}, {owner.ID, login.Administrator, true}, {4711, login.Viewer, true},
	} {
		person, err := h.ChangeLogin(h.Context(), staffAction("login set"), row.id, admin.LoginChange{Role: &row.role})
		if row.refused {
			h.refused(string(row.role), err)
		} else if err != nil || person.Role != row.role {
			h.Errorf("login %d as %s: %+v, %v", row.id, row.role, person, err)
		}
	}
}

func loginChangesAudited(h *harness) {
	asha := h.account(newAccount("asha"))
	newName, yes := "Asha R.", true
	token := h.signIn(asha, noon)
	h.must(h.ChangePassword(h.Context(), ownAction("password change"), login.PasswordChange{
		PersonID: asha.ID, Version: 1, Hash: "$new", Old: token, New: login.HashToken("two"), SteppedUpAt: noon,
	}))
	h.setUpTOTP("asha", login.HashToken("two"), "three", 1)
	h.must(h.ChangeFactors(h.Context(), ownAction("totp remove"), login.FactorChange{
		PersonID: asha.ID, Version: 3, DropTOTP: true, Old: login.HashToken("three"), New: login.HashToken("four"), At: noon,
	}))
	_, err := h.ResetPassword(h.Context(), staffAction("login reset-password"), asha.ID, "$reset")
	h.must(err)
	_, err = h.ChangeLogin(h.Context(), staffAction("login set"), asha.ID, admin.LoginChange{Name: &newName, Disabled: &yes})
	h.must(err)

	wants := []struct{ actor, action, before, after string }{
		{"test:asha", "login create", "", `"role":"finance"`},
		{"web:asha", "password change", `"must_change_password":true`, `"must_change_password":false`},
		{"web:asha", "totp set", `"totp":false`, `"totp":true`},
		{"web:asha", "totp remove", `"totp":true`, `"totp":false`},
		{"test:asha", "login reset-password", `"must_change_password":false`, `"must_change_password":true`},
		{"test:asha", "login set", `"disabled":false`, `"disabled":true`},
	}
	auditEntries := h.auditEntries()
	if len(auditEntries) != len(wants) {
		h.Fatalf("%d audit entries are written; want %d: %+v", len(auditEntries), len(wants), auditEntries)
	}
	for i, want := range wants {
		got := auditEntries[i]
		if got.Actor != want.actor || got.Action != want.action || got.Subject != fmt.Sprintf("login %d", asha.ID) ||
			!strings.Contains(got.Before, want.before) || !strings.Contains(got.After, want.after) {
			h.Errorf("audit entry %d is %+v; want %+v", i, got, want)
		}
		for _, secret := range []string{"$", "sealed", "recover"} {
			if strings.Contains(got.Before+got.After, secret) {
				h.Errorf("audit entry %d contains a secret: %s %s", i, got.Before, got.After)
			}
		}
	}
}

// setUpTOTP sets up a second factor in the session of a token, which gets a new token.
func (h *harness) setUpTOTP(username string, old login.TokenHash, fresh string, step int64, recovery ...string) {
	h.Helper()
	account := h.known(username)
	sealed := []byte("sealed " + fresh)
	codes := login.RecoveryCodes{Salt: "salt of " + fresh}
	for _, code := range recovery {
		codes.Hashes = append(codes.Hashes, []byte(code))
	}
	record, found := h.session(old)
	if !found {
		h.Fatal("there is no session to set a second factor up in")
	}
	challenge := challengeOf(record.ID, login.ChallengeTOTP, fresh)
	h.must(h.SaveChallenge(h.Context(), challenge))
	h.must(h.ChangeFactors(h.Context(), ownAction("totp set"), login.FactorChange{
		PersonID: account.ID, Version: account.Version, Challenge: &challenge.ChallengeRef, Old: old, New: login.HashToken(fresh), At: noon,
		SetTOTP: &login.NewTOTP{Sealed: sealed, Step: step}, RecoveryCodes: &codes,
	}))
}
