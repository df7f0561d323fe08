package console

import (
	"net/http"
	"net/url"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/report"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

func (c console) searchRoutes() []web.Route {
	return []web.Route{{Method: http.MethodGet, Path: "/console/search", Area: web.Console, Allow: everyone, Under: "/console/", Handle: c.search}}
}

// searchRows is how many rows of each kind a search shows.
const searchRows = 8

// searchPage is what one text finds among all operators.
type searchPage struct {
	Text      string
	Operators []report.Account
	// MoreOperators is the URL of all that fit, if there are others.
	MoreOperators   string
	Subscribers     []foundSubscriber
	MoreSubscribers bool
	Transactions    []foundTransaction
	// MoreTransactions: other operators have one with this receipt number, too.
	MoreTransactions bool
	Of               string // the subscriber whose transactions they are
	// Later is the URL of the search for a provider's transaction, which is slow and is loaded
	// after the page; LookedBackTo is how far back that searched.
	Later, LookedBackTo string
	Payments            []foundPayment
	Keys                []foundKey
	Nothing             bool
}

type foundSubscriber struct {
	report.FoundSubscriber
	Standing     subscription.SubscriberStatus
	OperatorName string
	// Href is the search for the subscriber's transactions; empty where they are shown already.
	Href string
}

type foundTransaction struct {
	operation.Operation
	Href, What, OperatorName string
}

type foundPayment struct {
	admin.FoundPayment
	Href, OperatorName string
}

type foundKey struct {
	shownKey
	OperatorName string
}

var kindNames = map[operation.Kind]string{
	operation.Activate: look.Text("Activation"), operation.Renew: look.Text("Renewal"), operation.AdvanceRenew: look.Text("Advance renewal"),
}

// search looks for a text. A text that is exactly the id of one thing leads to its page.
func (c console) search(v *web.Visit) error {
	page := searchPage{Text: report.SearchText(v.Query("q"))}
	if page.Text == "" {
		return v.Show("console/search", page)
	}
	if v.Query("provider") == "yes" {
		return c.searchProvider(v, page)
	}
	operators, err := c.Reports.Accounts(v.Context(), report.AccountFilter{Search: page.Text, Limit: searchRows})
	if err != nil {
		return err
	}
	found, err := c.Reports.SearchAll(v.Context(), page.Text, searchRows)
	if err != nil {
		return err
	}
	keys, err := c.service(v).FindKeys(v.Context(), page.Text, searchRows)
	if err != nil {
		return err
	}
	payments, err := c.service(v).FindPayments(v.Context(), page.Text, searchRows)
	if err != nil {
		return err
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	var exact []string
	if page.Operators = operators.Rows; operators.Next != "" {
		page.MoreOperators = "/console/operators?q=" + url.QueryEscape(page.Text)
	}
	for _, one := range page.Operators {
		if number(one.ID) == page.Text {
			exact = append(exact, operatorPath(one.ID))
		}
	}
	page.MoreSubscribers, page.MoreTransactions = found.MoreSubscribers, found.MoreTransactions
	for _, s := range found.Subscribers {
		one := foundSubscriber{FoundSubscriber: s, Standing: s.Status(v.Now), OperatorName: names[s.OperatorID]}
		if len(found.Subscribers) > 1 || found.Named {
			one.Href = "/console/search?q=" + url.QueryEscape(s.ID)
		}
		page.Subscribers = append(page.Subscribers, one)
		if s.Exact {
			exact = append(exact, "") // it has no page here, and is shown in the list
		}
	}
	for _, op := range found.Transactions {
		one := foundOperation(op, names)
		if page.Transactions = append(page.Transactions, one); found.Named {
			exact = append(exact, one.Href)
		}
	}
	if len(page.Transactions) > 0 && !found.Named {
		page.Of = found.Subscribers[0].Name
	}
	for _, payment := range payments {
		one := foundPayment{payment, operatorPath(payment.OperatorID) + "/wallet", names[payment.OperatorID]}
		if payment.Announcement != 0 {
			one.Href = paymentsPath + "/" + number(payment.Announcement)
		}
		page.Payments = append(page.Payments, one)
		exact = append(exact, one.Href)
	}
	for _, key := range keys {
		one := foundKey{keyAt(key, v.Now, v.Now), names[key.OperatorID]}
		if page.Keys = append(page.Keys, one); len(page.Text) >= len(key.Hint) {
			exact = append(exact, one.Path())
		}
	}
	if len(exact) == 1 && exact[0] != "" {
		return v.Redirect(exact[0], nil)
	}
	page.Nothing = len(page.Operators)+len(page.Subscribers)+len(page.Transactions)+len(page.Payments)+len(page.Keys) == 0
	if page.Nothing && found.MaybeProviders {
		page.Later = "/console/search?" + url.Values{"q": {page.Text}, "provider": {"yes"}}.Encode()
	}
	return v.Show("console/search", page)
}

func foundOperation(op operation.Operation, names map[int64]string) foundTransaction {
	return foundTransaction{op, reviewedAddress(op.ID), kindNames[op.Kind], names[op.OperatorID]}
}

// searchProvider looks for a provider's transaction.
func (c console) searchProvider(v *web.Visit, page searchPage) error {
	found, searchedTo, err := c.Reports.ProviderTransaction(v.Context(), 0, page.Text, searchRows)
	if err != nil {
		return err
	}
	names, err := c.operatorNames(v)
	if err != nil {
		return err
	}
	for _, op := range found {
		page.Transactions = append(page.Transactions, foundOperation(op, names))
	}
	if len(found) == 1 {
		return v.Redirect(page.Transactions[0].Href, nil)
	}
	if page.Nothing = len(found) == 0; !searchedTo.IsZero() {
		page.LookedBackTo = v.Look.Day(v.Language(), searchedTo)
	}
	if v.ByHTMX() {
		return v.ShowPart("console/search", "found", page)
	}
	return v.Show("console/search", page)
}
