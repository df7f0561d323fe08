package web

import (
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/login"
)

// Rule says who may use a route. The zero Rule allows no user and is refused by New, so
// that no route can lack a rule.
type Rule struct {
	anyone bool
	// operators are roles of operators' users, roles are those of staff.
	operators, roles []login.Role
	// stages are the allowed stages of the sign-in; only Whole by default.
	stages []login.Stage
}

// Common rules.
var (
	// Anyone needs no session; the visit has one if the visitor is signed in.
	Anyone = Rule{anyone: true}
	// SignedIn allows every user whose sign-in is complete.
	SignedIn = Rule{operators: OperatorRoles, roles: StaffRoles, stages: whole}
)

// StaffRoles are the roles that the MSO's staff can have.
var StaffRoles = []login.Role{login.Viewer, login.Support, login.Finance, login.Administrator}

// OperatorRoles are the roles that an operator's users can have.
var OperatorRoles = login.Operator.Roles()

var whole = []login.Stage{login.Complete}

// Staff allows the MSO's staff with one of these roles; StaffRoles... means all of them.
func Staff(roles ...login.Role) Rule { return Rule{roles: roles, stages: whole} }

// Operators allows an operator's users with one of these roles; OperatorRoles... means
// all of them. They see that operator's data only.
func Operators(roles ...login.Role) Rule { return Rule{operators: roles, stages: whole} }

// At returns the rule for users whose sign-in is at one of these stages.
func (r Rule) At(stages ...login.Stage) Rule {
	r.stages = stages
	return r
}

// decision is the result of checking a rule.
type decision int

const (
	refused decision = iota // signed in, but not allowed
	signIn                  // not signed in
	finish                  // the sign-in is at another stage
	permitted
)

// check checks a session, which is nil for an anonymous visitor.
func (r Rule) check(session *login.Session) decision {
	switch {
	case r.anyone:
		return permitted
	case session == nil:
		return signIn
	case !slices.Contains(r.stages, session.Stage):
		return finish
	case r.covers(session.Person):
		return permitted
	}
	return refused
}

// Allows reports whether a session may use the route; it is nil for an anonymous visitor.
func (r Rule) Allows(session *login.Session) bool { return r.check(session) == permitted }

func (r Rule) covers(person login.Person) bool {
	if person.Realm == login.Operator {
		// An operator's login without an operator must see nothing.
		return person.OperatorID != 0 && slices.Contains(r.operators, person.Role)
	}
	return person.Realm == login.Staff && slices.Contains(r.roles, person.Role)
}

// problem returns what is wrong with a rule in an area, or "".
func (r Rule) problem(area Area) string {
	switch {
	case !r.anyone && len(r.operators) == 0 && len(r.roles) == 0:
		return "it has no rule that allows any user"
	case !r.anyone && len(r.stages) == 0:
		return "its rule names no stage of the sign-in"
	case area == Panel && (r.anyone || len(r.roles) > 0):
		return "the panel is for operators only"
	case area == Console && (r.anyone || len(r.operators) > 0):
		return "the console is for staff only"
	}
	return ""
}

func (r Rule) String() string {
	if r.anyone {
		return "anyone"
	}
	var words []string
	for _, role := range slices.Concat(r.operators, r.roles) {
		words = append(words, string(role))
	}
	return strings.Join(words, ", ")
}
