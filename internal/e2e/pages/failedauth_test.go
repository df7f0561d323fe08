package pages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// Two operators call from one /64. The console shows whose failures throttled it; each panel
// shows its own operator's only.
func TestFailedAuth_PageNamesOperator(t *testing.T) {
	t.Parallel()
	w := e2e.NewEnv(t, "limits.failed_auth_per_minute=6", "server.trusted_proxies=127.0.0.1/32", "log.security_file=")
	broken, neighbour := w.DemoCaller(), w.NewOperator("Neighbour Cable", access.AllPermissions)
	if _, err := w.Admin.AllowAddress(t.Context(), neighbour.OperatorID, "2001:db8:7::9"); err != nil {
		t.Fatal(err)
	}
	staff, owner := w.SignIn(t, w.Demo.Admin), w.SignIn(t, w.Demo.Operator)
	other := w.SignIn(t, w.NewLogin(t, "neighbour", login.Owner, neighbour.OperatorID))
	const page, keys = "/console/failed-authentication", "/panel/keys"
	staff.Get(page).Shows(t, http.StatusOK, "No failed calls", "No address was throttled")
	log := &securityReader{t: t, read: w.Log.String}
	log.skip()

	from := func(as e2e.Caller, address string) e2e.Call {
		return e2e.Call{As: as, Path: e2e.Balance, Header: http.Header{"X-Forwarded-For": {address}}}
	}
	wrong := func(as e2e.Caller, address string) e2e.Call {
		call := from(as, address)
		call.Signature = strings.Repeat("0", 64)
		return call
	}
	stranger := e2e.Caller{Key: "cxk_" + strings.Repeat("0", 32), Secret: "x"}
	for _, address := range []string{"2001:db8:7::1", "2001:db8:7::2", "2001:db8:7::3"} {
		w.Expect("a wrong signature", wrong(broken, address), fault.InvalidSignature)
	}
	w.Expect("a wrong signature elsewhere", wrong(broken, "192.0.2.7"), fault.InvalidSignature)
	w.Expect("an unknown key", from(stranger, "2001:db8:7::4"), fault.InvalidAPIKey)
	late := from(neighbour, "2001:db8:7::9")
	late.Timestamp = "1"
	w.Expect("an old timestamp", late, fault.TimestampExpired)
	w.Expect("not throttled yet", from(neighbour, "2001:db8:7::9"), fault.OK)
	other.Get(keys).Shows(t, http.StatusOK, "2001:db8:7::/64", "Not throttled")
	w.Expect("a wrong signature", wrong(broken, "2001:db8:7::5"), fault.InvalidSignature)
	if got := w.Expect("all of the /64", from(neighbour, "2001:db8:7::9"), fault.TooManyFailedAttempts); got.Header.Get("Retry-After") != "60" {
		t.Errorf("Retry-After is %q; want 60", got.Header.Get("Retry-After"))
	}
	w.Expect("the next /64", from(neighbour, "2001:db8:7:1::9"), fault.IPNotWhitelisted)
	w.Expect("an address of IPv4 below the limit", from(broken, "192.0.2.7"), fault.IPNotWhitelisted)
	byKey := fmt.Sprint(log.next(fields{"event": "api_throttled", "ip": "2001:db8:7::5", "network": "2001:db8:7::/64"})["by_key"])
	want := fmt.Sprint([]any{
		fields{"operator": broken.OperatorID, "key": access.Hint(broken.Key), "failures": 4, "code": "INVALID_SIGNATURE"},
		fields{"failures": 1, "code": "INVALID_API_KEY"},
		fields{"operator": neighbour.OperatorID, "key": access.Hint(neighbour.Key), "failures": 1, "code": "TIMESTAMP_EXPIRED"},
	})
	if byKey != want {
		t.Errorf("the security log says %s; want %s", byKey, want)
	}

	got := staff.Get(page).Shows(t, http.StatusOK, "2001:db8:7::/64", "Throttled", "60 seconds left", "192.0.2.7", "Neighbour Cable",
		access.Hint(broken.Key), access.Hint(neighbour.Key), "INVALID_SIGNATURE", "TIMESTAMP_EXPIRED", "INVALID_API_KEY", "unknown or missing", "of 6")
	if n := strings.Count(got.Body, "2001:db8:7::/64"); n != 6 {
		t.Errorf("the /64 is in %d rows; want one a key, now and in the last 24 hours", n)
	}
	for b, rows := range map[*e2e.Browser]struct {
		shows, hides []string
	}{
		owner: {[]string{"2001:db8:7::/64", "60 seconds left", "192.0.2.7", access.Hint(broken.Key), "INVALID_SIGNATURE"}, []string{access.Hint(neighbour.Key), "TIMESTAMP_EXPIRED", "INVALID_API_KEY", "Neighbour Cable"}},
		other: {[]string{"2001:db8:7::/64", "60 seconds left", access.Hint(neighbour.Key), "TIMESTAMP_EXPIRED"}, []string{access.Hint(broken.Key), "INVALID_SIGNATURE", "INVALID_API_KEY", "192.0.2.7"}},
	} {
		body := b.Get(keys).Shows(t, http.StatusOK, append(rows.shows, "Calls that failed to authenticate", "Failed with your keys")...).Body
		for _, hidden := range rows.hides {
			if strings.Contains(body, hidden) {
				t.Errorf("a panel shows %q, which is another operator's", hidden)
			}
		}
	}
	owner.Get("/panel/requests?refused=yes").Shows(t, http.StatusOK, "2001:db8:7::5")

	t.Run("in a browser", func(t *testing.T) {
		e2e.StoreIndependent(t)
		for who, shown := range map[demo.Login]struct{ at, name string }{
			w.Demo.Admin: {page, "console-failed-authentication"}, w.Demo.Operator: {keys, "panel-failed-authentication"},
		} {
			tab := looktest.New(t)
			tabSignIn(w, tab, who)
			tab.Sees("Home")
			tab.Open(w.URL(shown.at))
			tab.Sees("2001:db8:7::/64")
			tab.Check(shown.name)
		}
	})

	w.Advance(time.Minute)
	w.Expect("after Retry-After", from(neighbour, "2001:db8:7::9"), fault.OK)
	staff.Get(page).Shows(t, http.StatusOK, "No failed calls", "Throttled in the last 24 hours", "2001:db8:7::/64", "Neighbour Cable")
	owner.Get(keys).Shows(t, http.StatusOK, "2001:db8:7::/64", "Not throttled", "throttled once in the last 24 hours")
}
