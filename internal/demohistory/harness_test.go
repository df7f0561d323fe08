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

// today is when the tests' demos are started: in the Indian evening.
var today = time.Date(2027, 3, 10, 12, 40, 0, 0, time.UTC)

// world is a demo as far as a history knows one: a store, a provider on a socket,
// and a new operator.
type world struct {
	testing.TB
	file   string
	store  *sqlite.DB
	config Config
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, file: filepath.Join(t.TempDir(), "coax.db")}
	provider, err := simulator.New(simulator.Config{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- provider.Serve(listener) }()
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
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
	reach := func(timeout time.Duration) *gateway.Gateway {
		g, err := gateway.New(gateway.Config{URL: "http://" + listener.Addr().String(), Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		return g
	}
	patient := reach(time.Minute)
	w.config = Config{
		Vault: vault, Provider: patient, Impatient: reach(500 * time.Millisecond), Source: patient, Simulator: provider, ProviderName: "simulator",
		Timeout: 20 * time.Second, FirstCheck: 10 * time.Second, MaxInterval: 10 * time.Minute, RefundAfter: 2 * time.Minute,
		ActivationTerm: subscription.ThirtyDays,
		Fingerprints:   operation.Fingerprints{Keys: vault.Derive("body fingerprint"), Current: vault.PrimaryID()},
		Now:            func() time.Time { return today },
		Progress:       func(Progress) {},
	}
	w.open()
	t.Cleanup(func() { w.store.Close() })
	return w
}

// in is the same world in another test.
func (w *world) in(t testing.TB) *world {
	same := *w
	same.TB = t
	return &same
}

// open opens the store, for the first time or again.
func (w *world) open() {
	w.Helper()
	store, err := sqlite.Open(w.Context(), w.file, sqlite.Options{})
	if err != nil {
		w.Fatal(err)
	}
	w.store, w.config.Store = store, store
	w.config.Requests = requestlog.New(store, requestlog.Config{Keep: 30 * day})
}

// furnish opens an account as the demo does, three months ago.
func (w *world) furnish(actor string) (begins time.Time) {
	w.Helper()
	begins = today.Add(-Length)
	if err := w.store.RecordComparison(w.Context(), catalogue.Comparison{
		Provider: "simulator", At: begins, Components: simulator.Components(),
	}); err != nil {
		w.Fatal(err)
	}
	service := admin.NewService(w.store, w.config.Vault, actor, func() time.Time { return begins })
	operator, err := service.CreateOperator(w.Context(), "Demo Cable", admin.OperatorChange{CommissionBPS: new(250)})
	if err != nil {
		w.Fatal(err)
	}
	for _, plan := range []subscription.Plan{
		{ID: basic, Name: "Basic", Price: money.Paise(199_00), Months: 1, Type: subscription.Standard, Main: "TV-BASIC"},
		{ID: family, Name: "Family", Price: money.Paise(349_00), Months: 1, Type: subscription.Standard, Main: "TV-FAMILY"},
		{ID: quarter, Name: "Family, 3 months", Price: money.Paise(999_00), Months: 3, Type: subscription.Standard, Main: "TV-FAMILY"},
		{ID: combo, Name: "Combo", Price: money.Paise(499_00), Months: 1, Type: subscription.Combo, Main: "TV-FAMILY", Addon: "OTT-PLUS"},
	} {
		if _, err := service.SetPlan(w.Context(), plan); err != nil {
			w.Fatal(err)
		}
	}
	if _, err := service.IssueKey(w.Context(), operator.ID, access.AllPermissions); err != nil {
		w.Fatal(err)
	}
	return begins
}

func (w *world) fill(begins time.Time) {
	w.Helper()
	if err := Fill(w.Context(), w.config, begins); err != nil {
		w.Fatal(err)
	}
}

// audited proves the books as of today.
func (w *world) audited() audit.Counts {
	w.Helper()
	db, err := sql.Open("sqlite", "file:"+w.file+"?mode=ro")
	if err != nil {
		w.Fatal(err)
	}
	defer db.Close()
	snapshot, err := db.BeginTx(w.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		w.Fatal(err)
	}
	defer snapshot.Rollback()
	report, err := audit.Settings{LongestWait: 10 * time.Minute}.Run(w.Context(), snapshot, today, nil)
	if err != nil {
		w.Fatal(err)
	}
	for _, violation := range report.Violations {
		w.Error(violation)
	}
	return report.Counts
}

// state demands that the store is examined as being in a state.
func (w *world) state(want State) (begins time.Time) {
	w.Helper()
	got, begins, err := Examine(w.Context(), w.store)
	if err != nil || got != want {
		w.Errorf("Examine = %v, %v; want %v", got, err, want)
	}
	return begins
}
