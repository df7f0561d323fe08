package login_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

func TestSignIn_SecondFactorIsRequired(t *testing.T) {
	env := newEnv(t, login.Config{})
	asha := env.person("asha", login.Viewer, 0)
	before, _ := env.signIn("asha", password)
	token, _ := env.signIn("asha", password)
	codeOf, recovery, token := env.enrol(token)
	env.stage(token, login.Complete)
	env.signedOut("a session from before", before)

	env.now = env.now.Add(time.Minute)
	half, s := env.signIn("asha", password)
	if s.Stage != login.NeedsCode || s.Fresh(env.now) {
		t.Errorf("by the password alone the session is %+v", s)
	}
	// Nothing can be done with it.
	_, _, err := env.service.ChangePassword(t.Context(), half, password, "another long one", here)
	env.refused("a new password", err, login.WrongStage)
	_, _, err = env.service.StepUp(t.Context(), half, password, codeOf(), here)
	env.refused("a step up", err, login.WrongStage)
	all := login.Credentials{Password: password, Code: codeOf()}
	_, _, _, err = env.service.BeginTOTP(t.Context(), half, all, here)
	env.refused("another second factor", err, login.WrongStage)
	_, _, _, err = env.service.ConfirmTOTP(t.Context(), half, "", codeOf(), here)
	env.refused("another second factor, at once", err, login.WrongStage)
	_, _, err = env.service.RemoveTOTP(t.Context(), half, all, here)
	env.refused("no second factor", err, login.WrongStage)

	for _, code := range []string{"", "000000", "abcd-efgh-jkmn-pqrs"} {
		_, _, err := env.service.VerifyCode(t.Context(), half, code, here, "")
		env.refused("code "+code, err, login.WrongCode)
	}
	code := codeOf()
	whole, s, err := env.service.VerifyCode(t.Context(), half, code[:3]+" "+code[3:], here, "")
	env.must(err)
	if s.Stage != login.Complete || !s.Fresh(env.now) || !s.Person.LastSignIn.Equal(env.now) || whole == half {
		t.Errorf("the session is %+v", s)
	}
	env.signedOut("the token by the password alone", half)
	_, _, err = env.service.VerifyCode(t.Context(), whole, code, here, "")
	env.refused("once more", err, login.WrongStage)

	// A code that was used is worth nothing, a recovery code works once.
	half, _ = env.signIn("asha", password)
	_, _, err = env.service.VerifyCode(t.Context(), half, code, here, "")
	env.refused("a used code", err, login.WrongCode)
	_, _, err = env.service.VerifyCode(t.Context(), half, strings.ToUpper(recovery[3]), here, "")
	env.must(err)
	half, _ = env.signIn("asha", password)
	_, _, err = env.service.VerifyCode(t.Context(), half, recovery[3], here, "")
	env.refused("a used recovery code", err, login.WrongCode)

	// Staff can reset a lost second factor.
	_, err = env.staff.ResetTOTP(t.Context(), asha.ID)
	env.must(err)
	env.signedOut("reset", whole)
	if _, s := env.signIn("asha", password); s.Stage != login.Complete || s.Person.TOTP {
		t.Errorf("without one the session is %+v", s)
	}
}

func TestSession_CodeTimeout(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	env.enrol(token)
	half, _ := env.signIn("asha", password)
	for range 9 {
		env.now = env.now.Add(time.Minute)
		env.stage(half, login.NeedsCode)
	}
	env.now = env.now.Add(time.Minute)
	env.signedOut("after ten minutes", half)
}

func TestVerifyCode_LimitOutlivesSession(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	codeOf, _, _ := env.enrol(token)
	env.now = env.now.Add(time.Minute)
	for range 10 {
		half, _ := env.signIn("asha", password) // which succeeds, and clears nothing
		_, _, err := env.service.VerifyCode(t.Context(), half, "000000", here, "")
		env.refused("a guess", err, login.WrongCode)
	}
	half, _ := env.signIn("asha", password)
	_, _, err := env.service.VerifyCode(t.Context(), half, codeOf(), here, "")
	env.refused("after ten guesses", err, login.Throttled)
	env.now = env.now.Add(15 * time.Minute)
	half, _ = env.signIn("asha", password)
	_, _, err = env.service.VerifyCode(t.Context(), half, codeOf(), here, "")
	env.must(err)
}

func TestStepUp_NeedsAllFactorsAndLastsFiveMinutes(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, s := env.signIn("asha", password)
	env.now = env.now.Add(5*time.Minute - time.Millisecond)
	if !env.stage(token, login.Complete).Fresh(env.now) {
		t.Error("a sign-in is not fresh for five minutes")
	}
	env.now = env.now.Add(time.Millisecond)
	if env.stage(token, login.Complete).Fresh(env.now) {
		t.Error("a sign-in is fresh for longer than five minutes")
	}
	_, _, err := env.service.StepUp(t.Context(), token, "wrong horse battery", "", here)
	env.refused("a wrong password", err, login.WrongPassword)
	fresh, up, err := env.service.StepUp(t.Context(), token, password, "", here)
	env.must(err)
	if !up.Fresh(env.now) || up.ID != s.ID || !up.CreatedAt.Equal(s.CreatedAt) {
		t.Errorf("the session is %+v", up)
	}
	env.signedOut("the token from before", token)

	codeOf, _, fresh := env.enrol(fresh)
	env.now = env.now.Add(10 * time.Minute)
	_, _, err = env.service.StepUp(t.Context(), fresh, password, "", here)
	env.refused("without the code", err, login.WrongCode)
	_, _, err = env.service.StepUp(t.Context(), fresh, "wrong horse battery", codeOf(), here)
	env.refused("without the password", err, login.WrongPassword)
	again, up, err := env.service.StepUp(t.Context(), fresh, password, codeOf(), here)
	env.must(err)
	if !up.Fresh(env.now) {
		t.Errorf("the session is %+v", up)
	}
	env.stage(again, login.Complete)
}

func TestChangePassword_IsNoStepUpWithSecondFactor(t *testing.T) {
	env := newEnv(t, login.Config{})
	env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	_, _, token = env.enrol(token)
	env.now = env.now.Add(10 * time.Minute)
	_, s, err := env.service.ChangePassword(t.Context(), token, password, "another long one", here)
	env.must(err)
	if s.Fresh(env.now) || s.Stage != login.Complete {
		t.Errorf("the session is %+v; want it whole, and its step-up as old as it was", s)
	}
}

func TestRoleChange_RequiresSecondFactorAtOnce(t *testing.T) {
	env := newEnv(t, login.Config{StaffTOTP: true})
	asha := env.person("asha", login.Viewer, 0)
	token, _ := env.signIn("asha", password)
	for role, want := range map[login.Role]login.Stage{
		login.Viewer: login.Complete, login.Support: login.Complete, login.Finance: login.NeedsTOTP, login.Administrator: login.NeedsTOTP,
	} {
		env.role(asha.ID, role)
		env.stage(token, want)
	}
}

func TestVault_TOTPIsBoundToPerson(t *testing.T) {
	env := newEnv(t, login.Config{})
	sealed, err := env.vault.SealTOTP([]byte("a secret of twenty b"), 1)
	env.must(err)
	if _, err := env.vault.OpenTOTP(sealed, 2); err == nil {
		t.Error("it opens for another person")
	}
	if secret, err := env.vault.OpenTOTP(sealed, 1); err != nil || string(secret) != "a secret of twenty b" {
		t.Errorf("it opens as %q, %v", secret, err)
	}
}

func TestOperator_RequiresSecondFactor(t *testing.T) {
	env := newEnv(t, login.Config{})
	operator, err := env.staff.CreateOperator(t.Context(), "Asha Cable", admin.OperatorChange{})
	env.must(err)
	env.person("owner", login.Owner, operator.ID)
	env.person("counter", login.Counter, operator.ID)
	token, _ := env.signIn("owner", password)
	other, _ := env.signIn("counter", password)
	yes, no := true, false
	_, err = env.staff.ChangeOperator(t.Context(), operator.ID, admin.OperatorChange{SecondFactorRequired: &yes})
	env.must(err)
	env.stage(token, login.NeedsTOTP)
	env.stage(other, login.NeedsTOTP)
	_, recovery, token := env.enrol(token)
	env.stage(token, login.Complete)
	remove := func() (err error) {
		_, _, err = env.service.RemoveTOTP(t.Context(), token, login.Credentials{Password: password, Code: recovery[0]}, here)
		return err
	}
	env.refused("to do without", remove(), login.Required)
	_, err = env.staff.ChangeOperator(t.Context(), operator.ID, admin.OperatorChange{SecondFactorRequired: &no})
	env.must(err)
	env.stage(other, login.Complete)
	env.must(remove())
}
