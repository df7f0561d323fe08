package server

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSettings_AreDocumentedAndRendered(t *testing.T) {
	t.Parallel()
	file := string(RenderConfig("Head", nil))
	for _, s := range Settings {
		_, name := s.parts()
		if want := "\n# " + s.Doc + "\n#" + name + " = " + s.toml(s.Default) + "\n"; !strings.Contains(file, want) {
			t.Errorf("a new configuration does not contain %q:\n%s", want, file)
		}
		if s.Doc == "" || strings.ContainsAny(s.Doc, "\n") {
			t.Errorf("%s is explained as %q; want one line", s.Key, s.Doc)
		}
		if environment := EnvironmentName(s.Key); !regexp.MustCompile(`^COAX(_[A-Z]+)+$`).MatchString(environment) {
			t.Errorf("%s would be the variable %s, which shells do not take", s.Key, environment)
		}
	}
	for _, key := range []string{
		"server.addr", "server.plain_addr", "server.internal_addr", "server.trusted_proxies", "store.url", "provider.url", "provider.timeout",
		"review.first_check", "review.max_interval", "review.refund_after", "catalogue.refresh", "catalogue.max_age", "clock.offset",
		"rules.activation_term", "limits.failed_auth_per_minute", "server.tls_cert", "server.tls_key", "secrets.master_key_file",
		"provider.name", "provider.ca", "provider.token_file", "log.level", "maintenance",
	} {
		if FindSetting(key) == nil {
			t.Errorf("there is no setting %s, which the contract has", key)
		}
	}
}

// writeConfig writes a configuration file and returns its path.
func writeConfig(t testing.TB, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// roundTrip writes values as demo does and reads them back.
func roundTrip(t testing.TB, folder string, values map[string]string) map[string]string {
	t.Helper()
	text := RenderConfig("Head\nof two lines", values)
	got, err := ReadConfigFile(writeConfig(t, filepath.Join(folder, "round.toml"), text))
	if err != nil {
		t.Fatalf("%q was written and cannot be read back: %v\n%s", values, err, text)
	}
	return got
}

func TestConfigFile_RoundTrip(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{
		"", "plain", `it's`, `say "it"`, `both ' and "`, `C:\temp\new`, `\u0041`, "tab\there", "line\nfeed", "\r\n", " blanks around ", "# no comment",
		"[no.table]", "a = b", "''''''", `""""""`, "रवि केबल", "🎬", "zero\x00", "bell\a", "del\x7f", "\u2028", "\ufeff", "{x}", "${HOME}", "%s", "$1",
	} {
		values := map[string]string{
			"provider.name": name, "secrets.master_key_file": name + ".key", "server.trusted_proxies": "10.0.0.0/8,2001:db8::/32,192.0.2.1",
			"limits.failed_auth_per_minute": "42", "store.url": "sqlite:" + name,
		}
		if got := roundTrip(t, folder, values); !maps.Equal(got, values) {
			t.Errorf("written %q, read %q", values, got)
		}
	}
	if got := roundTrip(t, folder, map[string]string{"server.trusted_proxies": ""}); got["server.trusted_proxies"] != "" {
		t.Errorf("an empty list is read as %q", got["server.trusted_proxies"])
	}
	if got := roundTrip(t, folder, nil); len(got) != 0 {
		t.Errorf("nothing was written, %q was read", got)
	}
}

func TestConfigFile_RoundTripAnyText(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		values := map[string]string{"provider.name": rapid.String().Draw(r, "name"), "provider.ca": rapid.String().Draw(r, "ca")}
		if got := roundTrip(t, folder, values); !maps.Equal(got, values) {
			r.Fatalf("written %q, read %q", values, got)
		}
	})
}

// demo saves the values of --set in its file. If a saved value could not be read back,
// the demo could not be started again.
func TestConfigFile_KeepsAcceptedValues(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, pair := range []string{
		"limits.failed_auth_per_minute=030", "limits.failed_auth_per_minute=+30", "server.max_connections=0100",
		"server.trusted_proxies= 10.0.0.0/8 ,, 192.0.2.1,", "provider.timeout=1m0.5s", "provider.timeout=+1s", "review.first_check=0",
		"server.addr=:8443", "server.addr=[::1]:0", "server.addr=localhost:08443", "provider.url=HTTP://[::1]:80/a?b=c#d", "provider.name=\xff",
		"server.profiling=true", "server.profiling=false",
	} {
		sets := []string{pair}
		want, err := LoadConfig(Sources{Sets: sets})
		if err != nil {
			continue // a refused value is not saved
		}
		values, err := ParseSets(sets)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ReadConfigFile(writeConfig(t, filepath.Join(folder, "kept.toml"), RenderConfig("head", values)))
		if err != nil {
			t.Errorf("--set %q is accepted, but cannot be read back from the file: %v", pair, err)
			continue
		}
		got, err := LoadConfig(Sources{Sets: pairs(read)})
		got.Portable, want.Portable = nil, nil // the settings as they were written
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("--set %q has another value when read back: %v\n%+v\nwant\n%+v", pair, err, got, want)
		}
	}
}

// pairs returns settings as --set takes them.
func pairs(values map[string]string) []string {
	var all []string
	for key, value := range values {
		all = append(all, key+"="+value)
	}
	return all
}
