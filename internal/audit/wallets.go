package audit

import (
	"database/sql"
	"fmt"
	"strings"

	"github.com/coaxhq/coax/internal/money"
)

type (
	wallet struct {
		operator, balance, ledger, entries, lines int64
		receiptCounts
	}
	entry struct {
		operator, seq, amount, balanceAfter, created int64
		kind, actor                                  string
		operation, reference                         sql.NullString
	}
	ledgerLine struct {
		id, operator, line, amount, balanceAfter, created int64
		kind, text                                        string
		operation, reversalOf                             sql.NullString
		receipt                                           sql.NullInt64
	}
)

// readWallets adds up every operator's wallet entries and ledger, and compares its wallet
// with both and with its operations.
func (a *auditor) readWallets() {
	walletReceipts, lineReceipt := a.receiptColumns()
	wallets := open(a, "wallets", `
		SELECT operator_id, balance_paise, ledger_paise, entries, ledger_lines, `+walletReceipts+` FROM wallets ORDER BY operator_id`,
		func(row scanner, w *wallet) int64 {
			row(&w.operator, &w.balance, &w.ledger, &w.entries, &w.lines, &w.year, &w.last, &w.past, &w.checked, &w.from)
			return w.operator
		})
	entries := open(a, "wallet_entries", `
		SELECT operator_id, seq, kind, amount_paise, balance_after, operation_id, reference, actor, created_at
		  FROM wallet_entries ORDER BY operator_id, seq`,
		func(row scanner, e *entry) int64 {
			row(&e.operator, &e.seq, &e.kind, &e.amount, &e.balanceAfter, &e.operation, &e.reference, &e.actor, &e.created)
			return e.operator
		})
	reversalOf := "reversal_of"
	if !a.has(migrationReversals) {
		reversalOf = "NULL"
	}
	lines := open(a, "ledger", `
		SELECT id, operator_id, line, kind, amount_paise, balance_after, description, operation_id, created_at, `+lineReceipt+`, `+reversalOf+`
		  FROM ledger ORDER BY operator_id, line`,
		func(row scanner, l *ledgerLine) int64 {
			row(&l.id, &l.operator, &l.line, &l.kind, &l.amount, &l.balanceAfter, &l.text, &l.operation, &l.created, &l.receipt, &l.reversalOf)
			return l.operator
		})
	actions := open(a, "staff_acts", `
		SELECT id, operator_id, actor, action, subject, before_state, after_state, at
		  FROM staff_acts WHERE action IN ('wallet topup', 'wallet adjust') ORDER BY operator_id, id`,
		func(row scanner, action *staffAction) int64 {
			row(&action.id, &action.operator, &action.actor, &action.action, &action.subject, &action.before, &action.after, &action.at)
			return action.operator
		})
	operators := open(a, "operators", `SELECT id FROM operators ORDER BY id`,
		func(row scanner, id *int64) int64 {
			row(id)
			return *id
		})
	streams := []keyed[int64]{wallets, entries, lines, actions, operators}
	var digests *stream[int64, digest]
	if a.has(migrationIntegrity) {
		digests = open(a, "ledger_digests", `SELECT `+digestColumns+` FROM ledger_digests ORDER BY operator_id, day`,
			func(row scanner, d *digest) int64 {
				readDigest(row, d)
				return d.operator
			})
		streams = append(streams, digests)
	}
	walk(func(id int64) {
		f := fold{a: a, id: id, subject: fmt.Sprintf("lco %d", id)}
		isOperator := len(operators.take(id)) > 0
		present := wallets.take(id)
		var sealed []digest
		if digests != nil {
			sealed = digests.take(id)
		}
		if len(present) > 0 {
			f.receipts.receiptCounts = present[0].receiptCounts
		}
		f.seal(sealed)
		entries.each(id, f.addEntry)
		f.sealedEntries.finish()
		lines.each(id, f.addLine)
		f.sealedLines.finish()
		paid := actions.take(id)
		if !isOperator {
			a.found("O2", f.subject, "%d wallets, %d wallet entries, %d ledger lines and %d payments belong to it, and it is missing",
				len(present), f.entries, f.lines, len(paid))
		}
		if len(present) != 1 {
			if isOperator || len(present) > 1 {
				a.found("O2", f.subject, "it has %d wallets; expected 1", len(present))
			}
		} else {
			f.close(present[0])
		}
		f.checkCredits(paid)
	}, streams...)
	counts := &a.report.Counts
	counts.Wallets, counts.WalletEntries, counts.LedgerLines = wallets.count, entries.count, lines.count
}

// fold adds up one operator's wallet entries and ledger lines.
type fold struct {
	a       *auditor
	id      int64
	subject string

	entries, seq, balance int64 // of the last entry
	lines, line, ledger   int64 // of the last ledger line
	credited              int64
	// Those without an operation; the others are too many to store.
	credits []entry
	booked  []ledgerLine
	// The rows by the days of their digests.
	sealedEntries, sealedLines sealedRows
	receipts                   receipts
}

func (f *fold) addEntry(e *entry) {
	where := func() string { return fmt.Sprintf("%s, wallet entry %d", f.subject, e.seq) }
	f.entries++
	f.sealedEntries.add(e.seq, e.write)
	if e.seq != f.seq+1 {
		f.a.found("M2", where(), "it stands where entry %d is expected", f.seq+1)
	}
	if expected := f.balance + e.amount; e.balanceAfter != expected {
		f.a.found("M2", where(), "the balance after it is %s; expected %s, from %s and this %s of %s",
			rupees(e.balanceAfter), rupees(expected), rupees(f.balance), e.kind, rupees(e.amount))
	}
	if e.balanceAfter < 0 {
		f.a.found("M3", where(), "the balance after it is %s; expected nothing below zero", rupees(e.balanceAfter))
	}
	// Continue from the stored values, so that one break is reported once.
	f.seq, f.balance = e.seq, e.balanceAfter

	byStaff := e.kind == "topup" || e.kind == "adjust"
	switch {
	case byStaff == e.operation.Valid:
		f.a.found("M8", where(), "it is a %s with the operation %q; expected an operation behind a reserve, refund or reversal, and behind nothing else",
			e.kind, e.operation.String)
	case byStaff && strings.HasPrefix(e.actor, "api:"):
		f.a.found("M8", where(), "it is a %s by %s; expected a member of staff", e.kind, e.actor)
	case (e.kind == "topup") != e.reference.Valid:
		f.a.found("M8", where(), "it is a %s with the reference %q; expected one on a top-up, and only there", e.kind, e.reference.String)
	case e.amount == 0, e.amount > 0 && e.kind == "reserve", e.amount < 0 && (e.kind == "topup" || e.kind == "refund" || e.kind == "reversal"):
		f.a.found("M8", where(), "it is a %s of %s; expected the other direction", e.kind, rupees(e.amount))
	}
	if byStaff {
		f.credited += e.amount
		f.credits = append(f.credits, *e)
	}
}

// signed is the line's amount with its sign.
func (l *ledgerLine) signed() int64 {
	if l.kind == "credit" {
		return l.amount
	}
	return -l.amount
}

func (f *fold) addLine(l *ledgerLine) {
	where := func() string { return fmt.Sprintf("%s, ledger line %d", f.subject, l.line) }
	f.lines++
	f.sealedLines.add(l.line, l.write)
	if l.line != f.line+1 {
		f.a.found("L1", where(), "it stands where line %d is expected", f.line+1)
	}
	if expected := f.ledger + l.signed(); l.balanceAfter != expected {
		f.a.found("L1", where(), "the sum after it is %s; expected %s, from %s and this %s of %s",
			rupees(l.balanceAfter), rupees(expected), rupees(f.ledger), l.kind, rupees(l.amount))
	}
	if l.balanceAfter < 0 {
		f.a.found("M3", where(), "the sum after it is %s; expected nothing below zero", rupees(l.balanceAfter))
	}
	f.line, f.ledger = l.line, l.balanceAfter
	f.addReceipt(l, where)
	if !l.operation.Valid && !l.reversalOf.Valid {
		f.booked = append(f.booked, *l)
	}
}

// close compares the wallet with the sums of its rows.
func (f *fold) close(w wallet) {
	f.closeReceipts(w.lines)
	o := f.a.operatorOf(f.id)
	if w.balance != f.balance || w.entries != f.seq {
		f.a.found("M2w", f.subject, "the wallet has %s after %d entries; expected %s after %d, as its last entry says",
			rupees(w.balance), w.entries, rupees(f.balance), f.seq)
	}
	if w.ledger != f.ledger || w.lines != f.line {
		f.a.found("L2", f.subject, "the wallet's ledger sum is %s after %d lines; expected %s after %d, as the last line says",
			rupees(w.ledger), w.lines, rupees(f.ledger), f.line)
	}
	if w.balance < 0 || w.ledger < w.balance {
		f.a.found("M3", f.subject, "the wallet has %s of a ledger sum of %s; expected neither below zero nor above the sum",
			rupees(w.balance), rupees(w.ledger))
	}
	if expected := w.balance + o.charged + o.held; f.credited != expected {
		f.a.found("M1", f.subject, "%s came into the wallet; expected %s, which is the balance of %s, charges of %s and holds of %s",
			rupees(f.credited), rupees(expected), rupees(w.balance), rupees(o.charged), rupees(o.held))
	}
	if expected := f.ledger - o.held; w.balance != expected {
		f.a.found("L3", f.subject, "the wallet has %s; expected %s, which is the ledger's %s less %s held by open operations",
			rupees(w.balance), rupees(expected), rupees(f.ledger), rupees(o.held))
	}
	sums := &f.a.report.Counts.Sums
	sums.Credited, sums.Charged, sums.Held = plus(sums.Credited, f.credited), plus(sums.Charged, o.charged), plus(sums.Held, o.held)
	sums.Balance, sums.Ledger = plus(sums.Balance, w.balance), plus(sums.Ledger, w.ledger)
}

// plus adds paise to an amount.
func plus(sum money.Amount, paise int64) money.Amount { return sum.Add(money.Paise(paise)) }
