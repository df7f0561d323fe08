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
	// SearchedTo is how far back was looked, where there is more to look at.
	SearchedTo time.Time
}

// requestQuery reads a search. What is typed into the one field is told apart by its
// form: a request id, an address, or else an idempotency key.
func requestQuery(v *web.Visit, keys []access.Credential) (requestlog.Query, requestsPage) {
	page := requestsPage{
		Search: v.Query("q"), Key: v.Query("key"), Code: v.Query("code"), Refused: v.Query("refused"), Period: readPeriod(v), Keys: keys,
	}
	q := requestlog.Query{After: v.Query("after"), From: page.Period.from, Refused: page.Refused == "yes"}
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

// fromPages is chosen in place of a key for what came from these pages.
const fromPages = "pages"

// kept says how long calls are kept.
type kept struct {
	// Off: they are not kept at all.
	Off bool
	// For is how long, in words.
	For string
}

func (p panel) kept(v *web.Visit) kept {
	return kept{Off: !p.Requests.On(), For: inWords(v, p.Requests.Keep())}
}

// inWords says a time in the largest unit that it is more than one of.
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
	page.Entries, page.Links = callRows(found.Entries), linksOf(v, "/panel/requests", found.Next)
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

// callRow is a call as pages show it.
type callRow struct{ requestlog.Entry }

func callRows(entries []requestlog.Entry) []callRow {
	rows := make([]callRow, len(entries))
	for i, entry := range entries {
		rows[i] = callRow{entry}
	}
	return rows
}

// Lasted is how long the answer took, in the unit that people compare.
func (c callRow) Lasted() string {
	return strconv.FormatFloat(float64(c.Took.Microseconds())/1000, 'f', 1, 64) + " ms"
}
