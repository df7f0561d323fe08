// Package program provides the coax binary to tests that run it as a process.
//
// `make test` builds the binary once, with and without failpoints, and names the
// folder in COAX_TEST_BIN. Without that, as in a plain `go test`, the first test of
// each package that asks builds it into a temporary folder.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// binFolder is the environment variable that names the folder with the binaries.
const binFolder = "COAX_TEST_BIN"

// module is the package that is built.
const module = "github.com/coaxhq/coax/cmd/coax"

// Coax returns the path of the binary as it ships.
var Coax = sync.OnceValues(func() (string, error) { return provide("coax") })

// Failpoints returns the path of the binary that breaks where COAX_FAILPOINT says.
var Failpoints = sync.OnceValues(func() (string, error) { return provide("coax-failpoints", "-tags", "failpoints") })

func provide(name string, flags ...string) (string, error) {
	if folder := os.Getenv(binFolder); folder != "" {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s names a folder without %s: run `make test-bin`, or unset it: %w", binFolder, name, err)
		}
		return path, nil
	}
	return Build(name, flags...)
}

// Build builds the binary with more flags of `go build`, such as an overlay.
func Build(name string, flags ...string) (string, error) { return BuildPackage(name, module, flags...) }

// BuildPackage builds another command of this module.
func BuildPackage(name, of string, flags ...string) (string, error) {
	folder, err := temporary()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, name)
	build := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), of)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%q: %w\n%s", build.Args, err, text)
	}
	return path, nil
}

var (
	mu     sync.Mutex
	folder string
)

func temporary() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	if folder != "" {
		return folder, nil
	}
	var err error
	folder, err = os.MkdirTemp("", "coax-program-")
	return folder, err
}

// Remove deletes what this process built; for TestMain.
func Remove() {
	mu.Lock()
	defer mu.Unlock()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
}
