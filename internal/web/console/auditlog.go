package console

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const auditLogPath = "/console/audit-log"

// auditLogRoutes are the pages of the audit log.
func (c console) auditLogRoutes() []web.Route {
	return []web.Route{
		{Method: http.MethodGet, Path: auditLogPath, Area: web.Console, Allow: everyone, Keys: "g l", Menu: look.Text("Audit log"), Icon: "scroll-text", Handle: c.showAuditLog},
		{Method: http.MethodGet, Path: auditLogPath + "/{entry}", Area: web.Console, Allow: everyone, Handle: c.showEntry},
	}
}

const (
	entriesShown = web.PageRows
	// chainMost limits how many entries a page verifies; `coax audit` verifies them all.
	chainMost = 10_000
	// chainUnasked is the longest range of entries that is verified whenever a page is
	// shown.
	chainUnasked = 500
)

type auditLogPage struct {
	Entries   []auditedEntry
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
	// Cut: the search is not complete; the next page continues it.
	Cut bool
	// Verify is the URL that verifies the shown range; Chain its result, nil if there is
	// nothing to report.
	Verify string
	Chain  *chainState
	// Audit is the result of the last full audit, which verifies the whole chain.
	Audit admin.AuditHealth
}

// chainState is the result of verifying a range of the chain.
type chainState struct {
	// Checked is the number of entries that were verified, from one to another.
	Checked     int
	First, Last int64
	// Broken is the first entry that does not fit the one before it; zero if all do.
	Broken int64
}

func (c console) showAuditLog(v *web.Visit) error {
	query, page, err := c.entryFilter(v)
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
		// The log has operators by their numbers, the list by their names.
		if query.OperatorID == 0 && strings.EqualFold(strings.TrimSpace(query.Search), operator.Name) {
			query.OperatorID, query.Search = operator.ID, ""
		}
		page.Operators = append(page.Operators, look.Choice{Value: strconv.FormatInt(operator.ID, 10), Text: operator.Name})
	}
	page.Actions = []look.Choice{{Value: "", Text: v.T("All actions")}}
	for action := range actionNames {
		page.Actions = append(page.Actions, look.Choice{Value: action, Text: actionName(v, action)})
	}
	slices.SortFunc(page.Actions[1:], func(a, b look.Choice) int { return strings.Compare(a.Text, b.Text) })
	found, err := c.service(v).FindAuditEntries(v.Context(), query)
	if err != nil {
		return err
	}
	entries, next := found.Entries, found.SearchedTo
	page.Cut = next != 0
	if len(entries) > entriesShown {
		entries = entries[:entriesShown]
		next = entries[entriesShown-1].ID
	}
	if page.Entries, err = auditedEntries(v, c.Store, entries, names); err != nil {
		return err
	}
	below := ""
	if next != 0 {
		below = strconv.FormatInt(next, 10)
	}
	page.Pager, page.Verify = v.Pager(below), v.FilterURL(auditLogPath, "after", v.Query("after"), "trail", v.Query("trail"), "verify", "yes")
	if page.Chain, err = c.chainOf(v, entries); err != nil {
		return err
	}
	if v.ByHTMX() {
		return v.ShowPart("console/audit-log", "entries", page)
	}
	page.Audit = c.Health(v.Context()).Audit
	return v.Show("console/audit-log", page)
}

// chainOf verifies the chain of the shown entries. A break is always reported, success only
// if the visitor asked for it. If filters leave entries that are far apart, the chain is
// verified only on request.
func (c console) chainOf(v *web.Visit, entries []admin.AuditEntry) (*chainState, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	first, last, asked := entries[len(entries)-1].ID, entries[0].ID, v.Query("verify") == "yes"
	if !asked && last-first > chainUnasked {
		return nil, nil
	}
	chain, err := c.verifyChain(v, first, last)
	if err != nil || chain.Broken == 0 && !asked {
		return nil, err
	}
	return chain, nil
}

// entryFilter parses the filters. An invalid day is reported and ignored.
func (c console) entryFilter(v *web.Visit) (admin.AuditQuery, auditLogPage, error) {
	page := auditLogPage{
		Actor: v.Query("actor"), Action: v.Query("action"), Search: v.Query("q"), Operator: v.Query("operator"), From: v.Query("from"), Until: v.Query("until"),
	}
	actor, err := c.actorNamed(v, page.Actor)
	if err != nil {
		return admin.AuditQuery{}, page, err
	}
	query := admin.AuditQuery{Actor: actor, Action: page.Action, Search: page.Search, Limit: entriesShown + 1}
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
			page.Problem = v.T("Enter dates as 2027-03-31.")
			continue
		}
		*day.to = t.AddDate(0, 0, day.more)
	}
	return query, page, nil
}

// actorNamed returns the actor that a username means, or a name as the list shows it: that of a
// login, of an account of the server or of an API key.
func (c console) actorNamed(v *web.Visit, text string) (string, error) {
	if text = strings.TrimSpace(text); text == "" || strings.Contains(text, ":") {
		return text, nil
	}
	for _, shown := range []struct{ channel, form string }{{"cli:", v.T("%s (command line)", "\n")}, {"api:key ", v.T("API key %s", "\n")}} {
		before, after, _ := strings.Cut(shown.form, "\n")
		if name, found := strings.CutPrefix(text, before); found {
			if name, found = strings.CutSuffix(name, after); found && name != "" {
				return shown.channel + name, nil
			}
		}
	}
	people, err := c.service(v).Logins(v.Context(), admin.LoginFilter{Realm: login.Staff})
	if err != nil {
		return "", err
	}
	username := text
	for _, person := range people {
		if person.Username == text {
			return admin.ConsoleActor(person), nil
		}
		if strings.EqualFold(person.Name, text) {
			username = person.Username
		}
	}
	return "web:" + username, nil
}

// verifyChain recomputes the hashes of all entries in a range, including those that the
// filters hide: otherwise a removed entry would not show.
func (c console) verifyChain(v *web.Visit, first, last int64) (*chainState, error) {
	// Read one entry more, to compare the range's first one with. Numbers have no gaps; if
	// there is one, more is read, and the chain shows it.
	most := min(last-first+2, chainMost+1)
	found, err := c.service(v).FindAuditEntries(v.Context(), admin.AuditQuery{Below: last + 1, Limit: int(most)})
	if err != nil {
		return nil, err
	}
	entries := found.Entries
	slices.Reverse(entries)
	begin := slices.IndexFunc(entries, func(a admin.AuditEntry) bool { return a.ID >= first })
	var previous []byte
	switch {
	case begin < 0: // it existed a moment ago
		return &chainState{First: first, Last: last, Broken: last}, nil
	case begin > 0:
		previous = entries[begin-1].Hash
	case len(entries) == int(most): // the range was cut: its oldest entry stands for the one before
		previous, begin = entries[0].Hash, 1
	}
	state := &chainState{First: entries[begin].ID, Last: last}
	for _, entry := range entries[begin:] {
		if !bytes.Equal(entry.ChainHash(previous), entry.Hash) {
			state.Broken = entry.ID
			break
		}
		state.Checked++
		previous = entry.Hash
	}
	return state, nil
}
