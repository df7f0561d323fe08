package pages

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// send sends a request without a session.
func sendAnonymous(t *testing.T, w *e2e.Env, method, path string, header http.Header) e2e.Page {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.URL(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	return w.Browser(t).Send(request)
}

func TestReference_Files(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t)
	identity := http.Header{"Accept-Encoding": {"identity"}}
	for path, kind := range map[string]string{
		"/openapi.yaml": "application/yaml", "/openapi.json": "application/json", "/docs/after-each-answer.svg": "image/svg+xml",
	} {
		got := sendAnonymous(t, w, http.MethodGet, path, identity).Shows(t, http.StatusOK)
		if got.Header.Get("Content-Type") != kind || got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: headers %v", path, got.Header)
		}
		if path == "/openapi.yaml" && got.Body != string(contract.OpenAPI) {
			t.Errorf("%s is not contract/openapi.yaml", path)
		}
		if path == "/openapi.json" && !json.Valid([]byte(got.Body)) {
			t.Errorf("%s is not JSON", path)
		}

		packed := sendAnonymous(t, w, http.MethodGet, path, http.Header{"Accept-Encoding": {"gzip"}})
		unpacked, err := gzip.NewReader(strings.NewReader(packed.Body))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(text, []byte(got.Body)) {
			t.Errorf("%s differs when compressed, %v", path, err)
		}

		if head := sendAnonymous(t, w, http.MethodHead, path, identity).Shows(t, http.StatusOK); head.Body != "" || head.Header.Get("Etag") != got.Header.Get("Etag") {
			t.Errorf("HEAD %s: headers %v, body %q", path, head.Header, head.Body)
		}
		for _, form := range []e2e.Page{got, packed} {
			tag := form.Header.Get("Etag")
			same := http.Header{"If-None-Match": {tag}, "Accept-Encoding": {"identity"}}
			if form.Header.Get("Content-Encoding") != "" {
				same.Set("Accept-Encoding", "gzip")
			}
			if again := sendAnonymous(t, w, http.MethodGet, path, same); again.Status != http.StatusNotModified || again.Body != "" || tag == "" {
				t.Errorf("%s with %s: status %d; want 304", path, tag, again.Status)
			}
		}
		sendAnonymous(t, w, http.MethodGet, path, http.Header{"If-None-Match": {`"other"`}}).Shows(t, http.StatusOK)
	}
}

func TestReference_PathsAndMethods(t *testing.T) {
	e2e.StoreIndependent(t)
	w := e2e.NewEnv(t)
	for _, path := range []string{
		"/docs", "/docs/guide", "/docs/what-happens-when", "/docs/sdk-behaviour", "/docs/after-each-answer.svg", "/openapi.yaml", "/openapi.json",
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			if got := sendAnonymous(t, w, method, path, nil); got.Status != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET" {
				t.Errorf("%s %s: status %d, Allow %q", method, path, got.Status, got.Header.Get("Allow"))
			}
		}
		if got := sendAnonymous(t, w, http.MethodHead, path, nil); got.Status != http.StatusOK || got.Body != "" {
			t.Errorf("HEAD %s: status %d, body %q", path, got.Status, got.Body)
		}
		// Over plain HTTP there is none of it.
		response, err := http.Get(strings.Replace(w.URL(path), "https://", "http://", 1))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), string(fault.HTTPSRequired)) {
			t.Errorf("GET %s over plain HTTP: status %d, %s, %v", path, response.StatusCode, body, err)
		}
	}
	sendAnonymous(t, w, http.MethodGet, "/docs/", nil).RedirectsTo(t, "/docs")
	sendAnonymous(t, w, http.MethodGet, "/docs/other", nil).Shows(t, http.StatusNotFound, "There is no such page.")
	for _, path := range []string{"/openapi.yml", "/openapi", "/docs2", "/api/v1/openapi.yaml"} {
		if response, err := w.HTTP.Get(w.URL(path)); err != nil {
			t.Error(err)
		} else {
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusNotFound || !strings.Contains(string(body), string(fault.NotFound)) {
				t.Errorf("GET %s: status %d, %s, %v", path, response.StatusCode, body, err)
			}
		}
	}

	first, second := sendAnonymous(t, w, http.MethodGet, "/docs", nil), sendAnonymous(t, w, http.MethodGet, "/docs", nil)
	if one := first.Header.Get("Content-Security-Policy"); one == second.Header.Get("Content-Security-Policy") {
		t.Errorf("two responses share the nonce of %s", one)
	}
}
