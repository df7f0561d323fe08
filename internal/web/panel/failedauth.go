package panel

import (
	"net/netip"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/web"
)

// FailedAuthentications returns the addresses from which requests with an operator's own
// keys failed to authenticate.
type FailedAuthentications interface {
	FailedAuthenticationsOf(operatorID int64, whitelist []netip.Prefix, now time.Time) access.ThrottleReport
}

// failedAuthRow is an address with the failures of the operator's own keys. Failures of
// other keys from there are not shown.
type failedAuthRow struct {
	Address  string
	Failures int
	Keys     []string
	Code     fault.Code // of the latest
	Last     time.Time  // zero if none were the operator's
	// Wait is the number of seconds that the address stays throttled; 0 if it is not.
	Wait int
	// Times is how often it was throttled in the last 24 hours, if the failures are older
	// than a minute.
	Times int
	// Search is the URL of the requests in the request log.
	Search string
}

// failedAuth returns the failures of the last minute, then those that led to throttling
// before.
func (p panel) failedAuth(v *web.Visit, whitelist []netip.Prefix) (rows []failedAuthRow) {
	report := p.Failures.FailedAuthenticationsOf(v.Operator(), whitelist, v.Now)
	shown := map[netip.Prefix]bool{}
	for i, failing := range [][]access.FailingAddress{report.Failing, report.Past} {
		for _, one := range failing {
			if shown[one.Network] {
				continue
			}
			shown[one.Network] = true
			row := failedAuthRow{Address: one.String(), Failures: one.Failures, Last: one.Last, Search: "/panel/requests?refused=yes"}
			if one.Network.IsValid() && one.Network.IsSingleIP() {
				row.Search += "&q=" + one.Network.Addr().String()
			}
			if i == 1 {
				row.Times = one.Times
			}
			for _, key := range one.Keys {
				row.Keys = append(row.Keys, key.Hint)
				if key.Last.Equal(one.Last) {
					row.Code = key.Code
				}
			}
			if one.Throttled(v.Now) {
				row.Wait = max(1, int(one.Until.Sub(v.Now).Round(time.Second)/time.Second))
			}
			rows = append(rows, row)
		}
	}
	return rows
}
