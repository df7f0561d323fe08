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

// FailedAuthentications tells from which addresses calls failed to authenticate, and with
// which keys.
type FailedAuthentications interface {
	FailedAuthentications(now time.Time) access.ThrottleReport
}

const failedAuthPath = "/console/failed-authentication"

func (c console) failedAuthRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: failedAuthPath, Area: web.Console, Allow: everyone, Menu: look.Text("Failed authentication"), Icon: "ban", Handle: c.showFailedAuth},
	}
}

type failedAuthPage struct {
	Node  string
	Limit int
	// Failing are the failures of the last minute, Past those by which addresses came to
	// wait in the last 24 hours.
	Failing, Past []failedAuthRow
}

// failedAuthRow is the failures of one key from one address.
type failedAuthRow struct {
	Address string
	// Total is how many failures the address has, whatever their keys.
	Total int
	// Wait is for how many seconds more the address is throttled; 0 if it is not.
	Wait int
	// Times is how often it came to be throttled.
	Times int
	access.FailingKey
	Operator string
}

// OperatorPath and KeyPath lead to whose key was named. Both are for rows with a key only.
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
