package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// administrator is the service of one in the console.
func (h *house) administrator(name string, at time.Time) *admin.Service {
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
	give func(d *admin.Service, h *house, name string) (admin.ActionResult, error)
	told string
}{
	{"created", func(*house, string) {}, func(d *admin.Service, h *house, name string) (admin.ActionResult, error) {
		return d.SubmitLogin(h.Context(), created(name, login.Finance))
	}, "created your login"},
	{"password", func(h *house, name string) { h.hire(name, admin.Finance) }, func(d *admin.Service, h *house, name string) (admin.ActionResult, error) {
		return d.SubmitPasswordReset(h.Context(), h.known(name).ID)
	}, "reset your password"},
	{"totp", func(h *house, name string) { h.hire(name, admin.Finance); h.withTOTP(name) }, func(d *admin.Service, h *house, name string) (admin.ActionResult, error) {
		return d.SubmitTOTPReset(h.Context(), h.known(name).ID)
	}, "reset your second factor"},
	{"role", func(h *house, name string) { h.hire(name, admin.Viewer) }, func(d *admin.Service, h *house, name string) (admin.ActionResult, error) {
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
			told = append(told, fmt.Sprintf("%s by %s, alone %v, saw the password %v", g.What, g.Actor, g.WithoutApproval, g.SawPassword))
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
	eager := admin.NewService(s.Store, sealer{}, "web:eager", func() time.Time { return noon }).WithRole(admin.Finance, admin.Limits{})
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
	agree := func(outcome admin.ActionResult, err error) {
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
	at := func(d *admin.Service, submit func(*admin.Service) (admin.ActionResult, error)) {
		s.Helper()
		if outcome, err := submit(d); err != nil || outcome.Waits() {
			s.Fatalf("%+v, %v; want it done at once", outcome, err)
		}
	}
	reset := func(id int64) func(*admin.Service) (admin.ActionResult, error) {
		return func(d *admin.Service) (admin.ActionResult, error) { return d.SubmitPasswordReset(s.Context(), id) }
	}
	role := func(role login.Role) func(*admin.Service) (admin.ActionResult, error) {
		return func(d *admin.Service) (admin.ActionResult, error) { return d.SubmitRole(s.Context(), chitra, role) }
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
	agree := func(by *admin.Service, name string) {
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
	cli := admin.NewService(s.Store, sealer{}, "cli:root", func() time.Time { return noon })
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
	for _, submit := range []func(context.Context, int64) (admin.ActionResult, error){asha.SubmitPasswordReset, asha.SubmitTOTPReset} {
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
