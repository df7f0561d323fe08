package storetest

import (
	"context"
	"fmt"
	"testing"
)

// FindsGaps demands that a store's search for a free subscriber id finds the next
// gap from an id on, and none where a whole stretch is taken.
func FindsGaps(t *testing.T, store Store, search func(ctx context.Context, start string) (string, error)) {
	t.Helper()
	s := (&house{TB: t, Store: store}).shop("1000000")
	add := func(id string, n int) { s.reserve(s.activation(name("key", n), fmt.Sprintf("98%08d", n), id)) }
	for n, id := range []string{"000100", "000101", "0001010", "000102", "000104", "999999"} {
		add(id, n)
	}
	for start, want := range map[string]string{
		"000000": "000000", "000100": "000103", "000103": "000103", "000104": "000105", "999998": "999998", "999999": "",
	} {
		if got, err := search(t.Context(), start); err != nil || got != want {
			t.Errorf("from %s on %q is free, %v; want %q", start, got, err, want)
		}
	}
	for n := range 1000 {
		add(fmt.Sprintf("50%04d", n), 100+n)
	}
	if got, err := search(t.Context(), "500000"); err != nil || got != "" {
		t.Errorf("in a stretch that is taken %q is free, %v", got, err)
	}
	if got, err := search(t.Context(), "500001"); err != nil || got != "501000" {
		t.Errorf("behind that stretch %q is free, %v; want 501000", got, err)
	}
}
