package pages

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/login"
)

var (
	shownOnce   = regexp.MustCompile(`class="copyable-value"`)
	linkToKey   = regexp.MustCompile(`href="(/console/operators/\d+/keys/\d+)"`)
	linkToLogin = regexp.MustCompile(`href="(/console/operators/\d+/logins/\d+)"`)
)

// Without JavaScript a form can be sent twice, by a second click or a reload. It is
// processed once, a secret is shown once, and the second answer links to the created object.
func TestForm_SentTwiceCreatesOnce(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	b := w.SignIn(t, w.Demo.Admin)
	done := func(second e2e.Page, link *regexp.Regexp) {
		t.Helper()
		second.Shows(t, http.StatusOK, "This was done already")
		if shownOnce.MatchString(second.Body) {
			t.Errorf("a secret is shown a second time:\n%s", second.Body)
		}
		at := link.FindStringSubmatch(second.Body)
		if at == nil {
			t.Fatalf("the page does not link to the created object:\n%s", second.Body)
		}
		b.Get(at[1]).Shows(t, http.StatusOK)
	}

	before := len(w.DemoKeys(t))
	issue := b.Get(w.OperatorPage("/keys")).HiddenFields()
	issue.Set("form", "issue")
	issue.Set("permission", "Get Plans")
	b.Post(w.OperatorPage("/keys"), issue).Shows(t, http.StatusOK, "This is shown once.")
	done(b.Post(w.OperatorPage("/keys"), issue), linkToKey)
	if keys := w.DemoKeys(t); len(keys) != before+1 {
		t.Errorf("there were %d keys and are %d; want one more", before, len(keys))
	}
	issue.Del("once")
	b.Post(w.OperatorPage("/keys"), issue).Shows(t, http.StatusUnprocessableEntity, "The form was incomplete.")

	rotate := url.Values{"form": {"rotate"}, "grace": {"2"}, "once": {b.Get(w.OperatorPage("/keys/1")).HiddenFields().Get("once")}}
	b.Post(w.OperatorPage("/keys/1/rotate"), rotate).Shows(t, http.StatusOK, "This is shown once.")
	done(b.Post(w.OperatorPage("/keys/1/rotate"), rotate), linkToKey)
	if keys := w.DemoKeys(t); len(keys) != before+2 {
		t.Errorf("a rotation that was sent twice left %d keys; want %d", len(keys), before+2)
	}

	create := b.Get(w.OperatorPage("/logins")).HiddenFields()
	create.Set("name", "Meera")
	create.Set("username", "meera")
	create.Set("role", "owner")
	b.Post(w.OperatorPage("/logins"), create).Shows(t, http.StatusOK, "This is shown once.")
	done(b.Post(w.OperatorPage("/logins"), create), linkToLogin)
	meera, err := w.Admin.LoginNamed(t.Context(), "meera")
	if err != nil {
		t.Fatal(err)
	}
	one := w.OperatorPage("/logins/") + strconv.FormatInt(meera.ID, 10)
	reset := url.Values{"form": {"reset-password"}, "once": {b.Get(one).HiddenFields().Get("once")}}
	b.Post(one+"/reset-password", reset).Shows(t, http.StatusOK, "This is shown once.")
	done(b.Post(one+"/reset-password", reset), linkToLogin)

	made := b.Get("/console/new-operator").HiddenFields()
	for name, value := range map[string]string{"name": "Twice Cable", "commission": "2.5", "rate_limit": "60", "low_balance": "500"} {
		made.Set(name, value)
	}
	first := b.Post("/console/new-operator", made)
	b.Post("/console/new-operator", made).RedirectsTo(t, first.Location)
	b.Get(first.Location).Shows(t, http.StatusOK, "It was not created twice.")
	operators, err := w.Admin.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	twice := 0
	for _, operator := range operators {
		if operator.Name == "Twice Cable" {
			twice++
		}
	}
	if twice != 1 {
		t.Errorf("there are %d operators of that name; want 1", twice)
	}

	plan := url.Values{"id": {"SPORTS-1"}, "name": {"Sports"}, "price": {"275.50"}, "months": {"1"}, "type": {"standard"}, "main": {"TV-BASIC"}}
	b.Post("/console/catalogue/new", plan).RedirectsTo(t, "/console/catalogue/plans/SPORTS-1")
	b.Post("/console/catalogue/new", plan).RedirectsTo(t, "/console/catalogue/plans/SPORTS-1")
	b.Get("/console/catalogue/plans/SPORTS-1").Shows(t, http.StatusOK, "The plan already has these values.")
	plan.Set("price", "280")
	b.Post("/console/catalogue/new", plan).Shows(t, http.StatusUnprocessableEntity, "There is a plan with that id already.")
	w.CheckAudit()
}

// Of concurrent submissions only the first is processed.
func TestForm_SentConcurrentlyCreatesOnce(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false")
	b := w.SignIn(t, w.Demo.Admin)
	before := len(w.DemoKeys(t))
	issue := b.Get(w.OperatorPage("/keys")).HiddenFields()
	issue.Set("form", "issue")
	issue.Set("permission", "Get Plans")
	var clicks sync.WaitGroup
	answers := make([]e2e.Page, 6)
	for i := range answers {
		clicks.Go(func() { answers[i] = b.Post(w.OperatorPage("/keys"), issue) })
	}
	clicks.Wait()
	secrets := 0
	for _, answer := range answers {
		if strings.Contains(answer.Body, "This is shown once.") {
			secrets++
			continue
		}
		answer.Shows(t, http.StatusOK, "This was done already")
	}
	if keys := w.DemoKeys(t); secrets != 1 || len(keys) != before+1 {
		t.Errorf("%d secrets were shown of %d new keys; want one of one", secrets, len(keys)-before)
	}
}

// Reloading the page must not replace a customer's new password again.
func TestForm_PasswordSentTwiceReplacesOnce(t *testing.T) {
	w := e2e.NewEnv(t)
	id := w.Activate(w.DemoCaller(), "9812345678", "BASIC-1")
	b := w.SignIn(t, w.Demo.Operator)
	at := "/panel/subscribers/" + id + "/password"
	form := b.Get(at).Shows(t, http.StatusOK).HiddenFields()
	b.Post(at, form).Shows(t, http.StatusOK, "The password was changed.", "copyable-value")
	if second := b.Post(at, form).Shows(t, http.StatusOK, "This form was already sent, and the password was replaced then."); shownOnce.MatchString(second.Body) {
		t.Error("another password is shown")
	}
	b.Post(at, nil).Shows(t, http.StatusUnprocessableEntity, "The form was incomplete.")
	entries, err := w.Admin.FindAuditEntries(t.Context(), admin.AuditQuery{Action: admin.CustomerPasswordReset, Limit: 10})
	if err != nil || len(entries.Entries) != 1 {
		t.Errorf("the password was replaced %d times, %v; want once", len(entries.Entries), err)
	}
}

func TestForm_BulkSentTwiceIsOneJob(t *testing.T) {
	w := e2e.NewEnv(t)
	id := w.Activate(w.DemoCaller(), "9812345678", "BASIC-1")
	b := w.SignIn(t, w.Demo.Operator)
	once := b.Get("/panel/bulk").Shows(t, http.StatusOK).HiddenFields().Get("once")
	list := url.Values{"within": {"15"}, "subscriber": {id}, "once": {once}}
	first := b.Post("/panel/bulk", list)
	b.Post("/panel/bulk", list).RedirectsTo(t, first.Location)
	list.Add("subscriber", "999999")
	if other := b.Post("/panel/bulk", list); other.Status != http.StatusSeeOther || other.Location == first.Location {
		t.Errorf("another list leads to %d %q; want a bulk renewal of its own", other.Status, other.Location)
	}
}

// The console's refusals are in the visitor's language, with amounts formatted as on pages.
func TestRefusal_InHindi(t *testing.T) {
	w := e2e.NewEnv(t, "panel.staff_totp=false", "approval.above=20000.00")
	b := w.SignIn(t, w.NewLogin(t, "asha", login.Administrator, 0))
	b.Post("/account/language", url.Values{"language": {"hi"}}).RedirectsTo(t, "/account/")
	b.Post(w.OperatorPage("/whitelist/add"), url.Values{"form": {"add"}, "address": {"10.0.0.0/8"}}).Shows(t, http.StatusUnprocessableEntity,
		"यह नहीं हो सका", "रेंज /24 से चौड़ी है")
	wallet := w.OperatorPage("/wallet")
	b.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"5.00"}, "reference": {"N-1"}}).RedirectsTo(t, wallet)
	b.Post(wallet+"/top-up", url.Values{"form": {"top-up"}, "step": {"confirm"}, "amount": {"6.00"}, "reference": {"N-1"}}).Shows(t, http.StatusUnprocessableEntity,
		"रेफ़रेंस N-1 पहले, N-1 के रूप में, ₹5.00 के लिए इस्तेमाल हो चुका है")
	b.Post(w.OperatorPage("/logins"), url.Values{
		"form": {"create"}, "name": {strings.Repeat("x", 101)}, "username": {"meera"}, "role": {"owner"}, "once": {"ABCDEFGH2345"},
	}).Shows(t, http.StatusUnprocessableEntity, "नाम: 101 अक्षर हैं; 1 से 100 दें।")
	b.Get("/console/audit-log").Shows(t, http.StatusOK, "वॉलेट में राशि जमा की गई")
}
