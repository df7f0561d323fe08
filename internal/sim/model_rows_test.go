package sim

import (
	"fmt"
	"slices"
	"strings"
)

// How the model processes each committed row.

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
			m.limits[minute] = o.Limit // either may apply to requests in progress
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
		if by := m.nonces[key]; by != "" && by != n.Request && !m.outlived(key, m.inFlight()...) {
			m.violate("A1", n.Nonce, "the nonce was used by %s and then again by %s", by, n.Request)
		}
		m.nonces[key] = n.Request
	}
	// The model keeps purged nonces.
	if l.act == "delete" {
		m.purged[key] = true
	}
}

// outlived reports whether a nonce was purged while its request was between the check
// of its timestamp and its admission: clocks can leap, or a node be paused, for longer
// than nonces are stored.
func (m *model) outlived(nonce string, flights ...*flight) bool {
	if !m.purged[nonce] || m.env.leaps() <= nonceKept {
		return false
	}
	return m.env.realTime || slices.ContainsFunc(flights, func(f *flight) bool {
		return f.nonceKey() == nonce && f.process.node.now().Sub(f.at) > nonceKept
	})
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
		// If clocks leapt or disagree, a request may be counted in a minute whose
		// counter was purged; then counting starts again.
		m.purged[key] = true
		return
	}
	if o := m.operators[c.Operator]; m.env.realTime {
		m.counted = append(m.counted, counted{o, len(o.limitsHad), c.Minute, c.Used})
	} else if limit := o.Limit; c.Used > limit {
		m.violate("A6", fmt.Sprint("operator ", c.Operator), "%d requests counted in minute %d, where %d are allowed", c.Used, c.Minute, limit)
	}
	// Only a transaction that took back all its counts leaves the number unchanged.
	if before := m.used[key]; (l.act == "update" && c.Used <= before || l.act == changedAgain && c.Used < before) && !m.purged[key] {
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
		before.Expires, before.Mobile, before.Reversing = s.Expires, s.Mobile, s.Reversing
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
		m.env.name(o.ID, o.Key)
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
	before.Subscriber = o.Subscriber // it moves with an id that is released
	before.Status, before.Epoch, before.Node, before.AddonStatus, before.AddonAttempt = o.Status, o.Epoch, o.Node, o.AddonStatus, o.AddonAttempt
	before.ProviderTxn, before.Reason, before.Completed = o.ProviderTxn, o.Reason, o.Completed
	if before.undone = o.Reversed != nil && before.Reversed == nil; before.Reversed != nil && (o.Reversed == nil || *o.Reversed != *before.Reversed) {
		m.violate("V1", o.ID, "it was reversed, and is not any more")
	}
	before.Reversed = o.Reversed
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
		ReversalOf  *string `json:"reversal_of"`
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
	if e.ReversalOf != nil {
		op := m.operations[*e.ReversalOf]
		op.credits++
		m.touched[op.ID] = true
		if e.Amount != op.Amount || e.Kind != "credit" || e.Operator != op.Operator || !strings.HasPrefix(e.Description, "Reversal: ") {
			m.violate("V1", op.ID, "the ledger line of its reversal is a %s of %d paise, %q", e.Kind, e.Amount, e.Description)
		}
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
