package simulator

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// listedOrder is an order in the list of those that were carried out.
type listedOrder struct {
	Reference    string    `json:"reference"`
	ClientKey    string    `json:"client_key,omitempty"`
	Kind         string    `json:"kind"`
	SubscriberID string    `json:"subscriber_id"`
	Mobile       string    `json:"mobile"`
	Component    string    `json:"component"`
	Months       int       `json:"months,omitempty"`
	ExpiresAt    string    `json:"expires_at,omitempty"`
	CarriedOutAt time.Time `json:"carried_out_at"`
	Transaction  string    `json:"transaction_id"`
	ReversedBy   string    `json:"reversed_by"`
}

// orders lists what was carried out, in pages. The cursor is the transaction number of
// a page's last order: numbers are given in the order of the list and survive a
// restart, so that pages stay the same while orders are added.
func (s *Simulator) orders(w http.ResponseWriter, r *http.Request) {
	since, after, wrong := readListQuery(r.URL.RawQuery)
	if wrong != "" {
		refuse(w, http.StatusBadRequest, "%s", wrong)
		return
	}
	call := s.book.logCall(Call{Kind: "orders", At: s.now()})
	page, last, err := s.book.listCarriedOut(since, after, s.pageSize)
	if err != nil {
		s.book.setAnswer(call, "400")
		refuse(w, http.StatusBadRequest, "the cursor was not given by this provider")
		return
	}
	listed := make([]listedOrder, 0, len(page))
	for _, o := range page {
		listed = append(listed, listedOrder{
			Reference: o.Reference, ClientKey: o.ClientKey, Kind: o.Kind, SubscriberID: o.SubscriberID, Mobile: o.Mobile,
			Component: o.Component, Months: o.Months, ExpiresAt: o.ExpiresAt, CarriedOutAt: o.CarriedOutAt, Transaction: o.Transaction,
			ReversedBy: o.ReversedBy,
		})
	}
	said := map[string]any{"orders": listed}
	if last > 0 {
		said["next_cursor"] = strconv.Itoa(last)
	}
	s.book.setAnswer(call, "listed")
	respond(w, said)
}

// readListQuery reads the time and the cursor, or says what is wrong with them.
func readListQuery(raw string) (since time.Time, after int, wrong string) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return since, 0, "the query cannot be read"
	}
	if len(query["since"]) != 1 {
		return since, 0, "one since is needed in the query"
	}
	if err := since.UnmarshalText([]byte(query["since"][0])); err != nil {
		return since, 0, "since is not a time like 2027-03-01T00:00:00Z; a + in it is written %2B"
	}
	cursors, given := query["cursor"]
	if !given {
		return since, 0, ""
	}
	after, err = strconv.Atoi(cursors[0])
	if len(cursors) != 1 || err != nil || after < 1 || strconv.Itoa(after) != cursors[0] {
		return since, 0, "the cursor was not given by this provider"
	}
	return since, after, ""
}
