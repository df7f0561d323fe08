//go:build long

package packages

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/alerting"
)

// pages is where the package has its documentation.
const pages = "/usr/share/doc/coax/"

// watch starts a Prometheus beside the service, with the configuration and the alerts of the
// package; times are shortened.
func (m *machine) watch() *alerting.Prometheus {
	m.t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		lacks(m.t, "prometheus")
	}
	folder := m.t.TempDir()
	shipped := e2e.ReadFile(m.t, filepath.Join(m.root, pages, "examples/prometheus.yml"))
	e2e.WriteFile(m.t, filepath.Join(folder, "prometheus.yml"), alerting.Config(m.t, shipped, "127.0.0.1:9443"))
	e2e.WriteFile(m.t, filepath.Join(folder, "alerts.yml"), alerting.InSeconds(e2e.ReadFile(m.t, filepath.Join(m.root, pages, "examples/alerts.yml"))))
	// The machine's network and nothing else of it.
	process := e2e.LaunchCommand(m.t, exec.Command("nsenter", "--target", m.pid, "--net", program, "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address=127.0.0.1:9090"))
	m.t.Cleanup(process.Kill)
	p := &alerting.Prometheus{T: m.t, Get: func(path string) ([]byte, error) {
		return m.inside("curl", "-sS", "http://127.0.0.1:9090"+path).Output()
	}}
	p.Await("Prometheus scrapes the node", time.Minute, func() bool {
		select {
		case <-process.Ended:
			m.t.Fatalf("Prometheus ended:\n%s", process.Err)
		default:
		}
		return len(p.Query(`coax_ready == 1`)) == 1
	})
	return p
}

// A breakage is something that is broken on purpose, and how it is repaired.
type breakage struct {
	name, alert, label, value string
	breakIt, repair           func()
	// found are patterns of what the command in the runbook prints.
	found []string
}

// watched breaks four things under the installed service. Each time the alert is raised, the
// paragraph of the runbook that it leads to has a command, and the command finds the cause; after
// the repair the alert ends. It returns the service, which had to be restarted.
func (m *machine) watched(running *service) *service {
	m.t.Helper()
	t := m.t
	// A disk that can be filled, and audits that need not be waited for.
	running.stop()
	m.run(`mount -t tmpfs -o size=224m,mode=0700 tmpfs /mnt && chown coax: /mnt && cp -a /var/lib/coax/. /mnt && mount --move /mnt /var/lib/coax`)
	m.run("cp /etc/default/coax /root/environment && echo COAX_AUDIT_EVERY=1s >> /etc/default/coax")
	running = m.serve()
	metrics := m.watch()
	metrics.Await("the disks are measured", time.Minute, func() bool { return len(metrics.Query(`coax_disk_free_bytes{place=~"store|backup"}`)) == 2 })
	if got := metrics.Query(`coax_disk_free_bytes{place="backup"} > 0`); len(got) != 1 {
		t.Error("to the service, which may only read the folder of the backups, its disk looks full")
	}
	const certificate = "runuser -u coax -- openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=coax.example " +
		"-addext subjectAltName=DNS:coax.example,IP:127.0.0.1 -keyout /etc/coax/tls.key -out /etc/coax/tls.pem 2>&1"
	balance := func(change string) {
		m.run(`python3 -c "import sqlite3; store = sqlite3.connect('/var/lib/coax/data/coax.db', timeout=30); ` +
			`store.execute('UPDATE wallets SET balance_paise = balance_paise ` + change + ` WHERE operator_id = 1'); store.commit()"`)
	}
	for _, b := range []breakage{
		{
			name: "the provider is down", alert: "CoaxProviderDown",
			breakIt: func() {
				m.simulator.end()
				// An order notices it. It is refused, and not charged.
				m.run(`/root/call POST activate --idempotency-key order-while-down --data '{"full_name":"Asha Rao","mobile":"9812345700","plan_id":"BASIC-1"}'`)
			},
			repair: m.simulate,
			found:  []string{`(?m)^PROBLEM +provider .*connection refused`},
		},
		{
			name: "the disk is nearly full", alert: "CoaxDiskNearlyFull", label: "place", value: "store",
			breakIt: func() {
				m.run("head -c $(( $(df --output=avail -B1 /var/lib/coax | tail -n 1) - 20000000 )) /dev/zero > /var/lib/coax/ballast")
			},
			repair: func() { m.run("rm /var/lib/coax/ballast") },
			found:  []string{`(?m) 9\d% +/var/lib/coax$`},
		},
		{
			name: "the certificate expires", alert: "CoaxCertificateExpires",
			breakIt: func() {
				// It was issued three months ago, which openssl cannot pretend.
				now := time.Now()
				e2e.WriteCertificate(t, filepath.Join(m.root, "etc/coax"), now.AddDate(0, 0, -88), now.AddDate(0, 0, 2), 0o600)
				m.run("chown coax: /etc/coax/*")
				running.signal(syscall.SIGHUP)
			},
			repair: func() {
				m.run(certificate)
				running.signal(syscall.SIGHUP)
			},
			found: []string{`(?m)^(WARNING|PROBLEM) +certificate .*expires in`},
		},
		{
			name: "a balance was changed past the service", alert: "CoaxAuditViolation", label: "invariant", value: "M1",
			breakIt: func() { balance("- 1") },
			repair:  func() { balance("+ 1") },
			found:   []string{`M1.*lco 1`},
		},
	} {
		m.findByRunbook(metrics, b)
	}
	m.showDashboard(metrics)

	m.simulator.end() // it keeps its state on the disk
	running.stop()
	m.run(`cp -a /var/lib/coax/. /mnt && umount /var/lib/coax && rm -rf /var/lib/coax/data && cp -a /mnt/. /var/lib/coax && rm -rf /mnt/* && mv /root/environment /etc/default/coax`)
	m.simulate()
	return m.serve()
}

// showDashboard checks that every query of the package's dashboard returns data while there are
// some requests and orders, which the provider rejects, but for those about a replica, which the guide does not set up.
func (m *machine) showDashboard(metrics *alerting.Prometheus) {
	m.t.Helper()
	queries := alerting.ReadDashboard(m.t, e2e.ReadFile(m.t, filepath.Join(m.root, pages, "examples/grafana-dashboard.json"))).Queries(m.t)
	maps.DeleteFunc(queries, func(_, expr string) bool { return strings.Contains(expr, "coax_replica_") })
	all, i := len(queries), 0
	alerting.Eventually(2*time.Minute, func() bool {
		i++
		m.run("/root/call GET balance")
		m.run(fmt.Sprintf(`/root/call POST activate --idempotency-key dashboard-%d --data '{"full_name":"Asha Rao","mobile":"900001%04[1]d","plan_id":"BASIC-1"}'`, i))
		maps.DeleteFunc(queries, func(_, expr string) bool { return len(metrics.Query(expr)) > 0 })
		return len(queries) == 0
	})
	for what, expr := range queries {
		m.t.Errorf("%s of %d has no data: %s", what, all, expr)
	}
}

// diagnoses are the beginnings of commands of the runbook that find causes and change nothing.
var diagnoses = regexp.MustCompile("`((?:coax doctor|coax audit|df -h)[^`]*)`")

// findByRunbook breaks something, and follows the alert to the runbook's command.
func (m *machine) findByRunbook(metrics *alerting.Prometheus, b breakage) {
	t := m.t
	t.Helper()
	if a, fires := metrics.Fires(b.alert, b.label, b.value); fires {
		t.Fatalf("nothing is broken yet, and %v fires", a)
	}
	b.breakIt()
	var alert alerting.Raised
	if !alerting.Eventually(2*time.Minute, func() (fires bool) { alert, fires = metrics.Fires(b.alert, b.label, b.value); return fires }) {
		t.Fatalf("%s, and %s does not fire; these do: %v", b.name, b.alert, metrics.Firing())
	}
	paragraph := m.paragraph(alert.Annotations["runbook_url"])
	command := diagnoses.FindStringSubmatch(paragraph)
	if command == nil {
		t.Fatalf("the runbook about %s has no command that finds the cause: %s", b.alert, paragraph)
	}
	run := command[1]
	if strings.HasPrefix(run, "coax ") {
		run += " --config " + config // as the runbook says above the alerts
	}
	out, _ := m.try(run) // a problem that was found is exit status 1
	for _, want := range b.found {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s, and %q prints nothing like %s:\n%s", b.name, run, want, out)
		}
	}
	b.repair()
	if !alerting.Eventually(2*time.Minute, func() bool { _, fires := metrics.Fires(b.alert, b.label, b.value); return !fires }) {
		t.Fatalf("%s was repaired, and %s still fires", b.name, b.alert)
	}
	t.Logf("%s: %s fired, and %q found the cause", b.name, b.alert, run)
}

// paragraph returns what the installed runbook says at an address, with the paragraph that
// it refers to.
func (m *machine) paragraph(address string) string {
	m.t.Helper()
	_, anchor, _ := strings.Cut(address, "incidents.md#")
	all := alerting.Runbook(m.t, e2e.ReadFile(m.t, filepath.Join(m.root, pages, "incidents.md")))
	for heading, text := range all {
		if strings.ToLower(heading) != anchor {
			continue
		}
		if other := regexp.MustCompile(`^As (Coax\w+)`).FindStringSubmatch(text); other != nil {
			text += " " + all[other[1]]
		}
		return text
	}
	m.t.Fatalf("the runbook has no paragraph %s", address)
	return ""
}
