package web

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

func at(address string) *Visit { return &Visit{R: httptest.NewRequest("GET", address, nil)} }

// Going forward through a list and back again visits the same pages, with the same filters.
func TestPager_PreviousPage(t *testing.T) {
	const first = "/panel/list?q=asha&show=active"
	visited := []string{first}
	for n := range 6 {
		visited = append(visited, at(visited[n]).Pager(fmt.Sprintf("place-%d", n)).Next)
	}
	for n := len(visited) - 1; n > 0; n-- {
		pager := at(visited[n]).Pager("")
		if pager.Prev != visited[n-1] || pager.First || pager.Next != "" {
			t.Errorf("from %s one comes to %+v; want back to %s", visited[n], pager, visited[n-1])
		}
	}
	if pager := at(first).Pager(""); pager != (Pager{}) {
		t.Errorf("from a list of one page one comes to %+v", pager)
	}
}

// Without a trail, the previous page is the first page, and First is set.
func TestPager_WithoutTrailIsFirstPage(t *testing.T) {
	if pager := at("/panel/list?after=somewhere&q=asha").Pager(""); pager.Prev != "/panel/list?q=asha" || !pager.First {
		t.Errorf("one comes to %+v; want the first page", pager)
	}
}

func TestPager_TrailIsBounded(t *testing.T) {
	address := "/panel/list"
	for n := range 200 {
		address = at(address).Pager(fmt.Sprintf("%s-%d", strings.Repeat("x", 40), n)).Next
		if len(address) > 3*longestTrail {
			t.Fatalf("after %d pages the address has %d characters", n, len(address))
		}
	}
	if pager := at(address).Pager(""); pager.First || !strings.Contains(pager.Prev, "-198") {
		t.Errorf("back from the last page one comes to %+v", pager)
	}
	if pager := at("/panel/list?after=" + strings.Repeat("y", 2*longestTrail)).Pager("next"); len(pager.Next) > longestTrail {
		t.Errorf("a place that is too long goes on into the trail: %d characters", len(pager.Next))
	}
}
