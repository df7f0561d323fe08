package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// past is every state that an operation or a wallet ever had, by the journal.
type past struct {
	views    map[string][]view // operation: as any answer would have shown it
	balances map[int64]map[string]bool
}

type view struct{ state, text string }

// checkAll passes all committed transactions to the model, and then checks the recorded
// answers against the states that the journal shows.
func (r *record) checkAll() error {
	m := r.env.model
	transactions, err := r.pgJournal.transactions(context.Background())
	if err != nil {
		return err
	}
	m.requests = r.requests
	was := past{map[string][]view{}, map[int64]map[string]bool{}}
	for _, rows := range transactions {
		m.committed(rows)
		was.add(m)
	}
	m.checkCounters()
	for reference, amount := range r.credited {
		if got := m.topUps[reference]; got != amount {
			m.violate("M8", reference, "a top-up of %d paise, sent until it was confirmed, credited %d", amount, got)
		}
	}
	for _, h := range r.answers {
		r.checkAnswer(h, was)
	}
	r.checkOrder(was)
	return r.compareRows()
}

func (p past) add(m *model) {
	for id := range m.touched {
		op := m.operations[id]
		now := view{op.state, op.view()}
		if seen := p.views[id]; len(seen) == 0 || seen[len(seen)-1] != now {
			p.views[id] = append(seen, now)
		}
	}
	for id, o := range m.operators {
		if p.balances[id] == nil {
			p.balances[id] = map[string]bool{}
		}
		p.balances[id][rupees(o.balance)] = true
	}
}

// checkCounters: no counter exceeds a limit that was in force. The limit before or
// after also counts, because a change of the limit does not lock the counters.
func (m *model) checkCounters() {
	for _, c := range m.counted {
		had := c.operator.limitsHad
		if limit := slices.Max(had[max(0, c.limits-2):min(len(had), c.limits+1)]); c.used > limit {
			m.violate("A6", fmt.Sprint("operator ", c.operator.ID), "%d requests counted in minute %d, where %d are allowed", c.used, c.minute, limit)
		}
	}
}

var codeOfState = map[string]string{"success": "OK", "failed": "PROVIDER_ERROR", "needs_review": "PENDING_REVIEW", "processing": "REQUEST_IN_PROGRESS"}

// checkAnswer: every answer was true at some time.
func (r *record) checkAnswer(h recordedAnswer, was past) {
	m, f, a := r.env.model, h.f, h.a
	switch {
	case strings.HasPrefix(a.code, "A8"), strings.HasPrefix(a.code, "no envelope"):
		m.violate("A8", f.task, "%s %s got an answer that is none: %s", f.method, f.path, a.code)
	case a.code == "INTERNAL_ERROR" && !h.excused:
		m.violate("S7", f.task, "%s %s was told of an internal error, and met no fault", f.method, f.path)
	case a.code == "SERVICE_UNAVAILABLE" && f.kind == "" && !h.excused:
		// A read calls no provider, and locked rows of another operator are no reason.
		m.violate("S7", f.task, "%s %s was told to come back, and met no fault", f.method, f.path)
	case a.code == "BAD_REQUEST" && !r.env.left[f.task]:
		m.violate("S7", f.task, "%s %s was told that its connection had ended, and waits for an answer", f.method, f.path)
	case showsOperation(f, a):
		r.checkView(h, was)
	case a.code == "INSUFFICIENT_BALANCE":
		r.checkBalance(h, text(a.data, "wallet_balance"), was)
	case a.code == "OK" && strings.HasSuffix(f.path, "/balance"):
		r.checkBalance(h, text(a.data, "wallet_balance"), was)
	case a.code == "DUPLICATE_REQUEST":
		if twin := m.operations[text(a.data, "previous_transaction_id")]; twin == nil || twin.state != "success" || twin.Operator != f.key.operator {
			m.violate("I5", f.task, "it was refused as a duplicate of %s, which is none of the operator's that succeeded", text(a.data, "previous_transaction_id"))
		}
	case a.code == "OPERATION_IN_PROGRESS":
		if id := text(a.data, "transaction_id"); id != "missing" && (m.operations[id] == nil || m.operations[id].Operator != f.key.operator) {
			m.violate("I5", f.task, "it was refused because of %s, which is none of the operator's", id)
		}
	}
	if refusal := a.status >= 400 && a.status < 500 && a.code != "REQUEST_IN_PROGRESS"; refusal && f.key != nil && f.kind != "" {
		if op := m.byKey[keyOf(f.key.operator, f.idem)]; op != nil && op.flight == f {
			m.violate("S10", op.ID, "its request was refused with %s, and charged", a.code)
		}
	}
	if f.key != nil {
		if minute := keyOf(f.key.operator, fmt.Sprint(a.reset/60-1)); !m.purged[minute] {
			m.limits[minute] = slices.Max(m.operators[f.key.operator].limitsHad)
		}
	}
	m.checkAdmission(f, a)
	if f.kind != "" && a.isResult() {
		m.checkResult(f, a)
	}
}

// showsOperation reports whether an answer shows an operation's state.
func showsOperation(f *flight, a answer) bool {
	return f.kind != "" && a.isResult() || a.code == "OK" && strings.HasSuffix(f.path, "/transaction")
}

func (r *record) checkView(h recordedAnswer, was past) {
	m, id := r.env.model, text(h.a.data, "transaction_id")
	op := m.operations[id]
	if op == nil || op.Operator != h.f.key.operator || h.f.kind != "" && op.Key != h.f.idem {
		m.violate("D1", h.f.task, "it was told of %s under the key %s, which does not exist", id, h.f.idem)
		return
	}
	code := h.a.code
	if h.f.kind == "" {
		code = text(h.a.data, "result_code")
	}
	if first, _ := was.when(id, code, h.a.view()); first < 0 {
		var lines []string
		for _, v := range was.views[id] {
			lines = append(lines, codeOfState[v.state]+" "+v.text)
		}
		m.violate("S7", id, "%s %s was told\n      %s %s\n    where only these were ever true:\n      %s", h.f.method, h.f.path, code, h.a.view(), strings.Join(lines, "\n      "))
	}
}

// when returns the first and the last of an operation's states that match an answer.
func (p past) when(id, code, shown string) (first, last int) {
	first, last = -1, -1
	for i, v := range p.views[id] {
		if v.text == shown && codeOfState[v.state] == code {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first, last
}

func (r *record) checkBalance(h recordedAnswer, balance string, was past) {
	if !was.balances[h.f.key.operator][balance] {
		r.env.model.violate("S7", h.f.task, "operator %d was told of a balance of %s, which the wallet never had", h.f.key.operator, balance)
	}
}

// checkOrder: a request that begins after another's answer gets no older state.
func (r *record) checkOrder(was past) {
	of := map[string][]recordedAnswer{}
	for _, h := range r.answers {
		if showsOperation(h.f, h.a) {
			id := text(h.a.data, "transaction_id")
			of[id] = append(of[id], h)
		}
	}
	place := func(id string, h recordedAnswer) (first, last int) {
		code := h.a.code
		if h.f.kind == "" {
			code = text(h.a.data, "result_code")
		}
		return was.when(id, code, h.a.view())
	}
	for id, all := range of {
		for _, before := range all {
			first, _ := place(id, before)
			for _, after := range all {
				if _, last := place(id, after); before.ended.Before(after.began) && last >= 0 && first > last {
					r.env.model.violate("S7", id, "%s was told %s, and %s, which asked later, %s", before.f.task, before.a.view(), after.f.task, after.a.view())
				}
			}
		}
	}
}

// compareRows checks that the store's rows are what the journal adds up to.
func (r *record) compareRows() error {
	m := r.env.model
	there, err := r.pgJournal.texts(`SELECT concat_ws(' ', id, operator_id, idempotency_key, status, epoch, amount_paise, completed_at) FROM operations ORDER BY id`)
	if err != nil {
		return err
	}
	var known []string
	for _, id := range keys(m.operations) {
		op := m.operations[id]
		line := fmt.Sprint(op.ID, " ", op.Operator, " ", op.Key, " ", op.state, " ", op.Epoch, " ", op.Amount)
		if op.Completed != nil {
			line += fmt.Sprint(" ", *op.Completed)
		}
		known = append(known, line)
	}
	if !slices.Equal(there, known) {
		m.violate("D1", "operations", "the store has %d that the journal does not account for: %q, where it has %q", len(there), there, known)
	}
	there, err = r.pgJournal.texts(`
		SELECT concat_ws(' ', w.operator_id, w.balance_paise, w.ledger_paise,
		       (SELECT count(*) FROM wallet_entries e WHERE e.operator_id = w.operator_id), (SELECT count(*) FROM ledger l WHERE l.operator_id = w.operator_id))
		  FROM wallets w ORDER BY w.operator_id`)
	if err != nil {
		return err
	}
	known = nil
	for id := range int64(len(m.operators)) {
		o := m.operators[id+1]
		known = append(known, fmt.Sprint(o.ID, " ", o.balance, " ", o.ledger, " ", o.entries, " ", o.lines))
	}
	if !slices.Equal(there, known) {
		m.violate("M2", "wallets", "the store has %q; by the journal it is %q", there, known)
	}
	return nil
}
