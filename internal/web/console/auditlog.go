package console

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const auditLogPath = "/console/audit-log"

// auditLogRoutes show what staff did.
func (c console) auditLogRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: auditLogPath, Area: web.Console, Allow: everyone, Menu: look.Text("Audit log"), Icon: "scroll-text", Handle: c.showAuditLog},
		{Method: http.MethodGet, Path: auditLogPath + "/{act}", Area: web.Console, Allow: everyone, Handle: c.showAct},
	}
}

const (
	actsShown = 50
	// chainMost bounds how many acts are verified while somebody waits; `coax
	// audit` verifies them all.
	chainMost = 10_000
	// chainUnasked is how far apart the first and the last act of a page may be for
	// the chain between them to be verified whenever it is shown.
	chainUnasked = 500
)

type auditLogPage struct {
	Acts      []auditedAct
	Pager     web.Pager
	Actor     string
	Action    string
	Search    string
	Operator  string
	From      string
	Until     string
	Actions   []look.Choice
	Operators []look.Choice
	Problem   string
	// Cut: not all acts were looked at yet, and the next page goes on.
	Cut bool
	// Verify is where the shown range is verified; Chain what came of it, nil where
	// there is nothing to tell.
	Verify string
	Chain  *chainState
	// Audit is what the last audit of all the books found, the whole chain among them.
	Audit admin.AuditHealth
}

// auditedAct is an act with whose it is.
type auditedAct struct {
	shownAct
	OperatorName string
}

// Href is where the act's page stands.
func (a auditedAct) Href() string { return auditLogPath + "/" + strconv.FormatInt(a.ID, 10) }

// chainState is what came of verifying a range of the chain.
type chainState struct {
	// Checked acts were held against their hashes, from one to another.
	Checked     int
	First, Last int64
	// Broken is the first act that does not fit the one before it; zero if all do.
	Broken int64
}

func (c console) showAuditLog(v *web.Visit) error {
	query, page, err := c.actsAsked(v)
	if err != nil {
		return err
	}
	operators, err := c.service(v).Operators(v.Context())
	if err != nil {
		return err
	}
	names := map[int64]string{}
	page.Operators = []look.Choice{{Value: "", Text: v.T("All operators")}}
	for _, operator := range operators {
		names[operator.ID] = operator.Name
		page.Operators = append(page.Operators, look.Choice{Value: strconv.FormatInt(operator.ID, 10), Text: operator.Name})
	}
	page.Actions = []look.Choice{{Value: "", Text: v.T("All actions")}}
	for action := range actNames {
		page.Actions = append(page.Actions, look.Choice{Value: action, Text: actName(v, action)})
	}
	slices.SortFunc(page.Actions[1:], func(a, b look.Choice) int { return strings.Compare(a.Text, b.Text) })
	found, err := c.service(v).FindAuditEntries(v.Context(), query)
	if err != nil {
		return err
	}
	acts, next := found.Entries, found.SearchedTo
	page.Cut = next != 0
	if len(acts) > actsShown {
		acts = acts[:actsShown]
		next = acts[actsShown-1].ID
	}
	for _, act := range acts {
		page.Acts = append(page.Acts, auditedAct{shownAct{act}, names[act.OperatorID]})
	}
	below := ""
	if next != 0 {
		below = strconv.FormatInt(next, 10)
	}
	page.Pager, page.Verify = v.Pager(below), v.FilterURL(auditLogPath, "after", v.Query("after"), "trail", v.Query("trail"), "verify", "yes")
	if page.Chain, err = c.chainOf(v, acts); err != nil {
		return err
	}
	if v.ByHTMX() {
		return v.ShowPart("console/audit-log", "acts", page)
	}
	page.Audit = c.Health(v.Context()).Audit
	return v.Show("console/audit-log", page)
}

// chainOf verifies the chain of the shown acts. A break is told whether or not anybody
// asked; that all is well, only to who did. Where filters leave acts that lie far
// apart, it takes somebody to ask.
func (c console) chainOf(v *web.Visit, acts []admin.AuditEntry) (*chainState, error) {
	if len(acts) == 0 {
		return nil, nil
	}
	first, last, asked := acts[len(acts)-1].ID, acts[0].ID, v.Query("verify") == "yes"
	if !asked && last-first > chainUnasked {
		return nil, nil
	}
	chain, err := c.verifyChain(v, first, last)
	if err != nil || chain.Broken == 0 && !asked {
		return nil, err
	}
	return chain, nil
}

// actsAsked reads the filters. A day that is none is told, and left out.
func (c console) actsAsked(v *web.Visit) (admin.AuditQuery, auditLogPage, error) {
	page := auditLogPage{
		Actor: v.Query("actor"), Action: v.Query("action"), Search: v.Query("q"), Operator: v.Query("operator"), From: v.Query("from"), Until: v.Query("until"),
	}
	query := admin.AuditQuery{Actor: page.Actor, Action: page.Action, Search: page.Search, Limit: actsShown + 1}
	for _, number := range []struct {
		text string
		to   *int64
	}{{page.Operator, &query.OperatorID}, {v.Query("after"), &query.Below}} {
		if number.text == "" {
			continue
		}
		n, err := strconv.ParseInt(number.text, 10, 64)
		if err != nil || n < 1 {
			return query, page, web.NotFound()
		}
		*number.to = n
	}
	for _, day := range []struct {
		text string
		to   *time.Time
		more int
	}{{page.From, &query.From, 0}, {page.Until, &query.Before, 1}} {
		if day.text == "" {
			continue
		}
		t, err := time.ParseInLocation(time.DateOnly, day.text, subscription.IST)
		if err != nil {
			page.Problem = v.T("Write days as 2027-03-31.")
			continue
		}
		*day.to = t.AddDate(0, 0, day.more)
	}
	return query, page, nil
}

// verifyChain computes the hashes of all acts from one to another once more, those
// that the filters hide among them: what was taken out would otherwise not show.
func (c console) verifyChain(v *web.Visit, first, last int64) (*chainState, error) {
	// One more than the range, to hold its first act against. Numbers have no gaps;
	// where there is one, more is read, and the chain shows it.
	most := min(last-first+2, chainMost+1)
	found, err := c.service(v).FindAuditEntries(v.Context(), admin.AuditQuery{Below: last + 1, Limit: int(most)})
	if err != nil {
		return nil, err
	}
	acts := found.Entries
	slices.Reverse(acts)
	begin := slices.IndexFunc(acts, func(a admin.AuditEntry) bool { return a.ID >= first })
	var previous []byte
	switch {
	case begin < 0: // it was there a moment ago
		return &chainState{First: first, Last: last, Broken: last}, nil
	case begin > 0:
		previous = acts[begin-1].Hash
	case len(acts) == int(most): // the range was cut, and the oldest of it stands for what was before
		previous, begin = acts[0].Hash, 1
	}
	state := &chainState{First: acts[begin].ID, Last: last}
	for _, act := range acts[begin:] {
		if !bytes.Equal(act.ChainHash(previous), act.Hash) {
			state.Broken = act.ID
			break
		}
		state.Checked++
		previous = act.Hash
	}
	return state, nil
}
