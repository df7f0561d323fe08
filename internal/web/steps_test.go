package web

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

func at(address string) *Visit { return &Visit{R: httptest.NewRequest("GET", address, nil)} }

// Whoever goes on through a list and back again is on the same pages, one by one, and
// keeps what the list was narrowed down by.
func TestPreviousIsThePageBefore(t *testing.T) {
	const first = "/panel/list?q=asha&show=active"
	visited := []string{first}
	for n := range 6 {
		visited = append(visited, at(visited[n]).Steps(fmt.Sprintf("place-%d", n)).On)
	}
	for n := len(visited) - 1; n > 0; n-- {
		steps := at(visited[n]).Steps("")
		if steps.Back != visited[n-1] || steps.First || steps.On != "" {
			t.Errorf("from %s one comes to %+v; want back to %s", visited[n], steps, visited[n-1])
		}
	}
	if steps := at(first).Steps(""); steps != (Steps{}) {
		t.Errorf("from a list of one page one comes to %+v", steps)
	}
}

// An address that says where it is and not how one came there leads to the beginning,
// and is called so.
func TestWithoutATrailBackIsTheFirstPage(t *testing.T) {
	if steps := at("/panel/list?after=somewhere&q=asha").Steps(""); steps.Back != "/panel/list?q=asha" || !steps.First {
		t.Errorf("one comes to %+v; want the first page", steps)
	}
}

func TestATrailNeverMakesAnAddressTooLong(t *testing.T) {
	address := "/panel/list"
	for n := range 200 {
		address = at(address).Steps(fmt.Sprintf("%s-%d", strings.Repeat("x", 40), n)).On
		if len(address) > 3*longestTrail {
			t.Fatalf("after %d pages the address has %d characters", n, len(address))
		}
	}
	if steps := at(address).Steps(""); steps.First || !strings.Contains(steps.Back, "-198") {
		t.Errorf("back from the last page one comes to %+v", steps)
	}
	if steps := at("/panel/list?after=" + strings.Repeat("y", 2*longestTrail)).Steps("next"); len(steps.On) > longestTrail {
		t.Errorf("a place that is too long goes on into the trail: %d characters", len(steps.On))
	}
}
