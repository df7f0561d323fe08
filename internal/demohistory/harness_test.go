package demohistory

import (
	"context"
	"database/sql"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/provider/simulator"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/subscription"
)

// today is the start of the tests' demos: in the Indian evening.
var today = time.Date(2027, 3, 10, 12, 40, 0, 0, time.UTC)

// env is the environment of a history: a store, and a simulator on a socket.
type env struct {
	testing.TB
	file   string
	store  *sqlite.DB
	config Config
}

func newEnv(t testing.TB) *env {
	e := &env{TB: t, file: filepath.Join(t.TempDir(), "coax.db")}
	sim, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- sim.Serve(listener) }()
	t.Cleanup(func() {
		if err := sim.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-served
	})
	text, err := access.NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	vault, err := access.OpenVault(text)
	if err != nil {
		t.Fatal(err)
	}
	open := func(timeout time.Duration) *gateway.Gateway {
		g, err := gateway.New(gateway.Config{URL: "http://" + listener.Addr().String(), Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		return g
	}
	provider := open(time.Minute)
	e.config = Config{
		Vault: vault, Provider: provider, ShortTimeout: open(500 * time.Millisecond), Source: provider, Simulator: sim, ProviderName: "simulator",
		Timeout: 20 * time.Second, FirstCheck: 10 * time.Second, MaxInterval: 10 * time.Minute, RefundAfter: 2 * time.Minute,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   vault.KeysFor(operation.FingerprintPurpose),
		Now:            func() time.Time { return today },
		Progress:       func(Progress) {},
	}
	e.open()
	t.Cleanup(func() { e.store.Close() })
	return e
}

// with returns the environment for a subtest.
func (e *env) with(t testing.TB) *env {
	same := *e
	same.TB = t
	return &same
}

// open opens the store, for the first time or again.
func (e *env) open() {
	e.Helper()
	store, err := sqlite.Open(e.Context(), e.file, sqlite.Options{})
	if err != nil {
		e.Fatal(err)
	}
	e.store, e.config.Store = store, store
	e.config.Requests = requestlog.New(store, requestlog.Config{Keep: 30 * day})
}

// setup creates an operator as the demo does, three months ago.
func (e *env) setup(actor string) (begins time.Time) {
	e.Helper()
	begins = today.Add(-Length)
	if err := e.store.RecordComparison(e.Context(), catalogue.Comparison{
		Provider: "simulator", At: begins, Components: simulator.Components(),
	}); err != nil {
		e.Fatal(err)
	}
	service := admin.NewService(e.store, e.config.Vault, actor, func() time.Time { return begins })
	operator, err := service.CreateOperator(e.Context(), "Demo Cable", admin.OperatorChange{CommissionBPS: new(250)})
	if err != nil {
		e.Fatal(err)
	}
	for _, plan := range []subscription.Plan{
		{ID: basic, Name: "Basic", Price: money.Paise(199_00), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"},
		{ID: family, Name: "Family", Price: money.Paise(349_00), Months: 1, Type: subscription.Standard, Main: "TV-FAMILY"},
		{ID: quarter, Name: "Family, 3 months", Price: money.Paise(999_00), Months: 3, Type: subscription.Standard, Main: "TV-FAMILY"},
		{ID: combo, Name: "Combo", Price: money.Paise(499_00), Months: 1, Type: subscription.Combo, Main: "TV-FAMILY", Addon: "OTT-PLUS"},
	} {
		if _, err := service.SetPlan(e.Context(), plan); err != nil {
			e.Fatal(err)
		}
	}
	if _, err := service.IssueKey(e.Context(), operator.ID, access.AllPermissions); err != nil {
		e.Fatal(err)
	}
	return begins
}

func (e *env) fill(begins time.Time) {
	e.Helper()
	if err := Fill(e.Context(), e.config, begins); err != nil {
		e.Fatal(err)
	}
}

// audited audits the books as of today.
func (e *env) audited() audit.Counts {
	e.Helper()
	db, err := sql.Open("sqlite", "file:"+e.file+"?mode=ro")
	if err != nil {
		e.Fatal(err)
	}
	defer db.Close()
	snapshot, err := db.BeginTx(e.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		e.Fatal(err)
	}
	defer snapshot.Rollback()
	report, err := audit.Settings{LongestWait: 10 * time.Minute}.Run(e.Context(), snapshot, today, nil)
	if err != nil {
		e.Fatal(err)
	}
	for _, violation := range report.Violations {
		e.Error(violation)
	}
	return report.Counts
}

// checkState fails the test unless Examine returns a state.
func (e *env) checkState(want State) (begins time.Time) {
	e.Helper()
	got, begins, err := Examine(e.Context(), e.store)
	if err != nil || got != want {
		e.Errorf("Examine = %v, %v; want %v", got, err, want)
	}
	return begins
}
