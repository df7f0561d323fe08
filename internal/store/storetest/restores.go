package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
)

var restoreTests = []test{
	{"a new store was never marked, and has an id of its own", markNew},
	{"the mark advances from its own id and value only", markAdvances},
	{"a restore begins maintenance, ends sessions and moves the mark", restoreRecorded},
	{"a restore that is open stays when another is found", restoreStays},
	{"the maintenance of a restore ends when it is accepted or compared", restoreEnds},
	{"the staff action of a restore is written once", restoreLoggedOnce},
	{"the maintenance of an unfinished copy stays", unfinishedCopyRefused},
}

// found is a restore that was noticed at noon.
var found = admin.Restore{Since: noon.Add(-time.Hour), How: "it is behind the mark file"}

func (h *harness) mark() admin.StoreMark {
	h.Helper()
	mark, err := h.StoreMark(h.Context())
	h.must(err)
	return mark
}

func (h *harness) restored(above int64) admin.Maintenance {
	h.Helper()
	mode, err := h.RecordRestore(h.Context(), admin.NewRestoreAction(noon), found, above)
	h.must(err)
	return mode
}

func (h *harness) openRestore() admin.Restore {
	h.Helper()
	restore, err := h.OpenRestore(h.Context())
	h.must(err)
	return restore
}

// maintenanceActions lists the reasons and states of what is in the audit log.
func (h *harness) maintenanceActions() []string {
	h.Helper()
	entries, err := h.AuditPage(h.Context(), admin.ListQuery{})
	h.must(err)
	var logged []string
	for _, e := range entries {
		if e.Subject == admin.MaintenanceSubject {
			logged = append(logged, fmt.Sprint(e.Actor, " ", e.Action, " ", e.Reason, " ", e.After))
		}
	}
	return logged
}

func markNew(h *harness) {
	mark := h.mark()
	if len(mark.StoreID) != 32 || mark.PreviousID != "" || mark.Value != 0 || mark.State != admin.NeverMarked || !mark.At.IsZero() || mark.Operators || mark.LastAction != 0 {
		h.Errorf("the mark of a new store is %+v", mark)
	}
	h.operator("asha")
	if after := h.mark(); !after.Operators || after.LastAction != 1 || after.StoreID != mark.StoreID {
		h.Errorf("with an operator it is %+v", after)
	}
	if restore := h.openRestore(); restore != (admin.Restore{}) {
		h.Errorf("a new store has the restore %+v", restore)
	}
}

func markAdvances(h *harness) {
	id := h.mark().StoreID
	for _, step := range []struct {
		atLeast, by, want int64
	}{{0, 1, 1}, {1, 1, 2}, {2, 0, 2}, {1, 5, 7}} {
		value, err := h.AdvanceMark(h.Context(), admin.MarkAdvance{StoreID: id, AtLeast: step.atLeast, By: step.by, At: noon})
		if err != nil || value != step.want {
			h.Fatalf("%+v: %d, %v", step, value, err)
		}
	}
	h.reopen()
	if mark := h.mark(); mark.Value != 7 || mark.State != admin.Marked || !mark.At.Equal(noon) {
		h.Errorf("the mark is %+v", mark)
	}
	for _, advance := range []admin.MarkAdvance{{StoreID: id, AtLeast: 8, By: 1, At: noon}, {StoreID: strings.Repeat("0", 32), By: 1, At: noon}} {
		if value, err := h.AdvanceMark(h.Context(), advance); !errors.Is(err, admin.ErrBehindMark) {
			h.Errorf("%+v: %d, %v; want %v", advance, value, err, admin.ErrBehindMark)
		}
	}
	if mark := h.mark(); mark.Value != 7 {
		h.Errorf("the mark is %+v after steps that were refused", mark)
	}
}

func restoreRecorded(h *harness) {
	account := h.account(newAccount("asha"))
	token := h.signIn(account, noon)
	operator := h.operator("binu")
	h.bulkStarted(operator, "JOB-1", 2)
	mode := h.restored(41)
	want := admin.Maintenance{On: true, Since: noon, Actor: admin.RestoredActor, Reason: "the store was restored: " + found.How}
	h.reopen()
	if now, err := h.Maintenance(h.Context()); err != nil || mode != want || now != want {
		h.Errorf("maintenance is %+v, and %+v, %v in the store; want %+v", mode, now, err, want)
	}
	if restore := h.openRestore(); restore != (admin.Restore{Open: true, FoundAt: noon, Since: found.Since, How: found.How}) {
		h.Errorf("the restore is %+v", restore)
	}
	if _, there := h.session(token); there {
		h.Error("a login session of the copy is still good")
	}
	if job := h.bulkJob(operator, "JOB-1"); job.Interrupted != bulk.ByMaintenance {
		h.Errorf("the bulk renewal is %+v; want it interrupted", job)
	}
	if mark := h.mark(); mark.Value <= 41 {
		h.Errorf("the mark is %+v; want it above 41", mark)
	}
	if logged := h.maintenanceActions(); len(logged) != 1 || logged[0] !=
		`node:store_mark maintenance on the store was restored: it is behind the mark file {"maintenance":true,"reason":"the store was restored: it is behind the mark file","restored_at":"2027-03-01 12:00:00","restored_since":"2027-03-01 11:00:00","since":"2027-03-01 12:00:00"}` {
		h.Errorf("the audit log has %q", logged)
	}
}

func restoreStays(h *harness) {
	h.maintenanceOn()
	h.restored(5)
	first := h.mark().Value
	action := admin.NewRestoreAction(noon.Add(time.Hour))
	mode, err := h.RecordRestore(h.Context(), action, admin.Restore{How: "another"}, first+3)
	h.must(err)
	if restore := h.openRestore(); restore.How != found.How || !restore.FoundAt.Equal(noon) {
		h.Errorf("the restore is %+v; want the first", restore)
	}
	if !strings.HasSuffix(mode.Reason, found.How) || !mode.Since.Equal(noon) {
		h.Errorf("maintenance is %+v; want the first restore's reason", mode)
	}
	if mark := h.mark(); mark.Value <= first+3 {
		h.Errorf("the mark is %+v; want it above %d", mark, first+3)
	}
	if logged := h.maintenanceActions(); len(logged) != 2 {
		h.Errorf("the audit log has %q; want maintenance and one restore", logged)
	}
}

func restoreEnds(h *harness) {
	for n, ending := range []struct{ accepted, compared bool }{{true, false}, {false, true}} {
		h.restored(0)
		off := maintenanceAct(admin.MaintenanceOff, noon.Add(time.Minute), "compared by hand")
		if ended, err := h.EndMaintenance(h.Context(), off, false, false); ended || !errors.Is(err, admin.ErrRestored) {
			h.Fatalf("ended %v, %v; want %v", ended, err, admin.ErrRestored)
		}
		if mode, err := h.Maintenance(h.Context()); err != nil || !mode.On || !h.openRestore().Open {
			h.Fatalf("maintenance is %+v, %v after it was refused to end", mode, err)
		}
		if ended, err := h.EndMaintenance(h.Context(), off, ending.accepted, ending.compared); !ended || err != nil {
			h.Fatalf("%+v: ended %v, %v", ending, ended, err)
		}
		if h.openRestore().Open {
			h.Errorf("%+v: the restore is still open", ending)
		}
		h.maintenanceOn()
		h.maintenanceOff() // needs nothing any more
		if logged := h.maintenanceActions(); len(logged) != 4*(n+1) {
			h.Errorf("the audit log has %q", logged)
		}
	}
}

func unfinishedCopyRefused(h *harness) {
	begun := maintenanceAct(admin.MaintenanceOn, noon, "a copy")
	begun.Actor = admin.CopyActor
	_, err := h.StartMaintenance(h.Context(), begun)
	h.must(err)
	for _, ending := range []struct{ accepted, compared bool }{{}, {true, false}, {false, true}} {
		off := maintenanceAct(admin.MaintenanceOff, noon, "a reason")
		if ended, err := h.EndMaintenance(h.Context(), off, ending.accepted, ending.compared); ended || !errors.Is(err, admin.ErrUnfinishedCopy) {
			h.Errorf("%+v: ended %v, %v; want %v", ending, ended, err, admin.ErrUnfinishedCopy)
		}
	}
	if _, err := h.StartMaintenance(h.Context(), maintenanceAct(admin.MaintenanceOn, noon, "another")); !errors.Is(err, admin.ErrUnfinishedCopy) {
		h.Errorf("switched on: %v; want %v", err, admin.ErrUnfinishedCopy)
	}
	if _, err := h.RecordRestore(h.Context(), admin.NewRestoreAction(noon), admin.Restore{How: "behind"}, 1); !errors.Is(err, admin.ErrUnfinishedCopy) {
		h.Errorf("a restore is recorded: %v; want %v", err, admin.ErrUnfinishedCopy)
	}
	if mode, err := h.Maintenance(h.Context()); err != nil || mode.Actor != admin.CopyActor || h.openRestore().Open {
		h.Errorf("maintenance is %+v, %v; want the copy's", mode, err)
	}
}

func restoreLoggedOnce(h *harness) {
	h.must(h.LogRestore(h.Context(), admin.NewRestoreAction(noon)))
	if logged := h.maintenanceActions(); len(logged) != 0 {
		h.Errorf("the audit log of a store without a restore has %q", logged)
	}
	h.restored(0)
	h.must(h.LogRestore(h.Context(), admin.NewRestoreAction(noon)))
	if logged := h.maintenanceActions(); len(logged) != 1 {
		h.Errorf("the audit log has %q; want one entry", logged)
	}
}
