package main

import (
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCLIConfigEverySettingIsDocumentedAndRendered(t *testing.T) {
	t.Parallel()
	help := cliOK(t, cliRun(t, "init", "--help")).out
	file := string(renderConfig(initHead, nil))
	for _, s := range settings {
		cliSays(t, "init --help", help, s.key, s.doc)
		_, name, _ := strings.Cut(s.key, ".")
		cliSays(t, "the file that init writes", file, "\n# "+s.doc+"\n#"+name+" = "+s.toml(s.standard)+"\n")
		if s.doc == "" || strings.ContainsAny(s.doc, "\n") {
			t.Errorf("%s is explained as %q; want one line", s.key, s.doc)
		}
		if environment := environmentName(s.key); !regexp.MustCompile(`^COAX(_[A-Z]+)+$`).MatchString(environment) {
			t.Errorf("%s would be the variable %s, which shells do not take", s.key, environment)
		}
	}
	for _, key := range []string{
		"server.addr", "server.plain_addr", "server.internal_addr", "server.trusted_proxies", "store.url", "provider.url", "provider.timeout",
		"review.first_check", "review.max_interval", "review.refund_after", "catalogue.refresh", "catalogue.max_age", "clock.offset",
		"rules.activation_term", "limits.failed_auth_per_minute", "server.tls_cert", "server.tls_key", "secrets.master_key_file",
		"provider.name", "provider.ca", "provider.token_file", "log.level",
	} {
		if findSetting(key) == nil {
			t.Errorf("the contract's key %s is none", key)
		}
	}
}

func TestCLIConfigOfInitGivesTheStandardValues(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cliOK(t, cliRun(t, "init", "--dir", folder))
	file := filepath.Join(folder, "coax.toml")
	empty := cliWrite(t, filepath.Join(folder, "empty.toml"), "")
	want, err := loadConfig(sources{file: empty})
	if err != nil {
		t.Fatal(err)
	}
	got, err := loadConfig(sources{file: file})
	if err != nil {
		t.Fatalf("what init wrote cannot be read: %v", err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("what init wrote means\n%+v\nwant the standard values\n%+v", got, want)
	}

	// The commented values are the standard ones too: taking the signs away
	// changes nothing.
	text := regexp.MustCompile(`(?m)^#([a-z_]+ = )`).ReplaceAllString(cliRead(t, file), "$1")
	if strings.Count(text, " = ") < len(settings) {
		t.Fatalf("not every setting stands in the file:\n%s", text)
	}
	got, err = loadConfig(sources{file: cliWrite(t, filepath.Join(folder, "open.toml"), text)})
	if err != nil {
		t.Fatalf("with its comments opened the file cannot be read: %v\n%s", err, text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("with its comments opened the file means\n%+v\nwant\n%+v", got, want)
	}
}

// cliRoundTrip writes values as demo does and reads them again.
func cliRoundTrip(t testing.TB, folder string, values map[string]string) map[string]string {
	t.Helper()
	file := cliWrite(t, filepath.Join(folder, "round.toml"), string(renderConfig("Head\nof two lines", values)))
	got, err := readConfigFile(file)
	if err != nil {
		t.Fatalf("%q was written as what cannot be read: %v\n%s", values, err, cliRead(t, file))
	}
	return got
}

func TestCLIConfigSurvivesWritingAndReading(t *testing.T) {
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
		if got := cliRoundTrip(t, folder, values); !maps.Equal(got, values) {
			t.Errorf("written %q, read %q", values, got)
		}
	}
	if got := cliRoundTrip(t, folder, map[string]string{"server.trusted_proxies": ""}); got["server.trusted_proxies"] != "" {
		t.Errorf("an empty list is read as %q", got["server.trusted_proxies"])
	}
	if got := cliRoundTrip(t, folder, nil); len(got) != 0 {
		t.Errorf("nothing was written, %q was read", got)
	}
}

func TestCLIConfigSurvivesAnyText(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		values := map[string]string{"provider.name": rapid.String().Draw(r, "name"), "provider.ca": rapid.String().Draw(r, "ca")}
		if got := cliRoundTrip(t, folder, values); !maps.Equal(got, values) {
			r.Fatalf("written %q, read %q", values, got)
		}
	})
}

// Whatever a setting takes from --set must be writable: demo keeps it in its
// file, and a file that cannot be read again is the end of the demo's folder.
func TestCLIConfigKeepsEveryValueThatItTakes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, pair := range []string{
		"limits.failed_auth_per_minute=030", "limits.failed_auth_per_minute=+30", "server.max_connections=0100",
		"server.trusted_proxies= 10.0.0.0/8 ,, 192.0.2.1,", "provider.timeout=1m0.5s", "provider.timeout=+1s", "review.first_check=0",
		"server.addr=:8443", "server.addr=[::1]:0", "server.addr=localhost:08443", "provider.url=HTTP://[::1]:80/a?b=c#d", "provider.name=\xff",
		"server.profiling=true", "server.profiling=false",
	} {
		sets := []string{pair}
		want, err := loadConfig(sources{sets: sets})
		if err != nil {
			continue // refused, which is one way of not keeping it
		}
		values, err := parseSets(sets)
		if err != nil {
			t.Fatal(err)
		}
		file := cliWrite(t, filepath.Join(folder, "kept.toml"), string(renderConfig("head", values)))
		read, err := readConfigFile(file)
		if err != nil {
			t.Errorf("--set %q is taken, and then cannot be read from the file it is kept in: %v", pair, err)
			continue
		}
		if got, err := loadConfig(sources{sets: cliPairs(read)}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("--set %q means something else once it was kept: %v\n%+v\nwant\n%+v", pair, err, got, want)
		}
	}
}

// cliPairs writes settings as --set takes them.
func cliPairs(values map[string]string) []string {
	var all []string
	for key, value := range values {
		all = append(all, key+"="+value)
	}
	return all
}
