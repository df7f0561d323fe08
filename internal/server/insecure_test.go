package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestInsecureSettings_ByValue(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	for _, row := range []struct {
		sets []string
		want string // the setting that is insecure
	}{
		{nil, ""},
		{[]string{"provider.url=https://provider.example"}, ""},
		{[]string{"provider.url=http://provider.example"}, "provider.url"},
		{[]string{"provider.url=HTTP://provider.example"}, "provider.url"},
		{[]string{"provider.url=http://10.0.0.7:8080"}, "provider.url"},
		{[]string{"provider.url=http://localhost.example"}, "provider.url"},
		{[]string{"provider.url=http://provider.localhost"}, "provider.url"}, // DNS is asked for it
		{[]string{"provider.url=http://localhost:9500"}, ""},
		{[]string{"provider.url=http://127.9.9.9:9500"}, ""},
		{[]string{"provider.url=http://[::1]:9500"}, ""},
		{[]string{"provider.url=http://[::ffff:127.0.0.1]:9500"}, ""},

		{[]string{"store.url=postgres://coax@db.example/coax"}, "store.url"},
		{[]string{"store.url=postgres://coax@db.example/coax?sslmode=disable"}, "store.url"},
		{[]string{"store.url=postgres://coax@db.example/coax?sslmode=allow"}, "store.url"},
		{[]string{"store.url=postgres://coax@db.example/coax?sslmode=prefer"}, "store.url"},
		{[]string{"store.url=postgres://coax@10.0.0.7/coax"}, "store.url"},
		{[]string{"store.url=postgres://coax@/coax?host=db.example"}, "store.url"},
		{[]string{"store.url=postgres://coax@localhost,db.example/coax"}, "store.url"},
		{[]string{"store.url=postgres://coax@db.example/coax?sslmode=require"}, "store.url tolerated"},
		{[]string{"store.url=postgres://coax@db.example/coax?sslmode=verify-full"}, ""},
		{[]string{"store.url=postgres://coax@db.example/coax?sslmode=verify-ca"}, ""},
		{[]string{"store.url=postgres://coax@localhost/coax"}, ""},
		{[]string{"store.url=postgres://coax@127.0.0.1,[::1]:5433/coax?sslmode=disable"}, ""},
		{[]string{"store.url=postgres://coax@/coax?host=/run/postgresql"}, ""},
		{[]string{"store.url=postgres://coax@%2Frun%2Fpostgresql/coax"}, ""},

		{[]string{"trace.endpoint=https://collector.example"}, ""},
		{[]string{"trace.endpoint=http://127.0.0.1:4318"}, ""},
		{[]string{"trace.endpoint=http://collector.example:4318"}, "trace.endpoint"},

		{[]string{"server.internal_addr=:9443"}, "server.internal_addr"},
		{[]string{"server.internal_addr=0.0.0.0:9443"}, "server.internal_addr"},
		{[]string{"server.internal_addr=[::]:9443"}, "server.internal_addr"},
		{[]string{"server.internal_addr=203.0.113.7:9443"}, "server.internal_addr"},
		{[]string{"server.internal_addr=[2001:db8::7]:9443"}, "server.internal_addr"},
		{[]string{"server.internal_addr=[::ffff:203.0.113.7]:9443"}, "server.internal_addr"},
		{[]string{"server.internal_addr=172.32.0.1:9443"}, "server.internal_addr"},
		{[]string{"server.internal_addr=not..a.name:9443"}, "server.internal_addr"}, // the lookup fails
		{[]string{"server.internal_addr=localhost:9443"}, ""},
		{[]string{"server.internal_addr=[::1]:9443"}, ""},
		{[]string{"server.internal_addr=10.1.2.3:9443"}, ""},
		{[]string{"server.internal_addr=172.31.0.1:9443"}, ""},
		{[]string{"server.internal_addr=192.168.0.1:9443"}, ""},
		{[]string{"server.internal_addr=100.64.0.1:9443"}, ""},
		{[]string{"server.internal_addr=169.254.1.1:9443"}, ""},
		{[]string{"server.internal_addr=[fd00::1]:9443"}, ""},
		{[]string{"server.internal_addr=[fe80::1%eth0]:9443"}, ""},
	} {
		config, err := LoadConfig(Sources{Sets: row.sets})
		if err != nil {
			t.Fatalf("%q: %v", row.sets, err)
		}
		var got []string
		for _, s := range config.InsecureSettings() {
			if s.Tolerated {
				s.Setting += " tolerated"
			}
			got = append(got, s.Setting)
			if s.Problem == "" || s.Cure == "" {
				t.Errorf("%q: %+v; want a problem and a cure", row.sets, s)
			}
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%q: %q; want %q", row.sets, got, row.want)
		}
	}
}

func TestInsecureSettings_SSLModeOfTheEnvironment(t *testing.T) {
	t.Setenv("PGSSLMODE", "verify-full")
	config, err := LoadConfig(Sources{Sets: []string{"store.url=postgres://coax@db.example/coax"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := config.InsecureSettings(); got != nil {
		t.Errorf("with PGSSLMODE=verify-full: %+v; want none", got)
	}
}

func TestInsecureSettings_EveryPlainHostIsNamed(t *testing.T) {
	config, err := LoadConfig(Sources{Sets: []string{"store.url=postgres://coax:hunter2@db1.example,localhost,db2.example/coax?sslmode=prefer"}})
	if err != nil {
		t.Fatal(err)
	}
	found := config.InsecureSettings()
	if len(found) != 1 || !strings.Contains(found[0].Problem, "db1.example, db2.example") || strings.Contains(found[0].Problem+found[0].Cure, "hunter2") {
		t.Errorf("%+v; want db1 and db2 named, and no password", found)
	}
}

func TestInsecureSettings_KeyModeBehindALink(t *testing.T) {
	folder := t.TempDir()
	key, link := filepath.Join(folder, "real.key"), filepath.Join(folder, "tls.key")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(key, link); err != nil {
		t.Fatal(err)
	}
	config := configWithKey(link)
	for mode, want := range map[os.FileMode]bool{0o400: false, 0o600: false, 0o640: false, 0o644: true, 0o604: true} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		found := config.InsecureSettings()
		if got := slices.ContainsFunc(found, func(s InsecureSetting) bool {
			return s.Setting == "server.tls_key" && strings.Contains(s.Cure, "chmod 600 ")
		}); got != want {
			t.Errorf("mode %04o: %+v; want it found: %v", mode, found, want)
		}
	}
}
