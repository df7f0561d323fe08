package console

import (
	"testing"

	"github.com/coaxhq/coax/internal/admin"
)

func TestFailedCalls(t *testing.T) {
	calls := func(causes ...string) (recent []admin.ProviderAnswer) {
		for _, cause := range causes {
			recent = append(recent, admin.ProviderAnswer{Cause: cause, Answered: cause == "answered"})
		}
		return recent
	}
	for _, tt := range []struct {
		recent []admin.ProviderAnswer
		want   int
	}{
		{nil, 0},
		{calls("answered", "undecided"), 0},
		{calls("answered", "timed_out", "timed_out"), 2},
		{calls("undecided", "timed_out"), 1},
		{calls("timed_out", "answered"), 1},
		{calls("timed_out", "unreachable", "undecided", "interrupted"), 3},
		{calls("timed_out", "timed_out", "timed_out", "timed_out", "timed_out", "timed_out", "timed_out", "timed_out"), 8},
	} {
		if got := failedCalls(tt.recent); got != tt.want {
			t.Errorf("of %+v %d failed; want %d", tt.recent, got, tt.want)
		}
	}
}
