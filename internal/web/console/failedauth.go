package console

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// FailedAuthentications returns the addresses and keys of requests that failed to
// authenticate.
type FailedAuthentications interface {
	FailedAuthentications(now time.Time) access.ThrottleReport
}

const failedAuthPath = "/console/failed-authentication"

func (c console) failedAuthRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: failedAuthPath, Area: web.Console, Allow: everyone, Keys: "g f", Menu: look.Text("Failed authentication"), Icon: "ban", Handle: c.showFailedAuth},
	}
}

type failedAuthPage struct {
	Node  string
	Limit int
	// Failing are the failures of the last minute, Past those that led to throttling in the
	// last 24 hours.
	Failing, Past []failedAuthRow
}

// failedAuthRow is the failures of one key from one address.
type failedAuthRow struct {
	Address string
	// Total is the number of the address's failures with any key.
	Total int
	// Wait is the number of seconds that the address stays throttled; 0 if it is not.
	Wait int
	// Times is how often it was throttled.
	Times int
	access.FailingKey
	Operator string
}

// OperatorPath and KeyPath return the pages of the key's operator and of the key; only for
// rows with a known key.
func (r failedAuthRow) OperatorPath() string { return operatorPath(r.OperatorID) }
func (r failedAuthRow) KeyPath() string {
	return operatorPath(r.OperatorID) + "/keys/" + number(r.CredentialID)
}

func (c console) showFailedAuth(v *web.Visit) error {
	operators, err := c.Operators.Operators(v.Context())
	if err != nil {
		return err
	}
	names := map[int64]string{}
	for _, operator := range operators {
		names[operator.ID] = operator.Name
	}
	rows := func(failing []access.FailingAddress) (list []failedAuthRow) {
		for _, one := range failing {
			for _, key := range one.Keys {
				row := failedAuthRow{Address: one.String(), Total: one.Failures, Times: one.Times, FailingKey: key}
				row.Operator = cmp.Or(names[key.OperatorID], strconv.FormatInt(key.OperatorID, 10))
				if one.Throttled(v.Now) {
					row.Wait = max(1, int(one.Until.Sub(v.Now).Round(time.Second)/time.Second))
				}
				list = append(list, row)
			}
		}
		return list
	}
	report := c.Failures.FailedAuthentications(v.Now)
	page := failedAuthPage{Node: c.Node, Limit: report.Limit, Failing: rows(report.Failing), Past: rows(report.Past)}
	if v.ByHTMX() {
		return v.ShowPart("console/failed-authentication", "failures", page)
	}
	return v.Show("console/failed-authentication", page)
}
