package web_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// An internal error is logged; the visitor sees only the request id, by which it can be
// found.
func TestSite_FailureShowsRequestID(t *testing.T) {
	h := newHouse(t)
	h.signIn()
	for path, cause := range map[string]string{
		"/console/panic": "panic: a bug", "/console/fails": "the disk is on fire", "/console/broken": "fill page",
	} {
		response, body := h.get(path)
		id := response.Header.Get("X-Request-Id")
		if response.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "Something went wrong on our side.") || !strings.Contains(body, id) {
			t.Errorf("%s: %d\n%s", path, response.StatusCode, body)
		}
		if strings.Contains(body, "bug") || strings.Contains(body, "disk") || strings.Contains(body, "half a page") {
			t.Errorf("%s: the page tells what happened inside:\n%s", path, body)
		}
		log := h.logged.until(t, id)
		if !strings.Contains(log, cause) || strings.Contains(log, "0000000000000000") {
			t.Errorf("%s: the log does not tell it, or tells a secret:\n%s", path, log)
		}
	}
	if response, _ := h.get("/console/"); response.StatusCode != http.StatusOK {
		t.Errorf("afterwards the site answers %d", response.StatusCode)
	}
}

// An error instead of a download is shown as a page, not saved as the file.
func TestSite_ErrorIsNotADownload(t *testing.T) {
	h := newHouse(t)
	h.signIn()
	response, body := h.get("/console/file")
	if response.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "Something went wrong on our side.") {
		t.Errorf("%d\n%s", response.StatusCode, body)
	}
	if got := response.Header.Get("Content-Disposition"); got != "" || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the page is sent as %q, %q", response.Header.Get("Content-Type"), got)
	}
}

func TestSite_UnknownPathOrMethod(t *testing.T) {
	h := newHouse(t)
	h.signIn()
	for _, tt := range []struct {
		method, path string
		status       int
		allow, says  string
	}{
		{"GET", "/console/nothing", http.StatusNotFound, "", "There is no such page."},
		{"GET", "/console/others/7", http.StatusNotFound, "", "There is no such page."},
		{"POST", "/console/", http.StatusMethodNotAllowed, "GET", "does not accept that kind of request"},
		{"PUT", "/console/pay", http.StatusMethodNotAllowed, "GET, POST", "does not accept that kind of request"},
		{"POST", "/static/style.css", http.StatusMethodNotAllowed, "GET", ""},
		{"GET", "/static/style.css", http.StatusNotFound, "", ""},
		{"GET", "/console/only-administrators", http.StatusForbidden, "", "You do not have permission to view this page."},
		{"GET", "/console", http.StatusSeeOther, "", ""},
		{"HEAD", "/console/", http.StatusOK, "", ""},
	} {
		response, body := h.do(h.request(tt.method, tt.path, "", nil))
		if response.StatusCode != tt.status || response.Header.Get("Allow") != tt.allow || !strings.Contains(body, tt.says) {
			t.Errorf("%s %s: %d, allow %q; want %d, %q and %q\n%s", tt.method, tt.path, response.StatusCode, response.Header.Get("Allow"), tt.status, tt.allow, tt.says, body)
		}
	}
	// The navigation has no pages that the visitor may not open.
	if _, body := h.get("/console/"); strings.Contains(body, "Only administrators") || !strings.Contains(body, `href="/console/"`) {
		t.Errorf("the navigation is not the visitor's:\n%s", body)
	}
}

func TestForm_Limits(t *testing.T) {
	h := newHouse(t)
	h.signIn()
	upload := func(size int) (*http.Response, string) {
		var body bytes.Buffer
		parts := multipart.NewWriter(&body)
		file, err := parts.CreateFormFile("file", "x.csv")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = file.Write(bytes.Repeat([]byte("x"), size))
		_ = parts.Close()
		return h.do(h.request("POST", "/console/upload", parts.FormDataContentType(), &body))
	}
	if response, _ := h.post("/console/pay", url.Values{"amount": {strings.Repeat("9", 70_000)}}); response.StatusCode != http.StatusRequestEntityTooLarge || h.paid.Load() != 0 {
		t.Errorf("70,000 bytes in a form: %d, done %d times", response.StatusCode, h.paid.Load())
	}
	if response, body := upload(900_000); response.StatusCode != http.StatusOK || len(body) != 900_000 ||
		response.Header.Get("Content-Disposition") != `attachment; filename="what-you-sent.txt"` {
		t.Errorf("an upload within its limit: %d, %d bytes back, %q", response.StatusCode, len(body), response.Header.Get("Content-Disposition"))
	}
	if response, _ := upload(1_100_000); response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("an upload beyond its limit: %d", response.StatusCode)
	}
	for _, kind := range []string{"application/json", "text/plain", "multipart/form-data; boundary=x"} {
		response, _ := h.do(h.request("POST", "/console/pay", kind, strings.NewReader(`{"amount":"1"}`)))
		if response.StatusCode != http.StatusUnsupportedMediaType || h.paid.Load() != 0 {
			t.Errorf("a form as %s: %d, done %d times", kind, response.StatusCode, h.paid.Load())
		}
	}
}

// A form that moves money needs a step-up. The posted form is not carried out; it is shown
// again filled in, and is carried out once when it is posted again.
func TestStepUp_PostIsShownAgainNotRepeated(t *testing.T) {
	h := newHouse(t)
	h.signIn()
	h.time.Add((6 * time.Minute).Milliseconds())
	response, body := h.post("/console/pay", url.Values{"amount": {"12.50"}})
	if response.StatusCode != http.StatusForbidden || !strings.Contains(body, `name="form.amount" value="12.50"`) || h.paid.Load() != 0 {
		t.Fatalf("a stale post: %d, done %d times\n%s", response.StatusCode, h.paid.Load(), body)
	}
	before := h.client.Jar.Cookies(must(url.Parse(h.server.URL)))
	response, body = h.post("/step-up", url.Values{"password": {password}, "to": {"/console/pay"}, "form.amount": {"12.50"}})
	if response.StatusCode != http.StatusOK || !strings.Contains(body, `action="/console/pay"`) || !strings.Contains(body, `name="amount" value="12.50"`) || h.paid.Load() != 0 {
		t.Fatalf("after the step-up: %d, done %d times\n%s", response.StatusCode, h.paid.Load(), body)
	}
	if after := h.client.Jar.Cookies(must(url.Parse(h.server.URL))); before[0].Value == after[0].Value {
		t.Error("the session's token is the same after the step-up")
	}
	h.post("/console/pay", url.Values{"amount": {"12.50"}})
	if _, body := h.get("/console/pay"); h.paid.Load() != 1 || !strings.Contains(body, "paid 12.50") {
		t.Errorf("in the end it was done %d times\n%s", h.paid.Load(), body)
	}
	// The step-up does not open a page that the visitor may not open.
	response, _ = h.post("/step-up", url.Values{"password": {password}, "to": {"/console/only-administrators"}, "form.x": {"1"}})
	if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/" {
		t.Errorf("a step-up to a page of others: %d to %q", response.StatusCode, response.Header.Get("Location"))
	}
}

// If the form decides whether a step-up is needed, the action returns ErrStepUp: nothing is
// done, and the form is shown again filled in, with a notice.
func TestStepUp_RequiredByAction(t *testing.T) {
	h := newHouse(t)
	h.signIn()
	h.time.Add((6 * time.Minute).Milliseconds())
	response, body := h.post("/console/widen", url.Values{"widen": {"yes"}, "amount": {"12.50"}})
	if response.StatusCode != http.StatusForbidden || !strings.Contains(body, `name="form.amount" value="12.50"`) ||
		!strings.Contains(body, `name="to" value="/console/pay"`) || h.paid.Load() != 0 {
		t.Fatalf("a stale form that widens: %d, done %d times\n%s", response.StatusCode, h.paid.Load(), body)
	}
	if response, _ := h.post("/console/widen", url.Values{"widen": {"no"}}); response.StatusCode != http.StatusSeeOther || h.paid.Load() != 1 {
		t.Errorf("a stale form that narrows: %d, done %d times", response.StatusCode, h.paid.Load())
	}
	response, body = h.post("/step-up", url.Values{"password": {password}, "to": {"/console/pay"}, "form.widen": {"yes"}, "form.amount": {"12.50"}})
	if response.StatusCode != http.StatusOK || !strings.Contains(body, `name="amount" value="12.50"`) || !strings.Contains(body, "Nothing has been done yet") || h.paid.Load() != 1 {
		t.Fatalf("after the step-up: %d, done %d times\n%s", response.StatusCode, h.paid.Load(), body)
	}
	if response, _ := h.post("/console/widen", url.Values{"widen": {"yes"}}); response.StatusCode != http.StatusSeeOther || h.paid.Load() != 2 {
		t.Errorf("a fresh form that widens: %d, done %d times", response.StatusCode, h.paid.Load())
	}
}

// htmx inserts a response into a part of the page, so it is redirected by a header, and
// gets parts instead of pages.
func TestSite_HTMXResponses(t *testing.T) {
	h := newHouse(t)
	ask := func(method, path string) (*http.Response, string) {
		request := h.request(method, path, "application/x-www-form-urlencoded", strings.NewReader(""))
		request.Header.Set("HX-Request", "true")
		return h.do(request)
	}
	if response, body := ask("GET", "/console/"); response.StatusCode != http.StatusNoContent || response.Header.Get("HX-Redirect") != "/sign-in?to=%2Fconsole%2F" || body != "" {
		t.Errorf("a stranger's script: %d to %q\n%s", response.StatusCode, response.Header.Get("HX-Redirect"), body)
	}
	h.signIn()
	if _, body := ask("GET", "/console/"); strings.TrimSpace(body) != "<p>part of Asha</p>" {
		t.Errorf("a script gets\n%s", body)
	}
	if response, body := ask("GET", "/console/fails"); response.StatusCode != http.StatusInternalServerError || strings.Contains(body, "<html") {
		t.Errorf("a script's failure: %d\n%s", response.StatusCode, body)
	}
	h.time.Add((6 * time.Minute).Milliseconds())
	if response, _ := ask("POST", "/console/pay"); response.Header.Get("HX-Redirect") != "/step-up?to=%2Fconsole%2Fpay" || h.paid.Load() != 0 {
		t.Errorf("a stale post by a script: %d to %q, done %d times", response.StatusCode, response.Header.Get("HX-Redirect"), h.paid.Load())
	}
}
