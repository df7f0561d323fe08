package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

func loginsByTwo(h *harness) {
	s := h.fixture("0")
	asha, binu := s.administrator("asha", noon), s.administrator("binu", noon.Add(time.Hour))
	before := len(s.auditEntries())
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
	s.createLogin("fina", admin.Finance)
	_, err = s.serviceOf("fina", admin.Finance, noon).Approve(s.Context(), p.ID)
	s.refused("an approval without the right to create logins", err)
	if _, err := s.LoginNamed(s.Context(), "ravi"); err == nil {
		s.Error("the login is there before it is approved")
	}
	done, err := binu.Approve(s.Context(), p.ID)
	s.must(err)
	ravi := s.known("ravi")
	if done.Person != ravi.Person || done.Password == "" || !ravi.MustChangePassword || ravi.Role != login.Finance || !ravi.CreatedAt.Equal(noon.Add(time.Hour)) {
		s.Errorf("approved %+v; the login is %+v", done, ravi)
	}
	var logged []string
	for _, staffAction := range s.auditEntries()[before:] {
		if strings.Contains(staffAction.Before+staffAction.After+staffAction.Reason, done.Password) {
			s.Errorf("audit entry %d contains the password", staffAction.ID)
		}
		if staffAction.Actor != "test:asha" {
			logged = append(logged, staffAction.Actor+" "+staffAction.Action+" "+staffAction.Subject)
		}
	}
	want := []string{
		fmt.Sprintf("web:asha proposal make proposal %d", p.ID), fmt.Sprintf("web:binu login create login %d", ravi.ID),
		fmt.Sprintf("web:binu proposal approve proposal %d", p.ID),
	}
	if !slices.Equal(logged, want) {
		s.Errorf("the log is %q; want %q", logged, want)
	}
	// A login that may not approve is created at once.
	for _, role := range []login.Role{login.Viewer, login.Support} {
		if outcome, err := asha.SubmitLogin(s.Context(), created("a-"+string(role), role)); err != nil || outcome.Waits() || outcome.Password == "" {
			s.Errorf("%s: %+v, %v; want it done at once", role, outcome, err)
		}
	}
}

func rolesByTwo(h *harness) {
	s := h.fixture("0")
	asha, binu := s.administrator("asha", noon), s.administrator("binu", noon)
	id := s.createLogin("ravi", admin.Viewer).ID
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
	// The approved change was from another role.
	other := s.createLogin("other", admin.Viewer).ID
	outcome, err := asha.SubmitRole(s.Context(), other, login.Administrator)
	s.must(err)
	support := login.Support
	s.must(first(s.ChangeLogin(s.Context(), staffAction("login set"), other, admin.LoginChange{Role: &support})))
	_, err = binu.Approve(s.Context(), outcome.Proposal.ID)
	s.refused("a role that was changed meanwhile", err)
	_, err = asha.SubmitRole(s.Context(), id, "king")
	s.refused("a role that is none", err)
}

func resetsByTwo(h *harness) {
	s := h.fixture("0")
	asha, binu := s.administrator("asha", noon), s.administrator("binu", noon)
	s.createLogin("ravi", admin.Finance)
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
	s.refused("a missing second factor", err)
	// A login that may not approve is reset at once.
	if outcome, err := asha.SubmitPasswordReset(s.Context(), s.createLogin("vani", admin.Viewer).ID); err != nil || outcome.Waits() || outcome.Password == "" {
		s.Errorf("a viewer's password: %+v, %v; want it reset at once", outcome, err)
	}
}

func noSecondPerson(h *harness) {
	s := h.fixture("0")
	asha := s.administrator("asha", noon)
	binu, yes := s.createLogin("binu", admin.Administrator), true
	s.createLogin("fina", admin.Finance)
	waits := func(what, username string, want bool) {
		s.Helper()
		second, err := asha.HasApprover(s.Context(), 0)
		outcome, submit := asha.SubmitLogin(s.Context(), created(username, login.Administrator))
		if err != nil || submit != nil || second != want || outcome.Waits() != want {
			s.Errorf("%s: a second person %v, %+v, %v, %v; want %v", what, second, outcome, err, submit, want)
		}
	}
	waits("another administrator", "one", true)
	// A login with a reset password cannot sign in to approve a new one.
	if outcome, err := asha.SubmitPasswordReset(s.Context(), binu.ID); err != nil || outcome.Waits() || outcome.Password == "" {
		s.Errorf("the second administrator's own password: %+v, %v; want it reset at once", outcome, err)
	}
	s.cannotApprove("binu", s.proposedBy("asha", later, "reset"), later, "asha reset your password")
	s.must(first(s.ResetPassword(s.Context(), staffAction("login reset-password"), binu.ID, "$another")))
	waits("another administrator, reset by the command line", "five", true)
	s.must(first(s.ChangeLogin(s.Context(), staffAction("login set"), binu.ID, admin.LoginChange{Disabled: &yes})))
	waits("a disabled administrator and finance", "two", false)
	waits("an administrator whom one created oneself", "three", false)
	s.createLogin("chitra", admin.Administrator)
	waits("another one of the command line", "four", true)
}

func loginProposedOnce(h *harness) {
	s := h.fixture("0")
	for i := range 4 {
		s.createLogin(name("admin", i), admin.Administrator)
	}
	var once atomic.Int32
	concurrently(4, func(i int) {
		outcome, err := s.serviceOf(name("admin", i), admin.Administrator, noon).SubmitLogin(s.Context(), created("ravi", login.Finance))
		if err != nil || !outcome.Waits() {
			s.Errorf("propose: %+v, %v", outcome, err)
		}
		if !outcome.Already {
			once.Add(1)
		}
	})
	open, err := s.Proposals(s.Context(), admin.ProposalFilter{Open: true, Limit: 10})
	if err != nil || len(open) != 1 || once.Load() != 1 {
		s.Fatalf("%d are called the first, and open are %+v, %v; want one", once.Load(), open, err)
	}
	var approved atomic.Int32
	concurrently(4, func(i int) {
		done, err := s.serviceOf(name("admin", i), admin.Administrator, noon).Approve(s.Context(), open[0].ID)
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

func createdAtOnce(h *harness) {
	s := h.fixture("0")
	s.createLogin("asha", admin.Administrator)
	concurrently(2, func(i int) {
		_, err := s.serviceOf("asha", admin.Administrator, noon).SubmitLogin(s.Context(), created(name("boss", i), login.Administrator))
		if err != nil {
			s.Error(err)
		}
	})
	s.cannotApprove("boss-001", s.proposedBy("boss-000", later, "one"), later, "both come from asha alone")
	s.cannotApprove("boss-000", s.proposedBy("asha", later, "two"), later, "asha created your login")
	s.cannotApprove("asha", s.proposedBy("boss-001", later, "three"), later, "without a second approval")
}

func makersLapse(h *harness) {
	s := h.fixture("0")
	yes, no := true, false
	viewer, finance := login.Viewer, login.Finance
	set := func(name string, at time.Time, change admin.LoginChange) {
		s.Helper()
		done := staffAction("login set")
		done.At = at
		s.must(first(s.ChangeLogin(s.Context(), done, s.known(name).ID, change)))
	}
	s.createLogin("binu", admin.Finance)
	s.createLogin("other", admin.Finance)
	others := s.proposedBy("other", noon, "others")
	for i, change := range []admin.LoginChange{{Disabled: &yes}, {Role: &viewer}} {
		maker := name("maker", i)
		s.createLogin(maker, admin.Finance)
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
		_, err := s.serviceOf("binu", admin.Finance, at).Approve(s.Context(), p.ID)
		if s.refused("what lapsed with its maker", err); err != nil && !strings.Contains(err.Error(), "the login of "+maker+" was disabled") {
			s.Errorf("told %v", err)
		}
		again, err := s.serviceOf("binu", admin.Finance, at).SubmitTopUp(s.Context(), s.paid("5000", maker))
		if err != nil || !again.Waits() || again.Already {
			s.Errorf("proposed again: %+v, %v", again, err)
		}
		set(maker, at, change)
		_, err = s.serviceOf(maker, admin.Finance, at).SubmitTopUp(s.Context(), s.paid("5000", "late "+maker))
		s.refused("a proposal whose maker was disabled or demoted meanwhile", err)
	}
	s.canApprove("binu", others, noon.Add(time.Hour))
	// A proposal that had lapsed before keeps its own time.
	old := s.proposedBy("binu", noon, "old")
	set("binu", later, admin.LoginChange{Disabled: &yes})
	if kept, err := s.Proposal(s.Context(), old.ID); err != nil || !kept.DecidedAt.Equal(old.LapsesAt()) || kept.LapsedWithMaker() {
		s.Errorf("lapsed by itself: %+v, %v", kept, err)
	}
}

func approvalAgainstDisabling(h *harness) {
	s := h.fixture("0")
	s.createLogin("binu", admin.Finance)
	yes, approvals := true, 0
	for round := range 4 {
		maker := s.createLogin(name("maker", round), admin.Finance)
		p := s.proposedBy(maker.Username, noon, maker.Username)
		approved := false
		concurrently(2, func(i int) {
			if i == 0 {
				_, err := s.serviceOf("binu", admin.Finance, noon).Approve(s.Context(), p.ID)
				approved = err == nil
			} else if _, err := s.ChangeLogin(s.Context(), staffAction("login set"), maker.ID, admin.LoginChange{Disabled: &yes}); err != nil {
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

// loweredCheckersRefused uses services that were opened with a login's earlier role.
func loweredCheckersRefused(h *harness) {
	s := h.fixture("0")
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
		id := s.createLogin(checker, row.was).ID
		before := s.serviceOf(checker, row.was, noon)
		s.must(first(s.ChangeLogin(s.Context(), staffAction("login set"), id, row.change)))
		_, err := before.Approve(s.Context(), row.p.ID)
		if s.refused(checker+"'s approval", err); err != nil && !strings.Contains(err.Error(), "has no login that may approve") {
			s.Errorf("%s's approval: %v; want it to say that the login may not approve", checker, err)
		}
		if kept, err := s.Proposal(s.Context(), row.p.ID); err != nil || kept.Status != admin.ProposalOpen {
			s.Errorf("the proposal is %+v, %v; want it open", kept, err)
		}
	}
	s.money("after all", "0", "0")
	// A login that may still approve one kind does so.
	s.canApprove("checker-002", topUp, noon)
}

func approvalAgainstLowering(h *harness) {
	s := h.fixture("0")
	s.createLogin("asha", admin.Finance)
	viewer := login.Viewer
	for round := range 4 {
		checker := s.createLogin(name("checker", round), admin.Finance)
		p := s.proposedBy("asha", noon, checker.Username)
		approved := false
		concurrently(2, func(i int) {
			if i == 0 {
				_, err := s.serviceOf(checker.Username, admin.Finance, noon).Approve(s.Context(), p.ID)
				approved = err == nil
			} else if _, err := s.ChangeLogin(s.Context(), staffAction("login set"), checker.ID, admin.LoginChange{Role: &viewer}); err != nil {
				s.Error(err)
			}
		})
		auditEntries := s.auditEntries()
		if last := auditEntries[len(auditEntries)-1]; approved && last.Action != string(admin.LoginSet) {
			s.Errorf("the last staff action is %s %s; want the change of role to follow the approval", last.Actor, last.Action)
		}
	}
}
