package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// model implements the rules of the contract and mirrors the store. It reads commits
// from the journal and checks each state transition and each answer. It shares no code
// with the product: it computes in paise and has its own calendar.
type model struct {
	env *environment

	operators   map[int64]*mOperator
	credentials map[int64]*mCredential
	nonces      map[string]string // key id and nonce: the request that used it
	purged      map[string]bool   // nonces and minutes whose rows are gone
	used        map[string]int    // operator and minute: requests counted
	plans       map[string]*mPlan
	unsellable  map[string]bool
	verifiedAt  int64
	subscribers map[string]*mSubscriber
	operations  map[string]*mOperation
	byKey       map[string]*mOperation // operator and key
	exceptions  map[string]bool        // operation and kind
	reversals   map[string]*mReversal

	topUps map[string]int64 // operator and reference: what was credited

	touched    map[string]bool // operations of this commit
	faulted    map[string]bool // tasks that met a fault
	violations []string

	flights  map[*flight]bool
	requests map[string][]*flight // operator and key: every request that named them
	accepted map[string]int       // operator and minute: requests let past the limit
	limits   map[string]int       // operator and minute: the highest limit in force then
	results  map[string]int       // operation: answers that were not replays
	counted  []counted            // in real time: counters that are checked at the end
}

// counted is a rate counter as it was written, and how many limits the operator had had
// by then.
type counted struct {
	operator *mOperator
	limits   int
	minute   int64
	used     int
}

type mOperator struct {
	ID         int64  `json:"id"`
	Status     string `json:"status"`
	API        string `json:"api"`
	Limit      int    `json:"rate_limit"`
	BPS        int64  `json:"commission_bps"`
	Low        int64  `json:"low_balance_paise"`
	whitelist  map[string]bool
	balance    int64 // by the entries
	entries    int64
	ledger     int64 // by the lines
	lines      int64
	wallet     mWallet
	creditedIn int64
	limitsHad  []int // every limit it had, in order
	ratesHad   map[int64]bool
}

type mWallet struct {
	Operator int64 `json:"operator_id"`
	Balance  int64 `json:"balance_paise"`
	Ledger   int64 `json:"ledger_paise"`
}

type mCredential struct {
	ID          int64  `json:"id"`
	Operator    int64  `json:"operator_id"`
	Permissions string `json:"permissions"`
	Revoked     *int64 `json:"revoked_at"`
	Expires     *int64 `json:"expires_at"`
}

type mPlan struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Price   int64   `json:"price_paise"`
	Months  int64   `json:"months"`
	Type    string  `json:"type"`
	Main    string  `json:"main"`
	Addon   *string `json:"addon"`
	Retired int     `json:"retired"`
}

type mSubscriber struct {
	ID       string `json:"id"`
	Operator int64  `json:"operator_id"`
	Mobile   string `json:"mobile"`
	Name     string `json:"name"`
	Expires  *int64 `json:"expires_at"`
	cycles   []mCycle
	open     string // its open operation
	// Reversing is the operation that is being reversed.
	Reversing *string `json:"reversing"`
}

type mCycle struct {
	Subscriber string  `json:"subscriber_id"`
	Operation  *string `json:"operation_id"`
	Plan       string  `json:"plan_id"`
	Starts     int64   `json:"starts_at"`
	Ends       int64   `json:"ends_at"`
}

type mOperation struct {
	ID           string  `json:"id"`
	Operator     int64   `json:"operator_id"`
	Key          string  `json:"idempotency_key"`
	Kind         string  `json:"kind"`
	Channel      string  `json:"channel"`
	Subscriber   string  `json:"subscriber_id"`
	Name         string  `json:"customer_name"`
	Mobile       string  `json:"mobile"`
	Plan         string  `json:"plan_id"`
	PlanName     string  `json:"plan_name"`
	Months       int64   `json:"plan_months"`
	Main         string  `json:"main"`
	Addon        *string `json:"addon"`
	Amount       int64   `json:"amount_paise"`
	BPS          int64   `json:"commission_bps"`
	Before       int64   `json:"wallet_before_paise"`
	Previous     *int64  `json:"expiry_previous"`
	Planned      int64   `json:"expiry_planned"`
	Starts       int64   `json:"cycle_starts_at"`
	Status       string  `json:"status"`
	Epoch        int64   `json:"epoch"`
	Node         string  `json:"node"`
	AddonStatus  *string `json:"addon_status"`
	AddonAttempt int     `json:"addon_attempt"`
	ProviderTxn  *string `json:"provider_transaction_id"`
	Reason       *string `json:"reason"`
	Created      int64   `json:"created_at"`
	Completed    *int64  `json:"completed_at"`
	Reversed     *int64  `json:"reversed_at"`

	state   string // by its events
	held    int64  // its owner's epoch, by the last update
	entries map[string]int64
	debits  int
	credits int // ledger lines that take its charge back
	// reversals is how many were requested; undone: it was reversed in this commit.
	reversals int
	undone    bool
	earned    []int64
	by        *process // the process that reserved it
	flight    *flight
	person    bool // a person settled it
}

func newModel(env *environment) *model {
	return &model{
		env: env, operators: map[int64]*mOperator{}, credentials: map[int64]*mCredential{}, nonces: map[string]string{},
		purged: map[string]bool{}, used: map[string]int{}, plans: map[string]*mPlan{}, unsellable: map[string]bool{}, subscribers: map[string]*mSubscriber{},
		operations: map[string]*mOperation{}, byKey: map[string]*mOperation{}, exceptions: map[string]bool{}, reversals: map[string]*mReversal{}, topUps: map[string]int64{}, touched: map[string]bool{}, faulted: map[string]bool{},
		flights: map[*flight]bool{}, requests: map[string][]*flight{}, accepted: map[string]int{}, limits: map[string]int{}, results: map[string]int{},
	}
}

// violate records a violated invariant.
func (m *model) violate(invariant, subject, format string, args ...any) {
	m.env.mu.Lock()
	defer m.env.mu.Unlock()
	m.violations = append(m.violations, fmt.Sprintf("%s %s: %s", invariant, m.env.nicknameLocked(subject), fmt.Sprintf(format, args...)))
}

func keyOf(operator int64, text string) string { return fmt.Sprint(operator, " ", text) }

// committed processes the rows of one or more commits, and then checks the state that
// they leave.
func (m *model) committed(lines []row) {
	clear(m.touched)
	for _, l := range lines {
		if l.table == "operators" {
			// Requests of the same commit may have been checked against the old row.
			m.considerAll()
		}
		m.take(l)
	}
	for _, id := range slices.Sorted(maps.Keys(m.touched)) {
		op := m.operations[id]
		m.checkShape(op)
		if op.undone {
			op.undone = false
			m.checkReversed(op)
		}
	}
	for _, o := range m.operators {
		m.checkWallet(o)
	}
	m.considerAll()
}

func (m *model) considerAll() {
	for _, f := range m.inFlight() {
		m.consider(f, f.process.node.now())
	}
}

func (m *model) take(l row) {
	switch l.table {
	case "operators":
		m.takeOperator(l)
	case "whitelist":
		var e struct {
			Operator int64  `json:"operator_id"`
			Entry    string `json:"entry"`
		}
		l.into(&e)
		if l.act == "delete" {
			delete(m.operators[e.Operator].whitelist, e.Entry)
		} else {
			m.operators[e.Operator].whitelist[e.Entry] = true
		}
	case "credentials":
		var c mCredential
		l.into(&c)
		m.credentials[c.ID] = &c
	case "nonces":
		m.takeNonce(l)
	case "rate_counters":
		m.takeCounter(l)
	case "catalogue_comparisons":
		var c struct {
			At *int64 `json:"verified_at"`
		}
		if l.into(&c); c.At != nil {
			m.verifiedAt = *c.At
		}
	case "provider_components":
		var c struct {
			Code     string `json:"code"`
			Sellable int    `json:"sellable"`
		}
		l.into(&c)
		m.unsellable[c.Code] = c.Sellable == 0
	case "plans":
		var p mPlan
		l.into(&p)
		m.plans[p.ID] = &p
	case "subscribers":
		m.takeSubscriber(l)
	case "cycles":
		var c mCycle
		l.into(&c)
		s := m.subscribers[c.Subscriber]
		if l.act != "delete" {
			s.cycles = append(s.cycles, c)
		} else if s != nil {
			s.cycles = slices.DeleteFunc(s.cycles, func(gone mCycle) bool {
				return gone.Operation != nil && c.Operation != nil && *gone.Operation == *c.Operation
			})
		}
	case "reversals":
		m.takeReversal(l)
	case "operations":
		m.takeOperation(l)
	case "operation_events":
		m.takeEvent(l)
	case "exceptions":
		var e struct {
			Operation string `json:"operation_id"`
			Kind      string `json:"kind"`
		}
		l.into(&e)
		m.exceptions[e.Operation+" "+e.Kind] = true
		m.env.occurred("exception " + e.Kind)
	case "wallets":
		var wlt mWallet
		l.into(&wlt)
		m.operators[wlt.Operator].wallet = wlt
	case "wallet_entries":
		m.takeEntry(l)
	case "ledger":
		m.takeLedger(l)
	case "commissions":
		m.takeCommission(l)
	}
}

// checkShape checks what must hold for an operation after every commit.
func (m *model) checkShape(op *mOperation) {
	reserve, reserved := op.entries["reserve"]
	refund, refunded := op.entries["refund"]
	back, reversed := op.entries["reversal"]
	if reversed != (op.Reversed != nil) || reversed && (back != op.Amount || refunded) || (op.credits == 1) != reversed || op.credits > 1 {
		m.violate("V1", op.ID, "it is reversed: %v, with %d of %d paise given back and %d ledger lines", op.Reversed != nil, back, op.Amount, op.credits)
	}
	ok := reserved && reserve == -op.Amount && op.state == op.Status
	switch op.Status {
	case "success":
		ok = ok && !refunded && op.debits == 1 && len(op.earned) == 1
	case "failed":
		ok = ok && refunded && refund == op.Amount && op.debits == 0 && len(op.earned) == 0
	default:
		ok = ok && !refunded && op.debits == 0 && len(op.earned) == 0
	}
	if !ok {
		m.violate("M4", op.ID, "it is %s (%s by its events), reserved %d, refunded %d of %d paise, with %d ledger lines and %d commissions",
			op.Status, op.state, -reserve, refund, op.Amount, op.debits, len(op.earned))
	}
	s := m.subscribers[op.Subscriber]
	switch {
	case op.Status == "success" && op.Reversed == nil && (s == nil || s.Expires == nil):
		m.violate("S5", op.ID, "it succeeded, and its subscriber %s is not there", op.Subscriber)
	case op.Status == "failed" && op.Kind == "activate" && s != nil && s.open == "" && s.Expires == nil:
		m.violate("S5", op.ID, "it failed, and its subscriber %s is still there", op.Subscriber)
	}
}

func (m *model) checkWallet(o *mOperator) {
	if o.wallet.Balance != o.balance || o.wallet.Ledger != o.ledger {
		m.violate("M2", fmt.Sprint("operator ", o.ID), "the wallet says %d and %d paise; its entries say %d, its ledger %d",
			o.wallet.Balance, o.wallet.Ledger, o.balance, o.ledger)
		o.wallet.Balance, o.wallet.Ledger = o.balance, o.ledger // once is enough
	}
}

func terminal(state string) bool { return state == "success" || state == "failed" }

func open(state string) bool { return state == "processing" || state == "needs_review" }

func (m *model) inFlight() []*flight {
	flights := slices.Collect(maps.Keys(m.flights))
	slices.SortFunc(flights, func(a, b *flight) int { return strings.Compare(a.task, b.task) })
	return flights
}

// allows reports whether a whitelist has an address.
func (o *mOperator) allows(address netip.Addr) bool {
	for entry := range o.whitelist {
		if prefix, err := netip.ParsePrefix(entry); err == nil && prefix.Contains(address) {
			return true
		}
	}
	return false
}

func millis(at int64) time.Time { return time.UnixMilli(at).UTC() }
