package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// model knows the rules of the contract and how things stand. It learns what was
// committed from the journal, asks of every step whether it was allowed, and of
// every answer whether it could be true. It shares no code with the product: its
// arithmetic is on paise, its calendar is its own.
type model struct {
	w *world

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

	topUps map[string]int64 // operator and reference: what was credited

	touched    map[string]bool // operations of this commit
	violations []string

	flights  map[*flight]bool
	asked    map[string][]*flight // operator and key: every request that named them
	accepted map[string]int       // operator and minute: requests let past the limit
	limits   map[string]int       // operator and minute: the highest limit in force then
	results  map[string]int       // operation: answers that were not replays
	counted  []counted            // in real time: counters that are judged at the end
}

// counted is a counter as it was written, when an operator had had so many limits.
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
	open     string // the operation that has it
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

	state   string // by its events
	held    int64  // the epoch of whoever holds it, by the last update
	entries map[string]int64
	debits  int
	earned  []int64
	by      *life // the process that reserved it
	flight  *flight
	person  bool // a person settled it
}

func newModel(w *world) *model {
	return &model{
		w: w, operators: map[int64]*mOperator{}, credentials: map[int64]*mCredential{}, nonces: map[string]string{},
		purged: map[string]bool{}, used: map[string]int{}, plans: map[string]*mPlan{}, unsellable: map[string]bool{}, subscribers: map[string]*mSubscriber{},
		operations: map[string]*mOperation{}, byKey: map[string]*mOperation{}, exceptions: map[string]bool{}, topUps: map[string]int64{}, touched: map[string]bool{},
		flights: map[*flight]bool{}, asked: map[string][]*flight{}, accepted: map[string]int{}, limits: map[string]int{}, results: map[string]int{},
	}
}

// violate writes down what must not be.
func (m *model) violate(invariant, subject, format string, args ...any) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.violations = append(m.violations, fmt.Sprintf("%s %s: %s", invariant, m.w.nicknameLocked(subject), fmt.Sprintf(format, args...)))
}

func keyOf(operator int64, text string) string { return fmt.Sprint(operator, " ", text) }

// committed takes in one commit, or several, row by row, and then looks at what
// they left behind.
func (m *model) committed(lines []row) {
	clear(m.touched)
	for _, l := range lines {
		m.take(l)
	}
	for _, id := range slices.Sorted(maps.Keys(m.touched)) {
		m.checkShape(m.operations[id])
	}
	for _, o := range m.operators {
		m.checkWallet(o)
	}
	for _, f := range m.inFlight() {
		m.consider(f, f.life.node.now())
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
		s.cycles = append(s.cycles, c)
	case "operations":
		m.takeOperation(l)
	case "operation_events":
		m.takeEvent(l)
	case "exceptions":
		var e struct{ Operation, Kind string }
		var raw struct {
			Operation string `json:"operation_id"`
			Kind      string `json:"kind"`
		}
		l.into(&raw)
		e.Operation, e.Kind = raw.Operation, raw.Kind
		m.exceptions[e.Operation+" "+e.Kind] = true
		m.w.sometimes("exception " + e.Kind)
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

func (m *model) takeOperator(l row) {
	var o mOperator
	l.into(&o)
	if before := m.operators[o.ID]; before != nil {
		before.Status, before.API, before.Limit, before.BPS, before.Low = o.Status, o.API, o.Limit, o.BPS, o.Low
	} else {
		o.whitelist, o.ratesHad = map[string]bool{}, map[int64]bool{}
		m.operators[o.ID] = &o
	}
	known := m.operators[o.ID]
	known.ratesHad[o.BPS] = true
	if n := len(known.limitsHad); n == 0 || known.limitsHad[n-1] != o.Limit {
		known.limitsHad = append(known.limitsHad, o.Limit)
	}
	for minute, limit := range m.limits {
		if strings.HasPrefix(minute, fmt.Sprint(o.ID, " ")) && o.Limit > limit {
			m.limits[minute] = o.Limit // either may hold for what is on its way
		}
	}
}

func (m *model) takeNonce(l row) {
	var n struct {
		Credential int64  `json:"credential_id"`
		Nonce      string `json:"nonce"`
		Request    string `json:"request_id"`
	}
	l.into(&n)
	key := keyOf(n.Credential, n.Nonce)
	if l.act == "insert" {
		if by := m.nonces[key]; by != "" && by != n.Request && !m.outlived(key) {
			m.violate("A1", n.Nonce, "the nonce was used by %s and then again by %s", by, n.Request)
		}
		m.nonces[key] = n.Request
	}
	// A purge takes rows away; the model never forgets.
	if l.act == "delete" {
		m.purged[key] = true
	}
}

// outlived: in real time a request can be on its way to its admission while the
// clocks leap by more than a nonce is kept for, and be let in after the purge.
func (m *model) outlived(nonce string) bool {
	return m.w.real && m.purged[nonce] && m.w.leaps() > nonceKept
}

func (m *model) takeCounter(l row) {
	var c struct {
		Operator int64 `json:"operator_id"`
		Minute   int64 `json:"minute"`
		Used     int   `json:"used"`
	}
	l.into(&c)
	key := keyOf(c.Operator, fmt.Sprint(c.Minute))
	if l.act == "delete" {
		// Who is counted in a minute that was over long ago, because the clocks
		// leapt or disagree, counts from the beginning.
		m.purged[key] = true
		return
	}
	if o := m.operators[c.Operator]; m.w.real {
		m.counted = append(m.counted, counted{o, len(o.limitsHad), c.Minute, c.Used})
	} else if limit := o.Limit; c.Used > limit {
		m.violate("A6", fmt.Sprint("operator ", c.Operator), "%d requests counted in minute %d, where %d are allowed", c.Used, c.Minute, limit)
	}
	if before := m.used[key]; l.act == "update" && c.Used <= before && !m.purged[key] {
		m.violate("A6", fmt.Sprint("operator ", c.Operator), "minute %d has counted %d and then %d requests: some are lost", c.Minute, before, c.Used)
	}
	m.used[key] = c.Used
}

func (m *model) takeSubscriber(l row) {
	var s mSubscriber
	l.into(&s)
	if l.act == "delete" {
		delete(m.subscribers, s.ID)
		return
	}
	if before := m.subscribers[s.ID]; before != nil {
		before.Expires = s.Expires
		return
	}
	for _, other := range m.subscribers {
		if other.Mobile == s.Mobile {
			m.violate("S3", s.Mobile, "two subscribers have it: %s and %s", other.ID, s.ID)
		}
	}
	m.subscribers[s.ID] = &s
}

func (m *model) takeOperation(l row) {
	var o mOperation
	l.into(&o)
	m.touched[o.ID] = true
	before := m.operations[o.ID]
	if before == nil {
		o.entries = map[string]int64{}
		m.operations[o.ID] = &o
		m.w.name(o.ID, o.Key)
		if twin := m.byKey[keyOf(o.Operator, o.Key)]; twin != nil {
			m.violate("M5", o.ID, "the key %s has two operations, the other is %s", o.Key, twin.ID)
		}
		m.byKey[keyOf(o.Operator, o.Key)] = &o
		return
	}
	if terminal(before.state) && (o.Status != before.Status || o.Amount != before.Amount || o.Planned != before.Planned) {
		m.violate("S1", o.ID, "it was %s and is changed to %s", before.Status, o.Status)
	}
	if o.Epoch < before.Epoch {
		m.violate("S1", o.ID, "its epoch went back from %d to %d", before.Epoch, o.Epoch)
	}
	before.Status, before.Epoch, before.Node, before.AddonStatus, before.AddonAttempt = o.Status, o.Epoch, o.Node, o.AddonStatus, o.AddonAttempt
	before.ProviderTxn, before.Reason, before.Completed = o.ProviderTxn, o.Reason, o.Completed
}

func (m *model) takeEntry(l row) {
	var e struct {
		Operator  int64   `json:"operator_id"`
		Seq       int64   `json:"seq"`
		Kind      string  `json:"kind"`
		Amount    int64   `json:"amount_paise"`
		After     int64   `json:"balance_after"`
		Operation *string `json:"operation_id"`
		Reference *string `json:"reference"`
		Actor     string  `json:"actor"`
	}
	l.into(&e)
	o := m.operators[e.Operator]
	who := fmt.Sprint("operator ", e.Operator)
	o.entries++
	o.balance += e.Amount
	if e.Seq != o.entries || e.After != o.balance {
		m.violate("M2", who, "entry %d leaves %d paise; by its predecessors it is number %d and leaves %d", e.Seq, e.After, o.entries, o.balance)
		o.entries, o.balance = e.Seq, e.After
	}
	if e.After < 0 {
		m.violate("M3", who, "the balance is %d paise", e.After)
	}
	switch e.Kind {
	case "topup", "adjust":
		o.creditedIn += e.Amount
		if e.Reference != nil {
			m.topUps[keyOf(e.Operator, *e.Reference)] += e.Amount
		}
		if strings.HasPrefix(e.Actor, "api:") {
			m.violate("M8", who, "the API moved money freely")
		}
		return
	}
	op := m.operations[*e.Operation]
	if op == nil {
		m.violate("M4", *e.Operation, "money was moved (%s of %d paise) for an operation that is not there", e.Kind, e.Amount)
		return
	}
	m.touched[op.ID] = true
	if _, twice := op.entries[e.Kind]; twice {
		m.violate("M9", op.ID, "it has two entries of kind %s", e.Kind)
	}
	op.entries[e.Kind] += e.Amount
	if e.Kind == "reserve" && op.Before != e.After-e.Amount {
		m.violate("M7", op.ID, "it says the wallet held %d before; it held %d", op.Before, e.After-e.Amount)
	}
}

func (m *model) takeLedger(l row) {
	var e struct {
		Operator    int64   `json:"operator_id"`
		Line        int64   `json:"line"`
		Kind        string  `json:"kind"`
		Amount      int64   `json:"amount_paise"`
		After       int64   `json:"balance_after"`
		Operation   *string `json:"operation_id"`
		Description string  `json:"description"`
	}
	l.into(&e)
	o := m.operators[e.Operator]
	o.lines++
	if e.Kind == "credit" {
		o.ledger += e.Amount
	} else {
		o.ledger -= e.Amount
	}
	if e.Line != o.lines || e.After != o.ledger {
		m.violate("M2", fmt.Sprint("operator ", e.Operator), "ledger line %d leaves %d paise; by its predecessors it is number %d and leaves %d", e.Line, e.After, o.lines, o.ledger)
	}
	if e.Operation == nil {
		return
	}
	op := m.operations[*e.Operation]
	op.debits++
	m.touched[op.ID] = true
	if e.Amount != op.Amount || e.Kind != "debit" || strings.HasSuffix(e.Description, "[API]") != (op.Channel == "api") {
		m.violate("M4", op.ID, "its ledger line is a %s of %d paise, %q", e.Kind, e.Amount, e.Description)
	}
}

func (m *model) takeCommission(l row) {
	var c struct {
		Operation string `json:"operation_id"`
		Amount    int64  `json:"amount_paise"`
		BPS       int64  `json:"rate_bps"`
	}
	l.into(&c)
	op := m.operations[c.Operation]
	op.earned = append(op.earned, c.Amount)
	m.touched[op.ID] = true
	// Half a paisa is rounded up: whole numbers all the way.
	if want := (op.Amount*op.BPS + 5000) / 10000; c.Amount != want || c.BPS != op.BPS {
		m.violate("M4", op.ID, "its commission is %d paise at %d; %d paise at %d are right", c.Amount, c.BPS, want, op.BPS)
	}
}

// checkShape asks of an operation what every commit must leave true of it.
func (m *model) checkShape(op *mOperation) {
	reserve, reserved := op.entries["reserve"]
	refund, refunded := op.entries["refund"]
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
	case op.Status == "success" && (s == nil || s.Expires == nil):
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
func open(state string) bool     { return state == "processing" || state == "needs_review" }

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
