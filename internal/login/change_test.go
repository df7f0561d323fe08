package login_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/passkey/passkeytest"
)

const origin = "https://panel.example.com"

// addPasskey adds a passkey of a new device in a session.
func (env *testEnv) addPasskey(token, name string, given login.Credentials) (device *passkeytest.Authenticator, recovery []string, fresh string) {
	env.Helper()
	site, _ := login.SiteOf(origin)
	device = passkeytest.New(env, origin)
	offer, begun, _, err := env.service.BeginPasskey(env.Context(), token, site, name, given, here)
	env.must(err)
	recovery, fresh, s, err := env.service.FinishPasskey(env.Context(), begun, offer.Ticket, device.Create(offer.Options), here)
	env.must(err)
	if s.Stage != login.Complete || s.Person.Passkeys == 0 {
		env.Fatalf("with a passkey, the session is %+v", s)
	}
	return device, recovery, fresh
}

// challenge is what a page asks a passkey of a session.
func (env *testEnv) challenge(token string) string {
	env.Helper()
	site, _ := login.SiteOf(origin)
	c, err := env.service.ChallengePasskey(env.Context(), token, site)
	env.must(err)
	return c.Options
}

// A stolen cookie, however recent its session, comes with neither the password nor
// the second factor.
func TestFactorChange_NeedsPasswordAndPresentFactor(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	site, _ := login.SiteOf(origin)
	ctx := t.Context()
	ways := map[string]func(token string, given login.Credentials) error{
		"set codes up": func(token string, given login.Credentials) error {
			_, _, _, err := env.service.BeginTOTP(ctx, token, given, here)
			return err
		},
		"add a passkey": func(token string, given login.Credentials) error {
			_, _, _, err := env.service.BeginPasskey(ctx, token, site, "Key", given, here)
			return err
		},
		"remove codes": func(token string, given login.Credentials) error {
			_, _, err := env.service.RemoveTOTP(ctx, token, given, here)
			return err
		},
		"remove a passkey": func(token string, given login.Credentials) error {
			_, _, err := env.service.RemovePasskey(ctx, token, 1, given, here)
			return err
		},
		"new recovery codes": func(token string, given login.Credentials) error {
			_, _, _, err := env.service.ReplaceRecoveryCodes(ctx, token, given, here)
			return err
		},
	}
	// The first second factor needs the password.
	for what, way := range ways {
		env.refused(what+" without a password", way(token, login.Credentials{}), login.WrongPassword)
		env.forgetTries()
	}
	codeOf, _, token := env.enrol(token)
	env.now = env.now.Add(time.Minute)
	device, _, token := env.addPasskey(token, "Phone", login.Credentials{Password: password, Code: codeOf()})
	env.now = env.now.Add(time.Minute)
	token, s, err := env.service.StepUp(ctx, token, password, codeOf(), here)
	env.must(err)
	if !s.Fresh(env.now) {
		t.Fatalf("the session is %+v; want it fresh, so that its age cannot be what refuses", s)
	}
	version := env.account("asha").Version
	for what, way := range ways {
		for _, row := range []struct {
			name  string
			given login.Credentials
			want  login.Reason
		}{
			{"nothing", login.Credentials{}, login.WrongPassword},
			{"the code alone", login.Credentials{Code: codeOf()}, login.WrongPassword},
			{"the password alone", login.Credentials{Password: password}, login.WrongCode},
			{"a code that was used", login.Credentials{Password: password, Code: codeOf()}, login.WrongCode},
			{"a passkey's answer to nothing", login.Credentials{Password: password, Passkey: []byte("{}")}, login.WrongPasskey},
		} {
			env.refused(what+" with "+row.name, way(token, row.given), row.want)
			env.forgetTries()
		}
	}
	if got := env.account("asha"); got.Version != version || got.Passkeys != 1 || !got.TOTP {
		t.Errorf("the login has become %+v", got)
	}
	// A ticket is good once and in its own session, and the cookie alone is not enough.
	env.now = env.now.Add(time.Minute)
	offer, token, _, err := env.service.BeginTOTP(ctx, token, login.Credentials{Password: password, Passkey: device.Use(env.challenge(token))}, here)
	env.must(err)
	_, _, _, err = env.service.ConfirmTOTP(ctx, token, "", login.CodeAt(offer.Secret, env.now), here)
	env.refused("without the ticket", err, login.WrongStage)
	_, _, _, err = env.service.ConfirmTOTP(ctx, token, offer.Ticket, "000000", here)
	env.refused("a wrong code", err, login.WrongCode)
	_, fresh, _, err := env.service.ConfirmTOTP(ctx, token, offer.Ticket, login.CodeAt(offer.Secret, env.now), here)
	env.must(err)
	_, _, _, err = env.service.ConfirmTOTP(ctx, fresh, offer.Ticket, login.CodeAt(offer.Secret, env.now), here)
	env.refused("once more", err, login.WrongStage)
	offer, late, _, err := env.service.BeginTOTP(ctx, fresh, login.Credentials{Password: password, Passkey: device.Use(env.challenge(fresh))}, here)
	env.must(err)
	env.now = env.now.Add(10 * time.Minute)
	_, _, _, err = env.service.ConfirmTOTP(ctx, late, offer.Ticket, login.CodeAt(offer.Secret, env.now), here)
	env.refused("after ten minutes", err, login.WrongStage)

	// Guessing there ends the session, as in a step-up.
	env.forgetTries()
	for i := range 10 {
		want := login.WrongPassword
		if i == 9 {
			want = login.SessionOver
		}
		env.refused(fmt.Sprint("guess ", i), ways["remove codes"](late, login.Credentials{Password: "wrong horse battery", Code: "000000"}), want)
	}
	env.signedOut("the session", late)
}

func TestFactorChange_EndsSessionsAndNotifies(t *testing.T) {
	env := newEnv(t, login.Config{})
	asha := env.person("asha", login.Viewer, 0)
	other, _ := env.signIn("asha", password)
	token, _ := env.signIn("asha", password)
	device, recovery, token := env.addPasskey(token, "Phone", login.Credentials{Password: password})
	if len(recovery) != 10 {
		t.Errorf("%d recovery codes come with the first second factor; want 10", len(recovery))
	}
	env.signedOut("the other session", other)
	if s := env.stage(token, login.Complete); len(s.Changes) != 0 {
		t.Errorf("the session that made the change shows %+v", s.Changes)
	}
	at := env.now
	env.now = env.now.Add(time.Hour / 4)
	in := func() string {
		half, _ := env.signIn("asha", password)
		whole, _, err := env.service.VerifyPasskey(t.Context(), half, device.Use(env.challenge(half)), here, "")
		env.must(err)
		return whole
	}
	next := in()
	s := env.stage(next, login.Complete)
	if len(s.Changes) != 1 || s.Changes[0].What != login.PasskeyAdded || s.Changes[0].Name != "Phone" || !s.Changes[0].At.Equal(at) {
		t.Errorf("the next sign-in shows %+v; want the passkey, and when", s.Changes)
	}
	env.must(env.service.AcknowledgeNotices(t.Context(), next))
	if s := env.stage(next, login.Complete); len(s.Changes) != 0 {
		t.Errorf("after it took notice, the session shows %+v", s.Changes)
	}
	codes, next, _, err := env.service.ReplaceRecoveryCodes(t.Context(), next, login.Credentials{Password: password, Code: recovery[0]}, here)
	env.must(err)
	half, _ := env.signIn("asha", password)
	_, _, err = env.service.VerifyCode(t.Context(), half, recovery[1], here, "")
	env.refused("a recovery code that was replaced", err, login.WrongCode)
	_, _, err = env.service.VerifyCode(t.Context(), half, codes[0], here, "")
	env.must(err)
	env.stage(next, login.Complete)

	// A reset by staff is reported, and removes the passkeys, too.
	_, err = env.staff.ResetTOTP(t.Context(), asha.ID)
	env.must(err)
	_, s = env.signIn("asha", password)
	if last := s.Changes[len(s.Changes)-1]; s.Stage != login.Complete || s.Person.SecondFactor() || last.What != login.FactorsReset || last.By != "cli:test" {
		t.Errorf("after the reset the session is %+v", s)
	}
	if all, err := env.service.Passkeys(t.Context(), asha.ID); err != nil || len(all) != 0 {
		t.Errorf("passkeys %+v, %v; want none", all, err)
	}
}

// An attacker who changed a second factor must not be able to hide it from the person.
func TestAcknowledgeNotices_KeepsOwnSessionsChanges(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	codeOf, recovery, token := env.enrol(token)
	env.must(env.service.AcknowledgeNotices(t.Context(), token))
	env.now = env.now.Add(time.Minute)
	half, _ := env.signIn("asha", password)
	next, _, err := env.service.VerifyCode(t.Context(), half, codeOf(), here, "")
	env.must(err)
	_, next, _, err = env.service.ReplaceRecoveryCodes(t.Context(), next, login.Credentials{Password: password, Code: recovery[0]}, here)
	env.must(err)
	if s := env.stage(next, login.Complete); len(s.Changes) != 1 || s.Changes[0].What != login.TOTPSet {
		t.Errorf("another session shows %+v; want the codes that were set up", s.Changes)
	}
	env.must(env.service.AcknowledgeNotices(t.Context(), next))
	env.now = env.now.Add(time.Minute)
	half, _ = env.signIn("asha", password)
	last, _, err := env.service.VerifyCode(t.Context(), half, codeOf(), here, "")
	env.must(err)
	if s := env.stage(last, login.Complete); len(s.Changes) != 1 || s.Changes[0].What != login.RecoveryCodesChanged {
		t.Errorf("the last session shows %+v; want the new recovery codes alone", s.Changes)
	}
}

func TestPasskey_SignsInAndStepsUp(t *testing.T) {
	var events []login.Event
	env := newEnv(t, login.Config{StaffTOTP: true, Observe: func(_ context.Context, e login.Event) { events = append(events, e) }})
	asha := env.person("asha", login.Finance, 0)
	token, s := env.signIn("asha", password)
	if s.Stage != login.NeedsTOTP {
		t.Fatalf("the session is %+v; want it to need a second factor", s)
	}
	device, _, token := env.addPasskey(token, "Key", login.Credentials{Password: password})
	env.stage(token, login.Complete) // a passkey satisfies what is required

	half, s := env.signIn("asha", password)
	if s.Stage != login.NeedsCode || s.Fresh(env.now) {
		t.Fatalf("by the password alone the session is %+v", s)
	}
	_, _, err := env.service.VerifyCode(t.Context(), half, "123456", here, "")
	env.refused("a code of an app that is not set up", err, login.WrongCode)
	answer := device.Use(env.challenge(half))
	whole, s, err := env.service.VerifyPasskey(t.Context(), half, answer, here, "")
	env.must(err)
	if s.Stage != login.Complete || !s.Fresh(env.now) || !s.Person.LastSignIn.Equal(env.now) {
		t.Errorf("the session is %+v", s)
	}
	if e := events[len(events)-1]; e.Kind != login.SignedIn || e.Factor != "password, passkey" {
		t.Errorf("the last event is %+v", e)
	}
	used, err := env.service.Passkeys(t.Context(), asha.ID)
	env.must(err)
	if !used[0].LastUsedAt.Equal(env.now) || used[0].Name != "Key" {
		t.Errorf("the passkey is %+v", used[0])
	}

	// An answer is good once, in its own session, for its own challenge.
	again, _ := env.signIn("asha", password)
	_, _, err = env.service.VerifyPasskey(t.Context(), again, answer, here, "")
	env.refused("an answer to another session's challenge", err, login.WrongPasskey)
	stale := device.Use(env.challenge(again))
	env.challenge(again)
	_, _, err = env.service.VerifyPasskey(t.Context(), again, stale, here, "")
	env.refused("an answer to the challenge before", err, login.WrongPasskey)
	late := device.Use(env.challenge(again))
	env.now = env.now.Add(10*time.Minute - time.Second)
	env.stage(whole, login.Complete)
	_, _, err = env.service.StepUpPasskey(t.Context(), whole, "wrong horse battery", device.Use(env.challenge(whole)), here)
	env.refused("a step-up without the password", err, login.WrongPassword)
	_, _, err = env.service.StepUpPasskey(t.Context(), whole, password, late, here)
	env.refused("a step-up with another session's answer", err, login.WrongPasskey)
	up, s, err := env.service.StepUpPasskey(t.Context(), whole, password, device.Use(env.challenge(whole)), here)
	env.must(err)
	if !s.Fresh(env.now) {
		t.Errorf("the session is %+v", s)
	}
	site, _ := login.SiteOf("https://other.example.com")
	elsewhere, err := env.service.ChallengePasskey(t.Context(), up, site)
	env.must(err)
	if elsewhere.Options != "" || !slices.Equal(elsewhere.Elsewhere, []string{"panel.example.com"}) {
		t.Errorf("at another site the challenge is %+v; want none", elsewhere)
	}

	// A counter that went back may be a copy's.
	copied := *device
	copied.Count = 2
	_, _, err = env.service.StepUpPasskey(t.Context(), up, password, copied.Use(env.challenge(up)), here)
	env.refused("a copy", err, login.PasskeyCopied)
	if !slices.ContainsFunc(events, func(e login.Event) bool { return e.Kind == login.PasskeyWentBack && e.Person.ID == asha.ID }) {
		t.Error("no event reports the copy")
	}
	_, _, err = env.service.RemovePasskey(t.Context(), up, used[0].ID, login.Credentials{Password: password, Passkey: device.Use(env.challenge(up))}, here)
	env.refused("the last one where one is required", err, login.Required)
}

func TestPasskeys_LimitAndNames(t *testing.T) {
	env := newEnv(t, login.Config{})
	asha := env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	site, _ := login.SiteOf(origin)
	for _, name := range []string{"", "  ", "a\x00b", "a name that is much too long for anybody to read"} {
		_, _, _, err := env.service.BeginPasskey(t.Context(), token, site, name, login.Credentials{Password: password}, here)
		env.refused("the name "+name, err, login.InvalidPasskey)
	}
	_, _, _, err := env.service.BeginPasskey(t.Context(), token, login.Site{}, "Key", login.Credentials{Password: password}, here)
	env.refused("at an address that is a number", err, login.InvalidPasskey)
	device, _, token := env.addPasskey(token, "first", login.Credentials{Password: password})
	for range login.MaxPasskeys - 1 {
		_, _, token = env.addPasskey(token, "another", login.Credentials{Password: password, Passkey: device.Use(env.challenge(token))})
	}
	_, _, _, err = env.service.BeginPasskey(t.Context(), token, site, "one more", login.Credentials{Password: password, Passkey: device.Use(env.challenge(token))}, here)
	env.refused("an eleventh", err, login.InvalidPasskey)
	all, err := env.service.Passkeys(t.Context(), asha.ID)
	env.must(err)
	for i, p := range slices.Backward(all) {
		token, _, err = env.service.RemovePasskey(t.Context(), token, p.ID, login.Credentials{Password: password, Passkey: device.Use(env.challenge(token))}, here)
		if env.must(err); i == 0 {
			break
		}
	}
	if left, err := env.service.RecoveryCodesLeft(t.Context(), asha.ID); err != nil || left != 0 || env.account("asha").SecondFactor() {
		t.Errorf("%d recovery codes are left, %v; want none without a second factor", left, err)
	}
}

// Codes that an older release has stored stay valid.
func TestRecoveryCodes_OfOlderReleaseStayValid(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	_, recovery, token := env.enrol(token)
	hash := login.OldRecoveryHash("abcd-efgh-jkmn-pqrs")
	account := env.account("asha")
	env.must(env.store.ChangeFactors(t.Context(), login.OwnAction{Actor: "web:asha", Action: "test", At: env.now}, login.FactorChange{
		PersonID: account.ID, Version: account.Version, Old: login.HashToken(token), New: login.HashToken("x"), At: env.now,
		RecoveryCodes: &login.RecoveryCodes{Hashes: [][]byte{hash}},
	}))
	half, _ := env.signIn("asha", password)
	_, _, err := env.service.VerifyCode(t.Context(), half, recovery[0], here, "")
	env.refused("a code that was replaced", err, login.WrongCode)
	_, _, err = env.service.VerifyCode(t.Context(), half, "ABCD EFGH JKMN PQRS", here, "")
	env.must(err)
}
