package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each unit runs as the account, cannot become more, and writes to its own folders only.
// make packages-test has systemd itself verify the units.
func TestUnits_AreHardened(t *testing.T) {
	want := map[string][]string{
		"coax.service":        {"/var/lib/coax", "/var/lib/coax-mark", "/var/log/coax"},
		"coax-backup.service": {"/var/lib/coax", "/var/backups/coax"},
	}
	for name, writable := range want {
		u, err := readUnit(filepath.Join(root, "packaging", name))
		if err != nil {
			t.Fatal(err)
		}
		for setting, value := range map[string]string{
			"User": "coax", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateDevices": "yes",
			"LimitCORE": "0", "UMask": "0077", "MemoryDenyWriteExecute": "yes",
		} {
			if got := u.one("Service." + setting); got != value {
				t.Errorf("%s: %s=%s; want %s", name, setting, got, value)
			}
		}
		if !slices.Equal(u.writable(), writable) {
			t.Errorf("%s writes to %v; want %v", name, u.writable(), writable)
		}
		for _, folder := range u.writable() {
			// The configuration and the key stay as they are, whatever the service is made to do.
			if strings.HasPrefix("/etc/coax/", folder) || !strings.Contains(folder, "coax") {
				t.Errorf("%s can write to %s", name, folder)
			}
		}
	}
}

// What the list of the package's files names is there, and the maintainer scripts are
// shell.
func TestPackage_SourcesExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "packaging/nfpm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\$\{PACKAGING\}/(\S+)`).FindAllStringSubmatch(string(text), -1)
	if len(named) < 6 {
		t.Fatalf("nfpm.yaml names %d files: the search looks for something else", len(named))
	}
	for _, file := range named {
		if _, err := os.Stat(filepath.Join(root, "packaging", file[1])); err != nil {
			t.Error(err)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm", "compose/setup"} {
		path := filepath.Join(root, "packaging", script)
		if out, err := exec.Command("sh", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

// docs/packages.md has the settings that the package makes a configuration with, for systems
// without dpkg; the books are audited, or no alert would tell of a violation.
func TestPackage_SettingsInGuide(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root, "docs/packages.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(root, "packaging/postinst"))
	if err != nil {
		t.Fatal(err)
	}
	mark := regexp.MustCompile(`(?m)^mark=(\S+)$`).FindStringSubmatch(string(script))
	if mark == nil {
		t.Fatal("postinst does not say where the mark is")
	}
	set := regexp.MustCompile("--set \"?([a-z_]+\\.[a-z_]+=[^\\s\"`]+)")
	settings := func(text string) (all []string) {
		for _, found := range set.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.ReplaceAll(found[1], "$mark", mark[1]))
		}
		return all
	}
	got, want := settings(string(guide)), settings(string(script))
	if !slices.Equal(got, want) {
		t.Errorf("docs/packages.md sets %v; postinst %v", got, want)
	}
	if !slices.ContainsFunc(want, func(s string) bool { return strings.HasPrefix(s, "audit.every=") }) {
		t.Errorf("postinst sets %v, and not audit.every", want)
	}
}
