package httpapi

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/telemetry"
)

func TestBalance(t *testing.T) {
	h := newTestEnv(t)
	w := h.dialTLS()
	w.send("GET /api/v1/balance?unknown=1&unknown=2 HTTP/1.1\r\nHost: coax\r\n\r\n")
	g := w.expect(200, fault.OK)
	want := `{"lco_id":7,"wallet_balance":1234.50,"currency":"INR","low_balance":false,` +
		`"as_of":"2027-03-01T12:00:00+05:30","note":"` + walletNote + `"}`
	if string(g.Data) != want {
		t.Errorf("data = %s\nwant   %s", g.Data, want)
	}
	if !strings.Contains(g.Message, "1234.50") {
		t.Errorf("message = %q; want it to name the balance", g.Message)
	}
}

func TestBalance_LowBelowThreshold(t *testing.T) {
	h := newTestEnv(t, func(api *Config, _ *ServerConfig) {
		api.Wallets = walletFunc(func(context.Context, int64) (subscription.Wallet, error) {
			return subscription.Wallet{Balance: money.Paise(-5), LowBelow: money.Paise(0)}, nil
		})
	})
	w := h.dialTLS()
	w.send(balanceRequest)
	g := w.expect(200, fault.OK)
	for _, part := range []string{`"wallet_balance":-0.05,`, `"low_balance":true,`} {
		if !strings.Contains(string(g.Data), part) {
			t.Errorf("data = %s; want %s in it", g.Data, part)
		}
	}
}

func TestPlans(t *testing.T) {
	sold := planList{
		{ID: "P2", Name: "Sport <HD> & more", Description: "d2", Price: money.Paise(34_950), Months: 3, Type: subscription.Combo},
		{ID: "P1", Name: "Basic", Price: money.Paise(19_900), Months: 1, Type: subscription.Standard},
	}
	tests := []struct {
		name    string
		sold    planList
		message string
		plans   string
	}{
		{
			"several, sorted by id", sold, "2 plans",
			`[{"id":"P1","name":"Basic","description":"","price":199.00,"duration":1,"type":"standard"},` +
				`{"id":"P2","name":"Sport <HD> & more","description":"d2","price":349.50,"duration":3,"type":"combo"}]`,
		},
		{
			"one", sold[1:], "1 plan ",
			`[{"id":"P1","name":"Basic","description":"","price":199.00,"duration":1,"type":"standard"}]`,
		},
		{"none", nil, "0 plans", `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newTestEnv(t, func(api *Config, _ *ServerConfig) { api.Plans = tt.sold })
			w := h.dialTLS()
			w.send("GET /api/v1/plans HTTP/1.1\r\nHost: coax\r\n\r\n")
			g := w.expect(200, fault.OK)
			if want := `{"provider":"Simulated Provider","currency":"INR","plans":` + tt.plans + `}`; string(g.Data) != want {
				t.Errorf("data = %s\nwant   %s", g.Data, want)
			}
			if !strings.HasPrefix(g.Message, tt.message) {
				t.Errorf("message = %q; want %q at its beginning", g.Message, tt.message)
			}
		})
	}
}

func TestPlans_LongList(t *testing.T) {
	// Long by its strings, not by its number of plans: each response is validated plan by
	// plan, which is slow, and the connection has a deadline.
	var sold planList
	for i := range 100 {
		sold = append(sold, subscription.Plan{
			ID: fmt.Sprintf("P%04d", i), Name: "HTTP/1.1 400 Bad Request", Description: strings.Repeat("HTTP/1.1 500 ", 50*(i%7)),
			Price: money.Paise(19_900), Months: 1, Type: subscription.Standard,
		})
	}
	h := newTestEnv(t, func(api *Config, _ *ServerConfig) { api.Plans = sold })
	w := h.dialTLS()
	for range 3 {
		w.send("GET /api/v1/plans HTTP/1.1\r\nHost: coax\r\n\r\n")
		g := w.expect(200, fault.OK)
		if got := strings.Count(g.body, `"id"`); got != len(sold) {
			t.Errorf("%d plans came; want %d", got, len(sold))
		}
	}
}

func BenchmarkBalance(b *testing.B) {
	api := New(Config{
		Now:        func() time.Time { return noon },
		Authorizer: open{},
		Wallets: walletFunc(func(context.Context, int64) (subscription.Wallet, error) {
			return subscription.Wallet{Balance: money.Paise(123_450)}, nil
		}),
		Log: telemetry.NewLogger(io.Discard, slog.LevelInfo, "json"),
	})
	r := overEncrypted(httptest.NewRequest("GET", "/api/v1/balance", nil))
	b.ReportAllocs()
	for b.Loop() {
		api.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// open is an Authorizer that accepts every request.
type open struct{}

func (open) Throttled(netip.Addr, time.Time) error { return nil }

func (open) Authorize(context.Context, access.Request) (access.Caller, error) {
	return access.Caller{Rate: access.Rate{Limit: 60, ResetAt: noon}}, nil
}
