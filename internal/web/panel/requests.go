package panel

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// requestsPage is a search of the request log.
type requestsPage struct {
	Entries []callRow
	Keys    []access.Credential
	Codes   []look.Choice
	Search  string
	Key     string
	Code    string
	Refused string
	Period  period
	Links   links
	Kept    kept
	// SearchedTo is how far back was searched, if there is more.
	SearchedTo time.Time
}

// requestQuery parses a search. The text field takes a request id, an address or an
// idempotency key, distinguished by their form.
func requestQuery(v *web.Visit, keys []access.Credential) (requestlog.Query, requestsPage) {
	page := requestsPage{
		Search: v.Query("q"), Key: v.Query("key"), Code: v.Query("code"), Refused: v.Query("refused"), Period: readPeriod(v), Keys: keys,
	}
	q := requestlog.Query{After: v.Query("after"), From: page.Period.from, Refused: page.Refused == "yes", Limit: web.PageRows}
	if !page.Period.until.IsZero() {
		q.To = page.Period.until.AddDate(0, 0, 1).Add(-time.Millisecond)
	}
	address, err := netip.ParseAddr(page.Search)
	switch {
	case page.Search == "":
	case err == nil:
		q.Address = address.Unmap()
	case strings.HasPrefix(page.Search, "req_"):
		q.RequestID = page.Search
	default:
		q.IdempotencyKey = page.Search
	}
	if slices.Contains(fault.Contract, fault.Code(page.Code)) {
		q.Code = fault.Code(page.Code)
	} else {
		page.Code = ""
	}
	q.FromPages = page.Key == fromPages
	for _, key := range keys {
		if page.Key != "" && key.Hint == page.Key {
			q.CredentialID = key.ID
		}
	}
	return q, page
}

// fromPages is the filter for orders of the panel, instead of a key.
const fromPages = "pages"

// kept says how long requests are kept.
type kept struct {
	// Off: the request log is off.
	Off bool
	// For is the duration in words.
	For string
}

func (p panel) kept(v *web.Visit) kept {
	return kept{Off: !p.Requests.On(), For: inWords(v, p.Requests.Keep())}
}

// inWords formats a duration in the largest unit of which it has more than one.
func inWords(v *web.Visit, d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day && d%day == 0:
		return v.T("%d days", int(d/day))
	case d >= 2*time.Hour && d%time.Hour == 0:
		return v.T("%d hours", int(d/time.Hour))
	case d >= 2*time.Minute && d%time.Minute == 0:
		return v.T("%d minutes", int(d/time.Minute))
	}
	return v.T("%d seconds", int(d/time.Second))
}

func (p panel) showRequests(v *web.Visit) error {
	keys, err := p.Access.Keys(v.Context(), v.Operator())
	if err != nil {
		return err
	}
	q, page := requestQuery(v, keys)
	page.Kept = p.kept(v)
	found, err := p.Requests.Search(v.Context(), v.Operator(), q)
	if errors.Is(err, requestlog.ErrNotFound) {
		return web.NotFound()
	}
	if err != nil {
		return err
	}
	page.Entries, page.Links = callRows(v, found.Entries), linksOf(v, "/panel/requests", found.Next)
	if found.Next != "" {
		page.SearchedTo = found.SearchedTo
	}
	page.Codes = []look.Choice{{Value: "", Text: v.T(look.Text("Any"))}}
	for _, code := range fault.Contract {
		page.Codes = append(page.Codes, look.Choice{Value: string(code), Text: string(code)})
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/requests", "list", page)
	}
	return v.Show("panel/requests", page)
}

// callRow is a request with its display texts.
type callRow struct {
	requestlog.Entry
	// By is the person who used the panel, or the beginning of the key.
	By string
}

func newCallRow(v *web.Visit, entry requestlog.Entry) callRow {
	if entry.FromPage() {
		return callRow{entry, v.T("Panel: %s", v.Who("web:"+entry.KeyHint))}
	}
	return callRow{entry, entry.KeyHint + "…"}
}

func callRows(v *web.Visit, entries []requestlog.Entry) []callRow {
	rows := make([]callRow, len(entries))
	for i, entry := range entries {
		rows[i] = newCallRow(v, entry)
	}
	return rows
}

// Lasted returns the duration of the response in milliseconds.
func (c callRow) Lasted() string {
	return strconv.FormatFloat(float64(c.Took.Microseconds())/1000, 'f', 1, 64)
}
