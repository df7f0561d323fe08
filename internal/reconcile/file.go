package reconcile

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/operation"
)

// fileColumns are the columns of a provider's export; the ones that may be missing are optional.
var fileColumns = []struct {
	name     string
	optional bool
}{
	{"reference", false}, {"kind", false}, {"subscriber_id", false}, {"mobile", false}, {"component", false}, {"months", true},
	{"expires_at", true}, {"carried_out_at", false}, {"transaction_id", false}, {"client_key", true},
	{"reversed_by", true},
}

// File is a provider's export, in place of its list.
type File struct {
	orders []operation.ListedOrder
	// Ignored are the names of columns that are not used.
	Ignored []string
}

var _ operation.OrderLister = (*File)(nil)

// maxProblems bounds how many bad rows one error names.
const maxProblems = 100

// ReadFile reads a provider's export in CSV. The error names every bad row, with its line and what is wrong.
func ReadFile(from io.Reader) (*File, error) {
	reader := csv.NewReader(from)
	reader.FieldsPerRecord = -1
	titles, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: its first line has to name its columns")
	}
	if err != nil {
		return nil, fmt.Errorf("read the first line: %w", err)
	}
	file := &File{}
	at, err := file.columns(titles)
	if err != nil {
		return nil, err
	}
	var problems []string
	seen := map[operation.ListedOrder]int{}
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			problems = append(problems, fmt.Sprintf("line %d: %v", bad.Line, bad.Err))
			break // what follows cannot be told apart
		}
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		line, _ := reader.FieldPos(0)
		order, wrong := readRow(row, at, len(titles))
		if before, twice := seen[order]; twice && len(wrong) == 0 {
			wrong = []string{fmt.Sprintf("it is the same as line %d", before)}
		}
		if len(wrong) > 0 {
			problems = append(problems, fmt.Sprintf("line %d: %s", line, strings.Join(wrong, "; ")))
			continue
		}
		seen[order] = line
		file.orders = append(file.orders, order)
	}
	if n := len(problems); n > 0 {
		if n > maxProblems {
			problems = append(problems[:maxProblems], fmt.Sprintf("and %d more", n-maxProblems))
		}
		return nil, fmt.Errorf("%d rows cannot be used, and nothing was compared:\n%s", n, strings.Join(problems, "\n"))
	}
	slices.SortStableFunc(file.orders, func(a, b operation.ListedOrder) int { return a.CarriedOutAt.Compare(b.CarriedOutAt) })
	return file, nil
}

// columns finds the columns by their titles.
func (f *File) columns(titles []string) (at map[string]int, err error) {
	at = map[string]int{}
	for i, title := range titles {
		title = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(title, "\uFEFF")))
		known := slices.ContainsFunc(fileColumns, func(c struct {
			name     string
			optional bool
		}) bool {
			return c.name == title
		})
		if _, twice := at[title]; twice && known {
			return nil, fmt.Errorf("column %s is there twice", title)
		}
		if !known {
			f.Ignored = append(f.Ignored, title)
			continue
		}
		at[title] = i
	}
	var missing, all []string
	for _, column := range fileColumns {
		all = append(all, column.name)
		if _, is := at[column.name]; !is && !column.optional {
			missing = append(missing, column.name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the first line lacks the columns %s: it has to name %s", strings.Join(missing, ", "), strings.Join(all, ", "))
	}
	return at, nil
}

// readRow reads an order, or returns everything that is wrong with it.
func readRow(row []string, at map[string]int, columns int) (order operation.ListedOrder, wrong []string) {
	if len(row) != columns {
		return order, []string{fmt.Sprintf("it has %d cells; the first line has %d", len(row), columns)}
	}
	cell := func(name string) string {
		if i, is := at[name]; is {
			// As sheet writes a text that a spreadsheet would read as a formula.
			return strings.TrimPrefix(strings.TrimSpace(row[i]), "'")
		}
		return ""
	}
	need := func(name string, ok func(string) bool, rule string) string {
		text := cell(name)
		if !ok(text) {
			wrong = append(wrong, fmt.Sprintf("%s %q has to be %s", name, text, rule))
		}
		return text
	}
	some := func(text string) bool { return text != "" && len(text) <= 100 && !strings.ContainsAny(text, " \t\r\n") }
	optional := func(ok func(string) bool) func(string) bool {
		return func(text string) bool { return text == "" || ok(text) }
	}
	isTime := func(text string) bool { _, err := time.Parse(time.RFC3339, text); return err == nil }
	isHex := func(text string) bool { return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == "" }
	order.Reference = need("reference", some, "1 to 100 characters without blanks")
	order.Kind = operation.Kind(need("kind", func(text string) bool {
		return text == string(operation.Activate) || text == string(operation.Renew) || text == string(operation.AdvanceRenew)
	}, "activate, renew or advance_renew"))
	order.SubscriberID = need("subscriber_id", some, "1 to 100 characters without blanks")
	order.Mobile = need("mobile", func(text string) bool { return len(text) == 10 && strings.Trim(text, "0123456789") == "" }, "ten digits")
	order.Component = need("component", some, "1 to 100 characters without blanks")
	order.Transaction = need("transaction_id", some, "1 to 100 characters without blanks")
	order.ReversedBy = need("reversed_by", optional(some), "the reference of a reversal, or empty")
	_, order.TellsReversals = at["reversed_by"]
	order.ClientKey = need("client_key", optional(isHex), "64 characters of 0-9 a-f, or empty")
	months := need("months", optional(func(text string) bool { n, err := strconv.Atoi(text); return err == nil && n >= 1 && n <= 1200 }), "a whole number from 1 to 1200, or empty")
	order.Months, _ = strconv.Atoi(months)
	const timeRule = "a time with an offset, like 2027-03-01T12:00:00+05:30"
	if carried := need("carried_out_at", isTime, timeRule); len(wrong) == 0 {
		order.CarriedOutAt, _ = time.Parse(time.RFC3339, carried)
		order.CarriedOutAt = order.CarriedOutAt.UTC()
	}
	if expires := need("expires_at", optional(isTime), timeRule+", or empty"); expires != "" && len(wrong) == 0 {
		order.ExpiresAt, _ = time.Parse(time.RFC3339, expires)
		order.ExpiresAt = order.ExpiresAt.UTC()
	}
	return order, wrong
}

// ListOrders returns the orders of the file since a moment, in one page.
func (f *File) ListOrders(_ context.Context, since time.Time, _ string) (operation.OrderPage, error) {
	var page operation.OrderPage
	for _, order := range f.orders {
		if !order.CarriedOutAt.Before(since) {
			page.Orders = append(page.Orders, order)
		}
	}
	return page, nil
}
