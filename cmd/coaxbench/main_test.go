package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// asProgram is set in the environment of a process of this test binary that is to run
// as coaxbench.
const asProgram = "COAX_TEST_AS_COAXBENCH"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	e2e.Main(m)
}

// launch starts coaxbench with the tests' coax binary and temporary files in temp.
func launch(t *testing.T, temp string, args ...string) *e2e.Process {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	if len(args) > 0 && (args[0] == "compare" || args[0] == "load") {
		command.Args = append(command.Args, "--coax", e2e.Binary(t))
	}
	command.Env = append(e2e.Environ(), asProgram+"=1", "TMPDIR="+temp)
	p := e2e.LaunchCommand(t, command)
	t.Cleanup(func() { p.Kill() })
	return p
}

// run runs coaxbench to its end.
func run(t *testing.T, args ...string) e2e.Result {
	t.Helper()
	p := launch(t, t.TempDir(), args...)
	code := p.Wait()
	return e2e.Result{Code: code, Out: p.Out.String(), Err: p.Err.String()}
}

// checkEmpty fails the test unless a folder is empty.
func checkEmpty(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) > 0 {
		t.Errorf("%s holds %v (%v); want nothing", folder, entries, err)
	}
}
