//go:build long

package cli

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e/program"
)

// Each recorded commit builds, and its binary prints the recorded version.
func TestRelease_RecordedCommitBuilds(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	releases, err := program.Releases(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range releases {
		coax, err := program.BuildRelease(root, release)
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command(coax, "version").Output()
		if want := "coax " + release.Version + " "; err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("the binary of %s prints %q, error %v; want %q first", release.Commit, got, err, want)
		}
	}
}
