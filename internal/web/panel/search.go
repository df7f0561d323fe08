package panel

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/web"
)

func (p panel) searchRoutes() []web.Route {
	return []web.Route{{Method: http.MethodGet, Path: "/panel/search", Area: web.Panel, Allow: everyone, Under: "/panel/", Handle: p.search}}
}

// searchRows is how many rows of each kind a search shows.
const searchRows = 8

// searchPage is what one text finds among all that the visitor may see.
type searchPage struct {
	Text         string
	Subscribers  []row
	More         string // URL of all matching subscribers, if there are others
	Transactions []entry
	// Of: the transactions are those of the subscriber that was found, and All is the URL of
	// all of them.
	Of, All string
	// Later is the URL of the search for a provider's transaction, which is slow and is loaded
	// after the page; LookedBackTo is how far back that searched.
	Later, LookedBackTo string
	Payments            []foundPayment
	Keys                []keyRow
	SeesKeys            bool
	Nothing             bool
}

// foundPayment is a payment with the URL where it is listed.
type foundPayment struct {
	admin.FoundPayment
	Href string
}

// payments returns the operator's announced payments and top-ups that are meant by a reference.
func (p panel) payments(v *web.Visit, text string) (found []foundPayment, err error) {
	payments, err := p.Payments.FindPayments(v.Context(), v.Operator(), text, searchRows)
	for _, one := range payments {
		day := report.Day(one.Day).Format(dayForm)
		href := "/panel/statement?" + url.Values{"from": {day}, "until": {day}}.Encode()
		if one.Announcement != 0 {
			href = addMoneyPath + "?after=" + strconv.FormatInt(one.Announcement+1, 10) + "#announced"
		}
		found = append(found, foundPayment{one, href})
	}
	return found, err
}

// search looks for a text. A text that is exactly the id of one thing leads to its page.
func (p panel) search(v *web.Visit) error {
	page := searchPage{Text: report.SearchText(v.Query("q")), SeesKeys: v.May(http.MethodGet, "/panel/keys")}
	if v.Query("provider") == "yes" {
		return p.searchProvider(v, page)
	}
	found, err := p.Report.Search(v.Context(), v.Operator(), page.Text, searchRows)
	if err != nil {
		return err
	}
	var exact []string
	for _, s := range found.Subscribers {
		page.Subscribers = append(page.Subscribers, row{s.Subscriber, standing(s.Expires, v.Now), s.DaysLeft(v.Now)})
		if s.Exact {
			exact = append(exact, "/panel/subscribers/"+url.PathEscape(s.ID))
		}
	}
	if page.Transactions = entries(found.Transactions); found.Named {
		for _, op := range found.Transactions {
			exact = append(exact, "/panel/transactions/"+url.PathEscape(op.ID))
		}
	} else if len(found.Transactions) > 0 {
		one := found.Subscribers[0]
		page.Of, page.All = one.Name, "/panel/transactions?subscriber="+url.QueryEscape(one.ID)
	}
	if page.Payments, err = p.payments(v, page.Text); err != nil {
		return err
	}
	if page.SeesKeys {
		if page.Keys, err = p.foundKeys(v, page.Text); err != nil {
			return err
		}
		for _, key := range page.Keys {
			if len(page.Text) >= len(key.Hint) {
				exact = append(exact, "/panel/keys/"+strconv.FormatInt(key.ID, 10))
			}
		}
	}
	if len(exact) == 1 && len(page.Payments) == 0 {
		return v.Redirect(exact[0], nil)
	}
	if found.MoreSubscribers {
		page.More = "/panel/subscribers?q=" + url.QueryEscape(page.Text)
	}
	page.Nothing = len(page.Subscribers)+len(page.Transactions)+len(page.Payments)+len(page.Keys) == 0
	if page.Nothing && found.MaybeProviders {
		page.Later = "/panel/search?" + url.Values{"q": {page.Text}, "provider": {"yes"}}.Encode()
	}
	return v.Show("panel/search", page)
}

// searchProvider looks for a provider's transaction.
func (p panel) searchProvider(v *web.Visit, page searchPage) error {
	found, searchedTo, err := p.Report.ProviderTransaction(v.Context(), v.Operator(), page.Text, searchRows)
	switch {
	case err != nil:
		return err
	case len(found) == 1:
		return v.Redirect("/panel/transactions/"+url.PathEscape(found[0].ID), nil)
	}
	page.Transactions, page.Nothing = entries(found), len(found) == 0
	if !searchedTo.IsZero() {
		page.LookedBackTo = v.Look.Day(v.Language(), searchedTo)
	}
	if v.ByHTMX() {
		return v.ShowPart("panel/search", "found", page)
	}
	return v.Show("panel/search", page)
}

// foundKeys returns the operator's keys that are meant by a key or the beginning of one.
func (p panel) foundKeys(v *web.Visit, text string) (found []keyRow, err error) {
	hint := access.HintPrefix(text)
	if hint == "" {
		return nil, nil
	}
	keys, err := p.keys(v)
	for _, key := range keys {
		if strings.HasPrefix(key.Hint, hint) && len(found) < searchRows {
			found = append(found, key)
		}
	}
	return found, err
}
