package pages

import (
	"net/http"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// The health page shows the expiry of the TLS certificate, and problems with it and its key.
func TestHealthPage_CertificateAndKey(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnvAt(t, time.Now(), "panel.staff_totp=false")
	b := w.SignIn(t, w.Demo.Admin)
	b.Get("/console/health").Shows(t, http.StatusOK, "Everything is working.", "TLS certificate valid until", "Valid", "days left")

	now := time.Now()
	e2e.WriteCertificate(t, w.Folder, now.AddDate(-1, 0, 0), now.Add(5*24*time.Hour), 0o644)
	w.Restart()
	b = w.SignIn(t, w.Demo.Admin)
	b.Get("/console/health").Shows(t, http.StatusOK, "Action needed.", "Expires soon", "5 days left",
		"Renew "+w.Node.Config.Server.TLSCert+" and reload the service.", "can read "+w.Node.Config.Server.TLSKey+" (mode 0644). Run chmod 600 on it.")

	tab := looktest.New(t)
	tabSignIn(w, tab, w.Demo.Admin)
	tab.Sees("Overview")
	tab.Press("Health")
	tab.Sees("Expires soon")
	tab.Check("console-health-certificate")
}
