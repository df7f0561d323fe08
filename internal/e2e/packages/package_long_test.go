//go:build long

package packages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"filippo.io/age"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
)

const config = "/etc/coax/coax.toml"

// The steps of "Installing" in docs/operating.md, and nothing else, make a service that
// sells. Then the package is upgraded, the service is watched while things are broken on purpose,
// and the package is removed and purged.
func TestPackage_InstalledByTheGuide(t *testing.T) {
	m := newMachine(t)
	deb := presentPackage(t)
	later := repackage(t, "0.99.0", binaryOf(t, deb))
	running := m.followGuide(deb)

	for path, want := range map[string]string{
		"/etc/coax": "750 coax coax", config: "600 coax coax", "/etc/coax/master.key": "400 coax coax", "/var/lib/coax": "700 coax coax",
		"/var/lib/coax/data": "700 coax coax", "/var/lib/coax-mark/store.mark": "600 coax coax", "/var/log/coax": "750 coax coax",
		"/var/backups/coax": "700 coax coax", "/etc/default/coax": "640 root root",
	} {
		if got := strings.TrimSpace(m.run("stat -c '%a %U %G' " + path)); got != want {
			t.Errorf("%s is %s; want %s", path, got, want)
		}
	}
	if out, err := m.try("dpkg --verify coax"); err != nil || out != "" {
		t.Errorf("files of the package differ: %s (%v)", out, err)
	}
	m.run("man -w coax coax-admin-lco-create && logrotate -d /etc/logrotate.d/coax")
	// bash-completion loads it when it is wanted.
	m.run(`bash -c 'source /usr/share/bash-completion/bash_completion && __load_completion coax; complete -p coax'`)
	m.run("head -n 1 /usr/share/zsh/vendor-completions/_coax | grep -qx '#compdef coax' && grep -q '^complete -c coax ' /usr/share/fish/vendor_completions.d/coax.fish")
	if got := m.run("dpkg-query --show --showformat '${Recommends}' coax"); got != "bash-completion, logrotate" {
		t.Errorf("the package recommends %q", got)
	}
	// The books are audited, and what alerts rest on can be read under the unit's filter of system calls.
	metrics := m.run("curl -s http://127.0.0.1:9443/metrics")
	for _, want := range []string{`(?m)^coax_audit_every_seconds 21600$`, `(?m)^coax_clock_synchronized [01]$`} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	if allowed := m.systemCalls(m.unit("coax.service")); slices.Contains(allowed, "clock_settime") || slices.Contains(allowed, "reboot") {
		t.Errorf("coax.service may use %v", allowed)
	}

	m.sell("first")
	var limits string
	for _, name := range []string{"limits", "status"} {
		limits += e2e.ReadFile(t, fmt.Sprintf("/proc/%d/%s", running.pid(), name))
	}
	for _, want := range []string{`Max core file size +0 +0`, `NoNewPrivs:\s+1`, `CapBnd:\s+0000000000000400`} {
		if !regexp.MustCompile(want).MatchString(limits) {
			t.Errorf("the process does not have %s:\n%s", want, limits)
		}
	}
	backup := m.process("coax-backup.service")
	if out, err := backup.CombinedOutput(); err != nil {
		t.Errorf("coax-backup.service: %v\n%s", err, out)
	}
	if got := strings.Fields(m.run("ls /var/backups/coax")); len(got) != 1 {
		t.Errorf("the backup service made %v; want one backup", got)
	}
	recipient, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	m.run("sed -i 's/^#BACKUP_OPTIONS=.*/BACKUP_OPTIONS=--keep 3d --encrypt-to " + recipient.Recipient().String() + "/' /etc/default/coax")
	if out, err := m.process("coax-backup.service").CombinedOutput(); err != nil {
		t.Errorf("coax-backup.service with options: %v\n%s", err, out)
	}
	if out, err := m.try(`grep -l --binary-files=text '"encrypted":true' /var/backups/coax/*`); err != nil {
		t.Errorf("BACKUP_OPTIONS of /etc/default/coax do not reach coax backup: no backup is encrypted: %s", out)
	}
	m.run("coax doctor --config " + config)

	key := m.run("sha256sum /etc/coax/master.key " + config)
	m.put(later, "root/later.deb")
	m.run("apt install -y ./later.deb")
	running.stop()
	running = m.serve()
	m.sell("second")
	if got := m.run("sha256sum /etc/coax/master.key " + config); got != key {
		t.Error("the upgrade changed the key or the configuration")
	}
	m.run("grep -q '^BACKUP_OPTIONS=--keep 3d' /etc/default/coax && systemctl is-enabled coax coax-backup.timer")
	m.run("coax audit --config " + config)
	running = m.watched(running)
	running.stop()

	m.run("apt remove -y coax")
	if m.exists("/usr/bin/coax") || m.run("sha256sum /etc/coax/master.key "+config) != key || !m.exists("/var/lib/coax/data/coax.db") {
		t.Error("removing has to delete the program, and nothing that it made")
	}
	// Installed again, it goes on with what is there.
	m.run("apt install -y ./later.deb")
	running = m.serve()
	m.sell("third")
	running.stop()

	secret := m.run("cat /etc/coax/master.key")
	out := m.run("apt purge -y coax")
	e2e.CheckMentions(t, "what purging prints", out, "/root/coax-purged-", "/var/backups/coax", "Deleted")
	for _, path := range []string{"/etc/coax", "/var/lib/coax", "/var/lib/coax-mark", "/var/log/coax", "/etc/default/coax", "/etc/logrotate.d/coax", "/etc/systemd/system/multi-user.target.wants/coax.service"} {
		if m.exists(path) {
			t.Errorf("%s is left after purging", path)
		}
	}
	if kept := m.run("cat /root/coax-purged-*/master.key && [ $(stat -c '%a %U' /root/coax-purged-*/master.key | tr -d ' ') = 400root ]"); kept != secret {
		t.Error("purging did not keep the master key")
	}
	if got := strings.Fields(m.run("ls /var/backups/coax")); len(got) == 0 {
		t.Error("purging deleted the backups")
	}
}

// simulate starts the provider's simulator as the guide did.
func (m *machine) simulate() {
	m.t.Helper()
	m.simulator = m.start(m.inside(m.simulatorCommand...), func(log string) bool { return strings.Contains(log, "The simulator listens") })
}

// followGuide runs the commands of "Installing".
func (m *machine) followGuide(deb string) *service {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/operating.md"))
	if err != nil {
		m.t.Fatal(err)
	}
	_, guide, _ := strings.Cut(string(text), "\n## Installing\n")
	guide, _, _ = strings.Cut(guide, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindAllStringSubmatch(guide, -1)
	var running *service
	for _, block := range blocks {
		for _, command := range regexp.MustCompile(`(?m)^\$ ((?:.*\\\n)*.*)$`).FindAllStringSubmatch(block[1], -1) {
			switch words := strings.Fields(command[1]); {
			case strings.HasPrefix(command[1], "apt install ./"):
				m.put(deb, "root/"+filepath.Base(words[2]))
				m.run(strings.Replace(command[1], "install", "install -y", 1))
				// It needs a certificate and a provider first.
				if out, err := m.try("systemctl is-enabled coax.service coax-backup.timer"); err == nil || strings.Contains(out, "enabled\n") {
					m.t.Errorf("after the first installation the units are %s", out)
				}
			case strings.Contains(command[1], "coax simulator "):
				m.simulatorCommand = words
				m.simulate()
			case words[0] == "systemctl" && words[1] == "enable":
				// There is no systemd that would start it.
				m.run(strings.Replace(command[1], " --now", "", 1))
				running = m.serve()
			case words[0] == "systemctl" && words[1] == "reload":
				before := len(running.log.String())
				m.run("systemd-analyze verify --man=no coax.service")
				running.signal(syscall.SIGHUP)
				await(m.t, "the certificate is read again", func() bool { return strings.Contains(running.log.String()[before:], "certificate") })
			case words[0] == "journalctl":
			default:
				m.run(command[1])
			}
		}
	}
	if running == nil {
		m.t.Fatal("the guide never starts the service")
	}
	return running
}

// sell makes an operator on first use, and has it activate a subscriber through the API.
// What was sold before has to be there.
func (m *machine) sell(key string) {
	m.t.Helper()
	admin := "coax admin --config " + config + " "
	if !m.exists("/root/call") {
		m.run(admin + "lco create --name 'Asha Cable' --rate-limit 600 --json")
		m.run(admin + "wallet topup --lco 1 --amount 5000.00 --reference NEFT-1")
		m.run(admin + "plan set --id BASIC-1 --name 'Basic' --price 199.00 --duration 1 --component main=TV-BASIC")
		m.run(admin + "whitelist add --lco 1 127.0.0.1")
		var issued struct {
			Key    string `json:"api_key"`
			Secret string `json:"api_secret"`
		}
		if err := json.Unmarshal([]byte(m.run(admin+"key issue --lco 1 --json")), &issued); err != nil {
			m.t.Fatal(err)
		}
		script := "#!/bin/sh\nexport COAX_BASE_URL=https://127.0.0.1:8443/api/v1 COAX_CA_CERT=/etc/coax/tls.pem COAX_API_KEY=" + issued.Key +
			" COAX_API_SECRET=" + issued.Secret + "\nexec coax call \"$@\"\n"
		if err := os.WriteFile(filepath.Join(m.root, "root/call"), []byte(script), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	sold := strings.Count(m.run(admin+"operation list --json"), `"transaction_id"`)
	mobile := map[string]string{"first": "9812345601", "second": "9812345602", "third": "9812345603"}[key]
	body := `{"full_name":"Asha Rao","mobile":"` + mobile + `","plan_id":"BASIC-1"}`
	// A new node has to read the provider's catalogue first.
	await(m.t, "the prices are verified", func() bool {
		out, err := m.try("/root/call POST activate --idempotency-key order-" + key + " --data '" + body + "'")
		if err != nil && !strings.Contains(out, "PLANS_UNAVAILABLE") {
			m.t.Fatalf("%s: %s", key, out)
		}
		return err == nil
	})
	if got := strings.Count(m.run(admin+"operation list --json"), `"transaction_id"`); got != sold+1 {
		m.t.Errorf("%d operations after %s; want one more than %d", got, key, sold)
	}
	want := map[string]string{"first": "4801.00", "second": "4602.00", "third": "4403.00"}[key]
	if out := m.run("/root/call GET balance"); !strings.Contains(out, want) {
		m.t.Errorf("after %s: %s; want a balance of %s", key, out, want)
	}
}

// A service of 0.1.0 that runs from a package goes on with its data after the upgrade.
func TestPackage_UpgradesFrom010(t *testing.T) {
	m := newMachine(t)
	releases, err := program.Releases(root)
	if err != nil {
		t.Fatal(err)
	}
	old, err := program.BuildRelease(root, releases[0])
	if err != nil {
		t.Fatal(err)
	}
	// 0.1.0 had no package: this has its binary, and the scripts and units of today.
	before := repackage(t, releases[0].Version, old)
	// Its configuration as its own init writes it: it does not know what today's would say.
	m.put(old, "root/coax-old")
	m.run(`/root/coax-old init --dir /etc/coax && rmdir /etc/coax/data && rm /root/coax-old`)
	m.run(`sed -i 's|^#addr = .*|addr = "0.0.0.0:8443"|; s|^#url = .sqlite.*|url = "sqlite:/var/lib/coax/data/coax.db"|; s|^#url = ..$|url = "http://127.0.0.1:9500"|' ` + config)
	m.put(before, "root/before.deb")
	m.run("apt install -y ./before.deb && chown -R coax: /etc/coax && runuser -u coax -- mkdir -m 0700 /var/lib/coax/data")
	m.run("runuser -u coax -- openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=coax.example " +
		"-addext subjectAltName=IP:127.0.0.1 -keyout /etc/coax/tls.key -out /etc/coax/tls.pem")
	if got := m.run("coax version"); !strings.Contains(got, releases[0].Version) {
		t.Fatalf("the old package has %s", got)
	}
	if text := m.run("cat " + config); strings.Contains(text, "mark_file") {
		t.Fatal("the package wrote a setting that its program does not know")
	}
	m.start(m.inside("coax", "simulator", "--addr", "127.0.0.1:9500", "--state", "/root/simulator.json"),
		func(log string) bool { return strings.Contains(log, "The simulator listens") })
	running := m.serve()
	m.sell("first")
	running.stop()

	key := m.run("sha256sum /etc/coax/master.key")
	m.put(presentPackage(t), "root/after.deb")
	out := m.run("apt install -y ./after.deb")
	e2e.CheckMentions(t, "what the upgrade prints", out, "store.mark_file", config)
	running = m.serve()
	m.sell("second")
	if got := m.run("sha256sum /etc/coax/master.key"); got != key {
		t.Error("the upgrade changed the master key")
	}
	if !m.exists("/var/lib/coax-mark/store.mark") {
		t.Error("the new release keeps no mark")
	}
	if out := m.run("coax admin --config " + config + " maintenance show"); !regexp.MustCompile(`maintenance +false`).MatchString(out) {
		t.Errorf("after the upgrade: %s", out)
	}
	e2e.CheckMentions(t, "the audit", m.run("coax audit --config "+config), "Everything agrees.")
	running.stop()
}

// The compose file's setup makes a configuration that nodes take, once, and gives it to their account.
func TestCompose_SetupMakesAConfiguration(t *testing.T) {
	m := newMachine(t)
	m.run("mkdir -p /built/usr/bin /etc/coax")
	m.put(binaryOf(t, presentPackage(t)), "built/usr/bin/coax")
	m.put(filepath.Join(root, "packaging/compose/setup"), "root/setup")
	m.run("COAX_DB_PASSWORD=dbsecret4711 /root/setup")
	sums := m.run("sha256sum /etc/coax/*")
	if got := m.run("find /etc/coax ! -uid 65532 -o ! -gid 65532 -o -type f -perm /077"); got != "" {
		t.Errorf("not the nodes' account's alone: %s", got)
	}
	e2e.CheckMentions(t, "the files", sums, "/etc/coax/coax.toml", "/etc/coax/master.key", "/etc/coax/tls.key", "/etc/coax/tls.pem")
	out := m.run("setpriv --reuid=65532 --regid=65532 --clear-groups env COAX_AUDIT_EVERY=6h /built/usr/bin/coax config check --config /etc/coax/coax.toml")
	e2e.CheckMentions(t, "coax config check", out, "serve takes this configuration")
	e2e.CheckMentions(t, "the configuration", m.run("cat /etc/coax/coax.toml"), "coax:dbsecret4711@database/coax")
	m.run("COAX_DB_PASSWORD=another /root/setup")
	if got := m.run("sha256sum /etc/coax/*"); got != sums {
		t.Errorf("the second run changed\n%sto\n%s", sums, got)
	}
}

// systemd reads the units without a complaint and rates what they may do.
func TestUnits_VerifiedBySystemd(t *testing.T) {
	m := newMachine(t)
	m.put(presentPackage(t), "root/coax.deb")
	m.run("apt install -y ./coax.deb")
	if out := m.run("systemd-analyze verify coax.service coax-backup.service coax-backup.timer"); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	for unit, exposure := range map[string]string{"coax.service": "18", "coax-backup.service": "12"} {
		if out, err := m.try("systemd-analyze security --no-pager --offline=true --threshold=" + exposure + " /lib/systemd/system/" + unit); err != nil {
			t.Errorf("%s is more exposed than %s tenths:\n%s", unit, exposure, out)
		}
	}
	if _, err := m.try("systemd-analyze security --no-pager --offline=true --threshold=3 /lib/systemd/system/coax.service"); err == nil {
		t.Error("systemd-analyze accepts any unit, whatever the threshold")
	}
}

// binaryOf unpacks the program of a package.
func binaryOf(t *testing.T, deb string) string {
	t.Helper()
	folder := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-x", deb, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(folder, "usr/bin/coax")
}
