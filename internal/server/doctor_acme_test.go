package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/acmecert"
)

func TestDoctor_OrderedCertificate(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	healthy := newInstallation(t)
	healthy.set("server.acme_domains", "api.coax.invalid", "server.acme_directory", "https://127.0.0.1:1/directory")
	id := acmecert.CertificateID("https://127.0.0.1:1/directory", []string{"api.coax.invalid"})
	stored := func(version int, age time.Duration, failures int, problem string) func(*installation) {
		return func(p *installation) {
			from := time.Now().Add(-age)
			expires, renew := from.Add(90*day).UnixMilli(), from.Add(60*day).UnixMilli()
			if version == 0 {
				expires, renew = 0, 0
			}
			p.sql(fmt.Sprintf(`INSERT INTO acme_certificates (id, version, expires_at, renew_at, failures, problem, next_try_at) VALUES ('%s', %d, %d, %d, %d, '%s', %d)`,
				id, version, expires, renew, failures, problem, time.Now().Add(time.Hour).UnixMilli()))
		}
	}
	for _, test := range []struct {
		name   string
		change func(*installation)
		status Status
		texts  []string
	}{
		{"never ordered", func(*installation) {}, StatusWarning, []string{"there is none yet for api.coax.invalid", "start a node, which orders it from https://127.0.0.1:1/directory"}},
		{"valid", stored(1, day, 0, ""), StatusOK, []string{"for api.coax.invalid, valid until", "(89 days)", "renewed from"}},
		{"port 443 not reachable", stored(1, day, 0, ""), StatusWarning, []string{"port 443 of api.coax.invalid"}},
		{"first order failed", stored(0, 0, 2, "no route to the name"), StatusProblem, []string{"number 2 in a row: no route to the name", "a node tries again at", "systemctl reload coax"}},
		{"renewal failed", stored(1, 61*day, 1, "no route to the name"), StatusWarning, []string{"number 1 in a row: no route to the name"}},
		{"expired", stored(3, 91*day, 30, "no route to the name"), StatusProblem, []string{"has expired on", "clients refuse it"}},
		{"not renewed by any node", stored(1, 70*day, 0, ""), StatusWarning, []string{"was not renewed on", "see that a node runs"}},
		{"another name in panel.origin", func(p *installation) { p.set("panel.origin", "https://panel.coax.invalid") }, StatusProblem, []string{"not for panel.coax.invalid", "server.acme_domains"}},
		{"no CA", func(p *installation) { p.set("server.acme_ca_file", "none.pem") }, StatusProblem, []string{"server.acme_ca_file", "none.pem"}},
		{"no store", func(p *installation) { p.must(os.RemoveAll(p.path("data"))) }, StatusWarning, []string{"it is in the store, which cannot be read"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := healthy.copy(t)
			test.change(p)
			expect(t, p.diagnose(), "certificate", test.status, test.texts...)
		})
	}
}

func TestCheckConfig_ACME(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := EnsureCertificate(folder, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	const domains = "acme_domains = [\"api.example.com\"]\n"
	for _, test := range []struct {
		name, lines string
		// warning is what is warned of, problem what is refused; "" for nothing.
		warning, problem string
	}{
		{"on port 443", domains + "addr = \":443\"", "", ""},
		{"with everything", domains + "addr = \":443\"\nacme_email = \"ops@example.com\"\nacme_directory = \"https://acme.example/directory\"\nacme_ca_file = \"ca.pem\"", "", ""},
		{"on another port", domains, "the authority connects to port 443 of each name, and server.addr is 127.0.0.1:8443", ""},
		{"a certificate file", domains + "addr = \":443\"\ntls_cert = \"tls.pem\"", "", "server.tls_cert: the certificate cannot come from a file and from server.acme_domains"},
		{"a key file", domains + "addr = \":443\"\ntls_key = \"tls.key\"", "", "server.tls_key: the certificate cannot come from a file"},
		{"a CA file without a certificate", domains + "addr = \":443\"\nacme_ca_file = \"empty.pem\"", "", "there is no certificate in " + empty},
		{"an address alone", "acme_email = \"ops@example.com\"", "server.acme_domains is not set", ""},
		{"a directory alone", "acme_directory = \"https://acme.example/directory\"", "server.acme_domains is not set", ""},
		{"an empty list", "acme_domains = []\ntls_cert = \"tls.pem\"", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(folder, strings.ReplaceAll(test.name, " ", "_")+".toml")
			if err := os.WriteFile(file, []byte("[provider]\nurl = \"https://provider.example\"\n[server]\n"+test.lines+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			warned, refused := "", ""
			for _, f := range CheckConfig(Sources{File: file}) {
				switch {
				case f.Warning:
					warned += f.Text() + "\n"
				default:
					refused += f.Text() + "\n"
				}
			}
			for _, one := range []struct{ what, got, want string }{{"warnings", warned, test.warning}, {"problems", refused, test.problem}} {
				if (one.want == "") != (one.got == "") || !strings.Contains(one.got, one.want) {
					t.Errorf("%s: %q; want %q", one.what, one.got, one.want)
				}
			}
		})
	}
}
