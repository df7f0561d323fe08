// Package bankstatement reads the credits out of a bank's statement: it finds the table's
// header among the lines above it, guesses the columns, and reads dates and amounts as Indian
// banks write them. It knows no operators and decides nothing about money.
package bankstatement

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/sheet"
)

// Limits of a statement's file.
const (
	MaxBytes = 1 << 20
	MaxRows  = 5000
	// maxHeaderRow is how many rows may stand above the table.
	maxHeaderRow = 60
	// MaxColumns is how many columns a table may have.
	MaxColumns = 40
	// maxProblems bounds the problems that are listed.
	maxProblems = 10
)

// Problem is what is wrong with a file, and how to mend it.
type Problem struct {
	// Line is 0 for the file as a whole.
	Line int
	// Form and Args are the text's format and arguments, for translation.
	Form string
	Args []any
}

func (p Problem) String() string {
	text := fmt.Sprintf(p.Form, p.Args...)
	if p.Line == 0 {
		return text
	}
	return fmt.Sprintf("Line %d: %s", p.Line, text)
}

// Error has the problems of a file.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

// refuse refuses a file as a whole.
func refuse(form string, args ...any) error { return &Error{[]Problem{*problem(form, args...)}} }

func problem(form string, args ...any) *Problem { return &Problem{Form: form, Args: args} }

// Columns says which columns are read, by their position; -1 stands for none. Either Credit
// or Amount is given. With Amount, Side tells credits from debits, or the amount's own sign or
// suffix does.
type Columns struct {
	Date      int `json:"date"`
	Narration int `json:"narration"`
	Reference int `json:"reference"`
	Credit    int `json:"credit"`
	Debit     int `json:"debit"`
	Amount    int `json:"amount"`
	Side      int `json:"side"`
}

// NoColumns has no column.
var NoColumns = Columns{-1, -1, -1, -1, -1, -1, -1}

// JSON returns the columns as they are stored.
func (c Columns) JSON() string {
	text, _ := json.Marshal(c) // integers always can be
	return string(text)
}

// ReadColumns parses stored columns.
func ReadColumns(text string) (Columns, error) {
	c := NoColumns
	err := json.Unmarshal([]byte(text), &c)
	return c, err
}

// Check refuses columns from which no credit can be read.
func (c Columns) Check() error {
	switch {
	case c.Date < 0:
		return refuse("Say which column has the date.")
	case c.Credit < 0 && c.Amount < 0:
		return refuse("Say which column has the amount: either the one of credits, or one of all amounts.")
	case c.Credit >= 0 && c.Amount >= 0:
		return refuse("Give either a column of credits or one of all amounts, and not both.")
	case c.Narration < 0 && c.Reference < 0:
		return refuse("Say which column has the narration or the reference: payments are found by what stands there.")
	case c.Side >= 0 && c.Amount < 0:
		return refuse("A column of Cr and Dr belongs to a column of all amounts: give that, too.")
	}
	return nil
}

// Table is a statement whose header was found.
type Table struct {
	// Titles are the header's cells.
	Titles []string
	// Rows stand below the header.
	Rows []sheet.Row
	// Guess is what the titles say about the columns.
	Guess Columns
}

// Find finds the table of a statement.
func Find(rows []sheet.Row) (Table, error) {
	fallback := -1
	for i, row := range rows[:min(len(rows), maxHeaderRow)] {
		if len(row.Cells) > MaxColumns {
			return Table{}, refuse("The file has more than %d columns. Export the statement of one account as CSV or XLSX.", MaxColumns)
		}
		if guess := guessColumns(row.Cells); guess.Date >= 0 && (guess.Credit >= 0 || guess.Amount >= 0) && (guess.Narration >= 0 || guess.Reference >= 0) {
			return Table{row.Cells, rows[i+1:], guess}.checked()
		}
		if fallback < 0 && isHeader(row.Cells) {
			fallback = i
		}
	}
	if fallback < 0 {
		return Table{}, refuse("This does not look like a bank's statement: no line names columns such as Date, Narration and Credit. Export the statement as CSV or XLSX.")
	}
	return Table{rows[fallback].Cells, rows[fallback+1:], guessColumns(rows[fallback].Cells)}.checked()
}

func (t Table) checked() (Table, error) {
	if len(t.Rows) == 0 {
		return t, refuse("The file has no rows below its header.")
	}
	return t, nil
}

// isHeader reports whether a row could be a header: three titles or more, and no date nor
// amount among them.
func isHeader(cells []string) bool {
	titles := 0
	for _, cell := range cells {
		if cell = strings.TrimSpace(cell); cell == "" {
			continue
		}
		if _, is := parseDate(cell); is || strings.ContainsAny(cell[:1], "0123456789") {
			return false
		}
		titles++
	}
	return titles >= 3
}

// Key identifies the header line: statements with the same one have the same columns.
func (t Table) Key() string {
	words := make([]string, len(t.Titles))
	for i, title := range t.Titles {
		words[i] = titleWords(title)
	}
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	return hex.EncodeToString(sum[:])
}

// titleWords returns a title in lower case, with single blanks between its words.
func titleWords(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), " ")
}

// Titles that banks give their columns, the best first.
var (
	dateTitles      = []string{"transaction date", "txn date", "tran date", "txn posted date", "post date", "date", "value date", "value dt", "value dat"}
	narrationTitles = []string{"narration", "transaction remarks", "description", "particulars", "transaction particulars", "transaction description", "remarks", "details", "transaction details"}
	referenceTitles = []string{"utr", "utr no", "utr number", "chq ref no", "chq ref number", "ref no cheque no", "ref no", "reference", "reference no", "reference number", "cheque ref no", "transaction id", "tran id", "chequeno", "cheque no", "cheque number", "chq no", "instrument id"}
	sideTitles      = []string{"cr dr", "dr cr", "d c", "c d", "debit credit", "credit debit", "cr dr indicator", "dr cr indicator", "debit credit indicator", "type", "transaction type", "txn type", "dr or cr", "cr or dr", "indicator"}
)

func guessColumns(titles []string) Columns {
	words := make([]string, len(titles))
	for i, title := range titles {
		words[i] = titleWords(title)
	}
	byName := func(names []string) int {
		for _, name := range names {
			for i, word := range words {
				if word == name {
					return i
				}
			}
		}
		return -1
	}
	c := Columns{Date: byName(dateTitles), Narration: byName(narrationTitles), Reference: byName(referenceTitles), Side: byName(sideTitles), Credit: -1, Debit: -1, Amount: -1}
	for i, word := range words {
		switch {
		case i == c.Side || i == c.Narration || i == c.Reference || strings.Contains(word, "balance"):
		case c.Credit < 0 && (strings.Contains(word, "credit") || strings.Contains(word, "deposit") || word == "cr" || strings.HasPrefix(word, "cr am")):
			c.Credit = i
		case c.Debit < 0 && (strings.Contains(word, "debit") || strings.Contains(word, "withdrawal") || word == "dr" || strings.HasPrefix(word, "dr am")):
			c.Debit = i
		case c.Amount < 0 && strings.Contains(word, "amount"):
			c.Amount = i
		}
	}
	if c.Credit >= 0 {
		c.Amount, c.Side = -1, -1
	}
	return c
}

// Line is a credit of a statement.
type Line struct {
	// On is its day, at midnight in IST.
	On        time.Time
	Amount    money.Amount
	Narration string
	// Reference is the payment's, if the line has one that can be told from other numbers.
	Reference string
}

// Statement is what was read.
type Statement struct {
	Lines []Line
	// Debits counts money that went out, Skipped the rows that have no date, such as sums.
	Debits, Skipped int
}

// Read reads the credits of a table. For rows that cannot be read it returns an Error.
func (t Table) Read(c Columns) (Statement, error) {
	if err := c.Check(); err != nil {
		return Statement{}, err
	}
	var s Statement
	var problems []Problem
	told := c.Amount < 0 // whether credits can be told from debits
	for _, row := range t.Rows {
		on, is := parseDate(cellOf(row, c.Date))
		if !is {
			s.Skipped++
			continue
		}
		amount, way, wrong := c.amount(row)
		told = told || way != 0
		switch {
		case wrong != nil:
			if wrong.Line = row.Line; len(problems) < maxProblems {
				problems = append(problems, *wrong)
			}
			continue
		case way == debit || !amount.IsPositive():
			s.Debits++
			continue
		}
		narration := oneLine(cellOf(row, c.Narration))
		reference := findReference(cellOf(row, c.Reference), narration)
		if narration == "" {
			narration = oneLine(cellOf(row, c.Reference))
		} else if own := oneLine(cellOf(row, c.Reference)); len(own) > 4 && !strings.Contains(narration, own) {
			narration += " · " + own
		}
		s.Lines = append(s.Lines, Line{On: on, Amount: amount, Narration: narration, Reference: reference})
	}
	if len(problems) > 0 {
		return s, &Error{problems}
	}
	switch {
	case len(s.Lines)+s.Debits == 0:
		return s, refuse("No row has a date in column “%s”. Choose the column that has dates such as 19/11/2026.", t.title(c.Date))
	case !told:
		return s, refuse("Nothing tells credits from debits: no amount in column “%s” has a sign, Cr or Dr. Choose the column that says Cr or Dr. If the file has credits only, choose “%s” as the column of credits.", t.title(c.Amount), t.title(c.Amount))
	}
	return s, nil
}

func (t Table) title(column int) string {
	if column < 0 || column >= len(t.Titles) {
		return ""
	}
	return strings.TrimSpace(t.Titles[column])
}

// cellOf returns a cell of a row, empty if the row has none there.
func cellOf(row sheet.Row, i int) string {
	if i < 0 || i >= len(row.Cells) {
		return ""
	}
	return strings.TrimSpace(row.Cells[i])
}

// amount reads the amount of a row, and which way it went: 0 if the row does not say.
func (c Columns) amount(row sheet.Row) (amount money.Amount, way side, wrong *Problem) {
	column := max(c.Credit, c.Amount) // one of them is -1
	amount, way, ok := parseAmount(cellOf(row, column))
	if !ok {
		return amount, 0, problem("“%s” is not an amount such as 1,00,000.00.", cellOf(row, column))
	}
	if c.Side >= 0 {
		if way = sideOf(cellOf(row, c.Side)); way == 0 {
			return amount, 0, problem("“%s” says neither Cr nor Dr.", cellOf(row, c.Side))
		}
	}
	return amount, way, nil
}

// side says which way money went: 0 if the text does not say.
type side byte

const (
	credit side = 'C'
	debit  side = 'D'
)

func sideOf(text string) side {
	switch titleWords(text) {
	case "cr", "c", "credit", "deposit":
		return credit
	case "dr", "d", "debit", "withdrawal":
		return debit
	}
	return 0
}

// amountForm is an amount without commas and blanks: sign, digits, and Cr or Dr.
var amountForm = regexp.MustCompile(`(?i)^(?:₹|inr|rs\.?)?([-+(]?)(?:₹|inr|rs\.?)?([0-9]+(?:\.[0-9]+)?)\)?\(?(cr|dr|c|d)?\.?\)?$`)

// parseAmount reads an amount as banks write it: 1,00,000.00, 500.00 Cr, (250.00), -250. An
// empty cell is none.
func parseAmount(text string) (amount money.Amount, way side, ok bool) {
	squeezed := strings.NewReplacer(",", "", " ", "", "\u00a0", "", "\u202f", "", "'", "", "−", "-").Replace(text)
	if strings.Trim(squeezed, "-") == "" {
		return money.Amount{}, 0, true
	}
	part := amountForm.FindStringSubmatch(squeezed)
	if part == nil {
		return money.Amount{}, 0, false
	}
	whole, decimals, _ := strings.Cut(part[2], ".")
	if decimals = strings.TrimRight(decimals, "0"); decimals != "" {
		whole += "." + decimals
	}
	amount, err := money.Parse(whole)
	if err != nil {
		return money.Amount{}, 0, false
	}
	way = sideOf(part[3])
	switch part[1] {
	case "-", "(":
		way = debit
	case "+":
		way = credit
	}
	return amount, way, true
}

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}
