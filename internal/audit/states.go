package audit

import (
	"database/sql"
	"time"
)

// transitions are the allowed transitions of an operation. The empty status is before the
// first event.
var transitions = map[[2]string]bool{
	{"", "processing"}:             true,
	{"processing", "success"}:      true,
	{"processing", "failed"}:       true,
	{"processing", "needs_review"}: true,
	{"needs_review", "success"}:    true,
	{"needs_review", "failed"}:     true,
}

// checkPath compares an operation with its history.
func (a *auditor) checkPath(op *operation, d operationRows) {
	subject, events := op.subject(), d.events
	status, epoch, at := "", int64(0), int64(0)
	for i, e := range events {
		if e.seq != int64(i)+1 {
			a.found("S1", subject, "event %d stands where event %d is expected", e.seq, i+1)
		}
		if e.from.String != status {
			a.found("S1", subject, "event %d goes from %q; expected from %q, where the event before ended", e.seq, e.from.String, status)
		}
		if !transitions[[2]string{e.from.String, e.to}] {
			a.found("S1", subject, "event %d goes from %q to %q; no operation may", e.seq, e.from.String, e.to)
		}
		if e.epoch < epoch {
			a.found("S1", subject, "event %d is of epoch %d; expected %d or later", e.seq, e.epoch, epoch)
		}
		if e.at < at-clockSlackMS {
			a.found("T1", subject, "event %d is of %s; expected no earlier than the event before, %s", e.seq, moment(e.at), moment(at))
		}
		status, epoch, at = e.to, e.epoch, e.at
	}
	if status != op.status && !d.eventsRemoved {
		a.found("S1", subject, "it is %s; expected %q, where its history ends", op.status, status)
	}
	if op.epoch < epoch {
		a.found("S1", subject, "its epoch is %d; expected %d or later, as in its history", op.epoch, epoch)
	}
	if over := op.status == "success" || op.status == "failed"; over != op.completed.Valid {
		a.found("S1", subject, "it is %s, and whether it is completed says otherwise", op.status)
	}
	if (op.status == "failed") != op.reason.Valid {
		a.found("S1", subject, "it is %s with the reason %q; expected a reason if it failed, and only then", op.status, op.reason.String)
	}
	if (op.addon != "") != op.addonStatus.Valid {
		a.found("S1", subject, "its add-on is %q and stands at %q; expected both or neither", op.addon, op.addonStatus.String)
	}
	if len(events) > 0 {
		a.together(subject, "its first event", events[0].at, sql.NullInt64{Int64: op.created, Valid: true})
		a.together(subject, "its last event", at, op.completed)
	}
	if op.completed.Valid && op.completed.Int64 < op.created-clockSlackMS {
		a.found("T1", subject, "it was completed at %s; expected no earlier than it was created, %s", moment(op.completed.Int64), moment(op.created))
	}
}

const (
	// stuckAfterMS is how long after the end of its lease an operation must have been taken over.
	stuckAfterMS = 30_000
	// defaultLongestWait is the longest wait between two checks that can be set.
	defaultLongestWait = 24 * time.Hour
)

// checkOpen finds open operations that will not be checked again.
func (a *auditor) checkOpen(op *operation) {
	if !op.open() {
		return
	}
	subject := op.subject()
	if op.kind == "activate" {
		if other, taken := a.activations[op.mobile]; taken {
			a.found("S2", subject, "its mobile is being activated by operation %s too; expected one open activation of a number", other)
		}
		a.activations[op.mobile] = op.id
	}
	switch {
	case op.status == "processing" && !op.lease.Valid && op.created+stuckAfterMS < a.now:
		a.found("S4", subject, "it has been processing since %s and nobody holds it; expected a lease", moment(op.created))
	case op.status == "processing" && op.lease.Valid && op.lease.Int64+stuckAfterMS < a.now:
		a.found("S4", subject, "it is still processing, and its lease ended at %s; expected it taken over by %s",
			moment(op.lease.Int64), moment(op.lease.Int64+stuckAfterMS))
	case op.status != "needs_review" || bool(op.needsPerson):
		// Under way, or on the list for a person.
	case !op.nextCheck.Valid && max(op.review.Int64, op.created)+stuckAfterMS < a.now:
		a.found("S4", subject, "it is in review, and neither a check nor a person is expected; expected one of them")
	case op.nextCheck.Valid && op.nextCheck.Int64 > a.now+a.longestWait+stuckAfterMS:
		a.found("S4", subject, "it is in review and looked at next at %s; expected within %s", moment(op.nextCheck.Int64), a.maxWait())
	}
}

// checkAddon finds a combo whose missing add-on will not be tried again.
func (a *auditor) checkAddon(op *operation) {
	if op.status != "success" || !op.addonStatus.Valid || op.addonStatus.String == "success" || op.addonStatus.String == "closed" {
		return
	}
	switch {
	case !op.addonNext.Valid:
		a.found("S4", op.subject(), "its add-on is %s, and no attempt is expected; expected one until it works or a person closes it", op.addonStatus.String)
	case op.addonNext.Int64 > a.now+a.longestWait+stuckAfterMS:
		a.found("S4", op.subject(), "its add-on is %s and tried next at %s; expected within %s", op.addonStatus.String, moment(op.addonNext.Int64), a.maxWait())
	}
}

func (a *auditor) maxWait() time.Duration { return time.Duration(a.longestWait) * time.Millisecond }
