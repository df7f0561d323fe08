// Package packages tests what make release builds: the Debian package is installed,
// started, upgraded, removed and purged on a Debian of its own, below .packages.
package packages

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// atEnd is called when all tests have run.
var atEnd []func()

func TestMain(m *testing.M) {
	e2e.Main(m, func() {
		for _, end := range atEnd {
			end()
		}
	})
}
