package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

// listFlags are the flags of every list that may be long.
type listFlags struct {
	from, to string
	limit    int
	csv      bool
	silent   bool

	// The parsed from and to; zero if they are not given.
	From, To time.Time
}

func (f *listFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.from, "from", "", "only rows made from this `TIME` on: a day in Indian time (2027-03-01), or 2027-03-01T09:00:00+05:30")
	flags.StringVar(&f.to, "to", "", "only rows made before this `TIME`; a day is included whole")
	flags.IntVar(&f.limit, "limit", 0, "at most `N` rows; without it all are listed")
	flags.BoolVar(&f.csv, "csv", false, "print CSV, for a spreadsheet")
}

// read checks and parses the flags.
func (f *listFlags) read(a *app, command *cobra.Command) error {
	if f.csv && a.asJSON {
		return usage("give either --csv or --json")
	}
	// --most is the former name of --limit, and does not report omitted rows.
	f.silent = command.Flags().Changed("most")
	if f.limit < 1 && (f.silent || command.Flags().Changed("limit")) {
		name := "limit"
		if f.silent {
			name = "most"
		}
		return usage("--%s %d: give at least 1, or leave it out to list all", name, f.limit)
	}
	var err error
	if f.From, _, err = readTime("from", f.from); err != nil {
		return err
	}
	var day bool
	if f.To, day, err = readTime("to", f.to); err != nil {
		return err
	}
	if day {
		f.To = f.To.AddDate(0, 0, 1)
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return usage("--from %s is not before --to %s", f.from, f.to)
	}
	return nil
}

// query returns a query for at most limit rows of an operator, or of all if id is 0.
func (f *listFlags) query(id int64, limit int) admin.ListQuery {
	return admin.ListQuery{OperatorID: id, From: f.From, To: f.To, Limit: limit}
}

// readTime parses a day in Indian time, or an RFC 3339 time.
func readTime(flag, text string) (t time.Time, day bool, err error) {
	if text == "" {
		return t, false, nil
	}
	if t, err = time.ParseInLocation(time.DateOnly, text, subscription.IST); err == nil {
		return t, true, nil
	}
	if t, err = time.Parse(time.RFC3339, text); err == nil {
		return t, false, nil
	}
	return t, false, usage("--%s %s: give a day such as 2027-03-01, or a time with its zone such as 2027-03-01T09:00:00+05:30", flag, text)
}

// pageRows is how many rows are read at a time.
const pageRows = 1000

// lister prints a list page by page.
type lister[T any] struct {
	// none is printed if there are no rows.
	none string
	// page reads at most limit rows after the given one, or the first if it is nil.
	page func(limit int, after *T) ([]T, error)
	row  func(T) object
	// at returns when a row was made. Rows are in that order, or newestFirst.
	at          func(T) time.Time
	newestFirst bool
	// text formats a row for people; nil prints a table.
	text func(T) string
}

func printList[T any](a *app, f listFlags, l lister[T]) error {
	out := l.writer(a, f)
	var last *T
	for count := 0; ; {
		limit := pageRows
		if f.limit > 0 {
			limit = min(limit, f.limit-count+1) // one more, to know whether there are more
		}
		rows, err := l.page(limit, last)
		if err != nil {
			return err
		}
		full := len(rows) == limit
		if f.limit > 0 && count+len(rows) > f.limit {
			rows = rows[:f.limit-count]
			if !f.silent {
				defer l.tellMore(a.err, f.limit, rows, last)
			}
			full = false
		}
		for _, row := range rows {
			if err := out.row(row); err != nil {
				return err
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		count += len(rows)
		if !full {
			return out.end(count)
		}
		last = &rows[len(rows)-1]
	}
}

// tellMore says how to get the rows that a limit left out.
func (l lister[T]) tellMore(w io.Writer, limit int, rows []T, last *T) {
	if len(rows) > 0 {
		last = &rows[len(rows)-1]
	}
	switch {
	case last == nil || l.at == nil:
		fmt.Fprintf(w, "There are more than %d rows: raise --limit, or leave it out to list all.\n", limit)
	case l.newestFirst:
		fmt.Fprintf(w, "Older rows follow: raise --limit, or continue with --to %s; rows of that moment are listed again.\n", l.moment(*last, time.Millisecond))
	default:
		fmt.Fprintf(w, "Later rows follow: raise --limit, or continue with --from %s; rows of that moment are listed again.\n", l.moment(*last, 0))
	}
}

// moment returns when a row was made, as --from and --to take it. Stores have milliseconds.
func (l lister[T]) moment(row T, later time.Duration) string {
	return l.at(row).Add(later).In(subscription.IST).Format("2006-01-02T15:04:05.000Z07:00")
}

// rowWriter prints rows in one of the forms.
type rowWriter[T any] struct {
	row   func(T) error
	flush func() error
	end   func(count int) error
}

func (l lister[T]) writer(a *app, f listFlags) rowWriter[T] {
	switch {
	case a.asJSON:
		return l.asJSON(a.out)
	case f.csv:
		return l.asCSV(a.out)
	case l.text != nil:
		return l.asText(a.out)
	}
	return l.asTable(a.out)
}

func nothing() error { return nil }

// asJSON prints one array, as json.Encoder would.
func (l lister[T]) asJSON(w io.Writer) rowWriter[T] {
	before := "["
	return rowWriter[T]{
		row: func(row T) error {
			text, err := json.Marshal(l.row(row))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "%s%s", before, text)
			before = ","
			return err
		},
		flush: nothing,
		end: func(count int) error {
			if count == 0 {
				_, err := fmt.Fprintln(w, "[]")
				return err
			}
			_, err := fmt.Fprintln(w, "]")
			return err
		},
	}
}

func (l lister[T]) asText(w io.Writer) rowWriter[T] {
	return rowWriter[T]{
		row:   func(row T) error { _, err := io.WriteString(w, l.text(row)); return err },
		flush: nothing,
		end:   func(count int) error { return l.sayNone(w, count) },
	}
}

func (l lister[T]) sayNone(w io.Writer, count int) error {
	if count > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, l.none)
	return err
}

// asTable prints a table, with column widths by page.
func (l lister[T]) asTable(w io.Writer) rowWriter[T] {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	begun := false
	return rowWriter[T]{
		row: func(row T) error {
			o := l.row(row)
			var cells []string
			if !begun {
				for _, f := range o {
					cells = append(cells, f.name)
				}
				fmt.Fprintln(table, strings.Join(cells, "\t"))
				begun, cells = true, nil
			}
			for _, f := range o {
				if at, is := f.value.(stamp); is {
					cells = append(cells, at.zoned("2006-01-02 15:04:05 -07:00"))
				} else {
					cells = append(cells, cell(f.value))
				}
			}
			_, err := fmt.Fprintln(table, strings.Join(cells, "\t"))
			return err
		},
		flush: table.Flush,
		end:   func(count int) error { return l.sayNone(w, count) },
	}
}

// asCSV prints a header and the rows, with RFC 3339 times.
func (l lister[T]) asCSV(w io.Writer) rowWriter[T] {
	var zero T
	var columns []sheet.Column
	for _, f := range l.row(zero) {
		kind := sheet.Text
		switch f.value.(type) {
		case money.Amount:
			kind = sheet.Rupees
		case int, int64:
			kind = sheet.Number
		}
		columns = append(columns, sheet.Column{Title: f.name, Kind: kind})
	}
	table, err := sheet.NewCSV(w, false, columns...)
	return rowWriter[T]{
		row: func(row T) error {
			if err != nil {
				return err
			}
			var cells []any
			for i, f := range l.row(row) {
				if columns[i].Kind == sheet.Text {
					cells = append(cells, csvText(f.value))
				} else {
					cells = append(cells, f.value)
				}
			}
			return table.Row(cells...)
		},
		flush: nothing,
		end: func(int) error {
			if err != nil {
				return err
			}
			return table.Close()
		},
	}
}

func csvText(value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case stamp:
		return v.zoned(time.RFC3339)
	case json.RawMessage:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(value)
}

// stamp is a time in a row. JSON has it in the contract's format; tables and CSV show the
// zone.
type stamp time.Time

// at returns a time for a row; nil if it is zero.
func at(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

func (s stamp) zoned(layout string) string { return time.Time(s).In(subscription.IST).Format(layout) }

func (s stamp) String() string { return s.zoned("2006-01-02 15:04:05") }

// MarshalJSON uses the contract's format.
func (s stamp) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
