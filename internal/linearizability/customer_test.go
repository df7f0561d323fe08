//go:build long

package linearizability_test

import (
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// customer is the state of a mobile number: free, in an activation that is not settled,
// or a subscriber's; with its open operation, and the last successful renewal of each
// plan.
type customer struct {
	owner   int64
	exists  bool
	busy    string
	renewed [len(plans)]string
}

// taken is a reservation: the customer has an open operation.
type taken struct {
	operator int64
	id       string
	kind     operation.Kind
}

func (x taken) from(c customer) (customer, bool) {
	var can bool
	if x.kind == operation.Activate {
		can = c.owner == 0
	} else {
		can = c.exists && c.owner == x.operator && c.busy == ""
	}
	c.owner, c.busy = x.operator, x.id
	return c, can
}

// released is the end of an operation. A failed activation leaves no customer.
type released struct {
	id   string
	kind operation.Kind
	plan int
	to   operation.State
}

func (x released) from(c customer) (customer, bool) {
	if c.busy != x.id {
		return c, false
	}
	c.busy = ""
	switch {
	case x.to == operation.Failed && x.kind == operation.Activate:
		c.owner = 0
	case x.to == operation.Success && x.kind == operation.Activate:
		c.exists = true
	case x.to == operation.Success:
		c.renewed[x.plan] = x.id
	}
	return c, true
}

// refused is a refusal that depends on the customer's state.
type refused struct {
	operator int64
	kind     operation.Kind
	plan     int
	code     fault.Code
	previous string
}

func (x refused) from(c customer) (customer, bool) {
	if x.kind == operation.Activate {
		switch x.code {
		case fault.OperationInProgress:
			return c, c.owner != 0 && !c.exists
		case fault.SubscriberExists:
			return c, c.exists
		}
		return c, c.owner == 0
	}
	mine := c.owner == x.operator
	switch x.code {
	case fault.SubscriberNotFound:
		return c, !mine
	case fault.OperationInProgress:
		return c, mine && c.busy != ""
	case fault.DuplicateRequest:
		return c, mine && c.busy == "" && c.renewed[x.plan] == x.previous
	}
	return c, mine && c.busy == "" // PLAN_ALREADY_ACTIVE and INSUFFICIENT_BALANCE come after these checks
}

// customers returns the mobile numbers with every answer about them.
func (r *record) customers() []subject[customer] {
	all := map[string]*subject[customer]{}
	of := func(mobile string) *subject[customer] {
		if all[mobile] == nil {
			all[mobile] = &subject[customer]{name: "customer " + mobile}
			if owner, imported := r.imported[mobile]; imported {
				all[mobile].start = customer{owner: owner, exists: true}
			}
		}
		return all[mobile]
	}
	for _, f := range r.effective {
		op := r.final[f.id]
		switch f.to {
		case operation.Processing:
			of(op.Mobile).add(f.span, taken{op.OperatorID, f.id, op.Kind})
		case operation.Success, operation.Failed:
			of(op.Mobile).add(f.span, released{f.id, op.Kind, planNumber(op.PlanID), f.to})
		}
	}
	for _, a := range r.opRequests {
		switch a.code {
		case fault.OperationInProgress, fault.SubscriberExists, fault.SubscriberNotFound, fault.DuplicateRequest,
			fault.PlanAlreadyActive, fault.InsufficientBalance:
			of(a.mobile).add(a.span, refused{a.operator, a.kind, a.plan, a.code, a.previous})
		}
	}
	var customers []subject[customer]
	for _, s := range all {
		customers = append(customers, *s)
	}
	return customers
}
