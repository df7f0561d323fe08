package pages

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/passkey"
	"github.com/coaxhq/coax/internal/receipt"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
)

var update = flag.Bool("update", false, "rewrite testdata/access-matrix.txt")

const matrixFile = "testdata/access-matrix.txt"

// Every route is requested by every kind of visitor, with a fresh and a stale session, with
// an active and a suspended operator, with and without maintenance. The answers are compared
// with a file that is reviewed by hand, not with the routes' rules, and with the invariants
// of checkInvariants.
func TestAccessMatrix(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	m := newAccessMatrix(t)
	m.run()
	got := m.text()
	if *update {
		if err := os.WriteFile(matrixFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; review every line, then run: go test ./internal/e2e/pages -run TestAccessMatrix -update\n%s",
			filepath.Base(matrixFile), differing(string(want), got))
	}
	m.checkInvariants()
}

// answer is the kind of an answer, as written in the file.
type answer string

const (
	letIn     answer = "in"
	refused   answer = "no"
	signIn    answer = "sign"
	needCode  answer = "code"
	needTOTP  answer = "totp"
	needOwn   answer = "pass"
	sentHome  answer = "home"
	stepUp    answer = "up"
	suspended answer = "susp"
	stopped   answer = "maint"
)

const matrixLegend = `# Who gets which answer from which page and form. Written by TestAccessMatrix (run it with
# -update) and compared with a running node. Review every changed line.
#
#   in     allowed: the page is shown, or the form was processed
#   no     refused: 403
#   up     a step-up is required, and nothing is done
#   in/up  allowed within five minutes of the last step-up, which is required after that
#   susp   refused because the operator is suspended
#   maint  refused because of maintenance
#   sign   redirected to the sign-in page
#   code, totp, pass   redirected to finish signing in: enter the code, set up a second factor, choose a password
#   home   redirected to the visitor's home page
#
# Visitors: anonymous; operators' roles; staff roles; and logins that have not finished signing in:
# +code must enter the code, +totp must set up a second factor, +pass must choose a password.
`

// situation is a state of the installation.
type situation struct{ suspended, maintenance bool }

// situations are in the order in which they are run: a bulk renewal that is started in the
// last one could not be started again.
var situations = []situation{{true, true}, {false, true}, {true, false}, {false, false}}

func (s situation) String() string {
	operator, maintenance := "operator active", "maintenance off"
	if s.suspended {
		operator = "operator suspended"
	}
	if s.maintenance {
		maintenance = "maintenance on"
	}
	return operator + ", " + maintenance
}

// matrixVisitor is a kind of visitor.
type matrixVisitor struct {
	name     string
	username string // empty for an anonymous visitor
	realm    login.Realm
	role     login.Role
	stage    login.Stage // empty for an anonymous visitor
	passkey  int64       // the id of the visitor's passkey; 0 for none
}

// ownPasskey is the placeholder in a path for the visitor's own passkey.
const ownPasskey = "own-passkey"

// complete reports whether the visitor has finished signing in; only then can a session be
// stale.
func (v matrixVisitor) complete() bool { return v.stage == login.Complete }

// attempt is one request that every visitor sends: a route, a path with its wildcards
// filled in, and a form.
type attempt struct {
	route web.Route
	// note distinguishes two attempts at one route.
	note string
	path string
	form url.Values
	// prepare restores what the form would change.
	prepare func()
}

func (a attempt) name() string { return strings.TrimSpace(a.key() + " " + a.note) }

func (a attempt) key() string { return fmt.Sprintf("%-4s %s", a.route.Method, a.route.Path) }

type accessMatrix struct {
	*e2e.Env
	t        *testing.T
	client   *http.Client
	visitors []matrixVisitor
	attempts []attempt
	// answers are by situation, attempt, visitor, and fresh (0) or stale (1).
	answers map[situation][][][2]answer
	// api are the codes of the API by situation and call.
	api   map[situation][]fault.Code
	calls []apiAttempt
	// limited is the operator that is suspended; subject is another one, which the
	// console's forms change.
	limited int64
	subject int64
}

func newAccessMatrix(t *testing.T) *accessMatrix {
	t.Helper()
	m := &accessMatrix{
		Env: e2e.NewEnv(t, "panel.staff_totp=true", "review.first_check=1h"), t: t,
		answers: map[situation][][][2]answer{}, api: map[situation][]fault.Code{},
	}
	m.client = &http.Client{
		Transport: m.HTTP.Transport, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	m.limited = m.Demo.LCOID
	m.makeVisitors()
	m.makeAttempts()
	return m
}

func (m *accessMatrix) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *accessMatrix) makeVisitors() {
	m.visitors = []matrixVisitor{{name: "anonymous"}}
	add := func(name string, realm login.Realm, role login.Role, stage login.Stage) {
		var operatorID int64
		if realm == login.Operator {
			operatorID = m.limited
		}
		username := "a-" + strings.ReplaceAll(name, "+", "-")
		if stage == login.NeedsPassword {
			_, _, err := m.Admin.CreateLogin(context.Background(), admin.NewLogin{Username: username, Name: "New", Role: role, OperatorID: operatorID})
			m.must(err)
		} else {
			m.NewLogin(m.t, username, role, operatorID)
		}
		v := matrixVisitor{name: name, username: username, realm: realm, role: role, stage: stage}
		// A login with a second factor is not affected when one becomes required.
		if stage == login.NeedsCode || stage == login.Complete {
			v.passkey = m.enrol(v)
		}
		if got := m.stageOf(v); got != stage {
			m.t.Fatalf("%s: the session's stage is %q; want %q", name, got, stage)
		}
		m.visitors = append(m.visitors, v)
	}
	for _, realm := range []login.Realm{login.Operator, login.Staff} {
		for _, role := range realm.Roles() {
			add(string(role), realm, role, login.Complete)
		}
	}
	add("finance+code", login.Staff, login.Finance, login.NeedsCode)
	add("administrator+totp", login.Staff, login.Administrator, login.NeedsTOTP)
	add("owner+pass", login.Operator, login.Owner, login.NeedsPassword)
}

// open creates a session without the password: hashing would take most of the test's time.
func (m *accessMatrix) open(v matrixVisitor, stale bool) (token string) {
	m.t.Helper()
	if v.username == "" {
		return ""
	}
	account, found, err := m.Node.Store.AccountByUsername(context.Background(), v.username)
	if err != nil || !found {
		m.t.Fatalf("login %s: found %v, %v", v.username, found, err)
	}
	bytes := make([]byte, 32)
	_, _ = rand.Read(bytes)
	token = base64.RawURLEncoding.EncodeToString(bytes)
	given := m.Now()
	if stale {
		given = given.Add(-6 * time.Minute)
	}
	m.must(m.Node.Store.OpenSession(context.Background(), login.NewSession{Token: login.HashToken(token), Record: login.Record{
		ID: rand.Text()[:16], CreatedAt: given, SeenAt: m.Now(), SteppedUpAt: given, CodeVerified: v.stage != login.NeedsCode, Agent: "matrix", Account: account,
	}}))
	return token
}

func (m *accessMatrix) stageOf(v matrixVisitor) login.Stage {
	m.t.Helper()
	session, err := m.Node.Logins.Resume(context.Background(), m.open(v, false))
	m.must(err)
	return session.Stage
}

// enrol sets up TOTP and a passkey.
func (m *accessMatrix) enrol(v matrixVisitor) (passkeyID int64) {
	m.t.Helper()
	account, _, err := m.Node.Store.AccountByUsername(context.Background(), v.username)
	m.must(err)
	sealed, err := m.Node.Vault.SealTOTP([]byte("a secret of twenty b"), account.ID)
	m.must(err)
	token := m.open(v, false)
	m.must(m.Node.Store.ChangeFactors(context.Background(), login.OwnAction{Actor: "web:" + v.username, Action: "totp set", At: m.Now()}, login.FactorChange{
		PersonID: account.ID, Version: account.Version, Old: login.HashToken(token), New: login.HashToken(token + "x"), At: m.Now(), SetTOTP: &login.NewTOTP{Sealed: sealed},
		AddPasskey: &login.Passkey{Name: "Phone", SiteID: "panel.example.com", CreatedAt: m.Now(), Key: passkey.Key{CredentialID: []byte(v.username), PublicKey: []byte("none")}},
	}))
	passkeys, err := m.Node.Logins.Passkeys(context.Background(), account.ID)
	m.must(err)
	return passkeys[0].ID
}

// makeAttempts creates the objects that paths name, and lists the attempts. A form is empty
// unless it is listed here: an allowed visitor then gets a validation error.
func (m *accessMatrix) makeAttempts() {
	ctx := context.Background()
	me, ids := m.NewSubscribers(2)
	subscriber, callers := ids[0], ids[1] // a bulk renewal may renew the first meanwhile
	_, inReview := m.StartReview(me, "activate", "reset_applied", "9812340001", "matrix-review-1")
	reviewed := inReview.Text("transaction_id")
	// A call refused for its signature has a form to compare strings to sign.
	m.Expect("a wrong signature", e2e.Call{As: e2e.Caller{Key: me.Key, Secret: "cxs_another"}, Path: e2e.Balance}, fault.InvalidSignature)
	requests, err := m.Node.Requests.Search(ctx, m.limited, requestlog.Query{Limit: 1})
	m.must(err)
	operations, err := m.Node.Store.PageOperations(ctx, report.OperationQuery{OperatorID: m.limited, State: operation.Success, Limit: 1}) // only a success has a receipt
	m.must(err)

	m.subject = m.NewOperator("Sagar Cable", access.AllPermissions).OperatorID
	key, revoked := m.NewKey(m.subject, access.AllPermissions), m.NewKey(m.subject, access.AllPermissions)
	m.must(m.Admin.RevokeKey(ctx, revoked.ID))
	m.must(m.Admin.RetirePlan(ctx, "COMBO-1"))
	owner, _, err := m.Admin.CreateLogin(ctx, admin.NewLogin{Username: "sagar", Name: "Sagar", Role: login.Owner, OperatorID: m.subject})
	m.must(err)
	staff, _, err := m.Admin.CreateLogin(ctx, admin.NewLogin{Username: "clerk", Name: "Clerk", Role: login.Viewer})
	m.must(err)

	own := m.NewKey(m.limited, access.AllPermissions)
	m.must(m.Admin.RevokeKey(ctx, own.ID))
	colleague, _, err := m.Admin.CreateLogin(ctx, admin.NewLogin{Username: "colleague", Name: "Colleague", Role: login.Owner, OperatorID: m.limited})
	m.must(err)

	// Declined proposals: approving one is refused as already decided.
	service := func(who string) *admin.Service {
		return admin.NewService(m.Node.Store, m.Node.Vault, "web:"+who, m.Now).WithRole(admin.Finance, admin.Limits{})
	}
	declined := func(outcome admin.ActionResult, err error) int64 {
		m.must(err)
		_, err = service("checker").Decline(ctx, outcome.Proposal.ID, "For the matrix.")
		m.must(err)
		return outcome.Proposal.ID
	}
	settlement := declined(service("maker").SubmitSettlement(ctx, reviewed, false, "For the matrix."))
	topUp := declined(service("maker").SubmitTopUp(ctx, admin.TopUp{OperatorID: m.subject, Amount: e2e.Rupees(m.t, "1.00"), Reference: "R-1"}))

	// An announced payment, and a line of a bank statement.
	payments := admin.NewPayments(m.Node.Store, m.Node.Config.Payments, m.Now)
	announced, _, err := payments.Announce(ctx, admin.Payer{OperatorID: m.limited, Actor: "web:matrix"}, admin.NewAnnouncement{
		Amount: e2e.Rupees(m.t, "1.00"), Method: admin.MethodUPI, Reference: "631245678901", PaidOn: m.Now().Add(-24 * time.Hour),
	})
	m.must(err)
	bank, _, err := m.Admin.ImportStatement(ctx, admin.ParsedStatement{FileName: "matrix.csv", Header: "matrix", Columns: "{}", Lines: []admin.BankLine{
		{PaidOn: m.Now().Add(-24 * time.Hour), Amount: e2e.Rupees(m.t, "2.00"), Narration: "CASH"},
	}})
	m.must(err)

	// Checked bulk renewals, one for each action on one.
	ownerToken := m.open(m.visitor("owner"), false)
	job := func() string {
		_, location, _ := m.send(ownerToken, http.MethodPost, "/panel/bulk", url.Values{"within": {"expired"}, "subscriber": {subscriber}})
		id, made := strings.CutPrefix(location, "/panel/bulk/")
		if !made {
			m.t.Fatalf("create a bulk renewal: redirected to %q", location)
		}
		return id
	}

	link, _, ok := receipt.NewLinks(m.Node.Vault.KeysFor(receipt.LinkPurpose), m.Now).Make(operations[0].ID)
	if !ok {
		m.t.Fatal("no link to a receipt can be made")
	}

	// The values of the wildcards, by the prefix of the path.
	wildcards := []struct{ prefix, name, value string }{
		{"/account/passkeys/", "{passkey}", ownPasskey},
		{"/console/operators/", "{id}", fmt.Sprint(m.subject)},
		{"/console/operators/{id}/keys/{key}/revoke", "{key}", fmt.Sprint(revoked.ID)},
		{"/console/operators/", "{key}", fmt.Sprint(key.ID)},
		{"/console/operators/", "{login}", fmt.Sprint(owner.ID)},
		{"/console/staff/", "{login}", fmt.Sprint(staff.ID)},
		{"/console/catalogue/plans/{id}/retire", "{id}", "COMBO-1"},
		{"/console/catalogue/plans/", "{id}", "BASIC-1"},
		{"/console/commission/", "{format}", "csv"},
		{"/console/audit-log/", "{entry}", "2"},
		{"/console/approvals/", "{proposal}", fmt.Sprint(topUp)},
		{"/console/review/exceptions/", "{exception}", "1"},
		{"/console/review/operations/", "{id}", reviewed},
		{"/console/review/operations/", "{proposal}", fmt.Sprint(settlement)},
		{"/panel/subscribers/", "{id}", subscriber},
		{"/panel/transactions/", "{id}", operations[0].ID},
		{"/panel/bulk/{id}/start", "{id}", job()},
		{"/panel/bulk/{id}/cancel", "{id}", job()},
		{"/panel/bulk/", "{id}", job()},
		{"/panel/requests/", "{id}", requests.Entries[0].ID},
		{"/panel/keys/", "{key}", fmt.Sprint(own.ID)},
		{"/panel/people/", "{login}", fmt.Sprint(colleague.ID)},
		{"/panel/add-money/", "{id}", fmt.Sprint(announced.ID)},
		{"/console/payments/statements/", "{id}", fmt.Sprint(bank.ID)},
		{"/console/payments/statements/", "{line}", "1"},
		{"/console/payments/", "{id}", fmt.Sprint(announced.ID)},
		{"/account/sessions/", "{id}", "0123456789abcdef"},
		{"/r/", "{link}", link},
	}
	order := url.Values{"step": {"confirm"}, "full_name": {"Asha Rao"}, "mobile": {"9812340002"}, "plan_id": {"BASIC-1"}}
	forms := map[string][]attempt{
		"POST /panel/activate":                       {{form: order}},
		"POST /panel/subscribers/{id}/renew":         {{form: url.Values{"plan_id": {"BASIC-1"}}}},
		"POST /panel/subscribers/{id}/advance-renew": {{form: url.Values{"plan_id": {"FAMILY-1"}}}},
		"POST /panel/bulk":                           {{form: url.Values{"within": {"expired"}, "subscriber": {subscriber}}}},
		"POST /account/password":                     {{form: url.Values{"new_password": {"one"}, "repeated_password": {"another"}}}},
		"POST /console/operators/{id}/whitelist/add": {{form: url.Values{"address": {"198.51.100.7"}}}},
		"POST /console/operators/{id}/status": {
			{note: "(suspend)", form: url.Values{"status": {"inactive"}}, prepare: m.operatorIs(subscription.OperatorActive, "", 0)},
			{note: "(reactivate)", form: url.Values{"status": {"active"}}, prepare: m.operatorIs(subscription.OperatorInactive, "", 0)},
		},
		"POST /console/operators/{id}/api": {
			{note: "(disable)", form: url.Values{"api": {"disabled"}}, prepare: m.operatorIs("", subscription.APIEnabled, 0)},
			{note: "(enable)", form: url.Values{"api": {"enabled"}}, prepare: m.operatorIs("", subscription.APIDisabled, 0)},
		},
		"POST /console/operators/{id}/rate-limit": {
			{note: "(lower)", form: url.Values{"rate_limit": {"59"}}, prepare: m.operatorIs("", "", 60)},
			{note: "(raise)", form: url.Values{"rate_limit": {"61"}}, prepare: m.operatorIs("", "", 60)},
		},
		"POST /console/operators/{id}/keys/{key}/permissions": {
			{note: "(fewer)", form: url.Values{"permission": {"Renew"}}, prepare: m.keyMay(key.ID, access.Renew, access.Activate)},
			{note: "(more)", form: url.Values{"permission": {"Renew", "Activate"}}, prepare: m.keyMay(key.ID, access.Renew)},
		},
	}
	for path, id := range map[string]int64{"/console/staff/{login}": staff.ID, "/console/operators/{id}/logins/{login}": owner.ID, "/panel/people/{login}": colleague.ID} {
		forms["POST "+path+"/access"] = []attempt{
			{note: "(disable)", form: url.Values{"disabled": {"yes"}}, prepare: m.loginIs(id, false)},
			{note: "(enable)", form: url.Values{"disabled": {"no"}}, prepare: m.loginIs(id, true)},
		}
	}
	for _, route := range m.Node.Site.Routes() {
		path := route.Path
		for _, w := range wildcards {
			if strings.HasPrefix(route.Path, w.prefix) {
				path = strings.Replace(path, w.name, w.value, 1)
			}
		}
		if strings.Contains(path, "{") {
			m.t.Fatalf("%s %s: add the value of the wildcard in %s", route.Method, route.Path, path)
		}
		name := route.Method + " " + route.Path
		tries, listed := forms[name]
		if !listed {
			tries = []attempt{{}}
		}
		delete(forms, name)
		for _, try := range tries {
			try.route, try.path = route, path
			m.attempts = append(m.attempts, try)
		}
	}
	for name := range forms {
		m.t.Errorf("there is no route %s any more", name)
	}
	m.calls = []apiAttempt{
		{"POST /activate", "activate", e2e.Order{"full_name": "Asha", "mobile": "9812340003", "plan_id": "BASIC-1"}},
		{"POST /renew", "renew", e2e.Order{"subscriber_id": callers, "plan_id": "BASIC-1"}},
		{"POST /advance-renew", "advance-renew", e2e.Order{"subscriber_id": callers, "plan_id": "FAMILY-1"}},
		{"GET  /balance", "balance", nil},
		{"GET  /plans", "plans", nil},
		{"GET  /subscription", "subscription?subscriber_id=" + callers, nil},
		{"GET  /transaction", "transaction?idempotency_key=matrix-review-1", nil},
	}
}

// apiAttempt is a call of the API; without an order it is a look-up.
type apiAttempt struct {
	name, path string
	order      e2e.Order
}

func (m *accessMatrix) visitor(name string) matrixVisitor {
	m.t.Helper()
	at := slices.IndexFunc(m.visitors, func(v matrixVisitor) bool { return v.name == name })
	if at < 0 {
		m.t.Fatalf("there is no visitor %s", name)
	}
	return m.visitors[at]
}

// operatorIs restores the operator that the console's forms change.
func (m *accessMatrix) operatorIs(status subscription.OperatorStatus, api subscription.APIAccess, rate int) func() {
	var change admin.OperatorChange
	if status != "" {
		change.Status = &status
	}
	if api != "" {
		change.API = &api
	}
	if rate != 0 {
		change.RateLimit = &rate
	}
	return func() {
		_, err := m.Admin.ChangeOperator(context.Background(), m.subject, change)
		m.must(err)
	}
}

func (m *accessMatrix) keyMay(id int64, permissions ...access.Permission) func() {
	return func() { m.must(m.Admin.PermitKey(context.Background(), id, access.PermissionsOf(permissions...))) }
}

func (m *accessMatrix) loginIs(id int64, disabled bool) func() {
	return func() {
		_, err := m.Admin.ChangeLogin(context.Background(), id, admin.LoginChange{Disabled: &disabled})
		m.must(err)
	}
}

// run makes every attempt as every visitor in every situation.
func (m *accessMatrix) run() {
	for _, s := range situations {
		m.arrange(s)
		tokens := m.openAll()
		rows := make([][][2]answer, len(m.attempts))
		for i, try := range m.attempts {
			rows[i] = make([][2]answer, len(m.visitors))
			var visits sync.WaitGroup
			for j, v := range m.visitors {
				visits.Go(func() { rows[i][j] = m.visit(try, v, tokens[j], s) })
			}
			visits.Wait()
		}
		m.answers[s] = rows
		for _, c := range m.calls {
			m.api[s] = append(m.api[s], m.call(c))
		}
	}
}

// openAll creates a fresh and a stale session for every visitor.
func (m *accessMatrix) openAll() [][2]string {
	tokens := make([][2]string, len(m.visitors))
	for i, v := range m.visitors {
		tokens[i] = [2]string{m.open(v, false), m.open(v, true)}
	}
	return tokens
}

// visit makes an attempt as one visitor, with a fresh session and with a stale one. Only
// an administrator gets as far as changing what prepare restores.
func (m *accessMatrix) visit(try attempt, v matrixVisitor, tokens [2]string, s situation) (got [2]answer) {
	// Only the visitor whom the form allows changes anything, so only that one prepares.
	preparer := login.Administrator
	if try.route.Area == web.Panel {
		preparer = login.Owner
	}
	for k, token := range tokens {
		if k == 1 && !v.complete() {
			got[1] = got[0] // the session cannot be stale
			break
		}
		if try.prepare != nil && v.role == preparer && v.complete() {
			try.prepare()
		}
		if try.route.Path == "/sign-out" {
			token = m.open(v, k == 1)
		}
		got[k] = m.try(try, v, token, s)
	}
	return got
}

func (m *accessMatrix) arrange(s situation) {
	m.t.Helper()
	status := subscription.OperatorActive
	if s.suspended {
		status = subscription.OperatorInactive
	}
	_, err := m.Admin.ChangeOperator(context.Background(), m.limited, admin.OperatorChange{Status: &status})
	m.must(err)
	maintain(m.t, m.Env, s.maintenance)
}

func (m *accessMatrix) call(c apiAttempt) fault.Code {
	m.t.Helper()
	call := e2e.Call{As: m.DemoCaller(), Path: "/api/v1/" + c.path}
	if c.order != nil {
		call.Method, call.Body = http.MethodPost, c.order.JSON()
	}
	return m.Send(call).Code
}

// send sends a request as the service's own pages do.
func (m *accessMatrix) send(token, method, path string, form url.Values) (status int, location, text string) {
	m.t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	}
	request, err := http.NewRequestWithContext(m.t.Context(), method, m.URL(path), body)
	m.must(err)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if token != "" {
		request.AddCookie(&http.Cookie{Name: "__Host-coax", Value: token})
	}
	response, err := m.client.Do(request)
	m.must(err)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	m.must(err)
	// A notice for the next page is part of the answer.
	for _, cookie := range response.Cookies() {
		if cookie.Name == "__Host-coax-notice" {
			notice, _ := base64.RawURLEncoding.DecodeString(cookie.Value)
			read = append(read, notice...)
		}
	}
	return response.StatusCode, response.Header.Get("Location"), string(read)
}

// try makes one attempt and returns the kind of answer.
func (m *accessMatrix) try(try attempt, v matrixVisitor, token string, s situation) answer {
	m.t.Helper()
	status, location, text := m.send(token, try.route.Method, strings.Replace(try.path, ownPasskey, fmt.Sprint(v.passkey), 1), try.form)
	post := try.route.Method == http.MethodPost
	target, _, _ := strings.Cut(location, "?")
	switch {
	case status == http.StatusForbidden && strings.Contains(text, `action="/step-up"`), target == "/step-up":
		return stepUp
	case status == http.StatusForbidden && strings.Contains(text, "You do not have permission to view this page."):
		return refused
	case status == http.StatusForbidden && s.suspended, post && strings.Contains(text, "account is suspended"):
		return suspended
	case post && strings.Contains(text, "stopped for maintenance. Nothing was charged"):
		return stopped
	case target == "/sign-in":
		return signIn
	case target == "/sign-in/code":
		return needCode
	case target == "/account/second-factor":
		return needTOTP
	case target == "/account/password":
		return needOwn
	case target == "/", target == "/console/", target == "/panel/":
		return sentHome
	case status == http.StatusOK, status == http.StatusSeeOther, status == http.StatusUnprocessableEntity, status == http.StatusTooManyRequests:
		return letIn
	}
	m.t.Errorf("%s as %s, %v: %d to %q; the matrix has no name for this answer", try.name(), v.name, s, status, location)
	return answer(fmt.Sprint(status))
}

// text returns the matrix: all of it for an active operator without maintenance, and the
// differences for the other situations.
func (m *accessMatrix) text() string {
	var out bytes.Buffer
	out.WriteString(matrixLegend)
	width := 0
	for _, try := range m.attempts {
		width = max(width, len(try.name()))
	}
	line := func(name string, cells []string) {
		text := fmt.Sprintf("%-*s", width, name)
		for i, cell := range cells {
			text += fmt.Sprintf("  %-*s", max(len(m.visitors[i].name), 5), cell)
		}
		out.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	var names []string
	for _, v := range m.visitors {
		names = append(names, v.name)
	}
	base := m.answers[situation{}]
	for _, s := range []situation{{}, {suspended: true}, {maintenance: true}, {true, true}} {
		fmt.Fprintf(&out, "\n## %s", s)
		if s != (situation{}) {
			out.WriteString(": differences from the above")
		}
		out.WriteString("\n\n")
		line("", names)
		for i, try := range m.attempts {
			cells := make([]string, len(m.visitors))
			differs := s == situation{}
			for j := range m.visitors {
				cells[j] = cell(m.answers[s][i][j])
				if s != (situation{}) && m.answers[s][i][j] == base[i][j] {
					cells[j] = "."
				} else {
					differs = true
				}
			}
			if differs {
				line(try.name(), cells)
			}
		}
	}
	out.WriteString("\n## The API (callers have no role): the code of the answer\n\n")
	order := []situation{{}, {suspended: true}, {maintenance: true}, {true, true}}
	row := func(name string, cells []string) {
		out.WriteString(strings.TrimRight(fmt.Sprintf("%-19s  %-6s  %-12s  %-19s  %s", name, cells[0], cells[1], cells[2], cells[3]), " ") + "\n")
	}
	row("", []string{"active", "suspended", "maintenance", "both"})
	for i, c := range m.calls {
		cells := make([]string, len(order))
		for j, s := range order {
			cells[j] = string(m.api[s][i])
		}
		row(c.name, cells)
	}
	return out.String()
}

// cell returns the file's text for a fresh and a stale session.
func cell(both [2]answer) string {
	if both[0] == both[1] {
		return string(both[0])
	}
	return string(both[0]) + "/" + string(both[1])
}

// differing returns the lines that only one of the texts has.
func differing(want, got string) string {
	has := func(text string) map[string]bool {
		lines := map[string]bool{}
		for line := range strings.SplitSeq(text, "\n") {
			lines[line] = true
		}
		return lines
	}
	var out strings.Builder
	wanted, is := has(want), has(got)
	for line := range strings.SplitSeq(want, "\n") {
		if !is[line] {
			out.WriteString("- " + line + "\n")
		}
	}
	for line := range strings.SplitSeq(got, "\n") {
		if !wanted[line] {
			out.WriteString("+ " + line + "\n")
		}
	}
	return out.String()
}
