package login_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/internal/subscription"
)

const password = "correct horse battery"

var (
	noon = time.Date(2027, 3, 1, 6, 30, 0, 0, time.UTC)
	here = netip.MustParseAddr("192.0.2.7")
)

// testEnv is a service on a real store, with a clock that tests advance.
type testEnv struct {
	*testing.T
	store   *sqlite.DB
	vault   *access.Vault
	service *login.Service
	staff   *admin.Service
	now     time.Time
	// pauses are the delays of responses.
	pauses []time.Duration
}

func newEnv(t *testing.T, config login.Config) *testEnv {
	t.Helper()
	text, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	login.CheapHashing(t)
	env := &testEnv{T: t, now: noon}
	if env.vault, err = access.OpenVault(text); err != nil {
		t.Fatal(err)
	}
	env.store = sqlitetest.New(t)
	config.Now = func() time.Time { return env.now }
	config.Pause = func(_ context.Context, d time.Duration) error {
		env.pauses = append(env.pauses, d)
		return nil
	}
	env.service = login.New(env.store, env.vault, config)
	env.staff = admin.NewService(env.store, env.vault, "cli:test", config.Now)
	return env
}

func (env *testEnv) must(err error) {
	env.Helper()
	if err != nil {
		env.Fatal(err)
	}
}

// person makes a login that has chosen its password.
func (env *testEnv) person(username string, role login.Role, operatorID int64) login.Person {
	env.Helper()
	person, made, err := env.staff.CreateLogin(env.Context(), admin.NewLogin{
		Username: username, Name: "Asha", Role: role, OperatorID: operatorID, Password: password,
	})
	env.must(err)
	if made != "" || person.MustChangePassword {
		env.Fatalf("a chosen password has to be changed: %+v", person)
	}
	return person
}

func (env *testEnv) role(id int64, role login.Role) {
	env.Helper()
	_, err := env.staff.ChangeLogin(env.Context(), id, admin.LoginChange{Role: &role})
	env.must(err)
}

func (env *testEnv) try(username, password string) (string, login.Session, error) {
	return env.service.SignIn(env.Context(), login.Attempt{Username: username, Password: password, Address: here, Agent: "Firefox\x00"})
}

func (env *testEnv) signIn(username, password string) (string, login.Session) {
	env.Helper()
	token, s, err := env.try(username, password)
	env.must(err)
	return token, s
}

// enrol sets up a second factor and returns how to make codes of it.
func (env *testEnv) enrol(token string) (codeOf func() string, recovery []string, fresh string) {
	env.Helper()
	offer, begun, _, err := env.service.BeginTOTP(env.Context(), token, login.Credentials{Password: password}, here)
	env.must(err)
	code := func() string { return login.CodeAt(offer.Secret, env.now) }
	recovery, fresh, s, err := env.service.ConfirmTOTP(env.Context(), begun, offer.Ticket, code(), here)
	env.must(err)
	if s.Stage != login.Complete || !s.Person.TOTP || len(recovery) != 10 {
		env.Fatalf("set up, the session is %+v with %d recovery codes", s, len(recovery))
	}
	env.signedOut("the token from before", token)
	env.signedOut("the token from when it began", begun)
	return code, recovery, fresh
}

func (env *testEnv) refused(what string, err error, reason login.Reason) {
	env.Helper()
	var refusal *login.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != reason || refusal.Text == "" {
		env.Errorf("%s: %v; want it refused: %s", what, err, reason)
	}
}

func (env *testEnv) signedOut(what, token string) {
	env.Helper()
	if _, err := env.service.Resume(env.Context(), token); !errors.Is(err, login.ErrSignedOut) {
		env.Errorf("%s: %v; want it signed out", what, err)
	}
}

func (env *testEnv) stage(token string, want login.Stage) login.Session {
	env.Helper()
	s, err := env.service.Resume(env.Context(), token)
	if err != nil || s.Stage != want {
		env.Errorf("the session is %q, %v; want %q", s.Stage, err, want)
	}
	return s
}

func TestSignIn_CorrectPassword(t *testing.T) {
	env := newEnv(t, login.Config{})
	made := env.person("Asha@Cable", login.Viewer, 0)
	token, s := env.signIn(" ASHA@cable ", password)
	if s.Stage != login.Complete || s.Person.ID != made.ID || s.Person.Username != "asha@cable" || !s.Person.LastSignIn.Equal(noon) ||
		s.Address != here || s.Agent != "Firefox" || !s.Fresh(env.now) || s.ID == "" || s.ID == token {
		t.Errorf("the session is %+v", s)
	}
	got := env.stage(token, login.Complete)
	if got.ID != s.ID || got.Person != s.Person {
		t.Errorf("resumed it is %+v; want %+v", got, s)
	}
	env.must(env.service.SignOut(t.Context(), token))
	env.must(env.service.SignOut(t.Context(), token))
	env.signedOut("after signing out", token)
	for _, token := range []string{"", "short", token + "x"} {
		env.signedOut("a token that is none", token)
	}
}

func TestSignIn_WrongNameAndPasswordAreAlike(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	_, _, wrong := env.try("asha", "wrong horse battery")
	env.refused("a wrong password", wrong, login.Wrong)
	for _, username := range []string{"nobody", "", "no body", "asha'--"} {
		_, _, err := env.try(username, password)
		env.refused(username, err, login.Wrong)
		if err.Error() != wrong.Error() {
			t.Errorf("%q is told %q; want %q", username, err, wrong)
		}
	}
	// Being throttled does not tell either.
	for _, username := range []string{"asha", "nobody"} {
		var waits []time.Duration
		for range 12 {
			_, _, err := env.service.SignIn(t.Context(), login.Attempt{Username: username, Password: "wrong horse battery", Address: netip.Addr{}})
			var refusal *login.Refusal
			if errors.As(err, &refusal) && refusal.Reason == login.Throttled {
				waits = append(waits, refusal.RetryAfter)
			}
		}
		if len(waits) != 2 || waits[0] != 15*time.Minute {
			t.Errorf("%s: throttled %v; want the last two, after ten", username, waits)
		}
	}
	_, _, err := env.service.SignIn(t.Context(), login.Attempt{Username: "asha", Password: password, Address: netip.Addr{}})
	env.refused("the right password while throttled", err, login.Throttled)
	env.now = env.now.Add(15 * time.Minute)
	env.signIn("asha", password)
}

func TestSignIn_RenewsOldHash(t *testing.T) {
	env := newEnv(t, login.Config{})
	old := login.CheapHash(password)
	_, err := env.store.CreateLogin(t.Context(), admin.StaffAction{Actor: "cli:test", Action: "login create", At: noon}, login.Account{
		Person:       login.Person{Realm: login.Staff, Username: "asha", Name: "Asha", Role: login.Viewer, Language: login.English, CreatedAt: noon},
		PasswordHash: old,
	})
	env.must(err)
	hash := func() string {
		account, _, err := env.store.AccountByUsername(t.Context(), "asha")
		env.must(err)
		return account.PasswordHash
	}
	_, _, err = env.try("asha", "wrong horse battery")
	env.refused("a wrong password", err, login.Wrong)
	if hash() != old {
		t.Error("a wrong password changed the hash")
	}
	token, _ := env.signIn("asha", password)
	renewed := hash()
	if renewed == old {
		t.Error("the hash is as cheap as before")
	}
	env.signIn("asha", password)
	if hash() != renewed {
		t.Error("the hash is renewed every time")
	}
	env.stage(token, login.Complete)
}

func TestSignIn_DisabledLogin(t *testing.T) {
	env := newEnv(t, login.Config{})
	asha := env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	yes, no := true, false
	_, err := env.staff.ChangeLogin(t.Context(), asha.ID, admin.LoginChange{Disabled: &yes})
	env.must(err)
	env.signedOut("disabled", token)
	_, _, err = env.try("asha", password)
	env.refused("with the password", err, login.Disabled)
	_, _, err = env.try("asha", "wrong horse battery")
	env.refused("without it", err, login.Wrong)
	_, err = env.staff.ChangeLogin(t.Context(), asha.ID, admin.LoginChange{Disabled: &no})
	env.must(err)
	env.signedOut("enabled again", token)
	env.signIn("asha", password)
}

func TestSignIn_SuspendedAndDeletedOperator(t *testing.T) {
	env := newEnv(t, login.Config{StaffTOTP: true})
	operator, err := env.staff.CreateOperator(t.Context(), "Asha Cable", admin.OperatorChange{})
	env.must(err)
	env.person("owner", login.Owner, operator.ID)
	token, s := env.signIn("owner", password)
	if s.Person.OperatorID != operator.ID || s.Person.Realm != login.Operator {
		t.Errorf("the person is %+v", s.Person)
	}
	inactive := subscription.OperatorInactive
	_, err = env.staff.ChangeOperator(t.Context(), operator.ID, admin.OperatorChange{Status: &inactive})
	env.must(err)
	env.stage(token, login.Complete)
	env.signIn("owner", password)
	env.must(env.staff.DeleteOperator(t.Context(), operator.ID))
	env.signedOut("deleted", token)
	_, _, err = env.try("owner", password)
	env.refused("deleted", err, login.Disabled)
}

func TestSignIn_TemporaryPasswordMustBeReplaced(t *testing.T) {
	env := newEnv(t, login.Config{StaffTOTP: true})
	person, made, err := env.staff.CreateLogin(t.Context(), admin.NewLogin{Username: "asha", Name: "Asha", Role: login.Finance})
	env.must(err)
	if made == "" || !person.MustChangePassword {
		t.Fatalf("made up %q, %+v", made, person)
	}
	token, s := env.signIn("asha", made)
	if s.Stage != login.NeedsPassword {
		t.Errorf("the stage is %q", s.Stage)
	}
	_, _, _, err = env.service.BeginTOTP(t.Context(), token, login.Credentials{Password: made}, here)
	env.refused("a second factor before that", err, login.WrongStage)
	for what, row := range map[string]struct {
		old, new string
		want     login.Reason
	}{
		"a wrong old one": {"wrong horse battery", password, login.WrongPassword},
		"a short one":     {made, "short", login.WeakPassword},
		"the same":        {made, made, login.WeakPassword},
	} {
		_, _, err := env.service.ChangePassword(t.Context(), token, row.old, row.new, here)
		env.refused(what, err, row.want)
	}
	other, _ := env.signIn("asha", made)
	fresh, s, err := env.service.ChangePassword(t.Context(), token, made, password, here)
	env.must(err)
	if s.Stage != login.NeedsTOTP || s.Person.MustChangePassword {
		t.Errorf("afterwards the session is %+v", s)
	}
	env.signedOut("the token from before", token)
	env.signedOut("the other session", other)
	_, _, err = env.try("asha", made)
	env.refused("the old password", err, login.Wrong)

	// Finance needs a second factor, however long it takes to get the app.
	env.now = env.now.Add(20 * time.Minute)
	_, recovery, fresh := env.enrol(fresh)
	_, _, err = env.service.RemoveTOTP(t.Context(), fresh, login.Credentials{Password: password, Code: recovery[0]}, here)
	env.refused("to do without", err, login.Required)

	// Reset, all of it begins again, and the code is asked for first.
	_, made, err = env.staff.ResetPassword(t.Context(), person.ID)
	env.must(err)
	env.signedOut("reset", fresh)
	if _, s := env.signIn("asha", made); s.Stage != login.NeedsCode {
		t.Errorf("the stage is %q; want the code first", s.Stage)
	}
}

func TestSession_IdleAndAbsoluteTimeout(t *testing.T) {
	env := newEnv(t, login.Config{Idle: 30 * time.Minute, Absolute: 2 * time.Hour})
	asha := env.person("asha", login.Viewer, 0)
	idle, _ := env.signIn("asha", password)
	used, first := env.signIn("asha", password)
	env.now = noon.Add(30*time.Minute - time.Millisecond)
	if s := env.stage(used, login.Complete); !s.SeenAt.Equal(env.now) || !s.CreatedAt.Equal(first.CreatedAt) || s.Fresh(env.now) {
		t.Errorf("the session is %+v", s)
	}
	env.now = noon.Add(30 * time.Minute)
	env.signedOut("idle for half an hour", idle)
	// Its use is written down once a minute at most.
	if s := env.stage(used, login.Complete); s.SeenAt.Equal(env.now) {
		t.Errorf("it is noted again after a millisecond: %s", s.SeenAt)
	}
	if listed, err := env.service.Sessions(t.Context(), asha.ID); err != nil || len(listed) != 1 || listed[0].ID != first.ID {
		t.Errorf("listed are %+v, %v; want the one that is in use", listed, err)
	}
	if removed, err := env.service.Purge(t.Context(), env.now); err != nil || removed != 1+3 {
		t.Errorf("%d removed, %v; want the idle one and the three counters of tries", removed, err)
	}
	for range 3 {
		env.now = env.now.Add(29 * time.Minute)
		env.stage(used, login.Complete)
	}
	env.now = noon.Add(2 * time.Hour)
	env.signedOut("after its time, although in use", used)
}

func TestEndSession_OwnSessionsOnly(t *testing.T) {
	env := newEnv(t, login.Config{})
	asha, other := env.person("asha", login.Viewer, 0), env.person("other", login.Viewer, 0)
	token, s := env.signIn("asha", password)
	env.must(env.service.EndSession(t.Context(), other.ID, s.ID))
	env.stage(token, login.Complete)
	env.must(env.service.SetLanguage(t.Context(), token, "hi"))
	if s := env.stage(token, login.Complete); s.Person.Language != login.Hindi {
		t.Errorf("the language is %s", s.Person.Language)
	}
	env.must(env.service.SetLanguage(t.Context(), token, "tlh"))
	if s := env.stage(token, login.Complete); s.Person.Language != login.English {
		t.Errorf("the language is %s", s.Person.Language)
	}
	env.must(env.service.EndSession(t.Context(), asha.ID, s.ID))
	env.signedOut("ended", token)
}

func TestSignIn_StoreErrorIsNoRefusal(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	var refusal *login.Refusal
	if _, err := env.service.Resume(gone, token); err == nil || errors.Is(err, login.ErrSignedOut) || errors.As(err, &refusal) {
		t.Errorf("Resume says %v; want that it could not look", err)
	}
	for range 30 { // none of these is the person's fault
		if _, _, err := env.service.SignIn(gone, login.Attempt{Username: "asha", Password: password}); err == nil || errors.As(err, &refusal) {
			t.Fatalf("SignIn says %v; want that it could not look", err)
		}
	}
	env.signIn("asha", password)
}

// forgetTries lets a test go on after wrong tries.
func (env *testEnv) forgetTries() {
	env.Helper()
	_, err := env.store.PurgeTries(env.Context(), env.now.Add(time.Hour), 1000)
	env.must(err)
}

func (env *testEnv) account(username string) login.Account {
	env.Helper()
	account, _, err := env.store.AccountByUsername(env.Context(), username)
	env.must(err)
	return account
}
