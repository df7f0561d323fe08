package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

var accessTests = []test{
	{"a login cannot approve what somebody proposes who gave it access", sponsorsRefused},
	{"a login cannot approve what somebody proposes whose grant two people agreed to", agreedSponsorsRefused},
	{"a login approves nothing for a while after it was given access in the console", newLoginsWait},
	{"who alone gave a login access cannot approve what it proposes", soleSponsorsRefused},
	{"who was shown a login's password cannot approve what it proposes", shownPasswordsRefused},
	{"logins whose access comes from one person alone cannot approve each other's", siblingsRefused},
	{"logins that one person handed on cannot approve what that person proposes", handedOnRefused},
	{"logins whose passwords one person was shown cannot approve each other's", shownBothRefused},
	{"what the command line does leaves nobody barred and makes nobody wait", commandLineIsExempt},
	{"somebody without a login approves nothing", strangersApproveNothing},
	{"a login that may approve is created by two where there are two", loginsByTwo},
	{"a role that may approve is given by two where there are two", rolesByTwo},
	{"a login that may approve is reset by two where there are two", resetsByTwo},
	{"who has no second person acts at once", noSecondPerson},
	{"many who create a login at once propose it once", loginProposedOnce},
	{"two logins that one person creates at once cannot approve each other's", createdAtOnce},
	{"the proposals of a login that is disabled or lowered lapse", makersLapse},
	{"an approval and the maker's being disabled at once leave one of them", approvalAgainstDisabling},
	{"a login that was lowered or disabled since its page was shown approves nothing", loweredCheckersRefused},
	{"nothing is approved by a login after it was lowered", approvalAgainstLowering},
}

const day = 24 * time.Hour

// later is when no login has to wait any more.
var later = noon.Add(2 * day)

// proposedBy has somebody propose a top-up at a moment.
func (s *shop) proposedBy(name string, at time.Time, reference string) admin.Proposal {
	s.Helper()
	outcome, err := s.deskOf(name, admin.Finance, at).SubmitTopUp(s.Context(), s.paid("5000", reference))
	s.must(err)
	if !outcome.Waits() {
		s.Fatalf("proposed %+v; want it to wait", outcome)
	}
	return outcome.Proposal
}

// cannotApprove demands that a checker is refused, and told why.
func (s *shop) cannotApprove(checker string, p admin.Proposal, at time.Time, why string) {
	s.Helper()
	_, err := s.deskOf(checker, admin.Finance, at).Approve(s.Context(), p.ID)
	if s.refused(checker+"'s approval", err); err != nil && !strings.Contains(err.Error(), why) {
		s.Errorf("%s's approval: %v; want %q", checker, err, why)
	}
	if kept, err := s.Proposal(s.Context(), p.ID); err != nil || kept.Status != admin.ProposalOpen {
		s.Errorf("the proposal is %+v, %v; want it open", kept, err)
	}
}

func (s *shop) canApprove(checker string, p admin.Proposal, at time.Time) {
	s.Helper()
	if _, err := s.deskOf(checker, admin.Finance, at).Approve(s.Context(), p.ID); err != nil {
		s.Errorf("%s's approval: %v", checker, err)
	}
}

// administrator is the desk of one in the console.
func (h *house) administrator(name string, at time.Time) *admin.Desk {
	h.hire(name, admin.Administrator)
	return h.deskOf(name, admin.Administrator, at)
}

// withTOTP gives a login a second factor.
func (h *house) withTOTP(username string) login.Account {
	h.Helper()
	token := h.signIn(h.known(username), noon)
	h.setUpTOTP(username, token, "second factor of "+username, 1)
	return h.known(username)
}

func created(username string, role login.Role) admin.NewLogin {
	return admin.NewLogin{Username: username, Name: "Somebody", Role: role}
}

// sponsorships are the ways by which somebody in the console gives a login access, and
// what its person is told of that.
var sponsorships = []struct {
	what string
	// hire makes the login on the command line, if it is there before.
	hire func(h *house, name string)
	give func(d *admin.Desk, h *house, name string) (admin.Outcome, error)
	told string
}{
	{"created", func(*house, string) {}, func(d *admin.Desk, h *house, name string) (admin.Outcome, error) {
		return d.SubmitLogin(h.Context(), created(name, login.Finance))
	}, "created your login"},
	{"password", func(h *house, name string) { h.hire(name, admin.Finance) }, func(d *admin.Desk, h *house, name string) (admin.Outcome, error) {
		return d.SubmitPasswordReset(h.Context(), h.known(name).ID)
	}, "reset your password"},
	{"totp", func(h *house, name string) { h.hire(name, admin.Finance); h.withTOTP(name) }, func(d *admin.Desk, h *house, name string) (admin.Outcome, error) {
		return d.SubmitTOTPReset(h.Context(), h.known(name).ID)
	}, "reset your second factor"},
	{"role", func(h *house, name string) { h.hire(name, admin.Viewer) }, func(d *admin.Desk, h *house, name string) (admin.Outcome, error) {
		return d.SubmitRole(h.Context(), h.known(name).ID, login.Finance)
	}, "gave you your role"},
}

// grantsOf are the grants of a login, as text.
func (h *house) grantsOf(username string) []string {
	h.Helper()
	staff, err := h.StaffAccess(h.Context())
	h.must(err)
	told := []string{}
	for _, g := range staff.Grants {
		if g.LoginID == h.known(username).ID {
			told = append(told, fmt.Sprintf("%s by %s, alone %v, saw the password %v", g.What, g.Actor, g.Alone, g.SawPassword))
		}
	}
	slices.Sort(told)
	return told
}

func sponsorsRefused(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	for _, way := range sponsorships {
		checker := "binu-" + way.what
		way.hire(h, checker)
		outcome, err := way.give(asha, h, checker)
		s.must(err)
		if outcome.Waits() || outcome.Person.Username != checker {
			s.Fatalf("%s: %+v; want it done at once, for there is no second person", way.what, outcome)
		}
		saw := way.what == "created" || way.what == "password"
		want := []string{fmt.Sprintf("%s by web:asha, alone true, saw the password %v", way.what, saw)}
		if got := s.grantsOf(checker); !slices.Equal(got, want) {
			s.Errorf("the grants are %q; want %q", got, want)
		}
		s.cannotApprove(checker, s.proposedBy("asha", later, way.what), later, "asha "+way.told)
	}
	s.money("after all", "0", "0")
}

func agreedSponsorsRefused(h *house) {
	s := h.shop("0")
	asha, chitra := s.administrator("asha", noon), s.administrator("chitra", noon)
	for _, way := range sponsorships {
		checker := "binu-" + way.what
		way.hire(h, checker)
		outcome, err := way.give(asha, h, checker)
		s.must(err)
		if !outcome.Waits() || outcome.Password != "" {
			s.Fatalf("%s: %+v; want it to wait", way.what, outcome)
		}
		done, err := chitra.Approve(s.Context(), outcome.Proposal.ID)
		s.must(err)
		saw := way.what == "created" || way.what == "password"
		if done.Person.Username != checker || (done.Password != "") != saw || !done.Person.MustChangePassword {
			s.Errorf("%s: approved %+v", way.what, done)
		}
		want := []string{
			way.what + " by web:asha, alone false, saw the password false",
			fmt.Sprintf("%s by web:chitra, alone false, saw the password %v", way.what, saw),
		}
		if got := s.grantsOf(checker); !slices.Equal(got, want) {
			s.Errorf("the grants are %q; want %q", got, want)
		}
		s.cannotApprove(checker, s.proposedBy("asha", later, "asha "+way.what), later, "asha "+way.told)
		s.cannotApprove(checker, s.proposedBy("chitra", later, "chitra "+way.what), later, "chitra "+way.told)
		s.hire("third", admin.Finance)
		s.canApprove(checker, s.proposedBy("third", later, "third "+way.what), later)
		s.canApprove("chitra", s.proposedBy("asha", later, "for chitra "+way.what), later)
	}
}

func newLoginsWait(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	s.hire("third", admin.Finance)
	for _, way := range sponsorships {
		checker := "binu-" + way.what
		way.hire(h, checker)
		_, err := way.give(asha, h, checker)
		s.must(err)
		p := s.proposedBy("third", noon.Add(time.Hour), way.what)
		s.cannotApprove(checker, p, noon.Add(day-time.Millisecond), "from 2027-03-02 12:00:00 +05:30 on")
		s.canApprove(checker, p, noon.Add(day))
	}
	// The wait is a setting.
	_, err := asha.SubmitLogin(s.Context(), created("eager", login.Finance))
	s.must(err)
	p := s.proposedBy("third", noon, "eager")
	eager := admin.NewDesk(s.Store, sealer{}, "web:eager", func() time.Time { return noon }).As(admin.Finance, admin.Limits{})
	_, err = eager.Approve(s.Context(), p.ID)
	s.must(err)
}

func soleSponsorsRefused(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	for _, way := range sponsorships {
		maker := "binu-" + way.what
		way.hire(h, maker)
		_, err := way.give(asha, h, maker)
		s.must(err)
		p := s.proposedBy(maker, later, way.what)
		s.cannotApprove("asha", p, later, "you gave "+maker+" access without a second person")
		s.hire("third", admin.Finance)
		s.canApprove("third", p, later)
	}
}

func shownPasswordsRefused(h *house) {
	s := h.shop("0")
	asha, chitra := s.administrator("asha", noon), s.administrator("chitra", noon)
	agree := func(outcome admin.Outcome, err error) {
		s.must(err)
		s.must(first(chitra.Approve(s.Context(), outcome.Proposal.ID)))
	}
	agree(asha.SubmitLogin(s.Context(), created("binu", login.Finance)))
	s.cannotApprove("chitra", s.proposedBy("binu", later, "one"), later, "you were shown the password of binu")
	s.canApprove("asha", s.proposedBy("binu", later, "two"), later)
	// A password that was replaced is nobody's knowledge.
	_, err := s.ResetPassword(s.Context(), act("login reset-password"), s.known("binu").ID, "$another")
	s.must(err)
	s.canApprove("chitra", s.proposedBy("binu", later, "three"), later)
	agree(asha.SubmitPasswordReset(s.Context(), s.known("binu").ID))
	s.cannotApprove("chitra", s.proposedBy("binu", later, "four"), later, "you were shown the password of binu")
}

func siblingsRefused(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	for _, made := range []admin.NewLogin{created("one", login.Finance), created("two", login.Finance), created("boss", login.Administrator)} {
		_, err := asha.SubmitLogin(s.Context(), made)
		s.must(err)
	}
	s.cannotApprove("two", s.proposedBy("one", later, "siblings"), later, "both come from asha alone")
	// Through another login it is the same. That login has no second person either.
	outcome, err := s.deskOf("boss", admin.Administrator, noon).SubmitLogin(s.Context(), created("grandchild", login.Finance))
	s.must(err)
	if outcome.Waits() {
		s.Fatalf("%+v; want it done at once: nobody may approve for boss", outcome)
	}
	s.cannotApprove("grandchild", s.proposedBy("asha", later, "down"), later, "asha created your login")
	s.cannotApprove("asha", s.proposedBy("grandchild", later, "up"), later, "you gave grandchild access without a second person")
	s.cannotApprove("grandchild", s.proposedBy("two", later, "aside"), later, "both come from asha alone")
	// A viewer whom one person creates is that person's, too, however it is raised.
	_, err = asha.SubmitLogin(s.Context(), created("viewer", login.Viewer))
	s.must(err)
	viewer := login.Finance
	_, err = s.ChangeLogin(s.Context(), act("login set"), s.known("viewer").ID, admin.LoginChange{Role: &viewer})
	s.must(err)
	s.cannotApprove("viewer", s.proposedBy("asha", later, "viewer"), later, "asha created your login")
	s.money("after all", "0", "0")
}

// handedOnRefused has one administrator take two logins over, and have each of them give
// the other its access anew: who last did so is then not the one who has both.
func handedOnRefused(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	s.hire("binu", admin.Administrator)
	s.hire("chitra", admin.Finance)
	binu, chitra := s.known("binu").ID, s.known("chitra").ID
	at := func(d *admin.Desk, submit func(*admin.Desk) (admin.Outcome, error)) {
		s.Helper()
		if outcome, err := submit(d); err != nil || outcome.Waits() {
			s.Fatalf("%+v, %v; want it done at once", outcome, err)
		}
	}
	reset := func(id int64) func(*admin.Desk) (admin.Outcome, error) {
		return func(d *admin.Desk) (admin.Outcome, error) { return d.SubmitPasswordReset(s.Context(), id) }
	}
	role := func(role login.Role) func(*admin.Desk) (admin.Outcome, error) {
		return func(d *admin.Desk) (admin.Outcome, error) { return d.SubmitRole(s.Context(), chitra, role) }
	}
	at(asha, reset(binu)) // binu is the only one who could agree, and it is about binu
	asBinu := s.deskOf("binu", admin.Administrator, noon)
	at(asBinu, reset(chitra))
	at(asBinu, role(login.Administrator))
	at(s.deskOf("chitra", admin.Administrator, noon), reset(binu))
	s.cannotApprove("binu", s.proposedBy("asha", later, "around"), later, "")
	s.cannotApprove("chitra", s.proposedBy("asha", later, "around, too"), later, "")
	s.cannotApprove("asha", s.proposedBy("chitra", later, "back"), later, "")
	// Nor does it help that the one between is given back to its person.
	s.must(first(s.ResetPassword(s.Context(), act("login reset-password"), binu, "$another")))
	s.cannotApprove("chitra", s.proposedBy("asha", later, "without binu"), later, "")
	s.canApprove("binu", s.proposedBy("asha", later, "binu is back"), later)
}

// shownBothRefused: one person made up both passwords by approving, and so can sign in
// as both.
func shownBothRefused(h *house) {
	s := h.shop("0")
	asha, chitra, dev := s.administrator("asha", noon), s.administrator("chitra", noon), s.administrator("dev", noon)
	agree := func(by *admin.Desk, name string) {
		outcome, err := asha.SubmitLogin(s.Context(), created(name, login.Finance))
		s.must(err)
		s.must(first(by.Approve(s.Context(), outcome.Proposal.ID)))
	}
	agree(chitra, "one")
	agree(chitra, "two")
	agree(dev, "three")
	s.cannotApprove("two", s.proposedBy("one", later, "both shown"), later, "both come from chitra alone")
	s.canApprove("three", s.proposedBy("one", later, "shown to two"), later)
}

func commandLineIsExempt(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	cli := admin.NewDesk(s.Store, sealer{}, "cli:root", func() time.Time { return noon })
	for _, name := range []string{"binu", "chitra"} {
		made, _, err := cli.CreateLogin(s.Context(), created(name, login.Administrator))
		s.must(err)
		if made.Username != name || len(s.grantsOf(name)) != 0 {
			s.Errorf("made %+v with the grants %q; want none", made, s.grantsOf(name))
		}
	}
	s.canApprove("binu", s.proposedBy("asha", noon, "made"), noon)
	// The command line resets and raises alone, and takes away who did so before.
	id := s.known("binu").ID
	s.withTOTP("binu")
	for _, submit := range []func(context.Context, int64) (admin.Outcome, error){asha.SubmitPasswordReset, asha.SubmitTOTPReset} {
		outcome, err := submit(s.Context(), id)
		s.must(err)
		s.must(first(s.deskOf("chitra", admin.Administrator, noon).Approve(s.Context(), outcome.Proposal.ID)))
	}
	if got := s.grantsOf("binu"); len(got) != 4 {
		s.Fatalf("the grants are %q; want 4", got)
	}
	s.withTOTP("binu")
	s.must(second(cli.ResetPassword(s.Context(), id)))
	s.must(first(cli.ResetTOTP(s.Context(), id)))
	for _, role := range []login.Role{login.Viewer, login.Administrator} {
		s.must(first(cli.ChangeLogin(s.Context(), id, admin.LoginChange{Role: &role})))
	}
	if got := s.grantsOf("binu"); len(got) != 0 {
		s.Errorf("the grants are %q; want none", got)
	}
	s.canApprove("binu", s.proposedBy("asha", noon, "reset"), noon)
}

func strangersApproveNothing(h *house) {
	s := h.shop("0")
	s.hire("asha", admin.Finance)
	p := s.proposedBy("asha", noon, "r")
	s.cannotApprove("nobody", p, noon, "has no login that may approve")
	binu, yes := s.hire("binu", admin.Finance), true
	s.must(first(s.ChangeLogin(s.Context(), act("login set"), binu.ID, admin.LoginChange{Disabled: &yes})))
	s.cannotApprove("binu", p, noon, "has no login that may approve")
}

func loginsByTwo(h *house) {
	s := h.shop("0")
	asha, binu := s.administrator("asha", noon), s.administrator("binu", noon.Add(time.Hour))
	before := len(s.acts())
	wanted := created("ravi", login.Finance)
	_, _, err := asha.CreateLogin(s.Context(), wanted)
	s.refused("create it alone", err)
	outcome, err := asha.SubmitLogin(s.Context(), wanted)
	s.must(err)
	p := outcome.Proposal
	if !outcome.Waits() || p.Kind != admin.ProposedLogin || p.Subject != "login ravi" || p.OperatorID != 0 || strings.Contains(p.Change, "assword") {
		s.Fatalf("proposed %+v", outcome)
	}
	if again, err := asha.SubmitLogin(s.Context(), wanted); err != nil || !again.Already || again.Proposal != p {
		s.Errorf("again: %+v, %v; want the first one", again, err)
	}
	_, err = asha.SubmitLogin(s.Context(), created("ravi", login.Administrator))
	s.refused("another role for the same username", err)
	_, err = asha.SubmitLogin(s.Context(), created("binu", login.Finance))
	s.refused("a username that is taken", err)
	_, err = asha.Approve(s.Context(), p.ID)
	s.refused("approve one's own", err)
	s.hire("fina", admin.Finance)
	_, err = s.deskOf("fina", admin.Finance, noon).Approve(s.Context(), p.ID)
	s.refused("an approval by somebody who may not create logins", err)
	if _, err := s.LoginNamed(s.Context(), "ravi"); err == nil {
		s.Error("the login is there before it is approved")
	}
	done, err := binu.Approve(s.Context(), p.ID)
	s.must(err)
	ravi := s.known("ravi")
	if done.Person != ravi.Person || done.Password == "" || !ravi.MustChangePassword || ravi.Role != login.Finance || !ravi.CreatedAt.Equal(noon.Add(time.Hour)) {
		s.Errorf("approved %+v; the login is %+v", done, ravi)
	}
	var told []string
	for _, act := range s.acts()[before:] {
		if strings.Contains(act.Before+act.After+act.Reason, done.Password) {
			s.Errorf("act %d tells the password", act.ID)
		}
		if act.Actor != "test:asha" {
			told = append(told, act.Actor+" "+act.Action+" "+act.Subject)
		}
	}
	want := []string{
		fmt.Sprintf("web:asha proposal make proposal %d", p.ID), fmt.Sprintf("web:binu login create login %d", ravi.ID),
		fmt.Sprintf("web:binu proposal approve proposal %d", p.ID),
	}
	if !slices.Equal(told, want) {
		s.Errorf("the log is %q; want %q", told, want)
	}
	// Who may not approve is created at once.
	for _, role := range []login.Role{login.Viewer, login.Support} {
		if outcome, err := asha.SubmitLogin(s.Context(), created("a-"+string(role), role)); err != nil || outcome.Waits() || outcome.Password == "" {
			s.Errorf("%s: %+v, %v; want it done at once", role, outcome, err)
		}
	}
}

func rolesByTwo(h *house) {
	s := h.shop("0")
	asha, binu := s.administrator("asha", noon), s.administrator("binu", noon)
	id := s.hire("ravi", admin.Viewer).ID
	for _, step := range []struct {
		role  login.Role
		waits bool
	}{
		{login.Support, false}, {login.Finance, true}, {login.Administrator, true}, {login.Finance, false}, {login.Viewer, false}, {login.Administrator, true},
	} {
		if step.waits {
			_, err := asha.ChangeLogin(s.Context(), id, admin.LoginChange{Role: &step.role})
			s.refused("raise it alone", err)
		}
		from := s.known("ravi").Role
		outcome, err := asha.SubmitRole(s.Context(), id, step.role)
		s.must(err)
		if outcome.Waits() != step.waits {
			s.Fatalf("%s: %+v; want it to wait: %v", step.role, outcome, step.waits)
		}
		if step.waits {
			if is := s.known("ravi").Role; is != from {
				s.Errorf("the role is %s before it is approved", is)
			}
			s.must(first(binu.Approve(s.Context(), outcome.Proposal.ID)))
		}
		if is := s.known("ravi").Role; is != step.role {
			s.Errorf("the role is %s; want %s", is, step.role)
		}
	}
	// What was agreed to was a change from another role.
	other := s.hire("other", admin.Viewer).ID
	outcome, err := asha.SubmitRole(s.Context(), other, login.Administrator)
	s.must(err)
	support := login.Support
	s.must(first(s.ChangeLogin(s.Context(), act("login set"), other, admin.LoginChange{Role: &support})))
	_, err = binu.Approve(s.Context(), outcome.Proposal.ID)
	s.refused("a role that was changed meanwhile", err)
	_, err = asha.SubmitRole(s.Context(), id, "king")
	s.refused("a role that is none", err)
}

func resetsByTwo(h *house) {
	s := h.shop("0")
	asha, binu := s.administrator("asha", noon), s.administrator("binu", noon)
	s.hire("ravi", admin.Finance)
	ravi := s.withTOTP("ravi")
	_, _, err := asha.ResetPassword(s.Context(), ravi.ID)
	s.refused("reset the password alone", err)
	_, err = asha.ResetTOTP(s.Context(), ravi.ID)
	s.refused("reset the second factor alone", err)
	password, err := asha.SubmitPasswordReset(s.Context(), ravi.ID)
	s.must(err)
	factor, err := asha.SubmitTOTPReset(s.Context(), ravi.ID)
	s.must(err)
	if now := s.known("ravi"); now.Version != ravi.Version || !password.Waits() || !factor.Waits() {
		s.Errorf("the login is %+v before anything is approved", now)
	}
	done, err := binu.Approve(s.Context(), password.Proposal.ID)
	s.must(err)
	if now := s.known("ravi"); done.Password == "" || !now.MustChangePassword || now.PasswordHash == ravi.PasswordHash {
		s.Errorf("approved %+v; the login is %+v", done, now)
	}
	done, err = binu.Approve(s.Context(), factor.Proposal.ID)
	s.must(err)
	if done.Password != "" || s.known("ravi").TOTP {
		s.Errorf("approved %+v; want the second factor gone", done)
	}
	_, err = asha.SubmitTOTPReset(s.Context(), ravi.ID)
	s.refused("a second factor that is not there", err)
	// Who may not approve is reset at once.
	if outcome, err := asha.SubmitPasswordReset(s.Context(), s.hire("vani", admin.Viewer).ID); err != nil || outcome.Waits() || outcome.Password == "" {
		s.Errorf("a viewer's password: %+v, %v; want it reset at once", outcome, err)
	}
}

func noSecondPerson(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	binu, yes := s.hire("binu", admin.Administrator), true
	s.hire("fina", admin.Finance)
	waits := func(what, username string, want bool) {
		s.Helper()
		second, err := asha.SecondPerson(s.Context(), 0)
		outcome, submit := asha.SubmitLogin(s.Context(), created(username, login.Administrator))
		if err != nil || submit != nil || second != want || outcome.Waits() != want {
			s.Errorf("%s: a second person %v, %+v, %v, %v; want %v", what, second, outcome, err, submit, want)
		}
	}
	waits("another administrator", "one", true)
	// Who has lost a password cannot sign in and approve a new one.
	if outcome, err := asha.SubmitPasswordReset(s.Context(), binu.ID); err != nil || outcome.Waits() || outcome.Password == "" {
		s.Errorf("the second administrator's own password: %+v, %v; want it reset at once", outcome, err)
	}
	s.cannotApprove("binu", s.proposedBy("asha", later, "reset"), later, "asha reset your password")
	s.must(first(s.ResetPassword(s.Context(), act("login reset-password"), binu.ID, "$another")))
	waits("another administrator, reset by the command line", "five", true)
	s.must(first(s.ChangeLogin(s.Context(), act("login set"), binu.ID, admin.LoginChange{Disabled: &yes})))
	waits("a disabled administrator and finance", "two", false)
	waits("an administrator whom one created oneself", "three", false)
	s.hire("chitra", admin.Administrator)
	waits("another one of the command line", "four", true)
}

func loginProposedOnce(h *house) {
	s := h.shop("0")
	for i := range 4 {
		s.hire(name("admin", i), admin.Administrator)
	}
	var once atomic.Int32
	together(4, func(i int) {
		outcome, err := s.deskOf(name("admin", i), admin.Administrator, noon).SubmitLogin(s.Context(), created("ravi", login.Finance))
		if err != nil || !outcome.Waits() {
			s.Errorf("propose: %+v, %v", outcome, err)
		}
		if !outcome.Already {
			once.Add(1)
		}
	})
	open, err := s.Proposals(s.Context(), admin.ProposalFilter{Open: true, Most: 10})
	if err != nil || len(open) != 1 || once.Load() != 1 {
		s.Fatalf("%d are called the first, and open are %+v, %v; want one", once.Load(), open, err)
	}
	var approved atomic.Int32
	together(4, func(i int) {
		done, err := s.deskOf(name("admin", i), admin.Administrator, noon).Approve(s.Context(), open[0].ID)
		if refusal := (*admin.Refusal)(nil); err != nil && !errors.As(err, &refusal) {
			s.Errorf("approve: %v", err)
		}
		if err == nil && done.Password != "" {
			approved.Add(1)
		}
	})
	if approved.Load() != 1 {
		s.Errorf("%d were shown a password; want 1", approved.Load())
	}
}

func createdAtOnce(h *house) {
	s := h.shop("0")
	s.hire("asha", admin.Administrator)
	together(2, func(i int) {
		_, err := s.deskOf("asha", admin.Administrator, noon).SubmitLogin(s.Context(), created(name("boss", i), login.Administrator))
		if err != nil {
			s.Error(err)
		}
	})
	s.cannotApprove("boss-001", s.proposedBy("boss-000", later, "one"), later, "both come from asha alone")
	s.cannotApprove("boss-000", s.proposedBy("asha", later, "two"), later, "asha created your login")
	s.cannotApprove("asha", s.proposedBy("boss-001", later, "three"), later, "without a second person")
}

func makersLapse(h *house) {
	s := h.shop("0")
	yes, no := true, false
	viewer, finance := login.Viewer, login.Finance
	set := func(name string, at time.Time, change admin.LoginChange) {
		s.Helper()
		done := act("login set")
		done.At = at
		s.must(first(s.ChangeLogin(s.Context(), done, s.known(name).ID, change)))
	}
	s.hire("binu", admin.Finance)
	s.hire("other", admin.Finance)
	others := s.proposedBy("other", noon, "others")
	for i, change := range []admin.LoginChange{{Disabled: &yes}, {Role: &viewer}} {
		maker := name("maker", i)
		s.hire(maker, admin.Finance)
		p := s.proposedBy(maker, noon, maker)
		newName := "Another Name"
		set(maker, noon, admin.LoginChange{Name: &newName})
		if kept, err := s.Proposal(s.Context(), p.ID); err != nil || kept != p {
			s.Errorf("after a change of name: %+v, %v; want %+v", kept, err, p)
		}
		at := noon.Add(time.Hour)
		set(maker, at, change)
		p.Status, p.DecidedAt = admin.ProposalLapsed, at
		if kept, err := s.Proposal(s.Context(), p.ID); err != nil || kept != p || !kept.LapsedWithMaker() {
			s.Errorf("lapsed: %+v, %v; want %+v", kept, err, p)
		}
		set(maker, at, admin.LoginChange{Disabled: &no, Role: &finance})
		_, err := s.deskOf("binu", admin.Finance, at).Approve(s.Context(), p.ID)
		if s.refused("what lapsed with its maker", err); err != nil && !strings.Contains(err.Error(), "the login of "+maker+" was disabled") {
			s.Errorf("told %v", err)
		}
		again, err := s.deskOf("binu", admin.Finance, at).SubmitTopUp(s.Context(), s.paid("5000", maker))
		if err != nil || !again.Waits() || again.Already {
			s.Errorf("proposed anew: %+v, %v", again, err)
		}
		set(maker, at, change)
		_, err = s.deskOf(maker, admin.Finance, at).SubmitTopUp(s.Context(), s.paid("5000", "late "+maker))
		s.refused("a proposal of somebody who was disabled or lowered meanwhile", err)
	}
	s.canApprove("binu", others, noon.Add(time.Hour))
	// One that lapsed by itself before keeps its own moment.
	old := s.proposedBy("binu", noon, "old")
	set("binu", later, admin.LoginChange{Disabled: &yes})
	if kept, err := s.Proposal(s.Context(), old.ID); err != nil || !kept.DecidedAt.Equal(old.Lapses()) || kept.LapsedWithMaker() {
		s.Errorf("lapsed by itself: %+v, %v", kept, err)
	}
}

func approvalAgainstDisabling(h *house) {
	s := h.shop("0")
	s.hire("binu", admin.Finance)
	yes, approvals := true, 0
	for round := range 4 {
		maker := s.hire(name("maker", round), admin.Finance)
		p := s.proposedBy(maker.Username, noon, maker.Username)
		approved := false
		together(2, func(i int) {
			if i == 0 {
				_, err := s.deskOf("binu", admin.Finance, noon).Approve(s.Context(), p.ID)
				approved = err == nil
			} else if _, err := s.ChangeLogin(s.Context(), act("login set"), maker.ID, admin.LoginChange{Disabled: &yes}); err != nil {
				s.Error(err)
			}
		})
		want := admin.ProposalLapsed
		if approved {
			approvals++
			want = admin.ProposalApproved
		}
		if kept, err := s.Proposal(s.Context(), p.ID); err != nil || kept.Status != want {
			s.Errorf("the proposal is %+v, %v; want it %s", kept, err, want)
		}
	}
	s.money("after all", fmt.Sprint(5000*approvals), "0")
}

// loweredCheckersRefused has desks that were opened with the rights that a login had
// before.
func loweredCheckersRefused(h *house) {
	s := h.shop("0")
	asha := s.administrator("asha", noon)
	s.administrator("chitra", noon)
	outcome, err := asha.SubmitLogin(s.Context(), created("ravi", login.Finance))
	s.must(err)
	topUp := s.proposedBy("asha", noon, "NEFT-1")
	yes, viewer, finance := true, login.Viewer, login.Finance
	for i, row := range []struct {
		was    admin.Role
		change admin.LoginChange
		p      admin.Proposal
	}{
		{admin.Finance, admin.LoginChange{Role: &viewer}, topUp},
		{admin.Finance, admin.LoginChange{Disabled: &yes}, topUp},
		{admin.Administrator, admin.LoginChange{Role: &finance}, outcome.Proposal},
	} {
		checker := name("checker", i)
		id := s.hire(checker, row.was).ID
		before := s.deskOf(checker, row.was, noon)
		s.must(first(s.ChangeLogin(s.Context(), act("login set"), id, row.change)))
		_, err := before.Approve(s.Context(), row.p.ID)
		if s.refused(checker+"'s approval", err); err != nil && !strings.Contains(err.Error(), "has no login that may approve") {
			s.Errorf("%s's approval: %v; want it to say that the login may not approve", checker, err)
		}
		if kept, err := s.Proposal(s.Context(), row.p.ID); err != nil || kept.Status != admin.ProposalOpen {
			s.Errorf("the proposal is %+v, %v; want it open", kept, err)
		}
	}
	s.money("after all", "0", "0")
	// A login that still may approve one kind does so.
	s.canApprove("checker-002", topUp, noon)
}

func approvalAgainstLowering(h *house) {
	s := h.shop("0")
	s.hire("asha", admin.Finance)
	viewer := login.Viewer
	for round := range 4 {
		checker := s.hire(name("checker", round), admin.Finance)
		p := s.proposedBy("asha", noon, checker.Username)
		approved := false
		together(2, func(i int) {
			if i == 0 {
				_, err := s.deskOf(checker.Username, admin.Finance, noon).Approve(s.Context(), p.ID)
				approved = err == nil
			} else if _, err := s.ChangeLogin(s.Context(), act("login set"), checker.ID, admin.LoginChange{Role: &viewer}); err != nil {
				s.Error(err)
			}
		})
		acts := s.acts()
		if last := acts[len(acts)-1]; approved && last.Action != string(admin.LoginSet) {
			s.Errorf("the last staff action is %s %s; want the change of role to follow the approval", last.Actor, last.Action)
		}
	}
}
