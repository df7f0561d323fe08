package look

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func fetch(t *testing.T, method, path, encoding string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if encoding != "" {
		r.Header.Set("Accept-Encoding", encoding)
	}
	w := httptest.NewRecorder()
	Static().ServeHTTP(w, r)
	return w.Result()
}

func TestStatic_HashedPathsAreImmutable(t *testing.T) {
	for name, want := range map[string]string{
		"style.css":   "--accent:",
		"htmx.min.js": "htmx",
		"coax.js":     "data-theme-switch",
		"favicon.svg": "<svg",
	} {
		for _, encoding := range []string{"", "br, gzip"} {
			got := fetch(t, http.MethodGet, Asset(name), encoding)
			if got.StatusCode != http.StatusOK || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %d, %v", name, got.StatusCode, got.Header)
			}
			var body io.Reader = got.Body
			if encoding != "" {
				if got.Header.Get("Content-Encoding") != "gzip" {
					t.Errorf("%s is not packed for a browser that could unpack it", name)
				}
				unpacked, err := gzip.NewReader(got.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = unpacked
			}
			text, err := io.ReadAll(body)
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s does not hold %q, %v", name, want, err)
			}
		}
	}
}

func TestStatic_ServesOnlyAssets(t *testing.T) {
	for path, want := range map[string]int{
		"/static/":                     http.StatusNotFound,
		"/static/style.css":            http.StatusNotFound, // without its hash it could not be cached
		"/static/htmx.LICENSE":         http.StatusNotFound,
		"/static/../look.go":           http.StatusNotFound,
		"/static/style.0123456789.css": http.StatusNotFound,
	} {
		if got := fetch(t, http.MethodGet, path, ""); got.StatusCode != want {
			t.Errorf("%s: %d; want %d", path, got.StatusCode, want)
		}
	}
	if got := fetch(t, http.MethodPost, Asset("coax.js"), ""); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a script was posted to: %d", got.StatusCode)
	}
	if got := fetch(t, http.MethodGet, Asset("coax.js"), "gzip;q=0"); got.Header.Get("Content-Encoding") != "" {
		t.Error("packed for a browser that said it cannot unpack")
	}
}

// The copy of Redoc is the published file that redoc.LICENSE names. It is served with two
// changes.
func TestStatic_Redoc(t *testing.T) {
	text, err := assetFiles.ReadFile("static/redoc.standalone.js")
	if err != nil {
		t.Fatal(err)
	}
	licence, err := os.ReadFile("static/redoc.LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("SHA-256: %x\n", sha256.Sum256(text)); !strings.Contains(string(licence), sum) {
		t.Errorf("redoc.LICENSE does not have %s", sum)
	}
	served, err := io.ReadAll(fetch(t, http.MethodGet, Asset("redoc.standalone.js"), "").Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{`src:"data:,"`, "n.nc||document.currentScript.nonce"} {
		if strings.Count(string(served), change) != 1 || strings.Contains(string(text), change) {
			t.Errorf("Redoc is served without the change to %s", change)
		}
	}
}

// The stylesheet is joined from parts; an unclosed rule in one must not swallow the next.
func TestStylesheet_PartsAreComplete(t *testing.T) {
	files, err := assetFiles.ReadDir("style")
	if err != nil || len(files) < 2 {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		text, err := assetFiles.ReadFile("style/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		css := string(text)
		if opened, closed := strings.Count(css, "{"), strings.Count(css, "}"); opened != closed {
			t.Errorf("%s opens %d braces and closes %d", f.Name(), opened, closed)
		}
		if strings.Contains(css, "@import") || strings.Contains(css, "url(") {
			t.Errorf("%s has a browser fetch something more", f.Name())
		}
	}
}
