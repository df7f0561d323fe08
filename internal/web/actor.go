package web

import "strings"

// Who names an actor of a record for people: web:asha is the name of asha's login, cli:root
// an account of the server, api:key 7 an API key. Other texts are returned as they are. An
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
	return actor
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
