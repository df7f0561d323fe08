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
func (o *office) addPasskey(token, name string, given login.Credentials) (device *passkeytest.Authenticator, recovery []string, fresh string) {
	o.Helper()
	site, _ := login.SiteOf(origin)
	device = passkeytest.New(o, origin)
	offer, begun, _, err := o.service.BeginPasskey(o.Context(), token, site, name, given, here)
	o.must(err)
	recovery, fresh, s, err := o.service.FinishPasskey(o.Context(), begun, offer.Ticket, device.Create(offer.Options), here)
	o.must(err)
	if s.Stage != login.Whole || s.Person.Passkeys == 0 {
		o.Fatalf("with a passkey, the session is %+v", s)
	}
	return device, recovery, fresh
}

// challenge is what a page asks a passkey of a session.
func (o *office) challenge(token string) string {
	o.Helper()
	site, _ := login.SiteOf(origin)
	c, err := o.service.ChallengePasskey(o.Context(), token, site)
	o.must(err)
	return c.Options
}

// Whoever has a copy of a cookie, however young its session, has neither the password nor
// the second factor.
func TestFactorChange_NeedsPasswordAndPresentFactor(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	site, _ := login.SiteOf(origin)
	ctx := t.Context()
	ways := map[string]func(token string, given login.Credentials) error{
		"set codes up": func(token string, given login.Credentials) error {
			_, _, _, err := o.service.BeginTOTP(ctx, token, given, here)
			return err
		},
		"add a passkey": func(token string, given login.Credentials) error {
			_, _, _, err := o.service.BeginPasskey(ctx, token, site, "Key", given, here)
			return err
		},
		"remove codes": func(token string, given login.Credentials) error {
			_, _, err := o.service.RemoveTOTP(ctx, token, given, here)
			return err
		},
		"remove a passkey": func(token string, given login.Credentials) error {
			_, _, err := o.service.RemovePasskey(ctx, token, 1, given, here)
			return err
		},
		"new recovery codes": func(token string, given login.Credentials) error {
			_, _, _, err := o.service.ReplaceRecoveryCodes(ctx, token, given, here)
			return err
		},
	}
	// The first second factor needs the password.
	for what, way := range ways {
		o.refused(what+" without a password", way(token, login.Credentials{}), login.WrongPassword)
		o.attemptsForgotten()
	}
	codeOf, _, token := o.enrol(token)
	o.now = o.now.Add(time.Minute)
	device, _, token := o.addPasskey(token, "Phone", login.Credentials{Password: password, Code: codeOf()})
	o.now = o.now.Add(time.Minute)
	token, s, err := o.service.StepUp(ctx, token, password, codeOf(), here)
	o.must(err)
	if !s.Fresh(o.now) {
		t.Fatalf("the session is %+v; want it fresh, so that its age cannot be what refuses", s)
	}
	version := o.account("asha").Version
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
			o.refused(what+" with "+row.name, way(token, row.given), row.want)
			o.attemptsForgotten()
		}
	}
	if got := o.account("asha"); got.Version != version || got.Passkeys != 1 || !got.TOTP {
		t.Errorf("the login has become %+v", got)
	}
	// A ticket is good once and in its own session, and the cookie alone is not enough.
	o.now = o.now.Add(time.Minute)
	offer, token, _, err := o.service.BeginTOTP(ctx, token, login.Credentials{Password: password, Passkey: device.Use(o.challenge(token))}, here)
	o.must(err)
	_, _, _, err = o.service.ConfirmTOTP(ctx, token, "", login.CodeAt(offer.Secret, o.now), here)
	o.refused("without the ticket", err, login.OutOfTurn)
	_, _, _, err = o.service.ConfirmTOTP(ctx, token, offer.Ticket, "000000", here)
	o.refused("a wrong code", err, login.WrongCode)
	_, fresh, _, err := o.service.ConfirmTOTP(ctx, token, offer.Ticket, login.CodeAt(offer.Secret, o.now), here)
	o.must(err)
	_, _, _, err = o.service.ConfirmTOTP(ctx, fresh, offer.Ticket, login.CodeAt(offer.Secret, o.now), here)
	o.refused("once more", err, login.OutOfTurn)
	offer, late, _, err := o.service.BeginTOTP(ctx, fresh, login.Credentials{Password: password, Passkey: device.Use(o.challenge(fresh))}, here)
	o.must(err)
	o.now = o.now.Add(10 * time.Minute)
	_, _, _, err = o.service.ConfirmTOTP(ctx, late, offer.Ticket, login.CodeAt(offer.Secret, o.now), here)
	o.refused("after ten minutes", err, login.OutOfTurn)

	// Guessing there ends the session, as in a step-up.
	o.attemptsForgotten()
	for i := range 10 {
		want := login.WrongPassword
		if i == 9 {
			want = login.SessionOver
		}
		o.refused(fmt.Sprint("guess ", i), ways["remove codes"](late, login.Credentials{Password: "wrong horse battery", Code: "000000"}), want)
	}
	o.signedOut("the session", late)
}

func TestFactorChange_EndsOtherSessionsAndIsToldAtTheNextSignIn(t *testing.T) {
	o := newOffice(t, login.Config{})
	asha := o.person("asha", login.Viewer, 0)
	other, _ := o.signIn("asha", password)
	token, _ := o.signIn("asha", password)
	device, recovery, token := o.addPasskey(token, "Phone", login.Credentials{Password: password})
	if len(recovery) != 10 {
		t.Errorf("%d recovery codes come with the first second factor; want 10", len(recovery))
	}
	o.signedOut("the other session", other)
	if s := o.stage(token, login.Whole); len(s.Changes) != 0 {
		t.Errorf("the session that made the change is told of %+v", s.Changes)
	}
	at := o.now
	o.now = o.now.Add(time.Hour / 4)
	in := func() string {
		half, _ := o.signIn("asha", password)
		whole, _, err := o.service.GivePasskey(t.Context(), half, device.Use(o.challenge(half)), here, "")
		o.must(err)
		return whole
	}
	next := in()
	s := o.stage(next, login.Whole)
	if len(s.Changes) != 1 || s.Changes[0].What != login.PasskeyAdded || s.Changes[0].Name != "Phone" || !s.Changes[0].At.Equal(at) {
		t.Errorf("the next sign-in is told of %+v; want the passkey, and when", s.Changes)
	}
	o.must(o.service.TakeNotice(t.Context(), next))
	if s := o.stage(next, login.Whole); len(s.Changes) != 0 {
		t.Errorf("after it took notice, the session is told of %+v", s.Changes)
	}
	codes, next, _, err := o.service.ReplaceRecoveryCodes(t.Context(), next, login.Credentials{Password: password, Code: recovery[0]}, here)
	o.must(err)
	half, _ := o.signIn("asha", password)
	_, _, err = o.service.GiveCode(t.Context(), half, recovery[1], here, "")
	o.refused("a recovery code that was replaced", err, login.WrongCode)
	_, _, err = o.service.GiveCode(t.Context(), half, codes[0], here, "")
	o.must(err)
	o.stage(next, login.Whole)

	// Reset by somebody else, that is told, and passkeys are gone as well.
	_, err = o.staff.ResetTOTP(t.Context(), asha.ID)
	o.must(err)
	_, s = o.signIn("asha", password)
	if last := s.Changes[len(s.Changes)-1]; s.Stage != login.Whole || s.Person.SecondFactor() || last.What != login.FactorsReset || last.By != "cli:test" {
		t.Errorf("after the reset the session is %+v", s)
	}
	if all, err := o.service.Passkeys(t.Context(), asha.ID); err != nil || len(all) != 0 {
		t.Errorf("passkeys %+v, %v; want none", all, err)
	}
}

// Whoever changed a second factor must not be able to hide it from the person.
func TestTakeNotice_KeepsWhatTheSessionItselfChanged(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	codeOf, recovery, token := o.enrol(token)
	o.must(o.service.TakeNotice(t.Context(), token))
	o.now = o.now.Add(time.Minute)
	half, _ := o.signIn("asha", password)
	next, _, err := o.service.GiveCode(t.Context(), half, codeOf(), here, "")
	o.must(err)
	_, next, _, err = o.service.ReplaceRecoveryCodes(t.Context(), next, login.Credentials{Password: password, Code: recovery[0]}, here)
	o.must(err)
	if s := o.stage(next, login.Whole); len(s.Changes) != 1 || s.Changes[0].What != login.TOTPSet {
		t.Errorf("another session is told of %+v; want the codes that were set up", s.Changes)
	}
	o.must(o.service.TakeNotice(t.Context(), next))
	o.now = o.now.Add(time.Minute)
	half, _ = o.signIn("asha", password)
	last, _, err := o.service.GiveCode(t.Context(), half, codeOf(), here, "")
	o.must(err)
	if s := o.stage(last, login.Whole); len(s.Changes) != 1 || s.Changes[0].What != login.RecoveryCodesChanged {
		t.Errorf("the last session is told of %+v; want the new recovery codes alone", s.Changes)
	}
}

func TestPasskey_SignsInAndStepsUp(t *testing.T) {
	var events []login.Event
	o := newOffice(t, login.Config{StaffTOTP: true, Observe: func(_ context.Context, e login.Event) { events = append(events, e) }})
	asha := o.person("asha", login.Finance, 0)
	token, s := o.signIn("asha", password)
	if s.Stage != login.NeedsTOTP {
		t.Fatalf("the session is %+v; want it to need a second factor", s)
	}
	device, _, token := o.addPasskey(token, "Key", login.Credentials{Password: password})
	o.stage(token, login.Whole) // a passkey satisfies what is required

	half, s := o.signIn("asha", password)
	if s.Stage != login.NeedsCode || s.Fresh(o.now) {
		t.Fatalf("by the password alone the session is %+v", s)
	}
	_, _, err := o.service.GiveCode(t.Context(), half, "123456", here, "")
	o.refused("a code of an app that is not set up", err, login.WrongCode)
	answer := device.Use(o.challenge(half))
	whole, s, err := o.service.GivePasskey(t.Context(), half, answer, here, "")
	o.must(err)
	if s.Stage != login.Whole || !s.Fresh(o.now) || !s.Person.LastSignIn.Equal(o.now) {
		t.Errorf("the session is %+v", s)
	}
	if e := events[len(events)-1]; e.Kind != login.SignedIn || e.Factor != "password, passkey" {
		t.Errorf("the last event is %+v", e)
	}
	used, err := o.service.Passkeys(t.Context(), asha.ID)
	o.must(err)
	if !used[0].LastUsedAt.Equal(o.now) || used[0].Name != "Key" {
		t.Errorf("the passkey is %+v", used[0])
	}

	// An answer is good once, in its own session, for its own challenge.
	again, _ := o.signIn("asha", password)
	_, _, err = o.service.GivePasskey(t.Context(), again, answer, here, "")
	o.refused("an answer to another session's challenge", err, login.WrongPasskey)
	stale := device.Use(o.challenge(again))
	o.challenge(again)
	_, _, err = o.service.GivePasskey(t.Context(), again, stale, here, "")
	o.refused("an answer to the challenge before", err, login.WrongPasskey)
	late := device.Use(o.challenge(again))
	o.now = o.now.Add(10*time.Minute - time.Second)
	o.stage(whole, login.Whole)
	_, _, err = o.service.StepUpPasskey(t.Context(), whole, "wrong horse battery", device.Use(o.challenge(whole)), here)
	o.refused("a step-up without the password", err, login.WrongPassword)
	_, _, err = o.service.StepUpPasskey(t.Context(), whole, password, late, here)
	o.refused("a step-up with another session's answer", err, login.WrongPasskey)
	up, s, err := o.service.StepUpPasskey(t.Context(), whole, password, device.Use(o.challenge(whole)), here)
	o.must(err)
	if !s.Fresh(o.now) {
		t.Errorf("the session is %+v", s)
	}
	site, _ := login.SiteOf("https://other.example.com")
	elsewhere, err := o.service.ChallengePasskey(t.Context(), up, site)
	o.must(err)
	if elsewhere.Options != "" || !slices.Equal(elsewhere.Elsewhere, []string{"panel.example.com"}) {
		t.Errorf("at another site the challenge is %+v; want none", elsewhere)
	}

	// A counter that went back may be a copy's.
	copied := *device
	copied.Count = 2
	_, _, err = o.service.StepUpPasskey(t.Context(), up, password, copied.Use(o.challenge(up)), here)
	o.refused("a copy", err, login.PasskeyCopied)
	if !slices.ContainsFunc(events, func(e login.Event) bool { return e.Kind == login.PasskeyWentBack && e.Person.ID == asha.ID }) {
		t.Error("nobody was told of the copy")
	}
	_, _, err = o.service.RemovePasskey(t.Context(), up, used[0].ID, login.Credentials{Password: password, Passkey: device.Use(o.challenge(up))}, here)
	o.refused("the last one where one is required", err, login.Required)
}

func TestPasskeys_AreBoundedAndNamed(t *testing.T) {
	o := newOffice(t, login.Config{})
	asha := o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	site, _ := login.SiteOf(origin)
	for _, name := range []string{"", "  ", "a\x00b", "a name that is much too long for anybody to read"} {
		_, _, _, err := o.service.BeginPasskey(t.Context(), token, site, name, login.Credentials{Password: password}, here)
		o.refused("the name "+name, err, login.Unsuitable)
	}
	_, _, _, err := o.service.BeginPasskey(t.Context(), token, login.Site{}, "Key", login.Credentials{Password: password}, here)
	o.refused("at an address that is a number", err, login.Unsuitable)
	device, _, token := o.addPasskey(token, "first", login.Credentials{Password: password})
	for range login.PasskeysMost - 1 {
		_, _, token = o.addPasskey(token, "another", login.Credentials{Password: password, Passkey: device.Use(o.challenge(token))})
	}
	_, _, _, err = o.service.BeginPasskey(t.Context(), token, site, "one more", login.Credentials{Password: password, Passkey: device.Use(o.challenge(token))}, here)
	o.refused("an eleventh", err, login.Unsuitable)
	all, err := o.service.Passkeys(t.Context(), asha.ID)
	o.must(err)
	for i, p := range slices.Backward(all) {
		token, _, err = o.service.RemovePasskey(t.Context(), token, p.ID, login.Credentials{Password: password, Passkey: device.Use(o.challenge(token))}, here)
		if o.must(err); i == 0 {
			break
		}
	}
	if left, err := o.service.RecoveryCodesLeft(t.Context(), asha.ID); err != nil || left != 0 || o.account("asha").SecondFactor() {
		t.Errorf("%d recovery codes are left, %v; want none without a second factor", left, err)
	}
}

// Codes that an older release has stored stay good.
func TestRecoveryCodes_OfAnOlderReleaseStayGood(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	_, recovery, token := o.enrol(token)
	hash := login.OldRecoveryHash("abcd-efgh-jkmn-pqrs")
	account := o.account("asha")
	o.must(o.store.ChangeFactors(t.Context(), login.OwnAction{Actor: "web:asha", Action: "test", At: o.now}, login.FactorChange{
		PersonID: account.ID, Version: account.Version, Old: login.HashToken(token), New: login.HashToken("x"), At: o.now,
		RecoveryCodes: &login.RecoveryCodes{Hashes: [][]byte{hash}},
	}))
	half, _ := o.signIn("asha", password)
	_, _, err := o.service.GiveCode(t.Context(), half, recovery[0], here, "")
	o.refused("a code that was replaced", err, login.WrongCode)
	_, _, err = o.service.GiveCode(t.Context(), half, "ABCD EFGH JKMN PQRS", here, "")
	o.must(err)
}
