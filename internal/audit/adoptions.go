package audit

import (
	"encoding/json"
	"slices"
	"time"
)

// listed is the kind of provider call that stores an entry of the provider's list.
const listed = "list"

// adoptedPrefix begins what an adopted operation has in place of an idempotency key until the
// request comes again.
const adoptedPrefix = "adopted/"

// listEntry is an entry of the provider's list, as it was stored with an adopted operation.
type listEntry struct {
	Kind         string `json:"kind"`
	SubscriberID string `json:"subscriber_id"`
	Mobile       string `json:"mobile"`
	ExpiresAt    string `json:"expires_at"`
	CarriedOutAt string `json:"carried_out_at"`
	ClientKey    string `json:"client_key"`
}

// checkAdoption requires that an adopted operation, and no other, rests on a staff action and on
// an entry of the provider's list, and is what both say.
func (a *auditor) checkAdoption(op *operation, d operationRows) {
	subject := op.subject()
	if !op.adopted() {
		if len(d.adopted) > 0 || d.provider.lists > 0 {
			a.found("A13", subject, "%d staff actions adopted it and %d entries of the provider's list are with it; expected none, as it was not adopted",
				len(d.adopted), d.provider.lists)
		}
		return
	}
	if op.status != "success" || len(d.adopted) != 1 || len(d.provider.listed) != 1 {
		a.found("A13", subject, "it was adopted and is %s, with %d staff actions and %d entries of the provider's list; expected a success with one of each",
			op.status, len(d.adopted), len(d.provider.listed))
		return
	}
	action, entry := d.adopted[0], d.provider.listed[0]
	if op.actor != action.actor || op.created != action.at || op.operator != action.operator || settledBy(d.events) != action.actor ||
		d.events[len(d.events)-1].reason != action.reason {
		a.found("A13", subject, "it was adopted by %q for lco %d at %s; expected what staff action %d says, by %q for lco %d at %s, %q",
			op.actor, op.operator, moment(op.created), action.id, action.actor, action.operator, moment(action.at), action.reason)
	}
	if state := fieldsOf(action.after); state["amount"] != rupees(op.amount) || state["plan"] != op.plan || state["subscriber"] != op.subscriber {
		a.found("A13", subject, "it charges %s for plan %s of subscriber %s; expected what staff action %d says, %s for plan %s of subscriber %s",
			rupees(op.amount), op.plan, op.subscriber, action.id, state["amount"], state["plan"], state["subscriber"])
	}
	a.checkListEntry(op, &entry)
}

// checkListEntry compares an adopted operation with the entry of the provider's list.
func (a *auditor) checkListEntry(op *operation, call *providerCall) {
	subject := op.subject()
	var e listEntry
	if err := json.Unmarshal([]byte(call.detail), &e); err != nil {
		a.found("A13", subject, "the entry of the provider's list that it was adopted from cannot be read: %v", err)
		return
	}
	carried, ok := millisOf(e.CarriedOutAt)
	if !ok || carried != op.carriedOut.Int64 || e.Kind != op.kind || e.SubscriberID != op.subscriber || e.Mobile != op.mobile ||
		call.transaction.String != op.transaction.String {
		a.found("A13", subject, "it is %s of subscriber %s, carried out at %s as %q; expected what the provider's list says, %s of subscriber %s, at %s as %q",
			op.kind, op.subscriber, moment(op.carriedOut.Int64), op.transaction.String, e.Kind, e.SubscriberID, e.CarriedOutAt, call.transaction.String)
	}
	// A claimed operation has the client's own key, of which the audit cannot tell the client key.
	if unclaimed := adoptedPrefix + e.ClientKey; op.fingerprint == 0 && op.key != unclaimed && !(e.ClientKey == "" && op.key == adoptedPrefix+op.id) {
		a.found("A13", subject, "it waits for a request with %q; expected %q, the client key in the provider's list", op.key, unclaimed)
	}
	allowed := spansAt(op)
	if ends, given := millisOf(e.ExpiresAt); given {
		for i := range allowed {
			allowed[i].ends = ends
		}
	}
	if !slices.Contains(allowed, span{op.starts, op.planned}) {
		expected := allowed[len(allowed)-1]
		a.found("A13", subject, "it runs from %s to %s; expected from %s to %s, as ordered", moment(op.starts), moment(op.planned), moment(expected.starts), moment(expected.ends))
	}
}

// spansAt returns the cycles that our rules allow for an adopted operation, when it was carried out.
func spansAt(op *operation) []span {
	switch op.kind {
	case "renew":
		return []span{renewed(op.previous.Int64, op.carriedOut.Int64, op.months)}
	case "advance_renew":
		return []span{booked(op.previous.Int64, op.carriedOut.Int64, op.months)}
	}
	return activated(op.carriedOut.Int64, op.months)
}

// millisOf parses a time of a list entry; false if there is none.
func millisOf(text string) (int64, bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UnixMilli(), err == nil
}
