//go:build long

package linearizability_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/provider/simulator"
)

const (
	clients               = 8
	stepsPerClient        = 38
	selectionsPerOperator = 40
	creditCount           = 8
	nonceCount            = 40
	drainRounds           = 40
	roundsBeforeStaff     = 8 // rounds, after which review has had its time
)

// history is one run of all clients, with what they choose from. The seed determines
// everything that a client does, but not when.
type history struct {
	*environment
	*record
	number       int
	seed         uint64
	accounts     []int64 // one with money, one that runs dry
	selections   map[int64][]selection
	caller       admin.IssuedKey
	authOperator int64 // the operator at the gate
}

// selection is an operation that clients may request, once or several times.
type selection struct {
	operator int64
	key      string
	kind     operation.Kind
	mobile   string
	plan     int
	price    int64
	body     string
}

func (w selection) with(plan int) selection {
	w.plan, w.price = plan, plans[plan].price
	w.body = fmt.Sprintf("%s of %s with %s", w.kind, w.mobile, plans[plan].id)
	return w
}

func (w selection) request() operation.Request {
	fields := map[string]string{"mobile": w.mobile, "plan_id": plans[w.plan].id}
	if w.kind == operation.Activate {
		fields["full_name"] = "Customer " + w.mobile
	}
	return operation.Request{
		OperatorID: w.operator, Channel: operation.API, Actor: "api:key", IdempotencyKey: w.key, Kind: w.kind,
		Fields: fields, Content: []byte(w.body),
	}
}

// outcomes are the provider's outcomes, the usual ones more often.
var outcomes = []simulator.Outcome{
	simulator.Success, simulator.Success, simulator.Success, simulator.Success, simulator.Success, simulator.Success,
	simulator.Success, simulator.Success, simulator.Success, simulator.Success,
	simulator.Reject, simulator.Reject, simulator.Reject, simulator.GatewayError, simulator.WrongReference,
	simulator.ResetApplied, simulator.Slow, simulator.TimeoutApplied, simulator.TimeoutNotApplied, simulator.Unknowable,
}

// prepare opens the accounts of a history and draws what clients may request.
func (env *environment) prepare(t testing.TB, number int, seed uint64) *history {
	t.Helper()
	h := &history{
		environment: env, number: number, seed: seed, selections: map[int64][]selection{},
		record: &record{began: time.Now(), opened: map[int64]int64{}, imported: map[string]int64{}, limit: 8},
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for _, money := range []int64{9_000_00, 400_00} {
		operator := h.openAccount(t, money)
		h.accounts = append(h.accounts, operator)
		h.opened[operator] = money
	}
	h.openAuthOperator(t)
	contested := h.newMobiles(t, random, 5)
	for _, operator := range h.accounts {
		known := h.newMobiles(t, random, 6)
		h.importCustomers(t, operator, known)
		h.drawSelections(t, random, operator, known, contested)
	}
	return h
}

func (h *history) openAccount(t testing.TB, balance int64) int64 {
	t.Helper()
	service := h.nodes[0].service
	operator, err := service.CreateOperator(t.Context(), "Account", admin.OperatorChange{})
	must(t, err)
	ctx := (&callContext{record: h.record}).in(t.Context())
	_, _, err = service.TopUp(ctx, admin.TopUp{OperatorID: operator.ID, Amount: money.Paise(balance), Reference: fmt.Sprintf("to begin account %d with", operator.ID)})
	must(t, err)
	return operator.ID
}

func (h *history) openAuthOperator(t testing.TB) {
	t.Helper()
	service := h.nodes[0].service
	operator, err := service.CreateOperator(t.Context(), "At the gate", admin.OperatorChange{RateLimit: &h.limit})
	must(t, err)
	_, err = service.AllowAddress(t.Context(), operator.ID, callersAddress.String())
	must(t, err)
	h.authOperator = operator.ID
	h.caller, err = service.IssueKey(t.Context(), operator.ID, access.AllPermissions)
	must(t, err)
}

func (h *history) newMobiles(t testing.TB, random *rand.Rand, count int) (mobiles []string) {
	t.Helper()
	for range count {
		script := make([]simulator.Outcome, 12)
		for i := range script {
			script[i] = outcomes[random.IntN(len(outcomes))]
		}
		mobiles = append(mobiles, h.newMobile(t, script))
	}
	return mobiles
}

func (h *history) importCustomers(t testing.TB, operator int64, mobiles []string) {
	t.Helper()
	var rows []admin.ImportRow
	for i, mobile := range mobiles {
		rows = append(rows, admin.ImportRow{
			Line: i + 1, OperatorID: operator, SubscriberID: "I" + mobile, Mobile: mobile, Name: "Customer " + mobile,
			PlanID: plans[0].id, Expires: h.nodes[0].now().Add(24 * time.Hour),
		})
		h.imported[mobile] = operator
	}
	act := admin.StaffAction{Actor: "cli:test", Action: "subscriber import", At: h.nodes[0].now()}
	_, err := h.nodes[0].store.ImportSubscribers(t.Context(), act, rows)
	must(t, err)
}

// drawSelections draws renewals of customers that all clients share, activations of
// numbers that both operators want, and activations of new numbers.
func (h *history) drawSelections(t testing.TB, random *rand.Rand, operator int64, known, contested []string) {
	t.Helper()
	for i := range selectionsPerOperator {
		w := selection{operator: operator, key: fmt.Sprintf("history-%d-wish-%d", h.number, i)}
		switch draw := random.IntN(100); {
		case draw < 40:
			w.kind, w.mobile = operation.Renew, known[random.IntN(len(known))]
		case draw < 55:
			w.kind, w.mobile = operation.AdvanceRenew, known[random.IntN(len(known))]
		case draw < 75:
			w.kind, w.mobile = operation.Activate, contested[random.IntN(len(contested))]
		case draw < 80:
			w.kind, w.mobile = operation.Renew, contested[random.IntN(len(contested))]
		default:
			w.kind, w.mobile = operation.Activate, h.newMobiles(t, random, 1)[0]
		}
		h.selections[operator] = append(h.selections[operator], w.with(random.IntN(len(plans))))
	}
}

// run runs all clients, settles everything that is still open, and reads the final
// rows.
func (h *history) run(t testing.TB) {
	t.Helper()
	h.record.began = time.Now()
	h.readWallets(t)
	var group sync.WaitGroup
	for i := range clients {
		c := &client{history: h, number: i, random: rand.New(rand.NewPCG(h.seed, uint64(i+1))), ids: map[account]string{}}
		group.Go(func() {
			for c.step = range stepsPerClient {
				c.act(t.Context())
			}
		})
	}
	group.Wait()
	h.drain(t)
	h.readWallets(t)
	h.readRows(t)
}

func (h *history) readWallets(t testing.TB) {
	t.Helper()
	for _, operator := range h.accounts {
		c := &client{history: h, number: clients}
		must(t, c.readWallet(t.Context(), h.nodes[0], operator))
	}
}

// drain sets the clocks forward until review has settled everything that it can, and
// then has a person settle the rest.
func (h *history) drain(t testing.TB) {
	t.Helper()
	ctx := (&callContext{record: h.record, client: clients}).in(t.Context())
	for round := range drainRounds {
		open := h.open(t)
		if len(open) == 0 {
			return
		}
		h.passed.Add(int64(10 * time.Second))
		for _, node := range h.nodes {
			_, err := node.reviewer.RunOnce(ctx)
			must(t, err)
		}
		if round < roundsBeforeStaff {
			continue
		}
		for _, op := range open {
			if op.State == operation.NeedsReview {
				// Review may have been quicker; the next round sees.
				_, _ = h.nodes[round%2].service.SettleReview(ctx, op.ID, round%3 == 0, "nobody will ever know")
			}
		}
	}
	t.Fatalf("still open after %d rounds of review: %+v", drainRounds, h.open(t))
}

func (h *history) open(t testing.TB) (open []operation.Operation) {
	t.Helper()
	for _, operator := range h.accounts {
		for _, state := range []operation.State{operation.Processing, operation.NeedsReview} {
			listed, err := h.nodes[0].store.ListOperations(t.Context(), admin.OperationFilter{OperatorID: operator, State: state, Limit: 1000})
			must(t, err)
			open = append(open, listed...)
		}
	}
	return open
}

func (h *history) readRows(t testing.TB) {
	t.Helper()
	h.final, h.ledger = map[string]operation.Operation{}, map[int64]map[string]bool{}
	for _, operator := range h.accounts {
		listed, err := h.nodes[0].store.ListOperations(t.Context(), admin.OperationFilter{OperatorID: operator, Limit: 1000})
		must(t, err)
		for _, op := range listed {
			h.final[op.ID] = op
		}
		lines, err := h.nodes[0].store.LedgerPage(t.Context(), admin.ListQuery{OperatorID: operator})
		must(t, err)
		h.ledger[operator] = map[string]bool{}
		for _, line := range lines {
			h.ledger[operator][line.Description] = true
		}
	}
	must(t, h.resolve())
}
