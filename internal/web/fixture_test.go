package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/internal/telemetry"
	"github.com/coaxhq/coax/internal/web"
)

// testSite is a site with a few routes for tests, on a real store.
type testSite struct {
	t      *testing.T
	server *httptest.Server
	client *http.Client
	logged *logBuffer
	time   atomic.Int64
	paid   atomic.Int64 // number of completed POSTs to /console/pay
}

// logBuffer is a log that a server writes and a test reads.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// until returns the log once it contains a text: a line is written after the response.
func (j *logBuffer) until(t *testing.T, want string) string {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		j.mu.Lock()
		text := j.text.String()
		j.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		if time.Now().After(end) {
			t.Fatalf("the log never mentions %s:\n%s", want, text)
		}
		<-time.After(time.Millisecond)
	}
}

const password = "monsoon ferry lamp"

var testPages = fstest.MapFS{
	"pages/form.html": {Data: []byte(`{{define "title"}}Form{{end}}{{define "main"}}<h1>Pay</h1><p>{{.Data.Who}}</p>
<form method="post" action="/console/pay"><input name="amount" value="{{.Data.Amount}}" aria-label="Amount"></form>{{template "part" .}}{{end}}
{{define "part"}}<p>part of {{.Data.Who}}</p>{{end}}`)},
	"pages/broken.html": {Data: []byte(`{{define "title"}}Broken{{end}}{{define "main"}}<p>half a page</p>{{.Data.Nothing}}{{end}}`)},
}

type formPage struct{ Who, Amount string }

func newHouse(t *testing.T) *testSite {
	t.Helper()
	h := &testSite{t: t, logged: &logBuffer{}}
	h.time.Store(time.Now().UnixMilli())
	store := sqlitetest.New(t)
	key, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	vault, err := access.OpenVault(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := admin.NewService(store, vault, "test", h.now).CreateLogin(t.Context(), admin.NewLogin{
		Username: "asha", Name: "Asha", Role: login.Finance, Password: password,
	}); err != nil {
		t.Fatal(err)
	}
	pages, err := web.ReadPages(testPages)
	if err != nil {
		t.Fatal(err)
	}
	all := web.Staff(web.StaffRoles...)
	site, err := web.New(web.Config{
		Login: login.New(store, vault, login.Config{Now: h.now}), Now: h.now, Pages: pages, Operators: store,
		Log: telemetry.NewLogger(h.logged, slog.LevelInfo, "text"),
		Routes: []web.Route{
			{Method: "GET", Path: "/console/", Area: web.Console, Allow: all, Menu: "Home", Handle: h.form},
			{Method: "GET", Path: "/console/pay", Area: web.Console, Allow: all, Handle: h.form},
			{Method: "POST", Path: "/console/pay", Area: web.Console, Allow: all, StepUp: true, Handle: h.pay},
			{Method: "POST", Path: "/console/widen", Area: web.Console, Allow: all, Form: "/console/pay", Handle: h.widen},
			{Method: "POST", Path: "/console/upload", Form: "/console/pay", Area: web.Console, Allow: all, Upload: 1 << 20, Handle: h.upload},
			{Method: "GET", Path: "/console/broken", Area: web.Console, Allow: all, Handle: func(v *web.Visit) error { return v.Show("broken", struct{}{}) }},
			{Method: "GET", Path: "/console/panic", Area: web.Console, Allow: all, Handle: func(*web.Visit) error { panic("a bug of cxs_" + strings.Repeat("0", 64)) }},
			{Method: "GET", Path: "/console/fails", Area: web.Console, Allow: all, Handle: func(*web.Visit) error { return errors.New("the disk is on fire") }},
			{Method: "GET", Path: "/console/file", Area: web.Console, Allow: all, Handle: func(v *web.Visit) error {
				v.Download("all of it.csv", "text/csv")
				return errors.New("the disk is on fire")
			}},
			{Method: "GET", Path: "/console/others/{id}", Area: web.Console, Allow: all, Handle: func(*web.Visit) error { return web.NotFound() }},
			{Method: "GET", Path: "/console/only-administrators", Area: web.Console, Allow: web.Staff(login.Administrator), Menu: "Only administrators", Handle: h.form},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.server = httptest.NewTLSServer(site)
	t.Cleanup(h.server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	h.client = h.server.Client()
	h.client.Jar = jar
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return h
}

func (h *testSite) now() time.Time { return time.UnixMilli(h.time.Load()).UTC() }

func (h *testSite) form(v *web.Visit) error {
	data := formPage{v.Session.Person.Name, v.FormValue("amount", "0.00")}
	if v.ByHTMX() {
		return v.ShowPart("form", "part", data)
	}
	return v.Show("form", data)
}

func (h *testSite) pay(v *web.Visit) error {
	h.paid.Add(1)
	return v.Redirect("/console/pay", v.Success("paid %s", v.Field("amount")))
}

// widen needs a step-up if its form says so.
func (h *testSite) widen(v *web.Visit) error {
	if v.Field("widen") == "yes" && !v.Session.Fresh(v.Now) {
		return fmt.Errorf("change it: %w", admin.ErrStepUp)
	}
	return h.pay(v)
}

func (h *testSite) upload(v *web.Visit) error {
	file, _, err := v.R.FormFile("file")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	v.Download("what you sent.txt", "text/plain")
	_, err = v.W.Write(text)
	return err
}

func (h *testSite) do(request *http.Request) (*http.Response, string) {
	h.t.Helper()
	response, err := h.client.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return response, string(body)
}

func (h *testSite) request(method, path, contentType string, body io.Reader) *http.Request {
	h.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, h.server.URL+path, body)
	if err != nil {
		h.t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return request
}

func (h *testSite) get(path string) (*http.Response, string) {
	h.t.Helper()
	return h.do(h.request("GET", path, "", nil))
}

func (h *testSite) post(path string, form url.Values) (*http.Response, string) {
	h.t.Helper()
	return h.do(h.request("POST", path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode())))
}

func (h *testSite) signIn() {
	h.t.Helper()
	if response, body := h.post("/sign-in", url.Values{"username": {"asha"}, "password": {password}}); response.StatusCode != http.StatusSeeOther {
		h.t.Fatalf("signing in: %d\n%s", response.StatusCode, body)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
