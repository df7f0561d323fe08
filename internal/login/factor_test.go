package login_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

func TestWithASecondFactorThePasswordAloneIsNotEnough(t *testing.T) {
	o := newOffice(t, login.Config{})
	asha := o.person("asha", login.Viewer, 0)
	before, _ := o.signIn("asha", password)
	token, _ := o.signIn("asha", password)
	codeOf, recovery, token := o.enrol(token)
	o.stage(token, login.Whole)
	o.signedOut("a session from before", before)

	o.now = o.now.Add(time.Minute)
	half, s := o.signIn("asha", password)
	if s.Stage != login.NeedsCode || s.Fresh(o.now) {
		t.Errorf("by the password alone the session is %+v", s)
	}
	// Nothing can be done with it.
	_, _, err := o.service.ChangePassword(t.Context(), half, password, "another long one", here)
	o.refused("a new password", err, login.OutOfTurn)
	_, _, err = o.service.StepUp(t.Context(), half, password, codeOf(), here)
	o.refused("a step up", err, login.OutOfTurn)
	all := login.Credentials{Password: password, Code: codeOf()}
	_, _, _, err = o.service.BeginTOTP(t.Context(), half, all, here)
	o.refused("another second factor", err, login.OutOfTurn)
	_, _, _, err = o.service.ConfirmTOTP(t.Context(), half, "", codeOf(), here)
	o.refused("another second factor, at once", err, login.OutOfTurn)
	_, _, err = o.service.RemoveTOTP(t.Context(), half, all, here)
	o.refused("no second factor", err, login.OutOfTurn)

	for _, code := range []string{"", "000000", "abcd-efgh-jkmn-pqrs"} {
		_, _, err := o.service.GiveCode(t.Context(), half, code, here, "")
		o.refused("code "+code, err, login.WrongCode)
	}
	code := codeOf()
	whole, s, err := o.service.GiveCode(t.Context(), half, code[:3]+" "+code[3:], here, "")
	o.must(err)
	if s.Stage != login.Whole || !s.Fresh(o.now) || !s.Person.LastSignIn.Equal(o.now) || whole == half {
		t.Errorf("the session is %+v", s)
	}
	o.signedOut("the token by the password alone", half)
	_, _, err = o.service.GiveCode(t.Context(), whole, code, here, "")
	o.refused("once more", err, login.OutOfTurn)

	// A code that was used is worth nothing, a recovery code works once.
	half, _ = o.signIn("asha", password)
	_, _, err = o.service.GiveCode(t.Context(), half, code, here, "")
	o.refused("a used code", err, login.WrongCode)
	_, _, err = o.service.GiveCode(t.Context(), half, strings.ToUpper(recovery[3]), here, "")
	o.must(err)
	half, _ = o.signIn("asha", password)
	_, _, err = o.service.GiveCode(t.Context(), half, recovery[3], here, "")
	o.refused("a used recovery code", err, login.WrongCode)

	// Lost altogether, staff takes it away.
	_, err = o.staff.ResetTOTP(t.Context(), asha.ID)
	o.must(err)
	o.signedOut("reset", whole)
	if _, s := o.signIn("asha", password); s.Stage != login.Whole || s.Person.TOTP {
		t.Errorf("without one the session is %+v", s)
	}
}

func TestASessionDoesNotWaitForItsCodeForever(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	o.enrol(token)
	half, _ := o.signIn("asha", password)
	for range 9 {
		o.now = o.now.Add(time.Minute)
		o.stage(half, login.NeedsCode)
	}
	o.now = o.now.Add(time.Minute)
	o.signedOut("after ten minutes", half)
}

func TestCodesCannotBeGuessedBySigningInAgain(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	codeOf, _, _ := o.enrol(token)
	o.now = o.now.Add(time.Minute)
	for range 10 {
		half, _ := o.signIn("asha", password) // which succeeds, and clears nothing
		_, _, err := o.service.GiveCode(t.Context(), half, "000000", here, "")
		o.refused("a guess", err, login.WrongCode)
	}
	half, _ := o.signIn("asha", password)
	_, _, err := o.service.GiveCode(t.Context(), half, codeOf(), here, "")
	o.refused("after ten guesses", err, login.Throttled)
	o.now = o.now.Add(15 * time.Minute)
	half, _ = o.signIn("asha", password)
	_, _, err = o.service.GiveCode(t.Context(), half, codeOf(), here, "")
	o.must(err)
}

func TestAStepUpTakesPasswordAndCodeAndIsFreshForFiveMinutes(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, s := o.signIn("asha", password)
	o.now = o.now.Add(5*time.Minute - time.Millisecond)
	if !o.stage(token, login.Whole).Fresh(o.now) {
		t.Error("a sign-in is not fresh for five minutes")
	}
	o.now = o.now.Add(time.Millisecond)
	if o.stage(token, login.Whole).Fresh(o.now) {
		t.Error("a sign-in is fresh for longer than five minutes")
	}
	_, _, err := o.service.StepUp(t.Context(), token, "wrong horse battery", "", here)
	o.refused("a wrong password", err, login.WrongPassword)
	fresh, up, err := o.service.StepUp(t.Context(), token, password, "", here)
	o.must(err)
	if !up.Fresh(o.now) || up.ID != s.ID || !up.CreatedAt.Equal(s.CreatedAt) {
		t.Errorf("the session is %+v", up)
	}
	o.signedOut("the token from before", token)

	codeOf, _, fresh := o.enrol(fresh)
	o.now = o.now.Add(10 * time.Minute)
	_, _, err = o.service.StepUp(t.Context(), fresh, password, "", here)
	o.refused("without the code", err, login.WrongCode)
	_, _, err = o.service.StepUp(t.Context(), fresh, "wrong horse battery", codeOf(), here)
	o.refused("without the password", err, login.WrongPassword)
	again, up, err := o.service.StepUp(t.Context(), fresh, password, codeOf(), here)
	o.must(err)
	if !up.Fresh(o.now) {
		t.Errorf("the session is %+v", up)
	}
	o.stage(again, login.Whole)
}

func TestANewPasswordIsNoCode(t *testing.T) {
	o := newOffice(t, login.Config{})
	o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	_, _, token = o.enrol(token)
	o.now = o.now.Add(10 * time.Minute)
	_, s, err := o.service.ChangePassword(t.Context(), token, password, "another long one", here)
	o.must(err)
	if s.Fresh(o.now) || s.Stage != login.Whole {
		t.Errorf("the session is %+v; want it whole, and its step-up as old as it was", s)
	}
}

func TestARoleThatGrowsNeedsASecondFactorAtOnce(t *testing.T) {
	o := newOffice(t, login.Config{StaffTOTP: true})
	asha := o.person("asha", login.Viewer, 0)
	token, _ := o.signIn("asha", password)
	for role, want := range map[login.Role]login.Stage{
		login.Viewer: login.Whole, login.Support: login.Whole, login.Finance: login.NeedsTOTP, login.Administrator: login.NeedsTOTP,
	} {
		o.role(asha.ID, role)
		o.stage(token, want)
	}
}

func TestASecondFactorOfSomebodyElseDoesNotOpen(t *testing.T) {
	o := newOffice(t, login.Config{})
	sealed, err := o.vault.SealTOTP([]byte("a secret of twenty b"), 1)
	o.must(err)
	if _, err := o.vault.OpenTOTP(sealed, 2); err == nil {
		t.Error("it opens for another person")
	}
	if secret, err := o.vault.OpenTOTP(sealed, 1); err != nil || string(secret) != "a secret of twenty b" {
		t.Errorf("it opens as %q, %v", secret, err)
	}
}

func TestRequiredSecondFactor_OfAnOperatorsPeople(t *testing.T) {
	o := newOffice(t, login.Config{})
	operator, err := o.staff.CreateOperator(t.Context(), "Asha Cable", admin.OperatorChange{})
	o.must(err)
	o.person("owner", login.Owner, operator.ID)
	o.person("counter", login.Counter, operator.ID)
	token, _ := o.signIn("owner", password)
	other, _ := o.signIn("counter", password)
	yes, no := true, false
	_, err = o.staff.ChangeOperator(t.Context(), operator.ID, admin.OperatorChange{SecondFactorRequired: &yes})
	o.must(err)
	o.stage(token, login.NeedsTOTP)
	o.stage(other, login.NeedsTOTP)
	_, recovery, token := o.enrol(token)
	o.stage(token, login.Whole)
	remove := func() (err error) {
		_, _, err = o.service.RemoveTOTP(t.Context(), token, login.Credentials{Password: password, Code: recovery[0]}, here)
		return err
	}
	o.refused("to do without", remove(), login.Required)
	_, err = o.staff.ChangeOperator(t.Context(), operator.ID, admin.OperatorChange{SecondFactorRequired: &no})
	o.must(err)
	o.stage(other, login.Whole)
	o.must(remove())
}
