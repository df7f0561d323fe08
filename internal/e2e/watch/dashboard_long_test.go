//go:build long

package watch

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/alerting"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// selectors are the parts of an expression that select series.
var selectors = regexp.MustCompile(`\b(?:coax_[a-z_]+|process_[a-z_]+|up)(?:\{[^}]*\})?`)

// Every query of the dashboard returns data for a busy demo, and so does every selector of the
// alerts: a name or label that is written wrong would never raise one.
func TestDashboardAndAlerts_HaveData(t *testing.T) {
	t.Parallel()
	provider, err := demo.StartSimulator("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.Stop)
	folder := t.TempDir()
	for _, name := range []string{"backups", "replica"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"demo", "--dir", filepath.Join(folder, "demo"), "--addr", "127.0.0.1:0", "--json"}
	args = append(args, settings(t, filepath.Join(folder, "backups"), provider.URL)...)
	if !pgtest.Chosen() {
		args = append(args, "--set", "store.replica=file://"+filepath.Join(folder, "replica"))
	}
	p := e2e.Start(t, args...)
	backUp(t, p, filepath.Join(folder, "backups"))
	t.Cleanup(customers(t, p))
	w := e2e.NewRemoteEnv(t, p)
	old := w.SendNow(e2e.Call{As: w.DemoCaller(), Path: e2e.Balance, Timestamp: fmt.Sprint(time.Now().Add(-time.Hour).Unix())})
	if old.Status != http.StatusUnauthorized {
		t.Errorf("an old timestamp: %d; want 401", old.Status)
	}
	metrics := watchNode(t, p.Demo)

	queries := readDashboard(t).Queries(t)
	for _, a := range alerts(t) {
		for _, selector := range selectors.FindAllString(a.Expr, -1) {
			if selector != "coax_clock_offset_seconds" || pgtest.Chosen() {
				queries[a.Alert+" selects "+selector] = selector
			}
		}
	}
	if pgtest.Chosen() { // without a replica
		for what, expr := range queries {
			if strings.Contains(expr, "coax_replica_") {
				delete(queries, what)
			}
		}
	}
	all := len(queries)
	complete := alerting.Eventually(2*time.Minute, func() bool {
		for what, expr := range queries {
			if len(metrics.Query(expr)) > 0 {
				delete(queries, what)
			}
		}
		return len(queries) == 0
	})
	if !complete {
		for what, expr := range queries {
			t.Errorf("%s has no data: %s", what, expr)
		}
	}
	t.Logf("%d queries and selectors have data", all-len(queries))
}
