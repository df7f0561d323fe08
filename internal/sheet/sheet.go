// Package sheet writes tables as CSV and XLSX, row by row, and reads uploaded ones. It
// prevents formula injection: a spreadsheet that opens a written file reads every text as
// text. What it reads is bounded, unpacked too.
package sheet

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// Kind is the type of a column's values.
type Kind int

// A column of Text takes a string, of Rupees a money.Amount, of Number an int or an
// int64, of Moment and of Date a time.Time, which is written in IST. nil and a zero time
// make an empty cell.
const (
	Text Kind = iota
	Rupees
	Number
	Moment
	Date
)

// Column is one column of a table.
type Column struct {
	Title string
	Kind  Kind
}

// Writer writes a table. The file is complete only after Close.
type Writer interface {
	// Row writes a cell for each column.
	Row(cells ...any) error
	Close() error
}

// cell is a value independent of the file format.
type cell struct {
	kind   Kind
	text   string // of Text
	amount money.Amount
	number int64
	at     time.Time
	empty  bool
}

// cells checks the values of a row against the columns.
func cells(columns []Column, values []any) ([]cell, error) {
	if len(values) != len(columns) {
		return nil, fmt.Errorf("a row of %d cells in a table of %d columns", len(values), len(columns))
	}
	row := make([]cell, len(columns))
	for i, value := range values {
		c, fits := cell{kind: columns[i].Kind}, false
		switch v := value.(type) {
		case nil:
			c.empty, fits = true, true
		case string:
			c.text, c.empty, fits = v, v == "", c.kind == Text
		case money.Amount:
			c.amount, fits = v, c.kind == Rupees
		case int:
			c.number, fits = int64(v), c.kind == Number
		case int64:
			c.number, fits = v, c.kind == Number
		case time.Time:
			c.at, c.empty, fits = v.In(subscription.IST), v.IsZero(), c.kind == Moment || c.kind == Date
		}
		if !fits {
			return nil, fmt.Errorf("column %q cannot hold a %T", columns[i].Title, value)
		}
		row[i] = c
	}
	return row, nil
}

// formulaSigns are the characters that begin a formula. Some spreadsheets accept their
// full-width and small forms, too.
const formulaSigns = "=+-@＝＋－＠﹦﹢﹣﹫"

// startsFormula reports whether a spreadsheet would read a text in a CSV file as a formula,
// or as something else than text. Blanks, control and invisible characters in front of a
// sign are ignored: a spreadsheet may drop them.
func startsFormula(text string) bool {
	if text != "" && strings.ContainsRune("\t\r\n", rune(text[0])) {
		return true
	}
	text = strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) })
	first, _ := utf8.DecodeRuneInString(text)
	return strings.ContainsRune(formulaSigns, first)
}
