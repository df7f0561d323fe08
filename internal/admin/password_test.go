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

// testEnv is a store with a subscriber, and a provider behind an HTTP server.
type testEnv struct {
	*testing.T
	store     *sqlite.DB
	provider  *simulator.Simulator
	operator  int64
	passwords *admin.Passwords
}

const customerMobile = "9812345678"

func newEnv(t *testing.T) *testEnv {
	store := sqlitetest.New(t)
	provider, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	client, err := gateway.New(gateway.Config{URL: server.URL, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	now := func() time.Time { return noon }
	if err := store.RecordComparison(t.Context(), catalogue.Comparison{Provider: "simulator", At: noon, Components: simulator.Components()}); err != nil {
		t.Fatal(err)
	}
	env := &testEnv{T: t, store: store, provider: provider, passwords: admin.NewPasswords(store, client, now)}
	service := admin.NewService(store, nil, "cli:test", now)
	for _, name := range []string{"Asha Cable", "Other"} {
		operator, err := service.CreateOperator(t.Context(), name, admin.OperatorChange{})
		if err != nil {
			t.Fatal(err)
		}
		if env.operator == 0 {
			env.operator = operator.ID
		}
	}
	if _, err := service.SetPlan(t.Context(), subscription.Plan{ID: "BASIC-1", Name: "Basic", Price: subscription.MinPrice, Months: 1, Type: subscription.Standard, Main: "TV-BASIC"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ImportSubscribers(t.Context(), admin.StaffAction{Actor: "cli:test", Action: "subscriber import", At: noon}, []admin.ImportRow{{
		Line: 1, OperatorID: env.operator, SubscriberID: "100001", Mobile: customerMobile, Name: "Anita Desai", PlanID: "BASIC-1", Expires: noon.Add(48 * time.Hour),
	}}); err != nil {
		t.Fatal(err)
	}
	return env
}

// auditLog is the operator's audit log as JSON.
func (env *testEnv) auditLog() string {
	env.Helper()
	entries, err := env.store.AuditPage(env.Context(), admin.ListQuery{OperatorID: env.operator})
	if err != nil {
		env.Fatal(err)
	}
	text, err := json.Marshal(entries)
	if err != nil {
		env.Fatal(err)
	}
	return string(text)
}

func TestPasswords_ResetStoresNoPassword(t *testing.T) {
	env := newEnv(t)
	for _, given := range []string{"", "chosen by Anita"} {
		got, err := env.passwords.Reset(t.Context(), "web:asha", env.operator, "100001", given)
		if err != nil || got.Outcome != operation.Confirmed || len(got.Password) < 12 || given != "" && got.Password != given {
			t.Fatalf("Reset with %q = %+v, %v; want it confirmed with that password, or a new one", given, got, err)
		}
		text, err := json.Marshal(env.provider.Calls(""))
		if err != nil {
			t.Fatal(err)
		}
		if log := env.auditLog(); strings.Contains(log, got.Password) || strings.Contains(string(text), got.Password) {
			t.Errorf("the password is stored: %s\n%s", log, text)
		}
	}
	calls := env.provider.Calls(customerMobile)
	if len(calls) != 2 || !calls[0].Applied || !calls[0].PasswordGiven || calls[0].Reference == calls[1].Reference {
		t.Errorf("the provider got %+v; want two resets", calls)
	}
	if log := env.auditLog(); strings.Count(log, "web:asha") != 4 || !strings.Contains(log, calls[0].Reference) {
		t.Errorf("the log does not say who reset whose password: %s", log)
	}
}

func TestPasswords_ResetReturnsProviderOutcome(t *testing.T) {
	env := newEnv(t)
	env.provider.Script(customerMobile, simulator.Reject, simulator.GatewayError, simulator.ResetApplied)
	for i, want := range []operation.Outcome{operation.Rejected, operation.Unknown, operation.Unknown, operation.Confirmed} {
		got, err := env.passwords.Reset(t.Context(), "web:asha", env.operator, "100001", "")
		if err != nil || got.Outcome != want {
			t.Fatalf("reset %d = %s, %v; want %s", i+1, got.Outcome, err, want)
		}
		if shown := got.Password != ""; shown == (want == operation.Rejected) {
			t.Errorf("reset %d is %s, and its password is %q", i+1, want, got.Password)
		}
		if want == operation.Rejected && got.Message == "" {
			t.Error("a rejection without a message")
		}
	}
}

func TestPasswords_ResetRefusesForeignSubscriber(t *testing.T) {
	env := newEnv(t)
	for _, wrong := range []struct {
		what       string
		operator   int64
		subscriber string
		password   string
	}{
		{"another operator", env.operator + 1, "100001", ""},
		{"no such customer", env.operator, "999999", ""},
		{"too short", env.operator, "100001", "short"},
		{"too long", env.operator, "100001", strings.Repeat("x", 65)},
		{"with a line break", env.operator, "100001", "two\nlines of it"},
	} {
		got, err := env.passwords.Reset(t.Context(), "web:asha", wrong.operator, wrong.subscriber, wrong.password)
		refusal := new(admin.Refusal)
		if !errors.As(err, &refusal) || got != (admin.NewPassword{}) {
			t.Errorf("%s: %+v, %v; want a refusal", wrong.what, got, err)
		}
		if err != nil && wrong.password != "" && strings.Contains(err.Error(), wrong.password) {
			t.Errorf("%s: the refusal repeats the password: %v", wrong.what, err)
		}
	}
	if calls := env.provider.Calls(""); len(calls) != 0 {
		t.Errorf("the provider got %+v; want no calls", calls)
	}
	if strings.Contains(env.auditLog(), "password") {
		t.Errorf("the audit log has an entry: %s", env.auditLog())
	}
}

// Concurrent clicks are separate resets, carried out one after the other.
func TestPasswords_ResetsOfOneCustomerAreSerial(t *testing.T) {
	env := newEnv(t)
	counting := &countingResetter{PasswordResetter: resetterOf(t, env)}
	env.passwords = admin.NewPasswords(env.store, counting, func() time.Time { return noon })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := env.passwords.Reset(t.Context(), "web:asha", env.operator, "100001", ""); err != nil || got.Outcome != operation.Confirmed {
				t.Errorf("Reset = %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	if counting.peak != 1 || counting.calls != 8 {
		t.Errorf("%d resets, up to %d at once; want 8, one at a time", counting.calls, counting.peak)
	}
}

func resetterOf(t *testing.T, env *testEnv) operation.PasswordResetter {
	server := httptest.NewServer(env.provider)
	t.Cleanup(server.Close)
	client, err := gateway.New(gateway.Config{URL: server.URL, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// countingResetter counts a provider's resets, and how many run concurrently.
type countingResetter struct {
	operation.PasswordResetter
	mu            sync.Mutex
	running, peak int
	calls         int
}

func (c *countingResetter) ResetPassword(ctx context.Context, reset operation.PasswordReset) operation.Reply {
	c.mu.Lock()
	c.calls++
	c.running++
	c.peak = max(c.peak, c.running)
	c.mu.Unlock()
	reply := c.PasswordResetter.ResetPassword(ctx, reset)
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	return reply
}

func TestPasswordReset_LogsNoPassword(t *testing.T) {
	reset := operation.NewPasswordReset("100001", "hunter2 hunter2", noon)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("reset", "what", reset)
	for _, text := range []string{fmt.Sprint(reset), fmt.Sprintf("%+v %#v %q %s", reset, reset, reset, reset), log.String()} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, reset.Reference) {
			t.Errorf("shown as %s", text)
		}
	}
}
