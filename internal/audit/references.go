package audit

import (
	"database/sql"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// migrationReferences: references are unique across operators.
var migrationReferences = migration{sqlite: 21, postgres: 16}

// readReferences checks that a reference was credited once, across operators and spellings.
// Entries older than this rule may share one: their rows are marked as filled, and all but
// the first have a copy of 1 or more.
func (a *auditor) readReferences() {
	if !a.has(migrationReferences) {
		return
	}
	type row struct {
		way, normalised    string
		copy, filled       int64
		operator, seq      int64
		kind, top, adjusts sql.NullString
		alias              int64
		announced, ofBank  sql.NullString
	}
	// A payment can have a second reference: its announcement's, or that of its bank line.
	aliases, others := `, 0, NULL, NULL`, ``
	if a.has(migrationPayments) {
		aliases = `, r.alias, p.reference_key, p.bank_key`
		others = `
		  LEFT JOIN payment_announcements p ON r.alias = 1 AND p.operator_id = r.operator_id AND p.credited_seq = r.seq AND p.credited_seq IS NOT NULL`
	}
	stored := open(a, "credited_references", `
		SELECT r.way, r.normalised, r.copy, r.filled, r.operator_id, r.seq, e.kind, e.reference, a.reference`+aliases+`
		  FROM credited_references r
		  LEFT JOIN wallet_entries e ON e.operator_id = r.operator_id AND e.seq = r.seq
		  LEFT JOIN adjustment_references a ON r.way = 'adjust' AND a.operator_id = r.operator_id AND a.seq = r.seq`+others+`
		 ORDER BY r.way `+bytewise+`, r.normalised `+bytewise+`, r.copy`,
		func(scan scanner, r *row) string {
			scan(&r.way, &r.normalised, &r.copy, &r.filled, &r.operator, &r.seq, &r.kind, &r.top, &r.adjusts, &r.alias, &r.announced, &r.ofBank)
			return r.way + " " + r.normalised
		})
	walk(func(key string) {
		rows := stored.take(key)
		for i, r := range rows {
			where := fmt.Sprintf("lco %d, wallet entry %d", r.operator, r.seq)
			typed := r.top
			if r.way == "adjust" {
				typed = r.adjusts
			}
			switch {
			case r.kind.String != r.way || !typed.Valid:
				a.found("M8", where, "its reference is kept as %q of a %s, and there is no such entry", r.normalised, r.way)
			case r.alias == 1:
				if r.normalised != r.announced.String && r.normalised != r.ofBank.String {
					a.found("M8", where, "%q is kept as another reference of its payment; expected one that its announcement or a bank line has", r.normalised)
				}
			case comparedAs(typed.String) != r.normalised:
				a.found("M8", where, "its reference %q is kept as %q; expected %q", typed.String, r.normalised, comparedAs(typed.String))
			case r.copy != int64(i):
				a.found("M8", where, "its reference %q is copy %d; expected %d", typed.String, r.copy, i)
			case i > 0 && r.filled == 0:
				a.found("M8", where, "its reference %q was used by lco %d, wallet entry %d, already; expected one %s a reference",
					typed.String, rows[0].operator, rows[0].seq, r.way)
			}
		}
	}, stored)
	a.readMissingReferences()
}

// readMissingReferences finds the credits whose reference could be used again.
func (a *auditor) readMissingReferences() {
	type entry struct {
		seq       int64
		reference string
	}
	for _, query := range []string{
		`SELECT e.operator_id, e.seq, e.reference FROM wallet_entries e
		  WHERE e.reference IS NOT NULL
		    AND NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = e.operator_id AND r.seq = e.seq)
		  ORDER BY e.operator_id, e.seq`,
		`SELECT a.operator_id, a.seq, a.reference FROM adjustment_references a
		  WHERE NOT EXISTS (SELECT 1 FROM credited_references r WHERE r.operator_id = a.operator_id AND r.seq = a.seq)
		  ORDER BY a.operator_id, a.seq`,
	} {
		missing := open(a, "references", query, func(scan scanner, e *entry) (operator int64) {
			scan(&operator, &e.seq, &e.reference)
			return operator
		})
		walk(func(operator int64) {
			missing.each(operator, func(e *entry) {
				a.found("M8", fmt.Sprintf("lco %d, wallet entry %d", operator, e.seq),
					"its reference %q is not kept among those that were used; expected it there (a restart of the node adds what an older release wrote)", e.reference)
			})
		}, missing)
	}
}

// comparedAs returns the form by which references are compared: letters, numbers and their
// marks, after NFKC and case folding. A mark without a letter or number before it is removed.
func comparedAs(text string) string {
	for range 8 {
		var left strings.Builder
		based := false
		for _, r := range norm.NFKD.String(text) {
			switch {
			case unicode.In(r, unicode.Me, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			case unicode.IsLetter(r) || unicode.IsNumber(r):
				based = true
				left.WriteRune(r)
			case unicode.IsMark(r):
				if based {
					left.WriteRune(r)
				}
			default:
				based = false
			}
		}
		next := norm.NFKC.String(strings.ToLower(cases.Fold().String(norm.NFKC.String(left.String()))))
		if next == text {
			break
		}
		text = next
	}
	return text
}
