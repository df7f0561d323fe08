// Package e2e has the fixtures of the end-to-end tests: a whole service in the test's
// process with a clock that the test moves (Env), the binary as a process (Process), an
// installation folder for `coax admin` (Install), and a page client without a browser
// (Browser). The tests are in the folders below.
//
// Everything runs on either store: on SQLite, or with COAX_TEST_STORE=postgres on
// databases of a PostgreSQL server that the tests start.
package e2e

import (
	"os"
	"testing"

	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// Main runs the tests of a package, removes shared fixtures and then calls end. It is for
// TestMain.
func Main(m *testing.M, end ...func()) {
	code := run(m)
	for _, f := range end {
		f()
	}
	os.Exit(code)
}

// MainRequiringAllCodes is Main for the package whose tests must receive every code of the
// contract from a running service.
func MainRequiringAllCodes(m *testing.M) {
	code := run(m)
	if code == 0 && isFullRun() {
		code = received.report(os.Stderr, fault.Contract)
	}
	os.Exit(code)
}

func run(m *testing.M) int {
	defer program.Remove()
	defer pgtest.StopShared()
	defer endShared()
	defer removeFirstStart()
	login.HashCheaply() // in this process only
	return m.Run()
}
