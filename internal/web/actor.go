package web

import (
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
)

// Who names an actor of a record for people: web:asha is the name of asha's login, cli:root
// an account of the server, api:key 7 an API key, demo:history the demo's history. Other texts are returned as they are. An
// operator's people see names of their own operator only.
func (v *Visit) Who(actor string) string {
	channel, name, found := strings.Cut(actor, ":")
	switch {
	case !found:
		return actor
	case channel == "web":
		return v.nameOf(name)
	case channel == "cli":
		return v.T("%s (command line)", name)
	case channel == "api":
		return v.T("API key %s", strings.TrimPrefix(name, "key "))
	}
	return name
}

// RefusalArg returns an argument of a refusal for people: words of ours translated, names of people and operators.
func (v *Visit) RefusalArg(arg any) any {
	switch a := arg.(type) {
	case admin.Term:
		return v.T(string(a))
	case admin.Actor:
		return v.Who(string(a))
	case admin.Moment:
		return v.Look.When(v.Language(), time.Time(a))
	case admin.OperatorID:
		return v.operatorName(int64(a), a.String())
	}
	return arg
}

// operatorName is the name of an operator, or otherwise if it cannot be read. An operator's people see that of their
// own only.
func (v *Visit) operatorName(id int64, otherwise string) string {
	if v.site.operators == nil || v.Operator() != 0 && v.Operator() != id {
		return otherwise
	}
	operator, err := v.site.operators.Operator(v.Context(), id)
	if err != nil {
		return otherwise
	}
	return operator.Name
}

// nameOf returns the name of a login, or its username if it cannot be read.
func (v *Visit) nameOf(username string) string {
	if name, known := v.names[username]; known {
		return name
	}
	person, found, err := v.site.login.Named(v.Context(), username)
	name := username
	switch {
	case err != nil:
		return username // not kept: the next page may be able to read it
	case found && v.Operator() != 0 && person.OperatorID != v.Operator():
		name = v.T("Staff")
	case found:
		name = person.Name
	}
	if v.names == nil {
		v.names = map[string]string{}
	}
	v.names[username] = name
	return name
}
