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
	{"a checker cannot approve a sponsor's proposal", sponsorsRefused},
	{"a checker cannot approve a proposal of either approver of its access", agreedSponsorsRefused},
	{"a login that got access in the console must wait before approving", newLoginsWait},
	{"a sole sponsor cannot approve the login's proposals", soleSponsorsRefused},
	{"a person who was shown a login's password cannot approve its proposals", shownPasswordsRefused},
	{"logins with the same sole sponsor cannot approve each other's proposals", siblingsRefused},
	{"logins created through another login cannot approve their first sponsor's proposals", handedOnRefused},
	{"logins whose passwords were shown to one person cannot approve each other's proposals", shownBothRefused},
	{"command-line changes create no sponsor and no waiting time", commandLineIsExempt},
	{"an actor without a login approves nothing", strangersApproveNothing},
	{"creating a login that may approve takes two people", loginsByTwo},
	{"granting a role that may approve takes two people", rolesByTwo},
	{"resetting a login that may approve takes two people", resetsByTwo},
	{"access changes take effect at once without a second person", noSecondPerson},
	{"concurrent proposals of one login make one proposal", loginProposedOnce},
	{"logins created concurrently by one person cannot approve each other's proposals", createdAtOnce},
	{"proposals lapse when their maker is disabled or demoted", makersLapse},
	{"concurrent approval and disabling of the maker: one takes effect", approvalAgainstDisabling},
	{"a checker that was demoted or disabled meanwhile approves nothing", loweredCheckersRefused},
	{"concurrent approval and demotion: no approval after the demotion", approvalAgainstLowering},
}

const day = 24 * time.Hour

// later is a time when no login has to wait any more.
var later = noon.Add(2 * day)

// proposedBy has a login propose a top-up at a given time.
func (s *fixture) proposedBy(name string, at time.Time, reference string) admin.Proposal {
	s.Helper()
	outcome, err := s.serviceOf(name, admin.Finance, at).SubmitTopUp(s.Context(), s.paid("5000", reference))
	s.must(err)
	if !outcome.Waits() {
		s.Fatalf("proposed %+v; want it to wait", outcome)
	}
	return outcome.Proposal
}

// cannotApprove requires that a checker is refused, with a reason.
func (s *fixture) cannotApprove(checker string, p admin.Proposal, at time.Time, why string) {
	s.Helper()
	_, err := s.serviceOf(checker, admin.Finance, at).Approve(s.Context(), p.ID)
	if s.refused(checker+"'s approval", err); err != nil && !strings.Contains(err.Error(), why) {
		s.Errorf("%s's approval: %v; want %q", checker, err, why)
	}
	if kept, err := s.Proposal(s.Context(), p.ID); err != nil || kept.Status != admin.ProposalOpen {
		s.Errorf("the proposal is %+v, %v; want it open", kept, err)
	}
}

func (s *fixture) canApprove(checker string, p admin.Proposal, at time.Time) {
	s.Helper()
	if _, err := s.serviceOf(checker, admin.Finance, at).Approve(s.Context(), p.ID); err != nil {
		s.Errorf("%s's approval: %v", checker, err)
	}
}

// administrator returns the service of an administrator in the console.
func (h *harness) administrator(name string, at time.Time) *admin.Service {
	h.createLogin(name, admin.Administrator)
	return h.serviceOf(name, admin.Administrator, at)
}

// withTOTP gives a login a second factor.
func (h *harness) withTOTP(username string) login.Account {
	h.Helper()
	token := h.signIn(h.known(username), noon)
	h.setUpTOTP(username, token, "second factor of "+username, 1)
	return h.known(username)
}

func created(username string, role login.Role) admin.NewLogin {
	return admin.NewLogin{Username: username, Name: "Somebody", Role: role}
}

// sponsorships are the ways in which a console user gives a login access, and the
// reason that refusals name.
var sponsorships = []struct {
	what string
	// createLogin creates the login on the command line, if it exists before.
	createLogin func(h *harness, name string)
	give        func(d *admin.Service, h *harness, name string) (admin.ActionResult, error)
	reason      string
}{
	{"created", func(*harness, string) {}, func(d *admin.Service, h *harness, name string) (admin.ActionResult, error) {
		return d.SubmitLogin(h.Context(), created(name, login.Finance))
	}, "created your login"},
	{"password", func(h *harness, name string) { h.createLogin(name, admin.Finance) }, func(d *admin.Service, h *harness, name string) (admin.ActionResult, error) {
		return d.SubmitPasswordReset(h.Context(), h.known(name).ID)
	}, "reset your password"},
	{"totp", func(h *harness, name string) { h.createLogin(name, admin.Finance); h.withTOTP(name) }, func(d *admin.Service, h *harness, name string) (admin.ActionResult, error) {
		return d.SubmitTOTPReset(h.Context(), h.known(name).ID)
	}, "reset your second factor"},
	{"role", func(h *harness, name string) { h.createLogin(name, admin.Viewer) }, func(d *admin.Service, h *harness, name string) (admin.ActionResult, error) {
		return d.SubmitRole(h.Context(), h.known(name).ID, login.Finance)
	}, "gave you your role"},
}

// grantsOf returns the grants of a login, as text.
func (h *harness) grantsOf(username string) []string {
	h.Helper()
	staff, err := h.StaffAccess(h.Context())
	h.must(err)
	grants := []string{}
	for _, g := range staff.Grants {
		if g.LoginID == h.known(username).ID {
			grants = append(grants, fmt.Sprintf("%s by %s, alone %v, saw the password %v", g.What, g.Actor, g.WithoutApproval, g.SawPassword))
		}
	}
	slices.Sort(grants)
	return grants
}

func sponsorsRefused(h *harness) {
	s := h.fixture("0")
	asha := s.administrator("asha", noon)
	for _, sponsorship := range sponsorships {
		checker := "binu-" + sponsorship.what
		sponsorship.createLogin(h, checker)
		outcome, err := sponsorship.give(asha, h, checker)
		s.must(err)
		if outcome.Waits() || outcome.Person.Username != checker {
			s.Fatalf("%s: %+v; want it done at once, for there is no second person", sponsorship.what, outcome)
		}
		saw := sponsorship.what == "created" || sponsorship.what == "password"
		want := []string{fmt.Sprintf("%s by web:asha, alone true, saw the password %v", sponsorship.what, saw)}
		if got := s.grantsOf(checker); !slices.Equal(got, want) {
			s.Errorf("the grants are %q; want %q", got, want)
		}
		s.cannotApprove(checker, s.proposedBy("asha", later, sponsorship.what), later, "asha "+sponsorship.reason)
	}
	s.money("after all", "0", "0")
}

func agreedSponsorsRefused(h *harness) {
	s := h.fixture("0")
	asha, chitra := s.administrator("asha", noon), s.administrator("chitra", noon)
	for _, sponsorship := range sponsorships {
		checker := "binu-" + sponsorship.what
		sponsorship.createLogin(h, checker)
		outcome, err := sponsorship.give(asha, h, checker)
		s.must(err)
		if !outcome.Waits() || outcome.Password != "" {
			s.Fatalf("%s: %+v; want it to wait", sponsorship.what, outcome)
		}
		done, err := chitra.Approve(s.Context(), outcome.Proposal.ID)
		s.must(err)
		saw := sponsorship.what == "created" || sponsorship.what == "password"
		if done.Person.Username != checker || (done.Password != "") != saw || !done.Person.MustChangePassword {
			s.Errorf("%s: approved %+v", sponsorship.what, done)
		}
		want := []string{
			sponsorship.what + " by web:asha, alone false, saw the password false",
			fmt.Sprintf("%s by web:chitra, alone false, saw the password %v", sponsorship.what, saw),
		}
		if got := s.grantsOf(checker); !slices.Equal(got, want) {
			s.Errorf("the grants are %q; want %q", got, want)
		}
		s.cannotApprove(checker, s.proposedBy("asha", later, "asha "+sponsorship.what), later, "asha "+sponsorship.reason)
		s.cannotApprove(checker, s.proposedBy("chitra", later, "chitra "+sponsorship.what), later, "chitra "+sponsorship.reason)
		s.createLogin("third", admin.Finance)
		s.canApprove(checker, s.proposedBy("third", later, "third "+sponsorship.what), later)
		s.canApprove("chitra", s.proposedBy("asha", later, "for chitra "+sponsorship.what), later)
	}
}

func newLoginsWait(h *harness) {
	s := h.fixture("0")
	asha := s.administrator("asha", noon)
	s.createLogin("third", admin.Finance)
	for _, sponsorship := range sponsorships {
		checker := "binu-" + sponsorship.what
		sponsorship.createLogin(h, checker)
		_, err := sponsorship.give(asha, h, checker)
		s.must(err)
		p := s.proposedBy("third", noon.Add(time.Hour), sponsorship.what)
		s.cannotApprove(checker, p, noon.Add(day-time.Millisecond), "from 2027-03-02 12:00:00 +05:30 on")
		s.canApprove(checker, p, noon.Add(day))
	}
	// The waiting time is a setting.
	_, err := asha.SubmitLogin(s.Context(), created("eager", login.Finance))
	s.must(err)
	p := s.proposedBy("third", noon, "eager")
	eager := admin.NewService(s.Store, sealer{}, "web:eager", func() time.Time { return noon }).WithRole(admin.Finance, admin.Limits{})
	_, err = eager.Approve(s.Context(), p.ID)
	s.must(err)
}

func soleSponsorsRefused(h *harness) {
	s := h.fixture("0")
	asha := s.administrator("asha", noon)
	for _, sponsorship := range sponsorships {
		maker := "binu-" + sponsorship.what
		sponsorship.createLogin(h, maker)
		_, err := sponsorship.give(asha, h, maker)
		s.must(err)
		p := s.proposedBy(maker, later, sponsorship.what)
		s.cannotApprove("asha", p, later, "you gave "+maker+" access without a second approval")
		s.createLogin("third", admin.Finance)
		s.canApprove("third", p, later)
	}
}

func shownPasswordsRefused(h *harness) {
	s := h.fixture("0")
	asha, chitra := s.administrator("asha", noon), s.administrator("chitra", noon)
	agree := func(outcome admin.ActionResult, err error) {
		s.must(err)
		s.must(first(chitra.Approve(s.Context(), outcome.Proposal.ID)))
	}
	agree(asha.SubmitLogin(s.Context(), created("binu", login.Finance)))
	s.cannotApprove("chitra", s.proposedBy("binu", later, "one"), later, "you were shown the password of binu")
	s.canApprove("asha", s.proposedBy("binu", later, "two"), later)
	// A replaced password is no longer known to the person who was shown it.
	_, err := s.ResetPassword(s.Context(), staffAction("login reset-password"), s.known("binu").ID, "$another")
	s.must(err)
	s.canApprove("chitra", s.proposedBy("binu", later, "three"), later)
	agree(asha.SubmitPasswordReset(s.Context(), s.known("binu").ID))
	s.cannotApprove("chitra", s.proposedBy("binu", later, "four"), later, "you were shown the password of binu")
}

func siblingsRefused(h *harness) {
	s := h.fixture("0")
	asha := s.administrator("asha", noon)
	for _, made := range []admin.NewLogin{created("one", login.Finance), created("two", login.Finance), created("boss", login.Administrator)} {
		_, err := asha.SubmitLogin(s.Context(), made)
		s.must(err)
	}
	s.cannotApprove("two", s.proposedBy("one", later, "siblings"), later, "both come from asha alone")
	// The same through another login, which has no second person either.
	outcome, err := s.serviceOf("boss", admin.Administrator, noon).SubmitLogin(s.Context(), created("grandchild", login.Finance))
	s.must(err)
	if outcome.Waits() {
		s.Fatalf("%+v; want it done at once: no one may approve for boss", outcome)
	}
	s.cannotApprove("grandchild", s.proposedBy("asha", later, "down"), later, "asha created your login")
	s.cannotApprove("asha", s.proposedBy("grandchild", later, "up"), later, "you gave grandchild access without a second approval")
	s.cannotApprove("grandchild", s.proposedBy("two", later, "aside"), later, "both come from asha alone")
	// A viewer created by one person stays that person's, even with a higher role
	// later.
	_, err = asha.SubmitLogin(s.Context(), created("viewer", login.Viewer))
	s.must(err)
	viewer := login.Finance
	_, err = s.ChangeLogin(s.Context(), staffAction("login set"), s.known("viewer").ID, admin.LoginChange{Role: &viewer})
	s.must(err)
	s.cannotApprove("viewer", s.proposedBy("asha", later, "viewer"), later, "asha created your login")
	s.money("after all", "0", "0")
}

// handedOnRefused has one administrator take over two logins and have each give the
// other its access again, so that the last sponsor is not the person who controls both.
func handedOnRefused(h *harness) {
	s := h.fixture("0")
	asha := s.administrator("asha", noon)
	s.createLogin("binu", admin.Administrator)
	s.createLogin("chitra", admin.Finance)
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
	asBinu := s.serviceOf("binu", admin.Administrator, noon)
	at(asBinu, reset(chitra))
	at(asBinu, role(login.Administrator))
	at(s.serviceOf("chitra", admin.Administrator, noon), reset(binu))
	s.cannotApprove("binu", s.proposedBy("asha", later, "around"), later, "")
	s.cannotApprove("chitra", s.proposedBy("asha", later, "around, too"), later, "")
	s.cannotApprove("asha", s.proposedBy("chitra", later, "back"), later, "")
	// Giving the login between them back to its owner does not help.
	s.must(first(s.ResetPassword(s.Context(), staffAction("login reset-password"), binu, "$another")))
	s.cannotApprove("chitra", s.proposedBy("asha", later, "without binu"), later, "")
	s.canApprove("binu", s.proposedBy("asha", later, "binu is back"), later)
}

// shownBothRefused: one person was shown both passwords by approving, and so can sign
// in as both.
func shownBothRefused(h *harness) {
	s := h.fixture("0")
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

func commandLineIsExempt(h *harness) {
	s := h.fixture("0")
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
	// The command line resets and grants alone, and replaces earlier sponsors.
	id := s.known("binu").ID
	s.withTOTP("binu")
	for _, submit := range []func(context.Context, int64) (admin.ActionResult, error){asha.SubmitPasswordReset, asha.SubmitTOTPReset} {
		outcome, err := submit(s.Context(), id)
		s.must(err)
		s.must(first(s.serviceOf("chitra", admin.Administrator, noon).Approve(s.Context(), outcome.Proposal.ID)))
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

func strangersApproveNothing(h *harness) {
	s := h.fixture("0")
	s.createLogin("asha", admin.Finance)
	p := s.proposedBy("asha", noon, "r")
	s.cannotApprove("nobody", p, noon, "has no login that may approve")
	binu, yes := s.createLogin("binu", admin.Finance), true
	s.must(first(s.ChangeLogin(s.Context(), staffAction("login set"), binu.ID, admin.LoginChange{Disabled: &yes})))
	s.cannotApprove("binu", p, noon, "has no login that may approve")
}
