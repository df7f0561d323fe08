package main

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
)

var (
	shownOnce   = regexp.MustCompile(`class="copyable-value"`)
	linkToKey   = regexp.MustCompile(`href="(/console/operators/\d+/keys/\d+)"`)
	linkToLogin = regexp.MustCompile(`href="(/console/operators/\d+/logins/\d+)"`)
)

// Without a script nothing stops a second click, and a page that was answered to a
// form can be loaded again. What the form is for is done once; a secret is shown once,
// and the second answer says where what was made stands.
func TestAFormThatIsSentTwiceMakesOneThing(t *testing.T) {
	w := newWorld(t, "panel.staff_totp=false")
	b := w.as(t, w.line.Admin)
	done := func(second page, link *regexp.Regexp) {
		t.Helper()
		second.shows(t, http.StatusOK, "This was done already")
		if shownOnce.MatchString(second.body) {
			t.Errorf("a secret is shown a second time:\n%s", second.body)
		}
		at := link.FindStringSubmatch(second.body)
		if at == nil {
			t.Fatalf("the page does not lead to what was made:\n%s", second.body)
		}
		b.get(at[1]).shows(t, http.StatusOK)
	}

	before := len(w.keysOf(t))
	issue := b.get(w.operatorPage("/keys")).hidden()
	issue.Set("form", "issue")
	issue.Set("permission", "Get Plans")
	b.post(w.operatorPage("/keys"), issue).shows(t, http.StatusOK, "This is shown once.")
	done(b.post(w.operatorPage("/keys"), issue), linkToKey)
	if keys := w.keysOf(t); len(keys) != before+1 {
		t.Errorf("there were %d keys and are %d; want one more", before, len(keys))
	}
	issue.Del("once")
	b.post(w.operatorPage("/keys"), issue).shows(t, http.StatusUnprocessableEntity, "The form was not complete.")

	rotate := url.Values{"form": {"rotate"}, "grace": {"2"}, "once": {b.get(w.operatorPage("/keys/1")).hidden().Get("once")}}
	b.post(w.operatorPage("/keys/1/rotate"), rotate).shows(t, http.StatusOK, "This is shown once.")
	done(b.post(w.operatorPage("/keys/1/rotate"), rotate), linkToKey)
	if keys := w.keysOf(t); len(keys) != before+2 {
		t.Errorf("a rotation that was sent twice left %d keys; want %d", len(keys), before+2)
	}

	create := b.get(w.operatorPage("/logins")).hidden()
	create.Set("name", "Meera")
	create.Set("username", "meera")
	b.post(w.operatorPage("/logins"), create).shows(t, http.StatusOK, "This is shown once.")
	done(b.post(w.operatorPage("/logins"), create), linkToLogin)
	meera, err := w.desk.LoginNamed(t.Context(), "meera")
	if err != nil {
		t.Fatal(err)
	}
	one := w.operatorPage("/logins/") + strconv.FormatInt(meera.ID, 10)
	reset := url.Values{"form": {"reset-password"}, "once": {b.get(one).hidden().Get("once")}}
	b.post(one+"/reset-password", reset).shows(t, http.StatusOK, "This is shown once.")
	done(b.post(one+"/reset-password", reset), linkToLogin)

	made := b.get("/console/new-operator").hidden()
	for name, value := range map[string]string{"name": "Twice Cable", "commission": "2.5", "rate_limit": "60", "low_balance": "500"} {
		made.Set(name, value)
	}
	first := b.post("/console/new-operator", made)
	b.post("/console/new-operator", made).sends(t, first.location)
	b.get(first.location).shows(t, http.StatusOK, "It was not made twice.")
	operators, err := w.desk.Operators(t.Context())
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
	b.post("/console/catalogue/new", plan).sends(t, "/console/catalogue/plans/SPORTS-1")
	b.post("/console/catalogue/new", plan).sends(t, "/console/catalogue/plans/SPORTS-1")
	b.get("/console/catalogue/plans/SPORTS-1").shows(t, http.StatusOK, "The plan is like that already.")
	plan.Set("price", "280")
	b.post("/console/catalogue/new", plan).shows(t, http.StatusUnprocessableEntity, "There is a plan with that id already.")
	w.audited()
}

// Of clicks that come at once, whichever is first is the one.
func TestFormsThatAreSentAtOnceMakeOneThing(t *testing.T) {
	w := newWorld(t, "panel.staff_totp=false")
	b := w.as(t, w.line.Admin)
	before := len(w.keysOf(t))
	issue := b.get(w.operatorPage("/keys")).hidden()
	issue.Set("form", "issue")
	issue.Set("permission", "Get Plans")
	var clicks sync.WaitGroup
	answers := make([]page, 6)
	for i := range answers {
		clicks.Go(func() { answers[i] = b.post(w.operatorPage("/keys"), issue) })
	}
	clicks.Wait()
	secrets := 0
	for _, answer := range answers {
		if strings.Contains(answer.body, "This is shown once.") {
			secrets++
			continue
		}
		answer.shows(t, http.StatusOK, "This was done already")
	}
	if keys := w.keysOf(t); secrets != 1 || len(keys) != before+1 {
		t.Errorf("%d secrets were shown of %d new keys; want one of one", secrets, len(keys)-before)
	}
}

// A customer's password that was passed on must not stop working because somebody
// loads the page again.
func TestAPasswordIsReplacedOnceBySendingTheFormTwice(t *testing.T) {
	w := newWorld(t)
	id := w.activated(w.demoCaller(), "9812345678", "BASIC-1")
	b := w.as(t, w.line.Operator)
	at := "/panel/subscribers/" + id + "/password"
	form := b.get(at).shows(t, http.StatusOK).hidden()
	b.post(at, form).shows(t, http.StatusOK, "The new password holds.", "copyable-value")
	if second := b.post(at, form).shows(t, http.StatusOK, "This form was sent before, and the password was replaced then."); shownOnce.MatchString(second.body) {
		t.Error("another password is shown")
	}
	b.post(at, nil).shows(t, http.StatusUnprocessableEntity, "The form was not complete.")
	acts, err := w.desk.FindActs(t.Context(), admin.ActQuery{Action: admin.CustomerPasswordReset, Most: 10})
	if err != nil || len(acts.Acts) != 1 {
		t.Errorf("the password was replaced %d times, %v; want once", len(acts.Acts), err)
	}
}

func TestAListThatIsSentTwiceIsOneBulkRenewal(t *testing.T) {
	w := newWorld(t)
	id := w.activated(w.demoCaller(), "9812345678", "BASIC-1")
	b := w.as(t, w.line.Operator)
	once := b.get("/panel/bulk").shows(t, http.StatusOK).hidden().Get("once")
	list := url.Values{"within": {"15"}, "subscriber": {id}, "once": {once}}
	first := b.post("/panel/bulk", list)
	b.post("/panel/bulk", list).sends(t, first.location)
	list.Add("subscriber", "999999")
	if other := b.post("/panel/bulk", list); other.status != http.StatusSeeOther || other.location == first.location {
		t.Errorf("another list leads to %d %q; want a bulk renewal of its own", other.status, other.location)
	}
}

// What the console refuses is said in the visitor's language, with the money as pages
// write it.
func TestARefusalIsSaidInHindi(t *testing.T) {
	w := newWorld(t, "panel.staff_totp=false", "approval.above=1000.00")
	b := w.as(t, w.person(t, "asha", login.Administrator, 0))
	b.post("/account/language", url.Values{"language": {"hi"}}).sends(t, "/account/")
	b.post(w.operatorPage("/whitelist/add"), url.Values{"form": {"add"}, "address": {"10.0.0.0/8"}}).shows(t, http.StatusUnprocessableEntity,
		"यह नहीं किया गया", "रेंज /24 से चौड़ी है")
	wallet := w.operatorPage("/wallet")
	b.post(wallet+"/top-up", url.Values{"form": {"top-up"}, "amount": {"5.00"}, "reference": {"N-1"}}).sends(t, wallet)
	b.post(wallet+"/top-up", url.Values{"form": {"top-up"}, "amount": {"6.00"}, "reference": {"N-1"}}).shows(t, http.StatusUnprocessableEntity,
		"संदर्भ N-1 पहले ₹5.00 के लिए इस्तेमाल हो चुका है")
	b.post(w.operatorPage("/logins"), url.Values{
		"form": {"create"}, "name": {strings.Repeat("x", 101)}, "username": {"meera"}, "once": {"ABCDEFGH2345"},
	}).shows(t, http.StatusUnprocessableEntity, "नाम: 101 अक्षर हैं; 1 से 100 दें।")
	b.get("/console/audit-log").shows(t, http.StatusOK, "वॉलेट में राशि जमा की गई")
}

// keysOf are the keys of the demo's operator.
func (w *world) keysOf(t *testing.T) []access.Credential {
	t.Helper()
	keys, err := w.desk.Keys(t.Context(), w.line.LCOID)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
