package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/subscription"
)

var since = time.Date(2027, 3, 1, 0, 0, 0, 0, subscription.IST)

// listed returns an order of the list as JSON, with fields changed; an empty value takes a field out.
func listed(changes ...string) string {
	fields := []string{
		"reference", `"CX1-2.3"`, "client_key", `"` + order.ClientKey + `"`, "kind", `"renew"`, "subscriber_id", `"100234"`,
		"mobile", `"9812345678"`, "component", `"TV-FAMILY"`, "months", "3", "expires_at", `"2027-05-30T18:30:00+05:30"`,
		"carried_out_at", `"2027-03-01T10:00:00.25+05:30"`, "transaction_id", `"T-1"`, "reversed_by", `"RV1"`, "extra", `{"a":[null]}`,
	}
	var parts []string
	for i := 0; i < len(fields); i += 2 {
		value := fields[i+1]
		for c := 0; c < len(changes); c += 2 {
			if changes[c] == fields[i] {
				value = changes[c+1]
			}
		}
		if value != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", fields[i], value))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestListOrders_ReadsPage(t *testing.T) {
	want := operation.ListedOrder{
		Reference: "CX1-2.3", ClientKey: order.ClientKey, Kind: operation.Renew, SubscriberID: "100234", Mobile: "9812345678",
		Component: "TV-FAMILY", Months: 3, ExpiresAt: time.Date(2027, 5, 30, 13, 0, 0, 0, time.UTC),
		CarriedOutAt: time.Date(2027, 3, 1, 4, 30, 0, 250e6, time.UTC), Transaction: "T-1",
		ReversedBy: "RV1", TellsReversals: true,
	}
	bare, standing := want, want
	bare.Reference, bare.ClientKey, bare.Months, bare.ExpiresAt, bare.ReversedBy, bare.TellsReversals = "CX2", "", 0, time.Time{}, "", false
	standing.Reference, standing.ReversedBy = "CX3", ""
	body := `{"as_of":"today","orders":[` + listed() + `,` +
		listed("reference", `"CX2"`, "client_key", "", "months", "", "expires_at", "", "reversed_by", "") + `,` + listed("reference", `"CX3"`, "reversed_by", `""`) + `],"next_cursor":"c&2"}`
	var asked []string
	server := serving(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	})
	g := open(t, Config{URL: server.URL})
	page, err := g.ListOrders(t.Context(), since.Add(999*time.Millisecond), "")
	if err != nil || page.Next != "c&2" || len(page.Orders) != 3 {
		t.Fatalf("ListOrders = %+v, %v; want three orders and the next cursor", page, err)
	}
	for i, want := range []operation.ListedOrder{want, bare, standing} {
		got := page.Orders[i]
		got.CarriedOutAt, got.ExpiresAt = got.CarriedOutAt.UTC(), got.ExpiresAt.UTC()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("order %d = %+v; want %+v", i, got, want)
		}
	}
	body = `{"orders":[]}`
	if page, err := g.ListOrders(t.Context(), since, page.Next); err != nil || page.Next != "" || len(page.Orders) != 0 {
		t.Errorf("an empty page = %+v, %v; want it accepted as the last", page, err)
	}
	if want := []string{"GET /v1/orders?since=2027-02-28T18%3A30%3A00Z", "GET /v1/orders?cursor=c%262&since=2027-02-28T18%3A30%3A00Z"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %q; want %q", asked, want)
	}
}

func TestListOrders_AllOrNothing(t *testing.T) {
	one := func(changes ...string) string { return `{"orders":[` + listed(changes...) + `]}` }
	type row struct {
		name string
		code int
		body string
	}
	tests := []row{
		{"down", 503, one()},
		{"another error of the server", 500, one()},
		{"bad request", 400, `{"error":"since"}`},
		{"refused token", 401, `{"error":"token"}`},
		{"accepted", 202, one()},
		{"a redirect", 302, one()},
		{"a list", 200, `[]`},
		{"no orders", 200, `{}`},
		{"orders null", 200, `{"orders":null}`},
		{"an order that is a text", 200, `{"orders":["CX1"]}`},
		{"cut off", 200, `{"orders":[` + listed()},
		{"a name twice", 200, `{"orders":[` + strings.Replace(listed(), "{", `{"kind":"renew",`, 1) + `]}`},
		{"the same order twice", 200, `{"orders":[` + listed() + `,` + listed() + `]}`},
		{"newest first", 200, `{"orders":[` + listed() + `,` + listed("reference", `"CX2"`, "carried_out_at", `"2027-03-01T10:00:00+05:30"`) + `]}`},
		{"before the time asked for", 200, one("carried_out_at", `"2027-02-28T23:59:59+05:30"`)},
		{"more than 64 KiB", 200, one() + strings.Repeat(" ", 64<<10)},
		{"one bad order among others", 200, `{"orders":[` + listed() + `,` + listed("reference", `"CX2"`, "kind", "") + `]}`},
		{"a cursor that is null", 200, `{"orders":[` + listed() + `],"next_cursor":null}`},
		{"a cursor that is empty", 200, `{"orders":[` + listed() + `],"next_cursor":""}`},
		{"a cursor that is a number", 200, `{"orders":[` + listed() + `],"next_cursor":2}`},
		{"a cursor with a space", 200, `{"orders":[` + listed() + `],"next_cursor":"a b"}`},
		{"a long cursor", 200, `{"orders":[` + listed() + `],"next_cursor":"` + strings.Repeat("x", 201) + `"}`},
		{"the cursor of this page", 200, `{"orders":[` + listed() + `],"next_cursor":"here"}`},
		{"a cursor after nothing", 200, `{"orders":[],"next_cursor":"there"}`},
		{"a cursor with the token", 200, `{"orders":[` + listed() + `],"next_cursor":"xt0kenx"}`},
		{"an order with the token", 200, one("transaction_id", `"T-t0ken"`)},
	}
	for field, wrong := range map[string][]string{
		"reference":      {"", `""`, "null", "7", `"CX 1"`, `"CX_1"`, `"` + strings.Repeat("x", 65) + `"`},
		"client_key":     {"null", "7", `"abc"`, `"` + strings.ToUpper(order.ClientKey) + `"`, `"` + order.ClientKey + `0"`},
		"kind":           {"", `""`, "null", `"cancel"`, `"reset_password"`, `"Renew"`},
		"subscriber_id":  {"", `""`, "100234", `"१२"`},
		"mobile":         {"", `""`, "9812345678", `"981234567"`, `"+919812345678"`},
		"component":      {"", `""`, "null", `"A B"`},
		"transaction_id": {"", `""`, "null", "7", `"` + strings.Repeat("x", 101) + `"`},
		"carried_out_at": {"", `""`, "null", "1803902400", `"2027-03-01"`, `"2027-03-01T10:00:00"`, `"2027-03-01T24:00:00Z"`, `"2027-03-01T10:00:00,5Z"`},
		"expires_at":     {"null", "7", `"2027-05-30"`},
		"months":         {"null", `"3"`, "0", "-1", "2.5", "1e30", "1201"},
	} {
		for _, value := range wrong {
			tests = append(tests, row{field + " " + value, 200, one(field, value)})
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := open(t, Config{URL: answering(t, tt.code, tt.body).URL, Token: "t0ken"}).ListOrders(context.Background(), since, "here")
			if err == nil || errors.Is(err, operation.ErrListUnsupported) || got.Orders != nil || got.Next != "" || strings.Contains(err.Error(), "t0ken") {
				t.Errorf("ListOrders = %+v, %v; want nothing and an error", got, err)
			}
		})
	}
}

func TestListOrders_Unsupported(t *testing.T) {
	for _, code := range []int{404, 405, 501} {
		for name, body := range map[string]string{"json": `{"error":"no such path"}`, "text": "404 page not found", "nothing": ""} {
			var observed Observation
			server := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", map[bool]string{true: "application/json", false: "text/html"}[name == "json"])
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
			})
			g := open(t, Config{URL: server.URL, Observe: func(o Observation) { observed = o }})
			if _, err := g.ListOrders(t.Context(), since, ""); !errors.Is(err, operation.ErrListUnsupported) {
				t.Errorf("HTTP %d with %s: %v; want ErrListUnsupported", code, name, err)
			}
			observed.Took = 0
			if observed != (Observation{What: "orders", Cause: Answered}) {
				t.Errorf("HTTP %d with %s was observed as %+v; want a reply", code, name, observed)
			}
		}
	}
	if _, err := open(t, Config{URL: "http://127.77.1.9:9"}).ListOrders(t.Context(), since, ""); err == nil || errors.Is(err, operation.ErrListUnsupported) {
		t.Errorf("ListOrders of a closed port = %v; want another error", err)
	}
}
