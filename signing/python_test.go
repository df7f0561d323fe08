package signing_test

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coaxhq/coax/signing"
)

// checkPy runs contract/vectors/check.py, the second implementation of the rules,
// and returns its output. Without Python the test is skipped, except in CI, where it
// fails.
func checkPy(t *testing.T, stdin []byte, args ...string) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 to compare the Go code with contract/vectors/check.py: %v", err)
		}
		t.Skipf("python3 is not installed, so contract/vectors/check.py cannot be run: %v", err)
	}
	script := filepath.Join("..", "contract", "vectors", "check.py")
	cmd := exec.CommandContext(t.Context(), python, append([]string{script}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("check.py %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

func TestPython_MatchesVectors(t *testing.T) {
	out := checkPy(t, nil)
	if !strings.HasSuffix(out, " passed, 0 failed\n") {
		t.Errorf("check.py printed %q; want … passed, 0 failed", out)
	}
}

func TestPython_MatchesRandomQueries(t *testing.T) {
	const count = 5000
	// A fixed seed makes failures reproducible.
	random := rand.New(rand.NewPCG(2026, 1))
	queries := make([]string, count)
	var stdin bytes.Buffer
	for i := range queries {
		queries[i] = randomQuery(random)
		stdin.WriteString(base64.StdEncoding.EncodeToString([]byte(queries[i])) + "\n")
	}

	out := checkPy(t, stdin.Bytes(), "--canonical")
	answers := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(answers) != count {
		t.Fatalf("check.py answered %d queries; want %d", len(answers), count)
	}
	for i, want := range answers {
		if got := signing.CanonicalQuery(queries[i]); got != want {
			t.Errorf("CanonicalQuery(%q) = %q; Python says %q", queries[i], got, want)
		}
	}
}

// randomQuery joins pieces that matter to the rules, and some random bytes. Random
// bytes alone would rarely form an escape.
func randomQuery(random *rand.Rand) string {
	pieces := []string{
		"&", "&", "&", "=", "=", "+", "%", "%", ";", "-", ".", "_", "~", "/", " ",
		"a", "a", "b", "A", "B", "0", "4", "9", "f", "F", "g", "z",
		"%20", "%2B", "%26", "%3D", "%25", "%41", "%7e", "%7E", "%0A", "%00", "%ff", "%4", "%zz", "%%",
		"%e0%a4%b0", "रवि", "é", "\x00", "\n", "\xff", "a=", "id=1",
	}
	var b strings.Builder
	for range random.IntN(24) {
		if random.IntN(8) == 0 {
			b.WriteByte(byte(random.IntN(256)))
		} else {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
	}
	return b.String()
}
