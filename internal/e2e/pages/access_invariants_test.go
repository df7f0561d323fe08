package pages

import (
	"net/http"
	"slices"
	"strings"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web"
)

// Invariants of the access matrix. The lists are written by hand and not derived from the
// routes: a rule that changes must be changed here, too.
var (
	// anonymousMay is what can be used without a session.
	anonymousMay = []string{"GET  /sign-in", "POST /sign-in", "GET  /r/{link}"}

	// unfinishedMay is what can be used in the middle of signing in.
	unfinishedMay = map[login.Stage][]string{
		login.NeedsCode: {"POST /sign-in", "GET  /sign-in/code", "POST /sign-in/code", "GET  /r/{link}"},
		login.NeedsTOTP: {"POST /sign-in", "GET  /account/second-factor", "POST /account/second-factor/offer", "POST /account/second-factor",
			"GET  /account/passkeys/new", "POST /account/passkeys/new", "POST /account/passkeys", "GET  /r/{link}"},
		login.NeedsPassword: {"POST /sign-in", "GET  /account/password", "POST /account/password", "GET  /r/{link}"},
	}

	// changesNothing are forms that read-only roles may send.
	changesNothing = []string{"POST /panel/requests/{id}"}

	// administratorsOnly are forms that create or change logins, keys, operators and plans.
	administratorsOnly = []string{
		"POST /console/staff", "POST /console/operators/{id}/logins",
		"POST /console/staff/{login}/name", "POST /console/operators/{id}/logins/{login}/name",
		"POST /console/staff/{login}/role", "POST /console/operators/{id}/logins/{login}/role",
		"POST /console/staff/{login}/access", "POST /console/operators/{id}/logins/{login}/access",
		"POST /console/staff/{login}/reset-password", "POST /console/operators/{id}/logins/{login}/reset-password",
		"POST /console/staff/{login}/reset-second-factor", "POST /console/operators/{id}/logins/{login}/reset-second-factor",
		"POST /console/new-operator", "POST /console/operators/{id}/status", "POST /console/operators/{id}/api",
		"POST /console/operators/{id}/rate-limit", "POST /console/operators/{id}/low-balance", "POST /console/operators/{id}/commission",
		"POST /console/operators/{id}/receipt-details",
		"POST /console/operators/{id}/delete", "POST /console/operators/{id}/undelete",
		"POST /console/operators/{id}/keys", "POST /console/operators/{id}/keys/{key}/rotate", "POST /console/operators/{id}/keys/{key}/permissions",
		"POST /console/catalogue/new", "POST /console/catalogue/plans/{id}/edit", "POST /console/catalogue/plans/{id}/retire",
		"POST /console/reconcile",
	}

	// movesMoney is for finance and administrators.
	movesMoney = []string{
		"POST /console/operators/{id}/wallet/top-up", "POST /console/operators/{id}/wallet/adjust", "POST /console/review/operations/{id}/settle",
		"POST /console/review/operations/{id}/proposals/{proposal}/approve", "POST /console/approvals/{proposal}/approve",
		"POST /console/commission/close", "POST /console/payments/statements/{id}/credit",
	}

	// widensAccess needs a recent step-up.
	widensAccess = []string{
		"POST /console/operators/{id}/whitelist/add",
		"POST /console/staff/{login}/access (enable)", "POST /console/operators/{id}/logins/{login}/access (enable)",
		"POST /console/operators/{id}/status (reactivate)", "POST /console/operators/{id}/api (enable)", "POST /console/operators/{id}/rate-limit (raise)",
		"POST /console/operators/{id}/undelete", "POST /console/operators/{id}/commission", "POST /console/new-operator",
		"POST /console/operators/{id}/keys", "POST /console/operators/{id}/keys/{key}/rotate", "POST /console/operators/{id}/keys/{key}/permissions (more)",
		"POST /console/staff", "POST /console/operators/{id}/logins",
		"POST /console/staff/{login}/role", "POST /console/operators/{id}/logins/{login}/role",
		"POST /console/staff/{login}/reset-password", "POST /console/operators/{id}/logins/{login}/reset-password",
		"POST /console/staff/{login}/reset-second-factor", "POST /console/operators/{id}/logins/{login}/reset-second-factor",
		"POST /panel/people", "POST /panel/people/{login}/role", "POST /panel/people/{login}/access (enable)",
		"POST /panel/people/{login}/reset-password", "POST /panel/people/{login}/reset-second-factor",
		"POST /panel/subscribers/{id}/password",
	}

	// ownersOnly is for an operator's owner only.
	ownersOnly = []string{
		"GET  /panel/people", "GET  /panel/people/{login}", "POST /panel/people", "POST /panel/people/second-factor",
		"POST /panel/people/{login}/name", "POST /panel/people/{login}/role", "POST /panel/people/{login}/access",
		"POST /panel/people/{login}/reset-password", "POST /panel/people/{login}/reset-second-factor", "POST /panel/keys/{key}/revoke",
		"GET  /panel/receipt-details", "POST /panel/receipt-details",
	}

	// needsNoStepUp are the console's only forms without a step-up, and some of the panel's:
	// they narrow access or move no money.
	needsNoStepUp = []string{
		"POST /panel/keys/{key}/revoke", "POST /panel/people/{login}/access (disable)",
		"POST /console/staff/{login}/access (disable)", "POST /console/operators/{id}/logins/{login}/access (disable)",
		"POST /console/operators/{id}/status (suspend)", "POST /console/operators/{id}/api (disable)", "POST /console/operators/{id}/rate-limit (lower)",
		"POST /console/operators/{id}/low-balance", "POST /console/operators/{id}/receipt-details", "POST /panel/receipt-details",
		"POST /console/operators/{id}/keys/{key}/permissions (fewer)", "POST /console/operators/{id}/keys/{key}/revoke",
		"POST /console/operators/{id}/whitelist/remove",
		"POST /console/approvals/{proposal}/decline", "POST /console/approvals/{proposal}/withdraw",
		"POST /console/review/operations/{id}/proposals/{proposal}/dismiss",
		"POST /console/review/operations/{id}/addon", "POST /console/review/exceptions/{exception}/close",
		"POST /console/catalogue/new/preview", "POST /console/catalogue/plans/{id}/preview",
		"POST /console/payments/statements", "POST /console/payments/columns", "POST /console/payments/{id}/reject",
	}

	// whileSuspended are the panel's forms that a suspended operator's logins can send.
	whileSuspended = []string{"POST /panel/requests/{id}"}

	// makesOperations are forms that are refused in maintenance.
	makesOperations = []string{
		"POST /panel/activate", "POST /panel/subscribers/{id}/renew", "POST /panel/subscribers/{id}/advance-renew",
		"POST /panel/bulk", "POST /panel/bulk/{id}/start", "POST /panel/bulk/{id}/continue",
	}
)

func (m *accessMatrix) checkInvariants() {
	m.t.Helper()
	for _, list := range [][]string{
		anonymousMay, changesNothing, administratorsOnly, movesMoney, widensAccess, ownersOnly, needsNoStepUp, whileSuspended, makesOperations,
	} {
		for _, name := range list {
			if !slices.ContainsFunc(m.attempts, func(a attempt) bool { return a.key() == name || a.name() == name }) {
				m.t.Errorf("a list names %s, which is not in the matrix", name)
			}
		}
	}
	for s, rows := range m.answers {
		for i, try := range m.attempts {
			allowed := false
			for j, v := range m.visitors {
				m.checkAnswer(s, try, v, rows[i][j], m.answers[situation{}][i][j])
				allowed = allowed || rows[i][j][0] == letIn
			}
			suspended := s.suspended && try.route.Area == web.Panel
			if slices.Contains(widensAccess, try.name()) && !allowed && !suspended {
				m.t.Errorf("%s, %v: no role is allowed, so the step-up is not checked", try.name(), s)
			}
		}
	}
	for s, codes := range m.api {
		for i, c := range m.calls {
			want := fault.OK
			switch {
			case s.suspended: // the contract checks this first
				want = fault.LCOInactive
			case s.maintenance && c.order != nil:
				want = fault.ServiceUnavailable
			}
			if codes[i] != want {
				m.t.Errorf("%s, %v: %s; want %s", c.name, s, codes[i], want)
			}
		}
	}
}

// checkAnswer checks one answer, with a fresh and a stale session, also against the same
// visitor's answer for an active operator without maintenance.
func (m *accessMatrix) checkAnswer(s situation, try attempt, v matrixVisitor, got, usual [2]answer) {
	m.t.Helper()
	wrong := func(why string) {
		m.t.Helper()
		m.t.Errorf("%s as %s, %v: %s: %s", try.name(), v.name, s, cell(got), why)
	}
	// of reports whether the attempt is on a list of routes or attempts.
	of := func(list []string) bool { return slices.Contains(list, try.key()) || slices.Contains(list, try.name()) }
	area, post := try.route.Area, try.route.Method == http.MethodPost
	in := got[0] == letIn || got[1] == letIn

	switch {
	case area == web.Docs:
		if post || got != [2]answer{letIn, letIn} {
			wrong("everyone may read the API's documentation, and nobody changes it")
		}
	case v.stage == "" && area != web.Account && got != [2]answer{signIn, signIn}:
		wrong("an anonymous visitor is sent to sign in")
	case v.stage == "" && in && !of(anonymousMay):
		wrong("an anonymous visitor may use the sign-in page only")
	case v.stage != "" && !v.complete() && in && !of(unfinishedMay[v.stage]):
		wrong("an unfinished sign-in may only be continued")
	case v.realm == login.Staff && area == web.Panel && in:
		wrong("staff does not use the panel")
	case v.realm == login.Operator && area == web.Console && in:
		wrong("operators' logins do not use the console")
	case (v.role == login.Viewer || v.role == login.ReadOnly) && post && area != web.Account && in && !of(changesNothing):
		wrong("a read-only role changes nothing")
	case v.role != login.Owner && of(ownersOnly) && in:
		wrong("it is for owners only")
	case v.role != login.Administrator && of(administratorsOnly) && in:
		wrong("it is for administrators only")
	case v.role != login.Administrator && v.role != login.Finance && of(movesMoney) && in:
		wrong("it moves money")
	}
	switch {
	case got[1] == letIn && got[0] != letIn:
		wrong("a stale session is allowed more than a fresh one")
	case (of(widensAccess) || of(movesMoney)) && got[0] == letIn && got[1] != stepUp:
		wrong("it needs a step-up")
	case of(needsNoStepUp) && got[0] == letIn && got[1] != letIn:
		wrong("it needs no step-up")
	case area == web.Console && post && got[1] == letIn && !of(needsNoStepUp):
		wrong("a form of the console needs a step-up unless it is listed")
	}
	switch {
	case in && usual[0] != letIn:
		wrong("it is refused usually, and must be here")
	case v.realm == login.Staff && got != usual:
		wrong("suspension and maintenance change nothing for staff")
	case s.maintenance && of(makesOperations) && in:
		wrong("no operation starts in maintenance")
	}
	if s.suspended && !s.maintenance && area == web.Panel && post && usual[0] == letIn {
		switch listed := of(whileSuspended); {
		case in && !listed:
			wrong("a suspended operator's logins cannot send this")
		case !in && listed && v.role == login.Owner:
			wrong("it is listed as allowed for suspended operators")
		}
	}
	if strings.HasPrefix(string(got[0]), "4") || strings.HasPrefix(string(got[0]), "5") {
		wrong("the attempt proves nothing")
	}
}
