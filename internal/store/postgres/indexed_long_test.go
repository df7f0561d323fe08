//go:build long

package postgres_test

import (
	"testing"

	"github.com/coaxhq/coax/internal/store/storetest"
)

func TestRequestStatements_UseIndexes(t *testing.T) {
	s := newScene(t)
	for _, tt := range []struct{ name, change string }{
		{"with statistics", `ANALYZE`},
		{"without statistics", `DELETE FROM pg_statistic; UPDATE pg_class SET reltuples = -1 WHERE relnamespace = 'public'::regnamespace`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			heard := s.walk(t, tt.change)
			for _, why := range complaints(heard, isSmall) {
				t.Error(why)
			}
			var texts []string
			for _, one := range heard {
				texts = append(texts, one.Text)
			}
			for _, text := range storetest.UnexercisedSQL(t, texts, ofStaff) {
				t.Errorf("no plan is known of it: call it in storetest/methods.go, or say that only staff causes it:\n%s", text)
			}
		})
	}
	// A check that never objects would look just like a tidy store.
	t.Run("without one of its indexes", func(t *testing.T) {
		for _, index := range []string{
			"nonces_by_age", "operations_of_subscriber", "request_log_of_operator", "subscribers_by_expiry",
			// Either can stand in for the other, as few operations are in them.
			"operations_late_checks, operations_late_checks_by_operator", "operations_addon_due, operations_addons_by_operator",
		} {
			if len(complaints(s.walk(t, `DROP INDEX `+index), isSmall)) == 0 {
				t.Errorf("no violation is found when %s is missing", index)
			}
		}
	})
}
