// Package races has the end-to-end tests of concurrent clients, workers, nodes and
// processes. make test runs them under the race detector.
package races

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
