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

// office is a service on a real store, with a clock that tests turn.
type office struct {
	*testing.T
	store   *sqlite.DB
	vault   *access.Vault
	service *login.Service
	staff   *admin.Service
	now     time.Time
	// pauses are by how much answers were delayed.
	pauses []time.Duration
}

func newOffice(t *testing.T, config login.Config) *office {
	t.Helper()
	text, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	login.CheapHashing(t)
	o := &office{T: t, now: noon}
	if o.vault, err = access.OpenVault(text); err != nil {
		t.Fatal(err)
	}
	o.store = sqlitetest.New(t)
	config.Now = func() time.Time { return o.now }
	config.Pause = func(_ context.Context, d time.Duration) error {
		o.pauses = append(o.pauses, d)
		return nil
	}
	o.service = login.New(o.store, o.vault, config)
	o.staff = admin.NewService(o.store, o.vault, "cli:test", config.Now)
	return o
}

func (o *office) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// person makes a login that has chosen its password.
func (o *office) person(username string, role login.Role, operatorID int64) login.Person {
	o.Helper()
	person, made, err := o.staff.CreateLogin(o.Context(), admin.NewLogin{
		Username: username, Name: "Asha", Role: role, OperatorID: operatorID, Password: password,
	})
	o.must(err)
	if made != "" || person.MustChangePassword {
		o.Fatalf("a chosen password has to be changed: %+v", person)
	}
	return person
}

func (o *office) role(id int64, role login.Role) {
	o.Helper()
	_, err := o.staff.ChangeLogin(o.Context(), id, admin.LoginChange{Role: &role})
	o.must(err)
}

func (o *office) try(username, password string) (string, login.Session, error) {
	return o.service.SignIn(o.Context(), login.Attempt{Username: username, Password: password, Address: here, Agent: "Firefox\x00"})
}

func (o *office) signIn(username, password string) (string, login.Session) {
	o.Helper()
	token, s, err := o.try(username, password)
	o.must(err)
	return token, s
}

// enrol sets up a second factor and returns how to make codes of it.
func (o *office) enrol(token string) (codeOf func() string, recovery []string, fresh string) {
	o.Helper()
	offer, begun, _, err := o.service.BeginTOTP(o.Context(), token, login.Credentials{Password: password}, here)
	o.must(err)
	code := func() string { return login.CodeAt(offer.Secret, o.now) }
	recovery, fresh, s, err := o.service.ConfirmTOTP(o.Context(), begun, offer.Ticket, code(), here)
	o.must(err)
	if s.Stage != login.Whole || !s.Person.TOTP || len(recovery) != 10 {
		o.Fatalf("set up, the session is %+v with %d recovery codes", s, len(recovery))
	}
	o.signedOut("the token from before", token)
	o.signedOut("the token from when it began", begun)
	return code, recovery, fresh
}

func (o *office) refused(what string, err error, reason login.Reason) {
	o.Helper()
	var refusal *login.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != reason || refusal.Text == "" {
		o.Errorf("%s: %v; want it refused: %s", what, err, reason)
	}
}

func (o *office) signedOut(what, token string) {
	o.Helper()
	if _, err := o.service.Resume(o.Context(), token); !errors.Is(err, login.ErrSignedOut) {
		o.Errorf("%s: %v; want it signed out", what, err)
	}
}

func (o *office) stage(token string, want login.Stage) login.Session {
	o.Helper()
	s, err := o.service.Resume(o.Context(), token)
	if err != nil || s.Stage != want {
		o.Errorf("the session is %q, %v; want %q", s.Stage, err, want)
	}
	return s
}

func TestWhoKnowsThePasswordIsIn(t *testing.T) {
	o := newOffice(t, login.Config{})
	made := o.person("Asha@Cable", login.Viewer, 0)
	token, s := o.signIn(" ASHA@cable ", password)
	if s.Stage != login.Whole || s.Person.ID != made.ID || s.Person.Username != "asha@cable" || !s.Person.LastSignIn.Equal(noon) ||
		s.Address != here || s.Agent != "Firefox" || !s.Fresh(o.now) || s.ID == "" || s.ID == token {
		t.Errorf("the session is %+v", s)
	}
	got := o.stage(token, login.Whole)
	if got.ID != s.ID || got.Person != s.Person {
		t.Errorf("resumed it is %+v; want %+v", got, s)
	}
	o.must(o.service.SignOut(t.Context(), token))
	o.must(o.service.SignOut(t.Context(), token))
	o.signedOut("after signing out", token)
	for _, token := range []string{"", "short", token + "x"} {
		o.signedOut("a token that is none", token)
	}
}

func TestAWrongUsernameAndAWrongPasswordAreAnsweredAlike(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	_, _, wrong := o.try("asha", "wrong horse battery")
	o.refused("a wrong password", wrong, login.Wrong)
	for _, username := range []string{"nobody", "", "no body", "asha'--"} {
		_, _, err := o.try(username, password)
		o.refused(username, err, login.Wrong)
		if err.Error() != wrong.Error() {
			t.Errorf("%q is told %q; want %q", username, err, wrong)
		}
	}
	// Being throttled does not tell either.
	for _, username := range []string{"asha", "nobody"} {
		var waits []time.Duration
		for range 12 {
			_, _, err := o.service.SignIn(t.Context(), login.Attempt{Username: username, Password: "wrong horse battery", Address: netip.Addr{}})
			var refusal *login.Refusal
			if errors.As(err, &refusal) && refusal.Reason == login.Throttled {
				waits = append(waits, refusal.RetryAfter)
			}
		}
		if len(waits) != 2 || waits[0] != 15*time.Minute {
			t.Errorf("%s: throttled %v; want the last two, after ten", username, waits)
		}
	}
	_, _, err := o.service.SignIn(t.Context(), login.Attempt{Username: "asha", Password: password, Address: netip.Addr{}})
	o.refused("the right password while throttled", err, login.Throttled)
	o.now = o.now.Add(15 * time.Minute)
	o.signIn("asha", password)
}

func TestAHashOfOtherParametersIsRenewedAtTheNextSignIn(t *testing.T) {
	o := newOffice(t, login.Config{})
	old := login.CheapHash(password)
	_, err := o.store.CreateLogin(t.Context(), admin.StaffAction{Actor: "cli:test", Action: "login create", At: noon}, login.Account{
		Person:       login.Person{Realm: login.Staff, Username: "asha", Name: "Asha", Role: login.Viewer, Language: login.English, CreatedAt: noon},
		PasswordHash: old,
	})
	o.must(err)
	hash := func() string {
		account, _, err := o.store.AccountByUsername(t.Context(), "asha")
		o.must(err)
		return account.PasswordHash
	}
	_, _, err = o.try("asha", "wrong horse battery")
	o.refused("a wrong password", err, login.Wrong)
	if hash() != old {
		t.Error("a wrong password changed the hash")
	}
	token, _ := o.signIn("asha", password)
	renewed := hash()
	if renewed == old {
		t.Error("the hash is as cheap as before")
	}
	o.signIn("asha", password)
	if hash() != renewed {
		t.Error("the hash is renewed every time")
	}
	o.stage(token, login.Whole)
}

func TestADisabledLoginIsToldSoOnlyWithTheRightPassword(t *testing.T) {
	o := newOffice(t, login.Config{})
	asha := o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	yes, no := true, false
	_, err := o.staff.ChangeLogin(t.Context(), asha.ID, admin.LoginChange{Disabled: &yes})
	o.must(err)
	o.signedOut("disabled", token)
	_, _, err = o.try("asha", password)
	o.refused("with the password", err, login.Disabled)
	_, _, err = o.try("asha", "wrong horse battery")
	o.refused("without it", err, login.Wrong)
	_, err = o.staff.ChangeLogin(t.Context(), asha.ID, admin.LoginChange{Disabled: &no})
	o.must(err)
	o.signedOut("enabled again", token)
	o.signIn("asha", password)
}

func TestTheLoginOfASuspendedOperatorWorksAndThatOfADeletedOneDoesNot(t *testing.T) {
	o := newOffice(t, login.Config{StaffTOTP: true})
	operator, err := o.staff.CreateOperator(t.Context(), "Asha Cable", admin.OperatorChange{})
	o.must(err)
	o.person("owner", login.Owner, operator.ID)
	token, s := o.signIn("owner", password)
	if s.Person.OperatorID != operator.ID || s.Person.Realm != login.Operator {
		t.Errorf("the person is %+v", s.Person)
	}
	inactive := subscription.OperatorInactive
	_, err = o.staff.ChangeOperator(t.Context(), operator.ID, admin.OperatorChange{Status: &inactive})
	o.must(err)
	o.stage(token, login.Whole)
	o.signIn("owner", password)
	o.must(o.staff.DeleteOperator(t.Context(), operator.ID))
	o.signedOut("deleted", token)
	_, _, err = o.try("owner", password)
	o.refused("deleted", err, login.Disabled)
}

func TestAPasswordThatWasMadeUpHasToBeReplacedFirst(t *testing.T) {
	o := newOffice(t, login.Config{StaffTOTP: true})
	person, made, err := o.staff.CreateLogin(t.Context(), admin.NewLogin{Username: "asha", Name: "Asha", Role: login.Finance})
	o.must(err)
	if made == "" || !person.MustChangePassword {
		t.Fatalf("made up %q, %+v", made, person)
	}
	token, s := o.signIn("asha", made)
	if s.Stage != login.NeedsPassword {
		t.Errorf("the stage is %q", s.Stage)
	}
	_, _, _, err = o.service.BeginTOTP(t.Context(), token, login.Credentials{Password: made}, here)
	o.refused("a second factor before that", err, login.OutOfTurn)
	for what, row := range map[string]struct {
		old, new string
		want     login.Reason
	}{
		"a wrong old one": {"wrong horse battery", password, login.WrongPassword},
		"a short one":     {made, "short", login.WeakPassword},
		"the same":        {made, made, login.WeakPassword},
	} {
		_, _, err := o.service.ChangePassword(t.Context(), token, row.old, row.new, here)
		o.refused(what, err, row.want)
	}
	other, _ := o.signIn("asha", made)
	fresh, s, err := o.service.ChangePassword(t.Context(), token, made, password, here)
	o.must(err)
	if s.Stage != login.NeedsTOTP || s.Person.MustChangePassword {
		t.Errorf("afterwards the session is %+v", s)
	}
	o.signedOut("the token from before", token)
	o.signedOut("the other session", other)
	_, _, err = o.try("asha", made)
	o.refused("the old password", err, login.Wrong)

	// Finance needs a second factor, however long it takes to get the app.
	o.now = o.now.Add(20 * time.Minute)
	_, recovery, fresh := o.enrol(fresh)
	_, _, err = o.service.RemoveTOTP(t.Context(), fresh, login.Credentials{Password: password, Code: recovery[0]}, here)
	o.refused("to do without", err, login.Required)

	// Reset, all of it begins again, and the code is asked for first.
	_, made, err = o.staff.ResetPassword(t.Context(), person.ID)
	o.must(err)
	o.signedOut("reset", fresh)
	if _, s := o.signIn("asha", made); s.Stage != login.NeedsCode {
		t.Errorf("the stage is %q; want the code first", s.Stage)
	}
}

func TestASessionEndsWhenIdleAndAtTheLatestAfterItsTime(t *testing.T) {
	o := newOffice(t, login.Config{Idle: 30 * time.Minute, Absolute: 2 * time.Hour})
	asha := o.person("asha", login.Viewer, 0)
	idle, _ := o.signIn("asha", password)
	used, first := o.signIn("asha", password)
	o.now = noon.Add(30*time.Minute - time.Millisecond)
	if s := o.stage(used, login.Whole); !s.SeenAt.Equal(o.now) || !s.CreatedAt.Equal(first.CreatedAt) || s.Fresh(o.now) {
		t.Errorf("the session is %+v", s)
	}
	o.now = noon.Add(30 * time.Minute)
	o.signedOut("idle for half an hour", idle)
	// Its use is written down once a minute at most.
	if s := o.stage(used, login.Whole); s.SeenAt.Equal(o.now) {
		t.Errorf("it is noted again after a millisecond: %s", s.SeenAt)
	}
	if listed, err := o.service.Sessions(t.Context(), asha.ID); err != nil || len(listed) != 1 || listed[0].ID != first.ID {
		t.Errorf("listed are %+v, %v; want the one that is in use", listed, err)
	}
	if removed, err := o.service.Purge(t.Context(), o.now); err != nil || removed != 1+3 {
		t.Errorf("%d removed, %v; want the idle one and the three counters of tries", removed, err)
	}
	for range 3 {
		o.now = o.now.Add(29 * time.Minute)
		o.stage(used, login.Whole)
	}
	o.now = noon.Add(2 * time.Hour)
	o.signedOut("after its time, although in use", used)
}

func TestAPersonEndsTheirOwnSessionsOnly(t *testing.T) {
	o := newOffice(t, login.Config{})
	asha, other := o.person("asha", login.Viewer, 0), o.person("other", login.Viewer, 0)
	token, s := o.signIn("asha", password)
	o.must(o.service.EndSession(t.Context(), other.ID, s.ID))
	o.stage(token, login.Whole)
	o.must(o.service.SetLanguage(t.Context(), token, "hi"))
	if s := o.stage(token, login.Whole); s.Person.Language != login.Hindi {
		t.Errorf("the language is %s", s.Person.Language)
	}
	o.must(o.service.SetLanguage(t.Context(), token, "tlh"))
	if s := o.stage(token, login.Whole); s.Person.Language != login.English {
		t.Errorf("the language is %s", s.Person.Language)
	}
	o.must(o.service.EndSession(t.Context(), asha.ID, s.ID))
	o.signedOut("ended", token)
}

func TestAStoreThatIsGoneIsNotTakenForSignedOut(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	var refusal *login.Refusal
	if _, err := o.service.Resume(gone, token); err == nil || errors.Is(err, login.ErrSignedOut) || errors.As(err, &refusal) {
		t.Errorf("Resume says %v; want that it could not look", err)
	}
	for range 30 { // none of these is the person's fault
		if _, _, err := o.service.SignIn(gone, login.Attempt{Username: "asha", Password: password}); err == nil || errors.As(err, &refusal) {
			t.Fatalf("SignIn says %v; want that it could not look", err)
		}
	}
	o.signIn("asha", password)
}

// attemptsForgotten lets a test go on after wrong tries.
func (o *office) attemptsForgotten() {
	o.Helper()
	_, err := o.store.PurgeTries(o.Context(), o.now.Add(time.Hour), 1000)
	o.must(err)
}

func (o *office) account(username string) login.Account {
	o.Helper()
	account, _, err := o.store.AccountByUsername(o.Context(), username)
	o.must(err)
	return account
}
