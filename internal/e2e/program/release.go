package program

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// releasesFile lists the commit of each release, below the module's root.
const releasesFile = "docs/releases.txt"

// A Recorded release has a version and the commit that its binary is built from.
type Recorded struct{ Version, Commit string }

// Releases reads the recorded releases of the module at root, oldest first.
func Releases(root string) ([]Recorded, error) {
	text, err := os.ReadFile(filepath.Join(root, releasesFile))
	if err != nil {
		return nil, err
	}
	var all []Recorded
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		version, commit, ok := strings.Cut(line, " ")
		if !ok || len(commit) != 40 || strings.Trim(commit, "0123456789abcdef") != "" {
			return nil, fmt.Errorf("%s:%d: want a version and a commit of 40 hexadecimal digits, not %q", releasesFile, n+1, line)
		}
		all = append(all, Recorded{Version: version, Commit: commit})
	}
	return all, nil
}

// BuildRelease builds the binary of a release from its commit, which the checkout at root
// has to contain.
func BuildRelease(root string, release Recorded) (string, error) {
	folder, err := temporary()
	if err != nil {
		return "", err
	}
	source := filepath.Join(folder, "source-"+release.Version)
	if err := os.Mkdir(source, 0o700); err != nil {
		return "", err
	}
	archive := exec.Command("git", "-C", root, "archive", release.Commit)
	var message bytes.Buffer
	archive.Stderr = &message
	tree, err := archive.Output()
	if err != nil {
		return "", fmt.Errorf("read release %s from the history, which must not be shallow: %w\n%s", release.Version, err, message.String())
	}
	extract := exec.Command("tar", "-x", "-C", source)
	extract.Stdin = bytes.NewReader(tree)
	if text, err := extract.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%q: %w\n%s", extract.Args, err, text)
	}
	path := filepath.Join(folder, "coax-"+release.Version)
	build := exec.Command("go", "build", "-o", path, "./cmd/coax")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%q: %w\n%s", build.Args, err, text)
	}
	return path, nil
}
