package audit

import (
	"database/sql"
	"fmt"
)

// migrationPayments: operators announce payments.
var migrationPayments = migration{sqlite: 31, postgres: 26}

// readAnnouncements checks that each announced payment that is said to be credited has its own
// top-up, of the same operator, amount, reference and moment, and no other: neither under the
// reference that was announced nor under that of its bank line.
func (a *auditor) readAnnouncements() {
	if !a.has(migrationPayments) {
		return
	}
	type announcement struct {
		code, reference                string
		operator, seq, credited        int64
		kind, entryReference, ofBank   sql.NullString
		ownTo, ownSeq, bankTo, bankSeq sql.NullInt64
		entryAmount, entryAt, decision sql.NullInt64
	}
	credited := open(a, "payment_announcements", `
		SELECT p.code, p.reference_key, p.operator_id, p.credited_seq, p.credited_paise, p.decided_at, e.kind, e.reference, e.amount_paise, e.created_at,
		       p.bank_key, own.operator_id, own.seq, bank.operator_id, bank.seq
		  FROM payment_announcements p
		  LEFT JOIN wallet_entries e ON e.operator_id = p.operator_id AND e.seq = p.credited_seq
		  LEFT JOIN credited_references own ON own.way = 'topup' AND own.normalised = p.reference_key AND own.copy = 0
		  LEFT JOIN credited_references bank ON bank.way = 'topup' AND bank.normalised = p.bank_key AND bank.copy = 0
		 WHERE p.state = 'credited' ORDER BY p.operator_id, p.credited_seq, p.id`,
		func(scan scanner, p *announcement) int64 {
			scan(&p.code, &p.reference, &p.operator, &p.seq, &p.credited, &p.decision, &p.kind, &p.entryReference, &p.entryAmount, &p.entryAt,
				&p.ofBank, &p.ownTo, &p.ownSeq, &p.bankTo, &p.bankSeq)
			return p.operator
		})
	walk(func(operator int64) {
		var before announcement
		credited.each(operator, func(p *announcement) {
			subject := "payment announcement " + p.code
			where := fmt.Sprintf("wallet entry %d of lco %d", p.seq, p.operator)
			switch {
			case p.kind.String != "topup":
				a.found("M8", subject, "it is credited by %s, which is %s; expected a top-up", where, orNone(p.kind.String))
			case p.entryAmount.Int64 != p.credited || p.entryAt.Int64 != p.decision.Int64:
				a.found("M8", subject, "%s were credited at %s; expected what %s says, %s at %s",
					rupees(p.credited), moment(p.decision.Int64), where, rupees(p.entryAmount.Int64), moment(p.entryAt.Int64))
			case comparedAs(p.entryReference.String) != p.reference && comparedAs(p.entryReference.String) != p.ofBank.String:
				a.found("M8", subject, "its reference is kept as %q; expected that of %s, %q", p.reference, where, comparedAs(p.entryReference.String))
			case p.ownTo.Int64 != p.operator || p.ownSeq.Int64 != p.seq:
				a.found("M8", subject, "%s; expected %s alone", creditedAgain(p.reference, p.ownTo, p.ownSeq), where)
			case p.ofBank.Valid && (p.bankTo.Int64 != p.operator || p.bankSeq.Int64 != p.seq):
				a.found("M8", subject, "%s; expected %s alone", creditedAgain(p.ofBank.String, p.bankTo, p.bankSeq), where)
			case before.seq == p.seq && before.code != "":
				a.found("M8", subject, "it is credited by %s, as payment announcement %s is; expected one each", where, before.code)
			}
			before = *p
		})
	}, credited)
}

func creditedAgain(reference string, operator, seq sql.NullInt64) string {
	if !seq.Valid {
		return fmt.Sprintf("its reference %q can be credited again", reference)
	}
	return fmt.Sprintf("its reference %q is credited by wallet entry %d of lco %d", reference, seq.Int64, operator.Int64)
}

func orNone(kind string) string {
	if kind == "" {
		return "missing"
	}
	return "of kind " + kind
}
