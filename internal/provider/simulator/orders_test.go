package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var morning = time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)

// ticking returns a clock that goes on by a second each time it is read.
func ticking() func() time.Time {
	now := morning
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

type orderPage struct {
	Orders []listedOrder `json:"orders"`
	Next   string        `json:"next_cursor"`
}

func readPage(t testing.TB, s *Simulator, since time.Time, cursor string) (page orderPage) {
	t.Helper()
	query := url.Values{"since": {since.Format(time.RFC3339Nano)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	got := ask(s, "GET", "/v1/orders?"+query.Encode(), "")
	got.check(t, 200, `"orders":[`)
	if err := json.Unmarshal([]byte(got.text), &page); err != nil {
		t.Fatalf("%s: %v", got.text, err)
	}
	return page
}

// readPages reads all pages; between runs after each.
func readPages(t testing.TB, s *Simulator, since time.Time, between func()) (orders []listedOrder, pages int) {
	t.Helper()
	for cursor := ""; ; {
		page := readPage(t, s, since, cursor)
		orders, pages = append(orders, page.Orders...), pages+1
		if page.Next == "" {
			return orders, pages
		}
		cursor = page.Next
		between()
	}
}

func referencesOf(orders []listedOrder) (references []string) {
	for _, o := range orders {
		references = append(references, o.Reference)
	}
	return references
}

func TestSimulator_ListsWhatWasCarriedOut(t *testing.T) {
	s := newSimulator(t, Config{Now: ticking()})
	withKey := strings.Replace(orderFor("CX1", "9812345678", "TV-FAMILY"), "{", `{"client_key":"abc123","password":"hunter2",`, 1)
	ask(s, "POST", "/v1/activate", withKey).check(t, 200, `"applied"`)
	renew(s, "CX2", "9000011111").check(t, 200, `"rejected"`)
	ask(s, "POST", "/v1/void", `{"reference":"CX3","mobile":"9812345678"}`).check(t, 200, `"voided"`)
	renew(s, "CX4", "9000041111").check(t, 503)
	if got := renew(s, "CX5", "9000091111"); !got.dropped {
		t.Errorf("got %+v; want no answer", got)
	}
	ask(s, "POST", "/v1/reset-password", `{"reference":"PW1","subscriber_id":"100234","mobile":"9812345678","password":"hunter2"}`).check(t, 200, `"applied"`)
	ask(s, "POST", "/v1/advance-renew", orderFor("CX6-2", "9812345678", "OTT-PLUS")).check(t, 200, `"applied"`)
	ask(s, "POST", "/v1/activate", withKey).check(t, 200, `"applied"`) // again: no second effect

	page := readPage(t, s, morning, "")
	if got := referencesOf(page.Orders); !slices.Equal(got, []string{"CX1", "CX5", "CX6-2"}) || page.Next != "" {
		t.Fatalf("listed %s, next %q; want the orders that were carried out", got, page.Next)
	}
	want := listedOrder{
		Reference: "CX1", ClientKey: "abc123", Kind: "activate", SubscriberID: "100234", Mobile: "9812345678", Component: "TV-FAMILY",
		Months: 1, ExpiresAt: "2027-03-31T12:00:00+05:30", CarriedOutAt: morning.Add(2 * time.Second), Transaction: "SIM-00000001",
	}
	if got := page.Orders[0]; got != want {
		t.Errorf("listed %+v; want %+v", got, want)
	}
	if last := page.Orders[2]; last.Kind != "advance_renew" || last.ClientKey != "" || last.Transaction != "SIM-00000004" {
		t.Errorf("listed %+v; want the add-on, without a client key", last)
	}
}

func TestSimulator_ListsOrdersInPages(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 0} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := newSimulator(t, Config{Now: ticking(), PageSize: size})
			var want []string
			add := func() {
				want = append(want, fmt.Sprint("CX", len(want)))
				renew(s, want[len(want)-1], "9812345678").check(t, 200, `"applied"`)
				renew(s, want[len(want)-1]+"-no", "9000011111").check(t, 200, `"rejected"`)
			}
			for range 205 {
				add()
			}
			left := 20
			orders, pages := readPages(t, s, morning, func() {
				// Orders are added while the list is being read.
				if left--; left > 0 {
					add()
				}
			})
			if got := referencesOf(orders); !slices.Equal(got, want) {
				t.Errorf("listed %s; want %s", got, want)
			}
			limit := size
			if limit == 0 {
				limit = 100
			}
			if least := (len(want) + limit - 1) / limit; pages != least {
				t.Errorf("%d pages for %d orders; want %d", pages, len(want), least)
			}
			// From the time of an order on, that order included.
			for _, i := range []int{0, 1, 104, 204} {
				from, _ := readPages(t, s, orders[i].CarriedOutAt, func() {})
				if !reflect.DeepEqual(from, orders[i:]) {
					t.Errorf("from the time of order %d there are %d orders; want %d", i, len(from), len(orders)-i)
				}
			}
			if after, _ := readPages(t, s, orders[len(orders)-1].CarriedOutAt.Add(time.Nanosecond), func() {}); len(after) != 0 {
				t.Errorf("after the last order there are %s", referencesOf(after))
			}
		})
	}
}

func TestSimulator_ListSurvivesRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	clock := ticking()
	s := newSimulator(t, Config{Now: clock, StateFile: file, PageSize: 2})
	for i := range 5 {
		renew(s, fmt.Sprint("CX", i), "9812345678").check(t, 200, `"applied"`)
	}
	ask(s, "POST", "/v1/renew", strings.Replace(orderFor("CX5", "9812345678", "TV-BASIC"), "{", `{"client_key":"abc",`, 1)).check(t, 200, `"applied"`)
	before, _ := readPages(t, s, morning, func() {})
	first := readPage(t, s, morning, "")
	_ = s.Shutdown(context.Background())

	// The clock was set back meanwhile.
	s = newSimulator(t, Config{Now: func() time.Time { return morning.Add(-time.Hour) }, StateFile: file, PageSize: 2})
	renew(s, "CX6", "9812345678").check(t, 200, `"applied"`)
	after, _ := readPages(t, s, morning, func() {})
	if len(before) != 6 || before[5].ClientKey != "abc" || len(after) != 7 || !reflect.DeepEqual(after[:6], before) {
		t.Errorf("listed %+v; want what was listed before, %+v, and one more", after, before)
	}
	if at := after[6].CarriedOutAt; at.Before(after[5].CarriedOutAt) {
		t.Errorf("the last order was carried out at %s, before the one ahead of it", at)
	}
	if page := readPage(t, s, morning, first.Next); !slices.Equal(referencesOf(page.Orders), []string{"CX2", "CX3"}) {
		t.Errorf("the old cursor gives %s; want what follows", referencesOf(page.Orders))
	}
}

// State files of version 0.1.0 have the time of an order with its call only.
func TestSimulator_ListsOrdersOfOldStateFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	line := `{"order":{"reference":"CX1","kind":"renew","subscriber_id":"100234","mobile":"9812345678","component":"TV-BASIC","state":"applied","transaction_id":"SIM-00000001"},` +
		`"call":{"reference":"CX1","kind":"renew","component":"TV-BASIC","applied":true,"mobile":"9812345678","subscriber_id":"100234","outcome":"success","answer":"applied",` +
		`"transaction_id":"SIM-00000001","months":3,"expires_at":"2027-05-30T18:30:00+05:30","at":"2027-03-01T09:30:00Z"}}` + "\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	page := readPage(t, newSimulator(t, Config{StateFile: file}), morning, "")
	want := []listedOrder{{
		Reference: "CX1", Kind: "renew", SubscriberID: "100234", Mobile: "9812345678", Component: "TV-BASIC", Months: 3,
		ExpiresAt: "2027-05-30T18:30:00+05:30", CarriedOutAt: morning.Add(30 * time.Minute), Transaction: "SIM-00000001",
	}}
	if !reflect.DeepEqual(page.Orders, want) {
		t.Errorf("listed %+v; want %+v", page.Orders, want)
	}
}

// Decisions reach the disk together and are answered in any order. The list shows none before it is
// on disk, and none behind one that is not.
func TestSimulator_ListEndsBeforeInFlightOrder(t *testing.T) {
	s := newSimulator(t, Config{StateFile: filepath.Join(t.TempDir(), "state")})
	renew(s, "CX1", "9812345678").check(t, 200, `"applied"`)
	unblock := blockDisk(s)
	held := async(func() reply { return renew(s, "CX2", "9812345678") })
	waitForWrites(t, s, 1)
	s.book.mu.Lock()
	later := order{Reference: "CX3", State: applied}
	s.book.carriedOut[s.book.nextNumber()-1] = &later
	s.book.mu.Unlock()
	page, _, err := s.book.listCarriedOut(time.Time{}, 0, 10)
	if err != nil || len(page) != 1 || page[0].Reference != "CX1" {
		t.Errorf("listed %+v, %v; want CX1 alone", page, err)
	}
	unblock()
	(<-held).check(t, 200, `"applied"`)
	if page, _, err := s.book.listCarriedOut(time.Time{}, 0, 10); err != nil || len(page) != 3 {
		t.Errorf("listed %+v, %v; want all three", page, err)
	}
}

func TestSimulator_OrderThatWasNotRecordedIsNotListed(t *testing.T) {
	s := newSimulator(t, Config{StateFile: filepath.Join(t.TempDir(), "state")})
	renew(s, "CX1", "9812345678").check(t, 200, `"applied"`)
	if err := s.book.journal.file.Close(); err != nil {
		t.Fatal(err)
	}
	renew(s, "CX2", "9812345678").check(t, 503)
	if got := referencesOf(readPage(t, s, time.Time{}, "").Orders); !slices.Equal(got, []string{"CX1"}) {
		t.Errorf("listed %s; want CX1 alone", got)
	}
}

func TestSimulator_ListRefusesBadParameters(t *testing.T) {
	s := newSimulator(t, Config{Now: ticking(), PageSize: 1})
	for i := range 3 {
		renew(s, fmt.Sprint("CX", i), "9812345678").check(t, 200, `"applied"`)
	}
	const good = "since=2027-03-01T00:00:00Z"
	for query, want := range map[string]string{
		"":                                   "one since",
		"cursor=1":                           "one since",
		good + "&" + good:                    "one since",
		"since=":                             "not a time",
		"since=2027-03-01":                   "not a time",
		"since=yesterday":                    "not a time",
		"since=2027-03-01T00:00:00+05:30":    "%2B",
		good + "&cursor=":                    "cursor",
		good + "&cursor=0":                   "cursor",
		good + "&cursor=-1":                  "cursor",
		good + "&cursor=%2B1":                "cursor",
		good + "&cursor=01":                  "cursor",
		good + "&cursor=4":                   "cursor",
		good + "&cursor=x":                   "cursor",
		good + "&cursor=1&cursor=2":          "cursor",
		good + "&cursor=%zz":                 "cannot be read",
		good + ";cursor=1":                   "cannot be read",
		good + "&cursor=9999999999999999999": "cursor",
	} {
		ask(s, "GET", "/v1/orders?"+query, "").check(t, 400, `{"error":`, want)
	}
	ask(s, "POST", "/v1/orders?"+good, "").check(t, 405)
	ask(s, "GET", "/v1/orders?"+good+"&cursor=3&more=1", "").check(t, 200, `{"orders":[]}`)
	ask(s, "GET", "/v1/orders?since=2027-03-01T00:00:00%2B05:30", "").check(t, 200, `"next_cursor":"1"`)
}
