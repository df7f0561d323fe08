package races

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
)

// For every kind of change made by coax admin beside a service under load: no request that
// began after it is served under the old value.
func TestAdminChange_AppliesAtOnce(t *testing.T) {
	w := e2e.NewEnv(t, "limits.failed_auth_per_minute=1000000", "log.level=error")
	limit := 1_000_000
	me := w.NewOperator("one", access.AllPermissions)
	if _, err := w.Admin.ChangeOperator(t.Context(), me.OperatorID, admin.OperatorChange{RateLimit: &limit}); err != nil {
		t.Fatal(err)
	}
	lco, key := fmt.Sprint(me.OperatorID), fmt.Sprint(me.ID)
	changes := []struct {
		args []string
		want fault.Code
	}{
		{[]string{"lco", "set", "--lco", lco, "--api", "blocked"}, fault.APIAccessBlocked},
		{[]string{"lco", "set", "--lco", lco, "--api", "enabled"}, fault.OK},
		{[]string{"key", "permit", "--key-id", key, "--permission", "Get Plans"}, fault.PermissionDenied},
		{[]string{"key", "permit", "--key-id", key, "--permission", "Check Balance"}, fault.OK},
		{[]string{"whitelist", "remove", "--lco", lco, "127.0.0.1"}, fault.IPNotWhitelisted},
		{[]string{"whitelist", "add", "--lco", lco, "127.0.0.1"}, fault.OK},
		{[]string{"lco", "set", "--lco", lco, "--status", "inactive"}, fault.LCOInactive},
		{[]string{"lco", "set", "--lco", lco, "--status", "active", "--api", "disabled"}, fault.APIDisabled},
		{[]string{"lco", "set", "--lco", lco, "--api", "enabled"}, fault.OK},
		{[]string{"lco", "set", "--lco", lco, "--rate-limit", "1"}, fault.RateLimited},
		{[]string{"lco", "set", "--lco", lco, "--rate-limit", "1000000"}, fault.OK},
		{[]string{"key", "rotate", "--key-id", key, "--grace", "0s"}, fault.CredentialExpired},
		{[]string{"key", "revoke", "--key-id", key}, fault.CredentialRevoked},
	}
	// coax admin uses the machine's clock, and the service's does not advance: set it ahead,
	// so that a grace that ends now has ended for the service too.
	w.Time.Store(time.Now().Add(time.Minute).Truncate(time.Minute).Add(30 * time.Second).UnixMilli())
	l := w.StartLoad(me)
	defer l.Stop()
	l.Await(t, 20)
	// A value applies from the return of its command to the start of the next; while a
	// command runs, either value is right.
	type period struct {
		from, until time.Time
		want        fault.Code
	}
	periods := []period{{want: fault.OK}}
	for _, change := range changes {
		args := append([]string{"admin", "--config", filepath.Join(w.Folder, "coax.toml"), "--json"}, change.args...)
		began := time.Now()
		e2e.RequireOK(t, e2e.Run(t, args...))
		made := time.Now()
		periods[len(periods)-1].until = began
		periods = append(periods, period{from: made, want: change.want})
		l.Await(t, 20)
	}
	l.Stop()
	periods[len(periods)-1].until = time.Now()
	for i := 1; i < len(periods); i++ {
		old, served := 0, 0
		for _, s := range l.All {
			if s.Began.Before(periods[i].from) || s.Began.After(periods[i].until) {
				continue
			}
			// A request still running when the next change began may have got
			// that one.
			overlaps := s.Ended.After(periods[i].until) && i+1 < len(periods)
			switch {
			case s.Code == periods[i].want:
				served++
			case !overlaps || s.Code != periods[i+1].want:
				old++
			}
		}
		if old > 0 || served < 20 {
			t.Errorf("after %v: %d served under another value, %d under the new; want none, and at least 20",
				changes[i-1].args, old, served)
		}
	}
}
