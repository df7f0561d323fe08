// Package watch tests what an administrator watches Coax with: the alert rules, their runbook
// and the dashboard of docs/examples. Its long tests run a Prometheus.
package watch

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
