package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/subscription"
)

// rows has a check for each row of the contract's table of limits: at the limit and beyond.
var rows = map[string]func(*testing.T, limitsEnv, []int){
	"requests of an operator": func(t *testing.T, l limitsEnv, n []int) {
		me := l.NewOperator("counted", access.AllPermissions)
		for i := range n[0] {
			got := l.Send(e2e.Call{As: me, Path: "/api/v1/balance"})
			if want := strconv.Itoa(n[0] - i - 1); got.Code != fault.OK || got.Header.Get("X-RateLimit-Remaining") != want {
				t.Fatalf("request %d: %s, %s left; want %s", i+1, got.Code, got.Header.Get("X-RateLimit-Remaining"), want)
			}
		}
		l.Expect("one more", e2e.Call{As: me, Path: "/api/v1/balance"}, fault.RateLimited)
	},
	"X-Timestamp": func(t *testing.T, l limitsEnv, n []int) {
		for _, off := range []int{-n[0] - 1, -n[0], n[0], n[0] + 1} {
			at := strconv.FormatInt(l.Now().Unix()+int64(off), 10)
			want := off < -n[0] || off > n[0]
			if got := l.refuses(e2e.Call{Path: "/api/v1/balance", Timestamp: at}, fault.TimestampExpired); got != want {
				t.Errorf("%d seconds off: refused: %v; want %v", off, got, want)
			}
		}
	},
	"the body of a request": func(t *testing.T, l limitsEnv, n []int) {
		for _, length := range []int{n[0], n[0] + 1} {
			c := e2e.Call{Method: http.MethodPost, Path: "/api/v1/renew", Body: "{" + strings.Repeat(" ", length-2) + "}"}
			if got, want := l.refuses(c, fault.PayloadTooLarge), length > n[0]; got != want {
				t.Errorf("%d bytes: refused: %v; want %v", length, got, want)
			}
		}
	},
	"objects and lists in one another": func(t *testing.T, l limitsEnv, n []int) {
		for _, depth := range []int{n[0], n[0] + 1} {
			c := e2e.Call{Method: http.MethodPost, Path: "/api/v1/renew", Body: `{"x":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"}
			if got, want := l.refuses(c, fault.InvalidJSON), depth > n[0]; got != want {
				t.Errorf("%d deep: refused: %v; want %v", depth, got, want)
			}
		}
	},
	"entries of a whitelist": func(t *testing.T, l limitsEnv, n []int) {
		me := l.NewOperator("listed", access.AllPermissions) // with one entry
		for i := range n[0] {
			_, err := l.Admin.AllowAddress(context.Background(), me.OperatorID, fmt.Sprintf("192.0.2.%d", i+1))
			if got, want := err != nil, i+2 > n[0]; got != want {
				t.Errorf("entry %d: %v; want it refused: %v", i+2, err, want)
			}
		}
	},
	"an IPv4 range on a whitelist": func(t *testing.T, l limitsEnv, n []int) { l.width(t, "10.0.0.0/%d", n[0]) },
	"an IPv6 range on a whitelist": func(t *testing.T, l limitsEnv, n []int) { l.width(t, "2001:db8::/%d", n[0]) },
	"the grace of a key that is replaced": func(t *testing.T, l limitsEnv, n []int) {
		grace := time.Duration(n[0]) * time.Hour
		for _, tried := range []time.Duration{grace + time.Second, grace} {
			_, err := l.Admin.RotateKey(context.Background(), l.NewKey(l.me.OperatorID, access.AllPermissions).ID, tried)
			if got, want := err != nil, tried > grace; got != want {
				t.Errorf("a grace of %s: %v; want it refused: %v", tried, err, want)
			}
		}
	},
	"the same renewal again": func(t *testing.T, l limitsEnv, n []int) {
		id := l.Activate(l.me, "9822222222", "BASIC-1")
		renew := func(key string) fault.Code {
			return l.Operate(l.me, "renew", key, e2e.Order{"subscriber_id": id, "plan_id": "BASIC-1"}).Code
		}
		first := renew("same-again-1")
		l.Advance(time.Duration(n[0])*time.Minute - time.Millisecond)
		early := renew("same-again-2")
		l.Advance(time.Millisecond)
		if late := renew("same-again-2"); first != fault.OK || early != fault.DuplicateRequest || late != fault.OK {
			t.Errorf("a renewal is %s, again a moment before the limit %s, at the limit %s", first, early, late)
		}
	},
	"the first day of a booked cycle": func(t *testing.T, l limitsEnv, n []int) {
		id := l.Activate(l.me, "9833333333", "BASIC-1")
		l.Operate(l.me, "renew", "booked-1", e2e.Order{"subscriber_id": id, "plan_id": "BASIC-1"})
		got := l.Operate(l.me, "advance-renew", "booked-2", e2e.Order{"subscriber_id": id, "plan_id": "FAMILY-1"})
		want := l.Now().In(subscription.IST).AddDate(0, 0, n[0]).Format(time.DateOnly)
		if got.Text("expiry.start_date") != want {
			t.Errorf("booked for %s; want %s: %s", got.Text("expiry.start_date"), want, got.Raw)
		}
	},
	"a month of a plan": func(t *testing.T, l limitsEnv, n []int) {
		id := l.Activate(l.me, "9844444444", "BASIC-1")
		got := l.Operate(l.me, "renew", "months-1", e2e.Order{"subscriber_id": id, "plan_id": "FAMILY-3"})
		before, err := time.Parse(time.DateTime, got.Text("expiry.previous"))
		if err != nil {
			t.Fatal(err)
		}
		if want := before.AddDate(0, 0, 3*n[0]).Format(time.DateTime); got.Text("expiry.new") != want {
			t.Errorf("three months after %v are %s; want %s", before, got.Text("expiry.new"), want)
		}
	},
	// This limit is for clients: the service does not enforce it. The contract states it in
	// two places.
	"keeping the list of plans": func(t *testing.T, l limitsEnv, n []int) {
		words := strings.Join(strings.Fields(l.contract.Endpoints["GET /api/v1/plans"].Words), " ")
		if n[0] != 5 || !strings.Contains(words, "for about five minutes") {
			t.Errorf("%d minutes; want those of: %s", n[0], words)
		}
	},
}

// width checks the widest allowed range, and a wider one.
func (l limitsEnv) width(t *testing.T, form string, bits int) {
	t.Helper()
	for _, tried := range []int{bits, bits - 1} {
		_, err := l.Admin.AllowAddress(context.Background(), l.me.OperatorID, fmt.Sprintf(form, tried))
		if got, want := err != nil, tried < bits; got != want {
			t.Errorf("/%d: %v; want it refused: %v", tried, err, want)
		}
	}
}

// inSchemas returns the rows that the contract also states in its schemas. Other tests check
// the service against those.
func inSchemas(contract contracttest.Description) map[string][]contracttest.Text {
	activate := contract.Endpoints["POST /api/v1/activate"]
	stated := map[string][]contracttest.Text{
		"X-Nonce":                        {activate.Headers["X-Nonce"]},
		"Idempotency-Key":                {activate.Headers["Idempotency-Key"]},
		"subscriber_id of an activation": {activate.Fields["subscriber_id"]},
	}
	for _, endpoint := range contract.Endpoints {
		for name, text := range endpoint.Fields {
			if name != "subscriber_id" {
				stated[name] = append(stated[name], text)
			}
		}
	}
	return stated
}

func TestContractLimits_EveryRowHolds(t *testing.T) {
	l := newLimitsEnv(t)
	stated := inSchemas(l.contract)
	want := slices.Sorted(maps.Keys(l.contract.Limits))
	have := slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(rows)), slices.Collect(maps.Keys(stated))...)))
	if !slices.Equal(have, want) {
		t.Errorf("the table has the rows %q; checked are %q", want, have)
	}
	for name, numbers := range l.contract.Limits {
		t.Run(name, func(t *testing.T) {
			if try := rows[name]; try != nil {
				try(t, l, numbers)
			}
			for _, text := range stated[name] {
				for _, wrong := range compareWithSchema(text, numbers) {
					t.Error(wrong)
				}
			}
		})
	}
}

// compareWithSchema compares a row's numbers (minimum and maximum length, or the maximum
// alone) with the schema.
func compareWithSchema(text contracttest.Text, numbers []int) (wrong []string) {
	allows := func(length int) bool { return slices.ContainsFunc(texts(length), text.Accepts) }
	longest := numbers[len(numbers)-1]
	if !allows(longest) || allows(longest+1) {
		wrong = append(wrong, fmt.Sprintf("the table ends at %d; the schema allows that: %v, and one more: %v", longest, allows(longest), allows(longest+1)))
	}
	if shortest := numbers[0]; len(numbers) == 2 && (!allows(shortest) || shortest > 1 && allows(shortest-1)) {
		wrong = append(wrong, fmt.Sprintf("the table begins at %d; the schema allows that: %v", shortest, allows(shortest)))
	}
	return wrong
}

func TestContractLimits_WrongRowIsFound(t *testing.T) {
	l := newLimitsEnv(t)
	for name, texts := range inSchemas(l.contract) {
		for i := range l.contract.Limits[name] {
			for _, moved := range []int{-1, 1} {
				numbers := slices.Clone(l.contract.Limits[name])
				if numbers[i] += moved; numbers[i] < 1 {
					continue
				}
				if compareWithSchema(texts[0], numbers) == nil {
					t.Errorf("%s: %v is accepted instead of %v", name, numbers, l.contract.Limits[name])
				}
			}
		}
	}
}
