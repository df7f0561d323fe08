//go:build long

package durability

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/coaxhq/coax/client"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/gateway"
	"github.com/coaxhq/coax/internal/provider/providertest"
	"github.com/coaxhq/coax/internal/store/sqlite"
)

// Provider faults mostly wait for timeouts, so many tests run in parallel, even on few
// processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Whatever fails in a provider call, of any kind of operation, in the first call or in
// review: money is refunded at once if nothing was sent, held while the outcome is
// unknown, and in the end charged exactly if the provider carried out the order.
func TestProviderFaults_MoneyMatchesProvider(t *testing.T) {
	for _, fault := range providertest.AllFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			path := newFolder(t)
			h := s.open(t, path, sqlite.Options{})
			link := fault.Begin(t, s.provider)
			faulty, err := gateway.New(gateway.Config{URL: link.URL, CAFile: link.CAFile, Timeout: link.Timeout})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(faulty.Close)
			cases := 0
			for _, kind := range []operation.Kind{operation.Activate, operation.Renew, operation.AdvanceRenew} {
				for _, what := range []string{"apply", "status", "void"} {
					if raced && (kind != operation.Renew || what != "apply") {
						continue
					}
					if what == "void" && fault.Mismatch != "" && fault.Mismatch != "reference" {
						continue // the reply to a void has only the reference
					}
					cases++
					faultCase{h, fault, faulty, kind, what, fmt.Sprintf("98%08d", cases)}.run()
				}
			}
			h.close()
			for _, wrong := range s.inspect(t.Context(), path, nil, s.provider.Effects(), s.now()) {
				t.Error(wrong)
			}
		})
	}
}

// faultCase is one kind of operation with a fault in one of its provider calls.
type faultCase struct {
	*harness
	fault  providertest.Fault
	faulty operation.Provider
	kind   operation.Kind
	what   string // apply, status or void
	mobile string
}

func (b faultCase) run() {
	b.t.Helper()
	name := string(b.kind) + "-" + b.what + "-" + b.mobile
	fail := func(format string, args ...any) {
		b.t.Helper()
		b.t.Errorf("%s, fault in %s: %s", b.kind, b.what, fmt.Sprintf(format, args...))
	}
	body := map[string]string{"full_name": "Asha Rao", "mobile": b.mobile, "plan_id": "BASIC-1"}
	if b.kind != operation.Activate {
		if got := b.send("POST", "activate", "first-"+name, body); got.Code != client.OK {
			b.t.Fatal(got.text)
		}
		body = map[string]string{"mobile": b.mobile, "plan_id": "FAMILY-3"}
	}
	// An operation for review: carried out without a reply, or not carried out.
	switch b.what {
	case "status":
		b.script("reset_applied")
	case "void":
		b.script("gateway_error")
	}
	b.wire.useFaulty(b.what, b.faulty)
	before := b.balance()
	endpoint := map[operation.Kind]string{operation.Activate: "activate", operation.Renew: "renew", operation.AdvanceRenew: "advance-renew"}[b.kind]
	got := b.send("POST", endpoint, name, body)
	id, price := got.Data.TransactionID, int64(got.Data.Amount)

	if b.what == "apply" && b.fault.NotSent {
		if got.Code != client.ProviderError || got.Data.Reason != "PROVIDER_UNREACHABLE" || b.balance() != before {
			fail("nothing was sent, and the answer is %s, with %d in the wallet; want a refund", got.text, b.balance())
		}
	} else {
		if got.Code != client.PendingReview || b.balance() != before-price {
			fail("answered %s, with %d of %d in the wallet; want the price held", got.text, b.balance(), before)
		}
		for range 30 {
			if b.wire.faultyCalls() > 0 {
				break
			}
			b.followUp()
		}
		if state := b.state(id); state != "needs_review" || b.balance() != before-price {
			fail("after the fault it is %s, with %d of %d in the wallet; want the price held", state, b.balance(), before)
		}
	}
	if b.wire.faultyCalls() == 0 {
		fail("no call hit the fault")
	}
	if raised := b.exceptions(id); (raised > 0) != (b.fault.Mismatch != "") {
		fail("%d exceptions were raised", raised)
	}

	b.wire.useFaulty("", nil)
	for range 30 {
		if state := b.state(id); state == "success" || state == "failed" {
			break
		}
		b.followUp()
	}
	effects, left := b.provider.Effects()[id], before
	want := operation.Failed
	if effects == 1 {
		want, left = operation.Success, before-price
	}
	if state := b.state(id); effects > 1 || state != want || b.balance() != left {
		fail("in the end it is %s with %d effects, and %d of %d in the wallet; want %s and %d", state, effects, b.balance(), before, want, left)
	}
}

// followUp lets time pass and review work.
func (b faultCase) followUp() {
	b.t.Helper()
	b.ahead.Add(int64(maxInterval))
	if _, err := b.reviewer.RunOnce(b.t.Context()); err != nil {
		b.t.Errorf("review: %v", err)
	}
}

// script sets the simulator's outcome of the customer's next order.
func (b faultCase) script(outcome string) {
	b.t.Helper()
	text, err := json.Marshal(map[string]any{"mobile": b.mobile, "outcomes": []string{outcome}})
	b.ok(err)
	response, err := http.Post(b.providerURL+"/control/script", "application/json", bytes.NewReader(text))
	b.ok(err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("script %s: %s", text, response.Status)
	}
}

func (b faultCase) balance() int64 {
	b.t.Helper()
	wallet, err := b.service.Wallet(context.Background(), b.operatorID)
	b.ok(err)
	return wallet.Balance.Paise()
}

func (b faultCase) state(id string) operation.State {
	b.t.Helper()
	op, found, err := b.store.OperationByID(b.t.Context(), b.operatorID, id)
	b.ok(err)
	if !found {
		b.t.Fatalf("there is no operation %s", id)
	}
	return op.State
}

// exceptions counts what was raised about an operation.
func (b faultCase) exceptions(id string) (raised int) {
	b.t.Helper()
	db, err := sql.Open("sqlite", "file:"+b.path+"?mode=ro&_pragma=busy_timeout(5000)")
	b.ok(err)
	defer db.Close()
	b.ok(db.QueryRow(`SELECT count(*) FROM exceptions WHERE operation_id = ? AND kind = 'WRONG_ANSWER'`, id).Scan(&raised))
	return raised
}
