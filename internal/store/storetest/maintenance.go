package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/operation"
)

var maintenanceTests = []test{
	{"maintenance is switched on and off with an audit entry", maintenanceSwitched},
	{"maintenance stops reservations and nothing else", maintenanceStopsReservations},
	{"reservations stop once maintenance is on", maintenanceUnderLoad},
	{"maintenance interrupts running jobs until a person continues them", maintenanceInterruptsJobs},
	{"jobs are not started or continued in maintenance", maintenanceStopsJobStarts},
	{"an interrupted job can be cancelled in maintenance", maintenanceCancel},
	{"a job that was due for longer than the limit is interrupted", idleJobsInterrupted},
	{"an interrupted job with no rows left is finished", interruptedJobFinishes},
}

func maintenanceAct(action admin.Action, at time.Time, reason string) admin.StaffAction {
	return admin.StaffAction{Actor: "cli:asha", Action: string(action), Reason: reason, At: at}
}

func (h *harness) maintenanceOn() {
	h.Helper()
	_, err := h.StartMaintenance(h.Context(), maintenanceAct(admin.MaintenanceOn, noon, "restore"))
	h.must(err)
}

func (h *harness) maintenanceOff() {
	h.Helper()
	_, err := h.EndMaintenance(h.Context(), maintenanceAct(admin.MaintenanceOff, noon, ""), false, false)
	h.must(err)
}

func maintenanceSwitched(h *harness) {
	if mode, err := h.Maintenance(h.Context()); err != nil || mode.On {
		h.Fatalf("a new store has %+v, %v", mode, err)
	}
	if ended, err := h.EndMaintenance(h.Context(), maintenanceAct(admin.MaintenanceOff, noon, ""), false, false); err != nil || ended {
		h.Errorf("switched off while off: %v, %v", ended, err)
	}
	h.maintenanceOn()
	later := maintenanceAct(admin.MaintenanceOn, noon.Add(time.Minute), "restore, second try")
	later.Actor = "cli:binu"
	_, err := h.StartMaintenance(h.Context(), later)
	h.must(err)
	h.reopen()
	want := admin.Maintenance{On: true, Since: noon, Actor: "cli:binu", Reason: "restore, second try"}
	if mode, err := h.Maintenance(h.Context()); err != nil || mode != want {
		h.Errorf("it is %+v, %v; want %+v", mode, err, want)
	}
	ended, err := h.EndMaintenance(h.Context(), maintenanceAct(admin.MaintenanceOff, noon, "compared"), true, false)
	if err != nil || !ended {
		h.Fatalf("switched off %v, %v", ended, err)
	}
	if mode, err := h.Maintenance(h.Context()); err != nil || mode.On {
		h.Errorf("it is %+v, %v after it was switched off", mode, err)
	}
	auditEntries, err := h.AuditPage(h.Context(), admin.ListQuery{})
	h.must(err)
	var logged []string
	for _, staffAction := range auditEntries {
		logged = append(logged, fmt.Sprint(staffAction.Actor, " ", staffAction.Action, " ", staffAction.Subject, " ", staffAction.Reason, " ", staffAction.After))
	}
	wanted := []string{
		`cli:asha maintenance on maintenance restore {"maintenance":true,"reason":"restore","since":"2027-03-01 12:00:00"}`,
		`cli:binu maintenance on maintenance restore, second try {"maintenance":true,"reason":"restore, second try","since":"2027-03-01 12:00:00"}`,
		`cli:asha maintenance off maintenance compared {"accepted":true,"maintenance":false}`,
	}
	if fmt.Sprint(logged) != fmt.Sprint(wanted) {
		h.Errorf("the audit entries are %q; want %q", logged, wanted)
	}
}

func maintenanceStopsReservations(h *harness) {
	s := h.fixture("1000")
	open := s.reserve(s.activation("before", "9811111111", "600001"))
	h.maintenanceOn()
	if _, err := s.Reserve(s.Context(), s.activation("new", "9822222222", "600002")); !errors.Is(err, operation.ErrStale) {
		s.Errorf("reserved in maintenance: %v; want %v", err, operation.ErrStale)
	}
	for _, kind := range []operation.Kind{operation.Activate, operation.Renew} {
		query := operation.SnapshotQuery{OperatorID: s.operator.ID, Kind: kind, Mobile: "9822222222", PlanID: s.plan.ID, Provider: "test"}
		query.IdempotencyKey = "new"
		if snapshot := s.snapshot(query); !snapshot.Maintenance || snapshot.KnownID != "" {
			s.Errorf("%s: snapshot of a new key is %+v; want maintenance", kind, snapshot)
		}
		query.IdempotencyKey = "before"
		if snapshot := s.snapshot(query); snapshot.KnownID != open.ID {
			s.Errorf("%s: snapshot of a known key is %+v; want %s", kind, snapshot, open.ID)
		}
	}
	s.settle(open, operation.Success)
	h.maintenanceOff()
	s.reserve(s.activation("new", "9822222222", "600002"))
	s.money("after maintenance", "602", "199")
}

// maintenanceUnderLoad counts operations when the mode is on and again after the last
// reservation attempt: both must be equal.
func maintenanceUnderLoad(h *harness) {
	s := h.fixture("79600") // for 400 operations, so that a store without the mode ends, too
	var reserved atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var group sync.WaitGroup
	for client := range 16 {
		group.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%d-%d", client, n)
				_, err := s.Reserve(s.Context(), s.activation(id, fmt.Sprintf("98%03d%05d", client, n), fmt.Sprintf("7%02d%05d", client, n)))
				switch {
				case errors.Is(err, operation.ErrStale):
					return
				case err != nil:
					s.Errorf("reserve: %v", err)
					return
				case reserved.Add(1) == 64:
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	<-enough
	h.maintenanceOn()
	at, err := h.Wallet(h.Context(), s.operator.ID)
	h.must(err)
	group.Wait()
	after, err := h.Wallet(h.Context(), s.operator.ID)
	h.must(err)
	if at != after {
		h.Errorf("the wallet was %+v when maintenance was on, and is %+v now: something was reserved since", at, after)
	}
}

func maintenanceInterruptsJobs(h *harness) {
	operator, idle, done := h.operator("asha"), h.operator("binu"), h.operator("chitra")
	h.bulkStarted(done, "ENDING", 2)
	ending := h.bulkHold(noon)
	h.bulkTake(ending, 1)
	_, err := h.CancelBulkJob(h.Context(), done.ID, "ENDING", noon)
	h.must(err)
	h.bulkStarted(operator, "JOB-1", 6)
	hold := h.bulkHold(noon)
	h.bulkTake(hold, 2)
	h.bulkDraft(idle, "DRAFT", 1)
	h.maintenanceOn()

	// Rows that were taken are settled, and no others begin.
	if !h.bulkSettle(hold, 1, bulk.RowDone) {
		h.Error("the outcome of a row in progress was not written")
	}
	if _, rows, held, err := h.TakeBulkRows(h.Context(), hold, 2); err != nil || held || len(rows) > 0 {
		h.Errorf("took %v, %v, %v of an interrupted job; want nothing", rows, held, err)
	}
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: noon}))
	h.maintenanceOff()
	hold = h.bulkHold(noon)
	if _, rows, held, err := h.TakeBulkRows(h.Context(), hold, 2); err != nil || held || len(rows) > 0 {
		h.Errorf("took %v, %v, %v after maintenance, before it was continued", rows, held, err)
	}
	job := h.bulkJob(operator, "JOB-1")
	if job.Interrupted != bulk.ByMaintenance || !job.InterruptedAt.Equal(noon) || job.State != bulk.Running {
		h.Errorf("the job is %+v; want it interrupted by maintenance", job)
	}
	waiting, err := h.InterruptedBulkJobs(h.Context())
	h.must(err)
	if len(waiting) != 1 || waiting[0].ID != "JOB-1" || waiting[0].OperatorID != operator.ID {
		h.Errorf("waiting are %+v; want JOB-1 alone", waiting)
	}

	if continued, err := h.ContinueBulkJob(h.Context(), idle.ID, "JOB-1", "web:binu", noon); err != nil || continued {
		h.Errorf("another operator continued it: %v, %v", continued, err)
	}
	at := noon.Add(10 * time.Second)
	if continued, err := h.ContinueBulkJob(h.Context(), operator.ID, "JOB-1", "web:asha", at); err != nil || !continued {
		h.Fatalf("continued %v, %v", continued, err)
	}
	if continued, err := h.ContinueBulkJob(h.Context(), operator.ID, "JOB-1", "web:binu", at.Add(time.Hour)); err != nil || continued {
		h.Errorf("continued a second time: %v, %v", continued, err)
	}
	job = h.bulkJob(operator, "JOB-1")
	if job.Interrupted != "" || job.ContinuedBy != "web:asha" || !job.ContinuedAt.Equal(at) {
		h.Errorf("the job is %+v; want it continued by web:asha", job)
	}
	if numbers := h.bulkTake(h.bulkHold(at), 3); fmt.Sprint(numbers) != "[2 3 4]" {
		h.Errorf("took %v; want the row in progress and the next ones", numbers)
	}
}

func maintenanceStopsJobStarts(h *harness) {
	operator, other := h.operator("asha"), h.operator("binu")
	h.bulkStarted(operator, "JOB-1", 2)
	h.bulkDraft(other, "JOB-2", 2)
	h.maintenanceOn()
	if started, err := h.StartBulkJob(h.Context(), other.ID, "JOB-2", noon); started || !errors.Is(err, operation.ErrMaintenance) {
		h.Errorf("started %v, %v; want %v", started, err, operation.ErrMaintenance)
	}
	if continued, err := h.ContinueBulkJob(h.Context(), operator.ID, "JOB-1", "web:asha", noon); continued || !errors.Is(err, operation.ErrMaintenance) {
		h.Errorf("continued %v, %v; want %v", continued, err, operation.ErrMaintenance)
	}
	h.maintenanceOff()
	if started, err := h.StartBulkJob(h.Context(), other.ID, "JOB-2", noon); err != nil || !started {
		h.Errorf("started %v, %v after maintenance", started, err)
	}
}

func maintenanceCancel(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 2)
	h.maintenanceOn()
	hold := h.bulkHold(noon)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: noon.Add(time.Hour)}))
	if cancelled, err := h.CancelBulkJob(h.Context(), operator.ID, "JOB-1", noon); err != nil || !cancelled {
		h.Fatalf("cancelled %v, %v", cancelled, err)
	}
	h.must(h.ReleaseBulkJob(h.Context(), h.bulkHold(noon), bulk.Release{Again: noon}))
	job := h.bulkJob(operator, "JOB-1")
	if job.State != bulk.Finished || job.Interrupted != "" || job.Progress.Cancelled != 2 {
		h.Errorf("the job is %+v; want it finished with both rows cancelled", job)
	}
}

func idleJobsInterrupted(h *harness) {
	worked, idle, draft := h.operator("asha"), h.operator("binu"), h.operator("chitra")
	now := noon.Add(bulk.IdleLimit + time.Minute)
	h.bulkStarted(worked, "WORKED", 2)
	hold := h.bulkHold(noon)
	hold.Until = now // as if it had been held until then
	h.bulkTake(hold, 1)
	h.bulkStarted(idle, "IDLE", 1)
	h.bulkDraft(draft, "DRAFT", 1)
	interrupted, err := h.InterruptIdleBulkJobs(h.Context(), now.Add(-bulk.IdleLimit), now)
	if err != nil || interrupted != 1 {
		h.Fatalf("interrupted %d, %v; want 1", interrupted, err)
	}
	if job := h.bulkJob(idle, "IDLE"); job.Interrupted != bulk.ByDowntime || !job.InterruptedAt.Equal(now) {
		h.Errorf("the idle job is %+v; want it interrupted by downtime", job)
	}
	if job := h.bulkJob(worked, "WORKED"); job.Interrupted != "" {
		h.Errorf("the job that a node works on is %+v; want it to go on", job)
	}
}

func interruptedJobFinishes(h *harness) {
	operator := h.operator("asha")
	h.bulkStarted(operator, "JOB-1", 1)
	hold := h.bulkHold(noon)
	h.bulkTake(hold, 1)
	h.maintenanceOn()
	h.bulkSettle(hold, 1, bulk.RowDone)
	h.must(h.ReleaseBulkJob(h.Context(), hold, bulk.Release{Again: noon}))
	if job := h.bulkJob(operator, "JOB-1"); job.State != bulk.Finished || job.Interrupted != "" {
		h.Errorf("the job is %+v; want it finished", job)
	}
}
