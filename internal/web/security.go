package web

import (
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/telemetry"
)

// setVisitor puts the visitor into the request's context, for the security log of
// everything that is called with it.
func (v *Visit) setVisitor() {
	visitor := telemetry.Visitor{RequestID: v.RequestID, Address: v.Address, Agent: login.ShortenAgent(v.R.UserAgent())}
	if p := v.Session.Person; v.SignedIn() {
		visitor.SessionID, visitor.Actor, visitor.LoginID, visitor.OperatorID = v.Session.ID, v.Actor(), p.ID, p.OperatorID
		visitor.Username, visitor.Realm, visitor.Role = p.Username, string(p.Realm), string(p.Role)
	}
	v.R = v.R.WithContext(telemetry.WithVisitor(v.R.Context(), visitor))
}

// LogRefused writes a refused request to the security log. subject is what the request
// was about; it may be empty.
func (v *Visit) LogRefused(event, reason, subject string) {
	v.site.security.Log(telemetry.SecurityEvent{
		Event: event, Outcome: telemetry.SecurityRefused, Reason: reason, Subject: subject,
		Visitor: telemetry.VisitorOf(v.Context()), Path: v.route.Method + " " + v.route.Path,
	})
}
