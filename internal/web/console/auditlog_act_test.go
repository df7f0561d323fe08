package console

import (
	"slices"
	"testing"
)

func TestAnActShowsWhatChangedAndWhatStayed(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string
		want          []actField
	}{
		"a price that rose": {
			`{"price":349.00,"name":"Family","addon":""}`, `{"price":399.50,"name":"Family","addon":""}`,
			[]actField{{"Name", "Family", "Family", false}, {"Price", "349.00", "399.50", true}},
		},
		"something new": {"", `{"rate_limit":60}`, []actField{{"Requests a minute", "", "60", true}}},
		"a list":        {`["192.0.2.1"]`, `["192.0.2.1","192.0.2.2"]`, []actField{{"", "192.0.2.1", "192.0.2.1, 192.0.2.2", true}}},
		"nothing":       {"", "", nil},
	} {
		if got := actFields(tt.before, tt.after); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v; want %v", name, got, tt.want)
		}
	}
}
