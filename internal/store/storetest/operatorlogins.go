package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
)

var operatorLoginTests = []test{
	{"an operator's login has an operator role", operatorRoles},
	{"an owner acts only on the operator's own logins and keys", ownerStaysWithin},
	{"an owner of a suspended operator changes nothing", suspendedOwner},
	{"an operator keeps one enabled owner", lastOwner},
	{"two owners demoting each other leave one", ownersDemoteEachOther},
	{"a required second factor is read with each login of the operator", secondFactorRequired},
	{"a suspension interrupts running jobs until they are continued", suspensionInterruptsJobs},
	{"a job of an operator suspended by an older release is interrupted", suspendedJobInterrupted},
	{"app password resets by operator logins are limited per minute", resetsThrottled},
	{"app password resets of a suspended operator are refused", suspendedResets},
}

// person creates a login of an operator.
func (h *harness) person(username string, role login.Role, operatorID int64) login.Account {
	h.Helper()
	account := newAccount(username)
	account.Realm, account.Role, account.OperatorID = login.Operator, role, operatorID
	return h.account(account)
}

// ownersAct returns an action of an operator's owner.
func ownersAct(action admin.Action, operatorID int64) admin.StaffAction {
	staffAction := staffAction(string(action))
	staffAction.Actor, staffAction.OperatorScope = "web:owner", operatorID
	return staffAction
}

func (h *harness) status(operatorID int64, status subscription.OperatorStatus) {
	h.Helper()
	_, err := h.ChangeOperator(h.Context(), staffAction("lco set"), operatorID, admin.OperatorChange{Status: &status})
	h.must(err)
}

func operatorRoles(h *harness) {
	operator := h.operator("one")
	for _, role := range login.Operator.Roles() {
		h.person("the-"+string(role), role, operator.ID)
	}
	h.reopen()
	for _, role := range login.Operator.Roles() {
		if got := h.known("the-" + string(role)); got.Role != role || got.OperatorID != operator.ID || got.OperatorSuspended {
			h.Errorf("%s is read back as %+v", role, got.Person)
		}
	}
	// The schema itself refuses a role of the other kind.
	for i, row := range []struct {
		realm    login.Realm
		role     login.Role
		operator int64
	}{{login.Operator, login.Finance, operator.ID}, {login.Staff, login.Counter, 0}, {login.Staff, login.ReadOnly, 0}} {
		account := newAccount(name("wrong", i))
		account.Realm, account.Role, account.OperatorID = row.realm, row.role, row.operator
		if _, err := h.CreateLogin(h.Context(), staffAction("login create"), account); err == nil {
			h.Errorf("a login of %s as %s was written", row.realm, row.role)
		}
	}
	counter := login.Counter
	_, err := h.ChangeLogin(h.Context(), staffAction("login set"), h.known("the-owner").ID, admin.LoginChange{Role: &counter})
	h.must(err)
	h.status(operator.ID, subscription.OperatorInactive)
	if got := h.known("the-owner"); got.Role != counter || !got.OperatorSuspended {
		h.Errorf("the former owner is %+v; want a counter of a suspended operator", got.Person)
	}
}

func ownerStaysWithin(h *harness) {
	mine, other := h.operator("mine"), h.operator("other")
	staff := h.account(newAccount("staff"))
	theirs := h.person("theirs", login.Owner, other.ID)
	theirKey, myKey := h.key(other), h.key(mine)
	h.person("owner", login.Owner, mine.ID)
	before := len(h.auditEntries())
	yes, required := true, true
	foreign := newAccount("foreign")
	foreign.Realm, foreign.Role, foreign.OperatorID = login.Operator, login.Owner, other.ID
	for what, do := range map[string]func() error{
		"switch staff off": func() error {
			return first(h.ChangeLogin(h.Context(), ownersAct(admin.LoginSet, mine.ID), staff.ID, admin.LoginChange{Disabled: &yes}))
		},
		"switch another operator's off": func() error {
			return first(h.ChangeLogin(h.Context(), ownersAct(admin.LoginSet, mine.ID), theirs.ID, admin.LoginChange{Disabled: &yes}))
		},
		"reset staff's password": func() error {
			return first(h.ResetPassword(h.Context(), ownersAct(admin.LoginResetPassword, mine.ID), staff.ID, "$hash"))
		},
		"reset another operator's password": func() error {
			return first(h.ResetPassword(h.Context(), ownersAct(admin.LoginResetPassword, mine.ID), theirs.ID, "$hash"))
		},
		"revoke another operator's key": func() error {
			return h.RevokeKey(h.Context(), ownersAct(admin.KeyRevoke, mine.ID), theirKey.ID)
		},
		"make a login of another operator": func() error {
			return first(h.CreateLogin(h.Context(), ownersAct(admin.LoginCreate, mine.ID), foreign))
		},
		"make a login of staff": func() error {
			return first(h.CreateLogin(h.Context(), ownersAct(admin.LoginCreate, mine.ID), newAccount("more-staff")))
		},
		"change another operator": func() error {
			return first(h.ChangeOperator(h.Context(), ownersAct(admin.OperatorSet, mine.ID), other.ID, admin.OperatorChange{SecondFactorRequired: &required}))
		},
		"action for a missing operator": func() error {
			return h.RevokeKey(h.Context(), ownersAct(admin.KeyRevoke, -1), myKey.ID)
		},
	} {
		if err := do(); err == nil {
			h.Errorf("an owner could %s", what)
		}
	}
	if after := len(h.auditEntries()); after != before {
		h.Errorf("%d staff actions were written for what was refused", after-before)
	}
	if h.known("staff").Disabled || h.known("theirs").Disabled || h.known("theirs").PasswordHash != "$hash of theirs" {
		h.Error("another operator's login was changed")
	}
	h.must(h.RevokeKey(h.Context(), ownersAct(admin.KeyRevoke, mine.ID), myKey.ID))
	key, err := h.Key(h.Context(), myKey.ID)
	h.must(err)
	auditEntries := h.auditEntries()
	if last := auditEntries[len(auditEntries)-1]; key.RevokedAt.IsZero() || last.Actor != "web:owner" || last.OperatorID != mine.ID || last.Action != "key revoke" {
		h.Errorf("the own key is %+v, written down as %+v", key, last)
	}
}

func suspendedOwner(h *harness) {
	mine := h.operator("mine")
	owner := h.person("owner", login.Owner, mine.ID)
	key := h.key(mine)
	h.status(mine.ID, subscription.OperatorInactive)
	name, required := "Another", true
	for what, err := range map[string]error{
		"change a login":   first(h.ChangeLogin(h.Context(), ownersAct(admin.LoginSet, mine.ID), owner.ID, admin.LoginChange{Name: &name})),
		"reset a password": first(h.ResetPassword(h.Context(), ownersAct(admin.LoginResetPassword, mine.ID), owner.ID, "$hash")),
		"revoke a key":     h.RevokeKey(h.Context(), ownersAct(admin.KeyRevoke, mine.ID), key.ID),
		"require factors": first(h.ChangeOperator(h.Context(), ownersAct(admin.OperatorSet, mine.ID), mine.ID, admin.OperatorChange{
			SecondFactorRequired: &required,
		})),
	} {
		h.refused(what, err)
	}
	// Staff still can.
	_, err := h.ChangeLogin(h.Context(), staffAction("login set"), owner.ID, admin.LoginChange{Name: &name})
	h.must(err)
}

func lastOwner(h *harness) {
	mine := h.operator("mine")
	asha, binu := h.person("asha", login.Owner, mine.ID), h.person("binu", login.Owner, mine.ID)
	h.person("counter", login.Counter, mine.ID)
	h.person("elsewhere", login.Owner, h.operator("other").ID)
	counter, yes := login.Counter, true
	change := func(id int64, c admin.LoginChange) error {
		return first(h.ChangeLogin(h.Context(), ownersAct(admin.LoginSet, mine.ID), id, c))
	}
	h.must(change(binu.ID, admin.LoginChange{Disabled: &yes}))
	h.refused("demote the last owner", change(asha.ID, admin.LoginChange{Role: &counter}))
	h.refused("disable the last owner", change(asha.ID, admin.LoginChange{Disabled: &yes}))
	no := false
	h.must(change(binu.ID, admin.LoginChange{Disabled: &no}))
	h.must(change(asha.ID, admin.LoginChange{Role: &counter}))
	h.refused("demote who is the last now", change(binu.ID, admin.LoginChange{Role: &counter}))
	// Staff may: they can create another owner.
	_, err := h.ChangeLogin(h.Context(), staffAction("login set"), binu.ID, admin.LoginChange{Disabled: &yes})
	h.must(err)
}

func ownersDemoteEachOther(h *harness) {
	mine := h.operator("mine")
	owners := []login.Account{h.person("asha", login.Owner, mine.ID), h.person("binu", login.Owner, mine.ID)}
	counter := login.Counter
	var done atomic.Int32
	concurrently(2, func(i int) {
		_, err := h.ChangeLogin(h.Context(), ownersAct(admin.LoginSet, mine.ID), owners[i].ID, admin.LoginChange{Role: &counter})
		if refusal := (*admin.Refusal)(nil); err == nil {
			done.Add(1)
		} else if !errors.As(err, &refusal) {
			h.Errorf("demote: %v", err)
		}
	})
	if done.Load() != 1 {
		h.Errorf("%d of two demotions were done; want 1", done.Load())
	}
}

func secondFactorRequired(h *harness) {
	mine, other := h.operator("mine"), h.operator("other")
	owner := h.person("owner", login.Owner, mine.ID)
	h.person("elsewhere", login.Owner, other.ID)
	token := h.signIn(owner, noon)
	yes := true
	changed, err := h.ChangeOperator(h.Context(), ownersAct(admin.OperatorSet, mine.ID), mine.ID, admin.OperatorChange{SecondFactorRequired: &yes})
	h.must(err)
	if !changed.SecondFactorRequired {
		h.Errorf("the operator is %+v", changed)
	}
	h.reopen()
	record, _ := h.session(token)
	if !record.Account.OperatorRequiresTOTP || !h.known("owner").OperatorRequiresTOTP || h.known("elsewhere").OperatorRequiresTOTP {
		h.Error("who must have a second factor is not read as it was set")
	}
	operators, err := h.Operators(h.Context())
	h.must(err)
	if i := slices.IndexFunc(operators, func(o subscription.Operator) bool { return o.ID == mine.ID }); !operators[i].SecondFactorRequired {
		h.Errorf("the list has %+v", operators[i])
	}
}

func suspensionInterruptsJobs(h *harness) {
	operator, other := h.operator("asha"), h.operator("binu")
	h.bulkStarted(other, "OTHER", 2)
	otherHold := h.bulkHold(noon)
	h.bulkStarted(operator, "JOB-1", 6)
	hold := h.bulkHold(noon)
	h.bulkTake(hold, 2)
	h.status(operator.ID, subscription.OperatorInactive)
	if _, rows, held, err := h.TakeBulkRows(h.Context(), hold, 2); err != nil || held || len(rows) > 0 {
		h.Errorf("took %v, %v, %v of a suspended operator's job; want nothing", rows, held, err)
	}
	if !h.bulkSettle(hold, 1, bulk.RowDone) {
		h.Error("the outcome of a row in progress was not written")
	}
	if numbers := h.bulkTake(otherHold, 1); len(numbers) != 1 {
		h.Errorf("another operator's job gave %v rows; want it to go on", numbers)
	}
	if continued, err := h.ContinueBulkJob(h.Context(), operator.ID, "JOB-1", "web:asha", noon); continued || !errors.Is(err, bulk.ErrSuspended) {
		h.Errorf("continued %v, %v while suspended; want %v", continued, err, bulk.ErrSuspended)
	}
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: noon}))

	h.status(operator.ID, subscription.OperatorActive)
	hold = h.bulkHold(noon)
	if _, rows, held, err := h.TakeBulkRows(h.Context(), hold, 2); err != nil || held || len(rows) > 0 {
		h.Errorf("took %v, %v, %v after reactivation, before it was continued", rows, held, err)
	}
	if job := h.bulkJob(operator, "JOB-1"); job.Interrupted != bulk.BySuspension || !job.InterruptedAt.Equal(noon) || !job.Waits() {
		h.Errorf("the job is %+v; want it interrupted by the suspension", job)
	}
	if continued, err := h.ContinueBulkJob(h.Context(), operator.ID, "JOB-1", "web:asha", noon); err != nil || !continued {
		h.Fatalf("continued %v, %v", continued, err)
	}
	if numbers := h.bulkTake(h.bulkHold(noon), 3); fmt.Sprint(numbers) != "[2 3 4]" {
		h.Errorf("took %v; want the row in progress and the next ones", numbers)
	}

	third := h.operator("chitra")
	h.bulkDraft(third, "DRAFT", 1)
	h.status(third.ID, subscription.OperatorInactive)
	if started, err := h.StartBulkJob(h.Context(), third.ID, "DRAFT", noon); started || !errors.Is(err, bulk.ErrSuspended) {
		h.Errorf("started %v, %v while suspended; want %v", started, err, bulk.ErrSuspended)
	}
	if job := h.bulkJob(third, "DRAFT"); job.State != bulk.Draft || job.Interrupted != "" {
		h.Errorf("the draft is %+v", job)
	}
}

func suspendedJobInterrupted(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 2)
	if suspended, err := h.InterruptSuspendedBulkJobs(h.Context(), operator.ID, noon); err != nil || suspended {
		h.Errorf("an active operator counts as suspended: %v, %v", suspended, err)
	}
	h.status(operator.ID, subscription.OperatorInactive)
	later := noon.Add(time.Minute)
	if suspended, err := h.InterruptSuspendedBulkJobs(h.Context(), operator.ID, later); err != nil || !suspended {
		h.Errorf("suspended %v, %v", suspended, err)
	}
	if job := h.bulkJob(operator, "JOB-1"); job.Interrupted != bulk.BySuspension || !job.InterruptedAt.Equal(noon) {
		h.Errorf("the job is %+v; want it interrupted since the suspension", job)
	}
}

func resetsThrottled(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	reset := func(by bool, at time.Time) error {
		staffAction := staffAction("password reset")
		staffAction.At = at
		return first(s.BeginPasswordReset(s.Context(), staffAction, admin.PasswordReset{OperatorID: s.operator.ID, SubscriberID: "100001", Reference: "PW1", ByOperator: by}))
	}
	s.must(reset(true, noon))
	var done, refused atomic.Int32
	concurrently(2*admin.ResetsAMinute, func(int) {
		err := reset(true, noon.Add(10*time.Second))
		if tooMany := (*admin.TooManyResets)(nil); err == nil {
			done.Add(1)
		} else if errors.As(err, &tooMany) && tooMany.RetryAfter == 50*time.Second {
			refused.Add(1)
		} else {
			s.Errorf("reset: %v", err)
		}
	})
	if done.Load() != admin.ResetsAMinute-1 || refused.Load() != admin.ResetsAMinute+1 {
		s.Errorf("%d resets were done and %d refused; want %d beside the first one", done.Load(), refused.Load(), admin.ResetsAMinute-1)
	}
	s.reopen()
	if err := reset(true, noon.Add(59*time.Second)); err == nil {
		s.Error("an eleventh reset within a minute was done after a restart")
	}
	s.must(reset(false, noon.Add(59*time.Second))) // staff at the command line
	if err := reset(true, noon.Add(61*time.Second)); err == nil {
		s.Error("a reset by staff does not count")
	}
	s.must(reset(true, noon.Add(71*time.Second)))
	s.must(reset(true, noon.Add(-24*time.Hour))) // a clock that was set back blocks no reset
}

func suspendedResets(h *harness) {
	s := h.fixture("1000")
	s.subscriber("100001", "9800000001")
	h.status(s.operator.ID, subscription.OperatorInactive)
	reset := admin.PasswordReset{OperatorID: s.operator.ID, SubscriberID: "100001", Reference: "PW1", ByOperator: true}
	before := len(h.auditEntries())
	_, err := s.BeginPasswordReset(s.Context(), staffAction("password reset"), reset)
	s.refused("a suspended operator's", err)
	if after := len(h.auditEntries()); after != before {
		s.Errorf("%d staff actions were written for a refused reset", after-before)
	}
	reset.ByOperator = false
	_, err = s.BeginPasswordReset(s.Context(), staffAction("password reset"), reset)
	s.must(err)
}
