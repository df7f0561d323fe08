package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// insecure has insecure settings, with the texts of serve's warning and its remedy.
var insecure = []struct {
	setting string
	sets    []string
	says    []string
}{
	{"provider.url", []string{"--set", "provider.url=http://provider.invalid"}, []string{"provider.invalid", "plain HTTP", "https://"}},
	{"server.internal_addr", []string{"--set", "server.internal_addr=0.0.0.0:0"}, []string{"0.0.0.0:0", "public address", "127.0.0.1:9443"}},
	{"server.tls_key", nil, []string{"every user of this machine can read the TLS key", "chmod 600 "}},
}

// serve logs a warning for each insecure setting and starts; with strict it refuses all of
// them in one message and changes nothing.
func TestServe_InsecureSettings(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	secure := slices.Concat([]string{"serve", "--config", h.Config}, e2e.FreePorts)
	strict := []string{"--set", "strict=true"}
	quiet := e2e.Start(t, slices.Concat(secure, strict)...)
	if strings.Contains(quiet.Err.String(), `"setting":`) {
		t.Errorf("secure settings are warned of:\n%s", quiet.Err)
	}
	quiet.Terminate()

	args := secure
	for _, row := range insecure {
		args = slices.Concat(args, row.sets)
	}
	if err := os.Chmod(filepath.Join(h.Folder, "tls.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	warned := e2e.Start(t, args...)
	for _, row := range insecure {
		var lines []string
		for line := range strings.Lines(warned.Err.String()) {
			if strings.Contains(line, `"setting":"`+row.setting+`"`) {
				lines = append(lines, line)
			}
		}
		if len(lines) != 1 {
			t.Errorf("%s: %q; want one line in the log", row.setting, lines)
			continue
		}
		e2e.CheckMentions(t, "the log", lines[0], slices.Concat(row.says, []string{`"level":"WARN"`})...)
	}
	warned.Terminate()

	before := h.Dump()
	store := []string{"--set", "store.url=postgres://coax:hunter2@localhost,db.invalid/coax"}
	refused := e2e.Run(t, slices.Concat(args, store, strict)...)
	lines := strings.Split(strings.TrimSpace(refused.Err), "\n")
	if refused.Code != e2e.ExitRefused || len(lines) != len(insecure)+1 || strings.Contains(refused.Err, "hunter2") {
		t.Errorf("strict: %s; want exit 1, a line for each of the %d settings, and no password", refused, len(insecure)+1)
	}
	for _, row := range insecure {
		e2e.CheckMentions(t, "the refusal", refused.Err, slices.Concat(row.says, []string{"strict refuses " + row.setting + ": "})...)
	}
	e2e.CheckMentions(t, "the refusal", refused.Err, "strict refuses store.url: ", "db.invalid", "without TLS", "sslmode=verify-full")
	if diff := e2e.Diff(before, h.Dump()); diff != "" {
		t.Errorf("the store has changed:\n%s", diff)
	}

	// Each by itself is refused too, from the environment as well, and a database that is
	// only warned of is told of before it turns out not to be there.
	for _, row := range insecure {
		if row.sets == nil {
			continue // the key is open all the while
		}
		one := e2e.RunWithEnv(t, []string{"COAX_STRICT=true"}, slices.Concat(secure, row.sets)...)
		e2e.CheckMentions(t, "the refusal", one.Err, "strict refuses "+row.setting+": ", "strict refuses server.tls_key: ")
	}
	gone := e2e.Run(t, slices.Concat(secure, []string{"--new-store", "--set", "store.url=postgres://coax@db.invalid/coax"})...)
	if gone.Code != e2e.ExitRefused {
		t.Errorf("a database that is not there: %s; want exit 1", gone)
	}
	e2e.CheckMentions(t, "the log", gone.Err, `"setting":"store.url"`, "without TLS", "cannot be reached")
}

// A demo listens on loopback only: it logs no warnings, and starts with strict.
func TestDemo_StrictAndSilent(t *testing.T) {
	t.Parallel()
	p := e2e.Serve(t, nil, `"base_url"`, "demo", "--dir", t.TempDir(), "--addr", "127.0.0.1:0", "--json", "--set", "strict=true")
	if strings.Contains(p.Err.String(), `"setting":`) {
		t.Errorf("the demo warns:\n%s", p.Err)
	}
	p.Terminate()
}
