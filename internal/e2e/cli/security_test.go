package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// Actions of coax admin are in the security log if that is a file. A file that cannot be
// opened stops a node from starting, but no staff action.
func TestSecurityFile_CommandLine(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	path := filepath.Join(t.TempDir(), "security.log")
	e2e.RequireOK(t, h.Admin("lco", "create", "--name", "Asha Cable", "--set", "log.security_file="+path))
	issued := h.JSON("key", "issue", "--lco", "1", "--set", "log.security_file="+path)
	text := e2e.ReadFile(t, path)
	for _, want := range []string{`"event":"operator_created"`, `"event":"key_issued"`, `"actor":"cli:`, `"outcome":"done"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the security log lacks %s:\n%s", want, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want mode 0600", info, err)
	}
	for _, secret := range strings.Fields(strings.NewReplacer(`"`, " ", ":", " ", ",", " ").Replace(issued)) {
		if strings.HasPrefix(secret, "cx") && strings.Contains(text, secret) {
			t.Errorf("the security log has %.8s…", secret)
		}
	}

	nowhere := "log.security_file=" + filepath.Join(t.TempDir(), "missing", "security.log")
	e2e.CheckRefused(t, h.RunServe("--set", nowhere), "log.security_file", "missing")
	got := h.Admin("key", "revoke", "--key-id", "1", "--set", nowhere)
	if got.Code != 0 || !strings.Contains(got.Err, "not in the security log") {
		t.Errorf("revoking: exit %d, %s; want it done, with a warning", got.Code, got.Err)
	}
}
