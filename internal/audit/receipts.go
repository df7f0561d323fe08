package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// receiptCounts are a wallet's columns of receipts.
type receiptCounts struct {
	year, last, checked, from int64
	past                      string
}

// receiptColumns are those of a wallet, and of a ledger line; in a store from before receipts, what
// they are where no receipt was given.
func (a *auditor) receiptColumns() (ofWallet, ofLine string) {
	if a.has(migrationReceipts) {
		return "receipt_year, receipts, receipts_past, receipt_lines, receipts_from", "receipt"
	}
	return "0, 0, '{}', 0, ledger_lines", "NULL"
}

// maxOutOfOrder bounds the memory that a damaged store can take.
const maxOutOfOrder = 100_000

// receiptYear is what was found of one financial year's numbers.
type receiptYear struct {
	// All numbers up to last were found, once each.
	last int64
	// ahead are those beyond. A purchase that a binary without receipt numbers settled is
	// numbered later than its neighbours in the ledger.
	ahead   map[int64]bool
	highest int64
}

// receipts checks an operator's receipt numbers, in the order of the ledger.
type receipts struct {
	receiptCounts
	years map[int64]*receiptYear
}

// addReceipt checks the number of a ledger line.
func (f *fold) addReceipt(l *ledgerLine, where func() string) {
	r := &f.receipts
	switch {
	case !l.receipt.Valid && l.operation.Valid && l.line > r.from && l.line <= r.checked:
		f.a.found("L6", where(), "operation %s has no receipt number; expected one", l.operation.String)
	case l.receipt.Valid && !l.operation.Valid:
		f.a.found("L6", where(), "it has the receipt number %d; expected none, because it is no purchase", l.receipt.Int64)
	}
	if !l.receipt.Valid || !l.operation.Valid {
		return
	}
	f.a.report.Counts.Receipts++
	if r.years == nil {
		r.years = map[int64]*receiptYear{}
	}
	name, n := financialYear(l.created), l.receipt.Int64
	y := r.years[name]
	if y == nil {
		y = &receiptYear{ahead: map[int64]bool{}}
		r.years[name] = y
	}
	switch {
	case n <= y.last || y.ahead[n]:
		f.a.found("L6", where(), "operation %s has receipt number %d of the financial year %d; expected one that no other has, above 0", l.operation.String, n, name)
		return
	case n == y.last+1:
		y.last = n
		for y.ahead[y.last+1] {
			y.last++
			delete(y.ahead, y.last)
		}
	case len(y.ahead) < maxOutOfOrder:
		y.ahead[n] = true
	}
	y.highest = max(y.highest, n)
}

// closeReceipts compares the numbers with the wallet's counts.
func (f *fold) closeReceipts(lines int64) {
	r := &f.receipts
	counted := map[int64]int64{}
	past := map[string]int64{}
	if err := json.Unmarshal([]byte(r.past), &past); err != nil {
		f.a.found("L6", f.subject, "the wallet's receipts of past years are %q; expected a JSON object of numbers", r.past)
	}
	for name, n := range past {
		year, _ := strconv.ParseInt(name, 10, 64)
		counted[year] = n
	}
	if r.year != 0 {
		counted[r.year] = r.last
	}
	for year, y := range r.years {
		if len(y.ahead) > 0 {
			f.a.found("L6", f.subject, "receipt number %d of the financial year %d is missing, and there are later ones", y.last+1, year)
		}
		if counted[year] != y.highest {
			f.a.found("L6", f.subject, "the wallet counts %d receipts in the financial year %d; expected %d, the highest number", counted[year], year, y.highest)
		}
	}
	for _, year := range slices.Sorted(maps.Keys(counted)) {
		if r.years[year] == nil && counted[year] != 0 {
			f.a.found("L6", f.subject, "the wallet counts %d receipts in the financial year %d; expected none", counted[year], year)
		}
	}
	if r.checked > lines || r.from > r.checked && r.checked != 0 {
		f.a.found("L6", f.subject, "the wallet says that the ledger has receipt numbers from line %d to line %d; expected no more than its %d lines", r.from, r.checked, lines)
	}
}

// financialYear returns the year in which the Indian financial year of a moment begins.
func financialYear(ms int64) int64 {
	at := time.UnixMilli(ms).In(india)
	if at.Month() <= time.March {
		return int64(at.Year()) - 1
	}
	return int64(at.Year())
}
