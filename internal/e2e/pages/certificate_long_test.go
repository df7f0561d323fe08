//go:build long

package pages

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// The health page says that a replaced certificate cannot be read, until it can.
func TestHealthPage_BrokenCertificateFile(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnvAt(t, time.Now(), "panel.staff_totp=false")
	b := w.SignIn(t, w.Demo.Admin)
	file := filepath.Join(w.Folder, "tls.pem")
	good := e2e.ReadFile(t, file)
	const text = "It could not be taken: the TLS certificate cannot be read"
	shows := func() bool { return strings.Contains(b.Get("/console/health").Body, text) }
	e2e.WriteFile(t, file, "garbage")
	w.WaitUntil("the page shows the problem", shows)
	b.Get("/console/health").Shows(t, http.StatusOK, "Action needed.", "A newer TLS certificate", "Valid")
	e2e.WriteFile(t, file, good)
	w.WaitUntil("the page shows no problem", func() bool { return !shows() })
	b.Get("/console/health").Shows(t, http.StatusOK, "Everything is working.")
}
