package web

import (
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/login"
)

// Rule says who may use a route. The zero Rule lets nobody in and is refused when
// the site is made: a route whose author forgot to decide must not exist.
type Rule struct {
	anyone bool
	// operators are roles of operators' people, roles are those of staff.
	operators, roles []login.Role
	// stages are how far a sign-in must have come; Whole unless said otherwise.
	stages []login.Stage
}

// Who may use a route.
var (
	// Anyone needs no session; if there is one, the visit has it.
	Anyone = Rule{anyone: true}
	// SignedIn is everybody who has signed in wholly.
	SignedIn = Rule{operators: OperatorRoles, roles: StaffRoles, stages: whole}
)

// StaffRoles are the roles that the MSO's staff can have.
var StaffRoles = []login.Role{login.Viewer, login.Support, login.Finance, login.Administrator}

// OperatorRoles are the roles that an operator's own people can have.
var OperatorRoles = login.Operator.Roles()

var whole = []login.Stage{login.Whole}

// Staff lets in the MSO's staff with one of these roles, which must be named:
// whoever means all of them says StaffRoles.
func Staff(roles ...login.Role) Rule { return Rule{roles: roles, stages: whole} }

// Operators lets in an operator's people with one of these roles, which must be named:
// whoever means all of them says OperatorRoles. They see that operator's world only.
func Operators(roles ...login.Role) Rule { return Rule{operators: roles, stages: whole} }

// At makes a rule for people whose sign-in stands at one of these stages, which
// need not be its end.
func (r Rule) At(stages ...login.Stage) Rule {
	r.stages = stages
	return r
}

// verdict is what a rule says to a visitor.
type verdict int

const (
	refused   verdict = iota // is somebody, and may not
	signIn                   // nobody yet
	finish                   // somebody whose sign-in stands at another stage than this one is for
	permitted                // may
)

// judge says whether a visitor may; session is nil for nobody.
func (r Rule) judge(session *login.Session) verdict {
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

// Allows reports whether a visitor may use the route; session is nil for nobody.
func (r Rule) Allows(session *login.Session) bool { return r.judge(session) == permitted }

func (r Rule) covers(person login.Person) bool {
	if person.Realm == login.Operator {
		// An operator's login without an operator would see a world that is nobody's.
		return person.OperatorID != 0 && slices.Contains(r.operators, person.Role)
	}
	return person.Realm == login.Staff && slices.Contains(r.roles, person.Role)
}

// problem says what is wrong with a rule for its area, or nothing.
func (r Rule) problem(area Area) string {
	switch {
	case !r.anyone && len(r.operators) == 0 && len(r.roles) == 0:
		return "it has no rule that lets anybody in"
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
