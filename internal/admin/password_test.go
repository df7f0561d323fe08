package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/internal/subscription"
)

var noon = time.Date(2027, 3, 10, 6, 30, 0, 0, time.UTC)

// counter is where passwords are reset: a store with a customer in it, and the
// provider on a socket.
type counter struct {
	*testing.T
	store     *sqlite.DB
	provider  *simulator.Simulator
	operator  int64
	passwords *admin.Passwords
}

const customerMobile = "9812345678"

func newCounter(t *testing.T) *counter {
	store := sqlitetest.New(t)
	provider, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	way, err := gateway.New(gateway.Config{URL: server.URL, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	now := func() time.Time { return noon }
	if err := store.RecordComparison(t.Context(), catalogue.Comparison{Provider: "simulator", At: noon, Components: simulator.Components()}); err != nil {
		t.Fatal(err)
	}
	c := &counter{T: t, store: store, provider: provider, passwords: admin.NewPasswords(store, way, now)}
	service := admin.NewService(store, nil, "cli:test", now)
	for _, name := range []string{"Asha Cable", "Other"} {
		operator, err := service.CreateOperator(t.Context(), name, admin.OperatorChange{})
		if err != nil {
			t.Fatal(err)
		}
		if c.operator == 0 {
			c.operator = operator.ID
		}
	}
	if _, err := service.SetPlan(t.Context(), subscription.Plan{ID: "BASIC-1", Name: "Basic", Price: subscription.MinPrice, Months: 1, Type: subscription.Standard, Main: "TV-BASIC"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ImportSubscribers(t.Context(), admin.StaffAction{Actor: "cli:test", Action: "subscriber import", At: noon}, []admin.ImportRow{{
		Line: 1, OperatorID: c.operator, SubscriberID: "100001", Mobile: customerMobile, Name: "Anita Desai", PlanID: "BASIC-1", Expires: noon.Add(48 * time.Hour),
	}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// acts is the log of acts as text.
func (c *counter) acts() string {
	c.Helper()
	acts, err := c.store.AuditPage(c.Context(), admin.ListQuery{OperatorID: c.operator})
	if err != nil {
		c.Fatal(err)
	}
	text, err := json.Marshal(acts)
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

func TestAPasswordIsResetAndKeptNowhere(t *testing.T) {
	c := newCounter(t)
	for _, given := range []string{"", "chosen by Anita"} {
		got, err := c.passwords.Reset(t.Context(), "web:asha", c.operator, "100001", given)
		if err != nil || got.Verdict != operation.Confirmed || len(got.Password) < 12 || given != "" && got.Password != given {
			t.Fatalf("Reset with %q = %+v, %v; want it confirmed with that password, or a new one", given, got, err)
		}
		text, err := json.Marshal(c.provider.Calls(""))
		if err != nil {
			t.Fatal(err)
		}
		if log := c.acts(); strings.Contains(log, got.Password) || strings.Contains(string(text), got.Password) {
			t.Errorf("the password is kept: %s\n%s", log, text)
		}
	}
	calls := c.provider.Calls(customerMobile)
	if len(calls) != 2 || !calls[0].Applied || !calls[0].PasswordGiven || calls[0].Reference == calls[1].Reference {
		t.Errorf("the provider was asked %+v; want two resets", calls)
	}
	if log := c.acts(); strings.Count(log, "web:asha") != 4 || !strings.Contains(log, calls[0].Reference) {
		t.Errorf("the log does not say who reset whose password: %s", log)
	}
}

func TestAResetThatIsRefusedOrNotAnsweredSaysSo(t *testing.T) {
	c := newCounter(t)
	c.provider.Script(customerMobile, simulator.Reject, simulator.GatewayError, simulator.ResetApplied)
	for i, want := range []operation.Outcome{operation.Rejected, operation.Unknown, operation.Unknown, operation.Confirmed} {
		got, err := c.passwords.Reset(t.Context(), "web:asha", c.operator, "100001", "")
		if err != nil || got.Verdict != want {
			t.Fatalf("reset %d = %s, %v; want %s", i+1, got.Verdict, err, want)
		}
		if shown := got.Password != ""; shown == (want == operation.Rejected) {
			t.Errorf("reset %d is %s, and its password is %q", i+1, want, got.Password)
		}
		if want == operation.Rejected && got.Message == "" {
			t.Error("a rejection without a word for people")
		}
	}
}

func TestNobodyResetsThePasswordOfAnothersCustomer(t *testing.T) {
	c := newCounter(t)
	for _, wrong := range []struct {
		what       string
		operator   int64
		subscriber string
		password   string
	}{
		{"another operator", c.operator + 1, "100001", ""},
		{"no such customer", c.operator, "999999", ""},
		{"too short", c.operator, "100001", "short"},
		{"too long", c.operator, "100001", strings.Repeat("x", 65)},
		{"with a line break", c.operator, "100001", "two\nlines of it"},
	} {
		got, err := c.passwords.Reset(t.Context(), "web:asha", wrong.operator, wrong.subscriber, wrong.password)
		refusal := new(admin.Refusal)
		if !errors.As(err, &refusal) || got != (admin.NewPassword{}) {
			t.Errorf("%s: %+v, %v; want a refusal", wrong.what, got, err)
		}
		if err != nil && wrong.password != "" && strings.Contains(err.Error(), wrong.password) {
			t.Errorf("%s: the refusal repeats the password: %v", wrong.what, err)
		}
	}
	if calls := c.provider.Calls(""); len(calls) != 0 {
		t.Errorf("the provider was asked %+v; want nothing", calls)
	}
	if strings.Contains(c.acts(), "password") {
		t.Errorf("something was written down: %s", c.acts())
	}
}

// Of clicks at once each is a reset of its own, carried out one after the other.
func TestResetsOfOneCustomerTakeTurns(t *testing.T) {
	c := newCounter(t)
	watch := &watch{PasswordResetter: resetterOf(t, c)}
	c.passwords = admin.NewPasswords(c.store, watch, func() time.Time { return noon })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := c.passwords.Reset(t.Context(), "web:asha", c.operator, "100001", ""); err != nil || got.Verdict != operation.Confirmed {
				t.Errorf("Reset = %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	if watch.most != 1 || watch.asked != 8 {
		t.Errorf("%d resets were asked for, up to %d at once; want 8, one at a time", watch.asked, watch.most)
	}
}

func resetterOf(t *testing.T, c *counter) operation.PasswordResetter {
	server := httptest.NewServer(c.provider)
	t.Cleanup(server.Close)
	way, err := gateway.New(gateway.Config{URL: server.URL, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	return way
}

// watch counts how many resets a provider is asked for at once.
type watch struct {
	operation.PasswordResetter
	mu           sync.Mutex
	inside, most int
	asked        int
}

func (w *watch) ResetPassword(ctx context.Context, reset operation.PasswordReset) operation.Reply {
	w.mu.Lock()
	w.asked++
	w.inside++
	w.most = max(w.most, w.inside)
	w.mu.Unlock()
	answer := w.PasswordResetter.ResetPassword(ctx, reset)
	w.mu.Lock()
	w.inside--
	w.mu.Unlock()
	return answer
}

func TestAResetShowsItsPasswordToNoLog(t *testing.T) {
	reset := operation.NewPasswordReset("100001", "hunter2 hunter2", noon)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("reset", "what", reset)
	for _, text := range []string{fmt.Sprint(reset), fmt.Sprintf("%+v %#v %q %s", reset, reset, reset, reset), log.String()} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, reset.Reference) {
			t.Errorf("shown as %s", text)
		}
	}
}
