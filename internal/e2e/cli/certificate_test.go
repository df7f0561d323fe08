package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
)

// An expired certificate and a world-readable key are logged at the start, and the metric
// follows a reload.
func TestServe_WarnsOfCertificateAndKey(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	now := time.Now()
	expired, renewed := now.Add(-48*time.Hour), now.AddDate(0, 6, 0)
	e2e.WriteCertificate(t, h.Folder, now.AddDate(-1, 0, 0), expired, 0o644)
	p := e2e.Start(t, append([]string{"serve", "--config", h.Config}, e2e.FreePorts...)...)
	e2e.CheckMentions(t, "the log", p.Err.String(), `"level":"ERROR","msg":"the TLS certificate has expired`, "tls.pem", "renew it",
		`"level":"WARN","msg":"every user of this machine can read the TLS key"`, `"mode":"0644"`, "chmod 600 ")

	var internal string
	for line := range strings.Lines(p.Err.String()) {
		var said struct {
			Msg          string `json:"msg"`
			InternalAddr string `json:"internal_addr"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
			internal = "http://" + said.InternalAddr + "/metrics"
		}
	}
	metric := func(want time.Time) {
		t.Helper()
		_, text := e2e.HTTPGet(t, internal)
		if line := fmt.Sprintf("coax_tls_certificate_expiry_timestamp_seconds %v\n", float64(want.Unix())); !strings.Contains(text, line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
	metric(expired)
	e2e.WriteCertificate(t, h.Folder, now.Add(-time.Hour), renewed, 0o600)
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if !p.Err.WaitFor("the certificate was read again", p.Ended) {
		t.Fatalf("after SIGHUP the log does not say that it was read:\n%s", p.Err)
	}
	metric(renewed)
	p.Terminate()
	if after := p.Err.String(); strings.Count(after, "has expired") != 1 || strings.Count(after, "can read the TLS key") != 1 {
		t.Errorf("a renewed certificate and a closed key are still told of:\n%s", after)
	}
}
