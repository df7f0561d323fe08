//go:build long

package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/alerting"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// drillDisk is the size of the disk of the demo in the drill. More than 128 MB of it are free.
const drillDisk = 224 << 20

// Four things are broken on purpose under a working demo, one after the other. A Prometheus
// with the shipped rules (see inSeconds) raises the alert; its runbook paragraph names the
// cause, and the command in it finds it; after the repair that it tells, the alert ends. On
// PostgreSQL the disk is the database's, which the nodes do not watch.
func TestAlerts_FindWhatIsBroken(t *testing.T) {
	tool(t, "prometheus")
	if pgtest.Chosen() {
		drill(t, t.TempDir())
		return
	}
	e2e.OnSmallDisk(t, drillDisk, "drill: ", func(folder string) { drill(t, folder) })
}

type breakage struct {
	name, alert, label, value string
	breakIt, repair           func()
	// command is one that the runbook paragraph has, found what it prints.
	command []string
	found   []string
	// says are words of the paragraph that lead to the cause.
	says []string
}

func drill(t *testing.T, folder string) {
	provider, err := demo.StartSimulator("127.0.0.1:0", filepath.Join(folder, "simulator.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Stop() })
	address := strings.TrimPrefix(provider.URL, "http://")
	backups := filepath.Join(folder, "backups")
	if err := os.Mkdir(backups, 0o700); err != nil {
		t.Fatal(err)
	}
	sets := settings(t, backups, provider.URL)
	p := e2e.Start(t, append([]string{"demo", "--dir", filepath.Join(folder, "demo"), "--addr", "127.0.0.1:0", "--json"}, sets...)...)
	backUp(t, p, backups)
	// The books of an operator without customers, so that no operation begins from what is planted.
	p.Install(t).JSON("lco", "create", "--name", "Quiet Cable")
	p.Install(t).JSON("wallet", "topup", "--lco", "2", "--amount", "1000", "--reference", "for a quiet day")
	t.Cleanup(customers(t, p))
	metrics := watchNode(t, p.Demo)
	certificates := filepath.Dir(p.Demo.Config)
	newCertificate := func(until time.Duration) {
		e2e.WriteCertificate(t, certificates, time.Now().Add(until).AddDate(0, 0, -90), time.Now().Add(until), 0o600)
		if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	ballast := filepath.Join(folder, "ballast")
	doctor := append([]string{"doctor", "--config", p.Demo.Config}, sets...)

	// What fires while nothing is broken fires for nothing. The machine's clock is not ours.
	measured := `coax_audit_runs_total{result="clean"} > 2 and on () coax_backup_last_timestamp_seconds > 0`
	if !pgtest.Chosen() {
		measured += ` and on () coax_disk_free_bytes{place="store"} > 0`
	}
	metrics.Await("audits, backup and disk are measured", time.Minute, func() bool { return len(metrics.Query(measured)) > 0 })
	if quiet := alerting.Eventually(time.Minute, func() bool { return len(unexpected(metrics.Firing())) == 0 }); !quiet {
		t.Fatalf("nothing is broken, and these alerts fire: %v", unexpected(metrics.Firing()))
	}
	for _, b := range []breakage{
		{
			name: "the provider is down", alert: "CoaxProviderDown",
			breakIt: func() { provider.Stop() },
			repair: func() {
				metrics.Await("the provider is back", time.Minute, func() bool {
					provider, err = demo.StartSimulator(address, filepath.Join(folder, "simulator.json"))
					return err == nil
				})
			},
			command: doctor, found: []string{"PROBLEM  provider", "connection refused"},
			says: []string{"provider", "coax doctor", "firewall"},
		},
		{
			name: "the disk is nearly full", alert: "CoaxDiskNearlyFull", label: "place", value: "store",
			breakIt: func() { fill(t, ballast, folder, 100<<20) },
			repair: func() {
				if err := os.Remove(ballast); err != nil {
					t.Fatal(err)
				}
			},
			command: doctor, found: []string{"PROBLEM  disk", "free"},
			says: []string{"Free space", "disk", "df -h"},
		},
		{
			name: "the certificate expires", alert: "CoaxCertificateExpires",
			breakIt: func() { newCertificate(48 * time.Hour) },
			repair:  func() { newCertificate(89 * 24 * time.Hour) },
			command: doctor, found: []string{"certificate", "expires in"},
			says: []string{"CoaxCertificateExpiresSoon", "expired certificate"},
		},
		{
			name: "a balance was changed past the service", alert: "CoaxAuditViolation", label: "invariant", value: "M1",
			breakIt: func() {
				e2e.ExecOnStore(t, storeOf(t, p), `UPDATE wallets SET balance_paise = balance_paise - 1 WHERE operator_id = 2`)
			},
			repair: func() {
				e2e.ExecOnStore(t, storeOf(t, p), `UPDATE wallets SET balance_paise = balance_paise + 1 WHERE operator_id = 2`)
			},
			command: []string{"audit", "--config", p.Demo.Config}, found: []string{"M1", "lco 2"},
			says: []string{"coax audit", "books do not agree", "coax backup"},
		},
	} {
		if b.value == "store" && pgtest.Chosen() {
			continue
		}
		b.run(t, metrics)
	}
	if status := p.Terminate(); status != e2e.ExitDone {
		t.Errorf("the demo ended with %d\n%s", status, p.Err)
	}
}

// run breaks something, follows the alert to its cause and repairs it.
func (b breakage) run(t *testing.T, metrics *alerting.Prometheus) {
	began := time.Now()
	b.breakIt()
	fires := func() (alerting.Raised, bool) { return metrics.Fires(b.alert, b.label, b.value) }
	var alert alerting.Raised
	if !alerting.Eventually(2*time.Minute, func() (ok bool) { alert, ok = fires(); return ok }) {
		t.Fatalf("%s, and %s does not fire; these do: %v", b.name, b.alert, metrics.Firing())
	}
	took := time.Since(began)
	paragraph := runbook(t)[b.alert]
	if want := runbookURL + strings.ToLower(b.alert); alert.Annotations["runbook_url"] != want {
		t.Errorf("%s leads to %s; want %s", b.alert, alert.Annotations["runbook_url"], want)
	}
	e2e.CheckMentions(t, "the runbook about "+b.alert, paragraph, b.says...)
	if command := "coax " + b.command[0]; !strings.Contains(paragraph+runbook(t)["CoaxCertificateExpiresSoon"], command) {
		t.Errorf("the runbook about %s does not say to run %s", b.alert, command)
	}
	got := e2e.Run(t, b.command...)
	e2e.CheckMentions(t, strings.Join(b.command[:1], " ")+" while "+b.name, got.Out, b.found...)
	b.repair()
	if !alerting.Eventually(2*time.Minute, func() bool { _, still := fires(); return !still }) {
		t.Fatalf("%s was repaired, and %s still fires", b.name, b.alert)
	}
	if !alerting.Eventually(2*time.Minute, func() bool { return len(unexpected(metrics.Firing())) == 0 }) {
		t.Fatalf("%s was repaired, and these still fire: %v", b.name, unexpected(metrics.Firing()))
	}
	fmt.Printf("drill: %s: %s fired after %.1f s (%q), and ended after the repair\n", b.name, b.alert, took.Seconds(), alert.Annotations["summary"])
}

// unexpected leaves out the alert about the machine's clock, which may be nobody's.
func unexpected(all []alerting.Raised) []alerting.Raised {
	return slices.DeleteFunc(all, func(a alerting.Raised) bool { return a.Labels["alertname"] == "CoaxClockUnsynchronized" })
}

// fill writes a file until only some bytes of its disk are free.
func fill(t *testing.T, path, disk string, free int64) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 1<<20); ; {
		var space syscall.Statfs_t
		if err := syscall.Statfs(disk, &space); err != nil {
			t.Fatal(err)
		}
		if int64(space.Bavail)*int64(space.Bsize) <= free {
			return
		}
		if _, err := file.Write(block); err != nil {
			t.Fatal(err)
		}
	}
}
