//go:build long

package linearizability_test

import (
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
)

// customer is whoever has a mobile number: nobody, somebody whose activation is
// not settled, or a subscriber; with the operation that is under way, and the
// renewal of each plan that succeeded last.
type customer struct {
	owner   int64
	exists  bool
	busy    string
	renewed [len(plans)]string
}

// taken is a reservation: the customer is in one pair of hands.
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

// released is the end of an operation. Of an activation that failed nobody is
// left.
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

// turnedAway is a refusal that says something about the customer.
type turnedAway struct {
	operator int64
	kind     operation.Kind
	plan     int
	code     fault.Code
	previous string
}

func (x turnedAway) from(c customer) (customer, bool) {
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
	return c, mine && c.busy == "" // plan active already, or no money: judged later
}

// customers are the mobile numbers with every answer that they had a part in.
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
	for _, f := range r.made {
		op := r.final[f.id]
		switch f.to {
		case operation.Processing:
			of(op.Mobile).add(f.span, taken{op.OperatorID, f.id, op.Kind})
		case operation.Success, operation.Failed:
			of(op.Mobile).add(f.span, released{f.id, op.Kind, planNumber(op.PlanID), f.to})
		}
	}
	for _, a := range r.asked {
		switch a.code {
		case fault.OperationInProgress, fault.SubscriberExists, fault.SubscriberNotFound, fault.DuplicateRequest,
			fault.PlanAlreadyActive, fault.InsufficientBalance:
			of(a.mobile).add(a.span, turnedAway{a.operator, a.kind, a.plan, a.code, a.previous})
		}
	}
	var customers []subject[customer]
	for _, s := range all {
		customers = append(customers, *s)
	}
	return customers
}
