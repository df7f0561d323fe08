package pages

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// Customers' names are untrusted. In an exported file a name is never a formula, whatever
// form of the sign it begins with, and an amount stays a number.
func TestExport_CustomerNameIsNeverAFormula(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t)
	names := []string{"=1+1", "＝1+1", "＋1", "－1+2", "＠SUM(1)", "\u200d=1+1"}
	for i, name := range names {
		order := e2e.Order{"full_name": name, "mobile": fmt.Sprintf("970000000%d", i), "plan_id": "BASIC-1"}
		if got := w.Operate(w.DemoCaller(), "activate", fmt.Sprintf("formula-%d", i), order); got.Code != fault.OK {
			t.Fatalf("activate %q: %s", name, got.Raw)
		}
	}
	file := w.SignIn(t, w.Demo.Operator).Get("/panel/transactions/export/csv").Shows(t, http.StatusOK)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file.Body, "\ufeff"))).ReadAll()
	if err != nil || len(rows) != 1+len(names) {
		t.Fatalf("%d rows, %v:\n%s", len(rows), err, file.Body)
	}
	const customer, amount = 5, 8
	var got []string
	for _, row := range rows[1:] {
		got = append(got, row[customer])
		if row[amount] != "199.00" {
			t.Errorf("the amount is %q; want a plain 199.00", row[amount])
		}
	}
	for _, name := range names {
		if want := "'" + name; !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("the customer %q is not in the file as %q: %q", name, want, got)
		}
	}
}
