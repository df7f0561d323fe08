package postgres

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/catalogue"
	"github.com/coaxhq/coax/internal/login"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
)

// What storetest asks of every store is asked there. Here is what only this one
// has: a server, several nodes, and batchers.

// openTest names the address that a copy of the test binary opens as a node, for
// nodes that share no memory.
const openTest = "COAX_TEST_OPEN"

func TestMain(m *testing.M) {
	if address := os.Getenv(openTest); address != "" {
		os.Exit(openAsProcess(address))
	}
	login.HashCheaply()
	code := m.Run()
	pgtest.StopShared()
	os.Exit(code)
}

// openAsProcess waits until its stdin ends, opens the store, and says how that
// went.
func openAsProcess(address string) int {
	_, _ = os.Stdin.Read(make([]byte, 1))
	db, err := Open(context.Background(), address, Options{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

var noon = time.Date(2027, 3, 1, 6, 30, 0, 0, time.UTC)

func act(action string) admin.StaffAction {
	return admin.StaffAction{Actor: "test:asha", Action: action, Reason: "because", At: noon}
}

// unhurried is an address without a timeout for transactions that idle for some seconds,
// as tests do on a machine that others use as well.
func unhurried(address string) string {
	return address + "&idle_in_transaction_session_timeout=5min&lock_timeout=6min"
}

func open(t testing.TB, address string) *DB {
	t.Helper()
	db, err := Open(t.Context(), unhurried(address), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// raw is a connection of the test's own.
func raw(t testing.TB, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t testing.TB, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t testing.TB, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// until polls a condition, for longer than anything takes on a machine that is merely
// busy.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	timeout := time.After(5 * time.Minute)
	for pause := 2 * time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		select {
		case <-timeout:
			t.Fatalf("gave up waiting until %s", what)
		case <-time.After(pause):
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// operator opens an account with a key, money and this many places a minute.
func operator(t testing.TB, db *DB, limit int) access.Record {
	t.Helper()
	o, err := db.CreateOperator(t.Context(), act("lco create"), subscription.Operator{
		Name: "shop", Status: subscription.OperatorActive, API: subscription.APIEnabled, RateLimit: limit, CreatedAt: noon,
	})
	ok(t, err)
	ok(t, db.AllowAddress(t.Context(), act("whitelist add"), o.ID, netip.MustParsePrefix("192.0.2.1/32"), 20))
	_, _, err = db.TopUp(t.Context(), act("wallet topup"), admin.TopUp{OperatorID: o.ID, Amount: money.Paise(10_000_00), Reference: fmt.Sprintf("opening of %d", o.ID)})
	ok(t, err)
	key, _ := access.NewKey()
	credential, err := db.IssueKey(t.Context(), act("key issue"), access.Credential{
		OperatorID: o.ID, KeyHash: access.HashKey(key), Hint: access.Hint(key), SealedSecret: []byte("sealed"),
		Permissions: access.AllPermissions, CreatedAt: noon,
	})
	ok(t, err)
	record, found, err := db.CredentialByHash(t.Context(), credential.KeyHash)
	if err != nil || !found {
		t.Fatalf("the key is not found: %v", err)
	}
	return record
}

var requests atomic.Int64

// asking is a request of its own to be let in.
func asking(record access.Record, nonce string) access.Admission {
	return access.Admission{
		RequestID: fmt.Sprintf("request-%d", requests.Add(1)), Nonce: nonce, Now: noon,
		CredentialID: record.Credential.ID, CredentialVersion: record.Credential.Version,
		OperatorID: record.Operator.ID, OperatorVersion: record.Operator.Version,
		Count: true, Limit: record.Operator.RateLimit,
	}
}

// activation is a draft for an operator who sells BASIC-1 from now on.
func activation(t testing.TB, db *DB, operatorID int64, key string) operation.Draft {
	t.Helper()
	ok(t, db.RecordComparison(t.Context(), catalogue.Comparison{
		Provider: "test", At: noon, Components: []catalogue.Component{{Code: "TV", Name: "TV", Role: catalogue.Main}},
	}))
	plan, err := db.SetPlan(t.Context(), act("plan set"), subscription.Plan{
		ID: "BASIC-1", Name: "Basic", Price: money.Paise(199_00), Months: 1, Type: subscription.Standard, Main: "TV", UpdatedAt: noon,
	})
	ok(t, err)
	return operation.Draft{
		Operation: operation.Operation{
			ID: "CX" + key, OperatorID: operatorID, IdempotencyKey: key, Fingerprint: operation.Fingerprint{KeyID: 7, Sum: []byte("sum")},
			Kind: operation.Activate, Channel: operation.API, Actor: "api:key 1",
			SubscriberID: "100001", CustomerName: "Asha", Mobile: "9800000001",
			PlanID: plan.ID, PlanVersion: plan.Version, PlanName: plan.Name, PlanMonths: 1, Main: plan.Main, Amount: plan.Price,
			ExpiryPlanned: noon.Add(30 * 24 * time.Hour), CycleStartsAt: noon,
			State: operation.Processing, Epoch: 1, Node: "node-1", LeaseUntil: noon.Add(25 * time.Second), Provider: "test", CreatedAt: noon,
		},
		Profile: operation.Profile{ConnectionType: "Live TV"},
	}
}
