package pages

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
)

// securityLines returns the security events of a log, in order.
func securityLines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for line := range strings.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if fields["event"] != nil && fields["msg"] == "security" {
			lines = append(lines, fields)
		}
	}
	return lines
}

// securityReader reads the security events of a log one after the other.
type securityReader struct {
	t    *testing.T
	read func() string
	seen int
}

// next checks that there is another event with these fields, and returns it.
func (r *securityReader) next(want map[string]any) map[string]any {
	r.t.Helper()
	lines := securityLines(r.t, r.read())
	if len(lines) <= r.seen {
		r.t.Fatalf("no further event; want %v", want)
	}
	got := lines[r.seen]
	r.seen++
	for name, value := range want {
		found, object := any(got), got
		for part := range strings.SplitSeq(name, ".") {
			found = object[part]
			object, _ = found.(map[string]any)
		}
		if found != value {
			r.t.Errorf("%s is %v; want %v in %v", name, found, value, got)
		}
	}
	return got
}

// none checks that there is no further event.
func (r *securityReader) none(what string) {
	r.t.Helper()
	if lines := securityLines(r.t, r.read()); len(lines) != r.seen {
		r.t.Errorf("%s: %d further events: %v", what, len(lines)-r.seen, lines[r.seen:])
	}
}

// skip skips the events so far.
func (r *securityReader) skip() { r.seen = len(securityLines(r.t, r.read())) }

type fields = map[string]any

func TestSecurityLog_SignIns(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "log.security_file=")
	who := w.NewLogin(t, "asha", login.Finance, 0)
	log := &securityReader{t: t, read: w.Log.String}
	log.skip()
	b := w.Browser(t)

	// The page does not reveal which of these it was.
	unknown := b.SignIn("nobody.here", "not a password 1")
	log.next(fields{"event": "sign_in_failed", "outcome": "refused", "reason": "unknown name", "factor": "password", "ip": "127.0.0.1", "stream": "security", "username": nil, "level": "WARN"})
	wrong := b.SignIn("asha", "not a password 2")
	failed := log.next(fields{"event": "sign_in_failed", "outcome": "refused", "reason": "wrong password", "username": "asha", "realm": "staff", "role": "finance", "session": nil})
	if unknown.Status != wrong.Status || strings.ReplaceAll(unknown.Body, "nobody.here", "asha") != wrong.Body {
		t.Error("the page distinguishes an unknown name from a wrong password")
	}
	if failed["login"] == nil || !strings.HasPrefix(failed["request_id"].(string), "req_") || failed["agent"] == nil {
		t.Errorf("it lacks the login, the request id or the agent: %v", failed)
	}
	b.SignIn(who.Username, who.Password).RedirectsTo(t, "/")
	signedIn := log.next(fields{"event": "signed_in", "outcome": "done", "username": "asha", "factor": "password", "actor": "web:asha", "level": "INFO"})
	session, _ := signedIn["session"].(string)
	if len(session) != 16 {
		t.Errorf("the session is %q; want its public name", session)
	}
	log.none("a sign-in")

	// With a second factor.
	key, codes := b.EnrolTOTP()
	log.next(fields{"event": "second_factor_set_up", "outcome": "done", "username": "asha", "session": session, "actor": "web:asha"})
	recovery := regexp.MustCompile(`<code>([^<]+)</code>`).FindStringSubmatch(codes.Body)[1]
	w.Advance(time.Minute)
	there := w.Browser(t)
	there.SignIn(who.Username, who.Password).RedirectsTo(t, "/sign-in/code")
	log.next(fields{"event": "sign_in_password_accepted", "factor": "password", "username": "asha"})
	there.Post("/sign-in/code", url.Values{"code": {"000000"}})
	log.next(fields{"event": "sign_in_failed", "reason": "wrong code", "factor": "totp", "username": "asha"})
	code := e2e.TOTPCode(t, key, w.Now())
	there.Post("/sign-in/code", url.Values{"code": {code}}).RedirectsTo(t, "/")
	log.next(fields{"event": "signed_in", "factor": "password, totp", "username": "asha"})
	third := w.Browser(t)
	third.SignIn(who.Username, who.Password).RedirectsTo(t, "/sign-in/code")
	log.next(fields{"event": "sign_in_password_accepted"})
	third.Post("/sign-in/code", url.Values{"code": {recovery}}).RedirectsTo(t, "/")
	log.next(fields{"event": "signed_in", "factor": "password, recovery code"})
	log.next(fields{"event": "recovery_code_used", "codes_left": float64(9), "username": "asha"})

	// Step-up.
	w.Advance(6 * time.Minute)
	there.Post("/step-up", url.Values{"password": {"not a password 3"}, "code": {e2e.TOTPCode(t, key, w.Now())}})
	log.next(fields{"event": "step_up_failed", "reason": "wrong password", "username": "asha"})
	there.Post("/step-up", url.Values{"password": {who.Password}, "code": {e2e.TOTPCode(t, key, w.Now())}})
	log.next(fields{"event": "step_up_passed", "factor": "password, totp", "username": "asha"})
	there.Post("/account/second-factor/remove", url.Values{"password": {who.Password}}).Shows(t, http.StatusUnprocessableEntity)
	log.next(fields{"event": "second_factor_change_failed", "reason": "wrong code", "username": "asha"})
	w.Advance(time.Minute)
	there.Post("/account/second-factor/remove", url.Values{"password": {who.Password}, "code": {e2e.TOTPCode(t, key, w.Now())}}).RedirectsTo(t, "/account/")
	log.next(fields{"event": "second_factor_removed", "username": "asha"})

	// A password change, and the login's sessions.
	change := func(old, new string) {
		there.Post("/account/password", url.Values{"password": {old}, "new_password": {new}, "repeated_password": {new}})
	}
	change("not a password 4", "a kite over Kochi")
	log.next(fields{"event": "password_change_failed", "reason": "wrong password"})
	change(who.Password, "a kite over Kochi")
	log.next(fields{"event": "password_changed", "outcome": "done", "username": "asha"})
	other := w.Browser(t)
	other.SignIn(who.Username, "a kite over Kochi").RedirectsTo(t, "/")
	open, _ := log.next(fields{"event": "signed_in"})["session"].(string)
	there.Post("/account/sessions/"+open+"/end", nil).RedirectsTo(t, "/account/")
	log.next(fields{"event": "session_ended", "subject": "session " + open, "actor": "web:asha"})
	there.Post("/account/sessions/0123456789abcdef/end", nil)
	log.none("ending an unknown session")
	there.Post("/sign-out", nil)
	log.next(fields{"event": "signed_out", "username": "asha"})

	// Disabled, and throttled.
	people, err := w.Node.Store.LoginNamed(t.Context(), "asha")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	if _, err := w.Admin.ChangeLogin(t.Context(), people.ID, admin.LoginChange{Disabled: &yes}); err != nil {
		t.Fatal(err)
	}
	log.next(fields{"event": "login_disabled", "outcome": "done"})
	b.SignIn("asha", "a kite over Kochi")
	log.next(fields{"event": "sign_in_failed", "reason": "disabled", "username": "asha"})
	for range 10 {
		w.Browser(t).SignIn("asha", "not a password 5")
	}
	log.skip()
	w.Browser(t).SignIn("asha", "not a password 5").Shows(t, http.StatusTooManyRequests)
	log.next(fields{"event": "sign_in_failed", "reason": "throttled", "username": nil})

	// The log has no secrets.
	written, err := json.Marshal(securityLines(t, w.Log.String()))
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{who.Password, "a kite over Kochi", "not a password", key, recovery, code, "nobody.here"}
	for _, at := range b.HTTP.Jar.Cookies(must(url.Parse(w.URL("/")))) {
		secrets = append(secrets, at.Value)
	}
	for _, secret := range secrets {
		if secret == "" || strings.Contains(string(written), secret) {
			t.Errorf("the security log has %q", secret)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestSecurityLog_StaffActions(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=100.00", "log.security_file=")
	log := &securityReader{t: t, read: w.Log.String}
	ctx, lco := t.Context(), w.Demo.LCOID
	log.skip()
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	key, err := w.Admin.IssueKey(ctx, lco, access.AllPermissions)
	do("issue", err)
	log.next(fields{"event": "key_issued", "outcome": "done", "operator": float64(lco), "ip": nil})
	do("permit", w.Admin.PermitKey(ctx, key.ID, 1))
	log.next(fields{"event": "key_permissions_changed"})
	rotated, err := w.Admin.RotateKey(ctx, key.ID, time.Hour)
	do("rotate", err)
	log.next(fields{"event": "key_rotated"}) // the old key,
	log.next(fields{"event": "key_rotated"}) // and the new one
	do("revoke", w.Admin.RevokeKey(ctx, rotated.ID))
	log.next(fields{"event": "key_revoked"})

	person, password, err := w.Admin.CreateLogin(ctx, admin.NewLogin{Username: "ravi", Name: "Ravi", Role: login.Viewer})
	do("create", err)
	log.next(fields{"event": "login_created", "change.role.to": "viewer"})
	finance, off, on := login.Finance, true, false
	for _, step := range []struct {
		change admin.LoginChange
		want   fields
	}{
		{admin.LoginChange{Role: &finance}, fields{"event": "login_role_changed", "change.role.from": "viewer", "change.role.to": "finance"}},
		{admin.LoginChange{Disabled: &off}, fields{"event": "login_disabled"}},
		{admin.LoginChange{Disabled: &on}, fields{"event": "login_enabled"}},
		{admin.LoginChange{Name: new("Ravi K")}, fields{"event": "login_changed"}},
	} {
		_, err := w.Admin.ChangeLogin(ctx, person.ID, step.change)
		do("change", err)
		log.next(step.want)
	}
	_, reset, err := w.Admin.ResetPassword(ctx, person.ID)
	do("reset", err)
	log.next(fields{"event": "password_reset"})
	factor := w.NewLogin(t, "factor", login.Viewer, 0)
	w.SignIn(t, factor).EnrolTOTP()
	enrolled, err := w.Node.Store.LoginNamed(ctx, "factor")
	do("find", err)
	log.skip()
	_, err = w.Admin.ResetTOTP(ctx, enrolled.ID)
	do("reset", err)
	log.next(fields{"event": "second_factor_reset", "change.totp.to": "false"})

	inactive, active, blocked := subscription.OperatorInactive, subscription.OperatorActive, subscription.APIBlocked
	other, err := w.Admin.CreateOperator(ctx, "Other", admin.OperatorChange{})
	do("create", err)
	log.next(fields{"event": "operator_created"})
	for _, step := range []struct {
		change admin.OperatorChange
		want   fields
	}{
		{admin.OperatorChange{Status: &inactive}, fields{"event": "operator_suspended", "change.status.from": "active", "change.status.to": "inactive"}},
		{admin.OperatorChange{Status: &active}, fields{"event": "operator_reactivated"}},
		{admin.OperatorChange{API: &blocked}, fields{"event": "operator_api_changed", "change.api.to": "blocked"}},
		{admin.OperatorChange{RateLimit: new(77)}, fields{"event": "operator_changed", "change.rate_limit.to": "77"}},
	} {
		_, err := w.Admin.ChangeOperator(ctx, other.ID, step.change)
		do("change", err)
		log.next(step.want)
	}
	do("delete", w.Admin.DeleteOperator(ctx, other.ID))
	log.next(fields{"event": "operator_deleted"})
	_, err = w.Admin.UndeleteOperator(ctx, other.ID)
	do("undelete", err)
	log.next(fields{"event": "operator_undeleted"})
	// A refused change is no event.
	if err := w.Admin.RevokeKey(ctx, 4711); err == nil {
		t.Error("an unknown key was revoked")
	}
	log.none("a refusal")

	// Through pages: with login, address and session.
	maker, checker := w.SignIn(t, w.NewLogin(t, "maker", login.Finance, 0)), w.SignIn(t, w.NewLogin(t, "checker", login.Finance, 0))
	root := w.SignIn(t, w.NewLogin(t, "root", login.Administrator, 0))
	log.skip()
	root.Post(w.OperatorPage("/whitelist/add"), url.Values{"form": {"add"}, "address": {"203.0.113.7"}})
	added := log.next(fields{"event": "whitelist_added", "actor": "web:root", "username": "root", "role": "administrator", "ip": "127.0.0.1"})
	if added["session"] == nil || added["request_id"] == nil {
		t.Errorf("it lacks the session or the request: %v", added)
	}
	if _, err := w.Admin.DisallowAddress(ctx, lco, "203.0.113.7"); err != nil {
		t.Fatal(err)
	}
	log.next(fields{"event": "whitelist_removed"})
	wallet := w.OperatorPage("/wallet")
	propose := func(reference string) {
		maker.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"100.01"}, "reference": {reference}}).RedirectsTo(t, wallet)
		log.next(fields{"event": "proposal_made", "change.kind.to": "topup", "change.amount.to": "100.01", "actor": "web:maker"})
	}
	propose("R-1")
	maker.Post("/console/approvals/1/approve", nil)
	log.next(fields{"event": "approval_refused", "outcome": "refused", "subject": "proposal 1", "username": "maker", "reason": "proposal … is your own: somebody else has to approve it"})
	checker.Post("/console/approvals/1/approve", nil).RedirectsTo(t, "/console/approvals")
	log.next(fields{"event": "wallet_topped_up", "actor": "web:checker"})
	log.next(fields{"event": "proposal_approved", "actor": "web:checker"})
	propose("R-2")
	checker.Post("/console/approvals/2/decline", url.Values{"reason": {"no such payment"}})
	log.next(fields{"event": "proposal_declined"})
	propose("R-3")
	maker.Post("/console/approvals/3/withdraw", url.Values{"reason": {"typed wrongly"}})
	log.next(fields{"event": "proposal_withdrawn"})

	_, err = w.Admin.StartMaintenance(ctx, "drill")
	do("maintenance on", err)
	log.next(fields{"event": "maintenance_on"})
	do("maintenance off", w.Admin.EndMaintenance(ctx, false, ""))
	log.next(fields{"event": "maintenance_off"})

	// Refused by access rules.
	maker.Post(w.OperatorPage("/keys"), nil).Shows(t, http.StatusForbidden)
	log.next(fields{"event": "access_refused", "outcome": "refused", "reason": "role", "username": "maker", "role": "finance"})
	foreign := maker.Form(wallet+"/top-up", url.Values{})
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	maker.Send(foreign).Shows(t, http.StatusForbidden)
	log.next(fields{"event": "cross_site_refused", "outcome": "refused", "username": "maker"})

	written := w.Log.String()
	for _, secret := range []string{key.Key, key.Secret.Reveal(), rotated.Key, rotated.Secret.Reveal(), password, reset} {
		if secret == "" || strings.Contains(written, secret) {
			t.Errorf("the log has a secret, %.8s…", secret)
		}
	}
	counted := httpGet(t, w, "/metrics")
	for _, want := range []string{
		`coax_security_events_total{event="key_issued",outcome="done"} 1`, `coax_security_events_total{event="access_refused",outcome="refused"} 1`,
		`coax_security_log_errors_total 0`,
	} {
		if !strings.Contains(counted, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// An address that becomes throttled is one event, however many calls follow.
func TestSecurityLog_APIThrottled(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "limits.failed_auth_per_minute=3", "log.security_file=")
	me := w.DemoCaller()
	me.Key = "cxk_" + strings.Repeat("0", 32)
	log := &securityReader{t: t, read: w.Log.String}
	log.skip()
	for range 3 {
		w.Expect("an unknown key", e2e.Call{As: me, Path: e2e.Balance}, fault.InvalidAPIKey)
	}
	log.next(fields{"event": "api_throttled", "outcome": "refused", "ip": "127.0.0.1"})
	for range 3 {
		w.Expect("throttled", e2e.Call{As: me, Path: e2e.Balance}, fault.TooManyFailedAttempts)
	}
	log.none("further calls of a throttled address")
}

// With log.security_file the events are in that file and not in the ordinary log. The file
// has mode 0600 and is reopened on SIGHUP; a failed write fails no request.
func TestSecurityLog_File(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "security.log")
	w := e2e.NewEnv(t, "panel.staff_totp=false", "log.security_file="+path)
	read := func(path string) func() string {
		return func() string {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	log := &securityReader{t: t, read: read(path)}
	who := w.NewLogin(t, "asha", login.Viewer, 0)
	log.skip()
	w.SignIn(t, who)
	log.next(fields{"event": "signed_in", "username": "asha"})
	if ordinary := securityLines(t, w.Log.String()); len(ordinary) != 0 {
		t.Errorf("the ordinary log has %v", ordinary)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v; want 0600", info.Mode(), err)
	}

	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	w.SignIn(t, who)
	log.read = read(path + ".1")
	log.next(fields{"event": "signed_in"}) // until SIGHUP
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.WaitUntil("the file is opened again", func() bool { _, err := os.Stat(path); return err == nil })
	w.SignIn(t, who)
	log.none("the renamed file")
	fresh := &securityReader{t: t, read: read(path)}
	fresh.next(fields{"event": "signed_in"})

	// The file can no longer be written.
	if err := w.Node.Security.Close(); err != nil {
		t.Fatal(err)
	}
	w.SignIn(t, who)
	ordinary := &securityReader{t: t, read: w.Log.String}
	ordinary.next(fields{"event": "signed_in", "stream": "security", "username": "asha"})
	if text := w.Log.String(); !strings.Contains(text, "write the security log") {
		t.Errorf("the ordinary log does not say that the security log failed:\n%s", text)
	}
	if counted := httpGet(t, w, "/metrics"); !strings.Contains(counted, "coax_security_log_errors_total 1") {
		t.Error("the failed write is not counted")
	}
}

func httpGet(t *testing.T, w *e2e.Env, path string) string {
	t.Helper()
	response, err := http.Get("http://" + w.Node.InternalAddr.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/monitoring.md lists every event.
func TestSecurityLog_EventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## The security log")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, event := range telemetry.SecurityEvents {
		if !strings.Contains(section, "`"+event+"`") {
			t.Errorf("docs/monitoring.md does not have the event %s", event)
		}
	}
}
