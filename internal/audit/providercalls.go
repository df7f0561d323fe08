package audit

import (
	"database/sql"
	"slices"
	"strings"
)

// providerCall is a call to the provider and its outcome; exception is what only a person
// can decide.
type (
	providerCall struct {
		reference, kind, outcome string
		transaction              sql.NullString
		asked                    int64
		detail                   string
	}
	exception struct{ kind string }
)

func (a *auditor) openCalls() *stream[string, providerCall] {
	return open(a, "provider_calls", `
		SELECT operation_id, reference, kind, outcome, provider_transaction_id, asked_at, CASE WHEN kind = 'list' THEN detail ELSE '' END
		  FROM provider_calls ORDER BY operation_id `+bytewise,
		func(row scanner, c *providerCall) (id string) {
			row(&id, &c.reference, &c.kind, &c.outcome, &c.transaction, &c.asked, &c.detail)
			return id
		})
}

func (a *auditor) openExceptions() *stream[string, exception] {
	return open(a, "exceptions", `SELECT operation_id, kind FROM exceptions ORDER BY operation_id `+bytewise,
		func(row scanner, e *exception) (id string) {
			row(&id, &e.kind)
			return id
		})
}

// callSummary summarises the provider calls of one operation, and its exceptions.
type callSummary struct {
	id                string
	calls, exceptions int
	// stray is a reference that does not belong to the operation.
	stray string
	// sent counts how often the main component was ordered, sentAs is the kind of call;
	// the same call may have been recorded twice.
	sent   int
	sentAt int64
	sentAs string
	// The replies about the main component, and about the add-on.
	confirmed, rejected, addonConfirmed bool
	// transactions are the provider's transaction ids of the main component: the first, and
	// one that differs from it.
	transactions [2]string

	lateSuccess, rejectedAfterSuccess, duplicateEffect, addonContradiction, reversalContradiction bool

	// listed are the entries of the provider's list for the main component, lists counts all.
	listed []providerCall
	lists  int

	// reversals are the replies about the operation's reversals.
	reversals []reversalReply
}

func (e *callSummary) addCall(c *providerCall) {
	e.calls++
	if c.kind == "reverse" || c.kind == "void" && strings.HasPrefix(c.reference, "RV") {
		if reply := (reversalReply{c.reference, c.outcome}); c.outcome != "unknown" && !slices.Contains(e.reversals, reply) {
			e.reversals = append(e.reversals, reply)
		}
		return
	}
	addon := e.id + "-2"
	if c.kind == listed {
		e.lists++
		if c.reference == e.id {
			e.listed = append(e.listed, *c)
		}
	}
	switch {
	case c.reference == addon || strings.HasPrefix(c.reference, addon+"."):
		e.addonConfirmed = e.addonConfirmed || c.outcome == "confirmed"
		return
	case c.reference != e.id:
		e.stray = c.reference
		return
	}
	if c.kind != "status" && c.kind != "void" && c.kind != listed {
		if e.sent == 0 || c.asked != e.sentAt {
			e.sent++
		}
		e.sentAt, e.sentAs = c.asked, c.kind
	}
	e.confirmed = e.confirmed || c.outcome == "confirmed"
	e.rejected = e.rejected || c.outcome == "rejected"
	if c.outcome == "confirmed" && c.transaction.String != "" {
		switch {
		case e.transactions[0] == "":
			e.transactions[0] = c.transaction.String
		case e.transactions[0] != c.transaction.String:
			e.transactions[1] = c.transaction.String
		}
	}
}

func (e *callSummary) addException(x *exception) {
	e.exceptions++
	e.lateSuccess = e.lateSuccess || x.kind == "LATE_SUCCESS"
	e.rejectedAfterSuccess = e.rejectedAfterSuccess || x.kind == "REJECTED_AFTER_SUCCESS"
	e.addonContradiction = e.addonContradiction || x.kind == "ADDON_CONTRADICTION"
	e.reversalContradiction = e.reversalContradiction || x.kind == "REVERSAL_CONTRADICTION"
	e.duplicateEffect = e.duplicateEffect || x.kind == "DUPLICATE_EFFECT"
}

// checkProvider requires that every outcome rests on a provider reply or a person's
// decision, and that contradictions have become exceptions.
func (a *auditor) checkProvider(op *operation, d operationRows) {
	if d.callsRemoved {
		return // they were checked when they were removed: see package retention
	}
	subject, e, byPerson := op.subject(), d.provider, settledBy(d.events) != ""
	if e.stray != "" {
		a.found("S9", subject, "the provider was asked about %q for it; expected its own reference, or its add-on's", e.stray)
	}
	if e.sent > 1 {
		a.found("M5", subject, "it was sent to the provider %d times; expected once at most", e.sent)
	}
	if e.sent > 0 && e.sentAs != op.kind {
		a.found("S9", subject, "it was sent to the provider as %s; expected %s", e.sentAs, op.kind)
	}
	if op.status == "success" && !byPerson && !e.confirmed {
		a.found("S9", subject, "it is a success that neither the provider nor a person confirmed")
	}
	if op.status == "failed" && !byPerson && !e.rejected {
		a.found("S9", subject, "it failed, and neither the provider nor a person rejected it")
	}
	// A refund without a provider reply is checked again, and becomes an exception then.
	if op.status == "failed" && e.confirmed && !e.lateSuccess && !op.nextCheck.Valid {
		a.found("S9", subject, "it was refunded and the provider carried it out; expected an exception LATE_SUCCESS")
	}
	if op.status == "success" && e.rejected && !e.rejectedAfterSuccess {
		a.found("S9", subject, "it was charged and the provider rejected or voided it; expected an exception REJECTED_AFTER_SUCCESS")
	}
	if another := e.anotherThan(op.transaction.String); op.status == "success" && another != "" && !e.duplicateEffect {
		a.found("S9", subject, "the provider carried it out as %q and as %q; expected an exception DUPLICATE_EFFECT", op.transaction.String, another)
	}
	if op.addonStatus.String == "success" && !e.addonConfirmed {
		a.found("S9", subject, "its add-on is a success that the provider did not confirm")
	}
	if op.addonStatus.String == "closed" && e.addonConfirmed && !e.addonContradiction {
		a.found("S9", subject, "a person closed its add-on and the provider carried it out; expected an exception ADDON_CONTRADICTION")
	}
}

// anotherThan returns a transaction id under which the provider confirmed the operation and
// that differs from the stored one.
func (e *callSummary) anotherThan(stored string) string {
	for _, transaction := range e.transactions {
		if stored != "" && transaction != "" && transaction != stored {
			return transaction
		}
	}
	return ""
}
