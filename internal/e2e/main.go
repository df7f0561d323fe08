// Package e2e is what the end-to-end tests share: a whole service in the test's own
// process with a clock that the test moves (Env), the binary as processes (Process),
// an installation folder for `coax admin` (Install), and a browser's way of asking for
// pages (Browser). Tests are in the folders below, by what they speak to.
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

// Main runs the tests of a package, removes what they shared and then calls these;
// for TestMain.
func Main(m *testing.M, end ...func()) {
	code := run(m)
	for _, f := range end {
		f()
	}
	os.Exit(code)
}

// MainReceivingEveryCode is Main for the package that has to receive every code of
// the contract from a running service.
func MainRequiringAllCodes(m *testing.M) {
	code := run(m)
	if code == 0 && everyTestRan() {
		code = received.report(os.Stderr, fault.Contract)
	}
	os.Exit(code)
}

func run(m *testing.M) int {
	defer program.Remove()
	defer pgtest.StopShared()
	defer endShared()
	defer removeFurnished()
	login.HashCheaply() // of this process: those that it starts are as they are
	return m.Run()
}
