package web

import (
	"net/http"
	"strings"
	"testing"
)

// A form of the console may need a step-up because of what it says, and so has a page to
// come back to.
func TestRoute_ConsoleFormHasAPage(t *testing.T) {
	handle := func(*Visit) error { return nil }
	form := Route{Method: http.MethodPost, Path: "/console/x", Area: Console, Allow: Staff(StaffRoles...), Handle: handle}
	if _, err := newTable([]Route{form}); err == nil || !strings.Contains(err.Error(), "may need a step-up") {
		t.Errorf("the table was made with %v; want it refused", err)
	}
	page := form
	page.Method = http.MethodGet
	if _, err := newTable([]Route{form, page}); err != nil {
		t.Error(err)
	}
}
