package admin

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

	"github.com/coaxhq/coax/internal/subscription"
)

// importColumns is the header of a file of subscribers.
var importColumns = []string{"lco", "subscriber_id", "mobile", "name", "plan_id", "expiry"}

// importBatch is how many subscribers share a transaction: enough to be quick,
// few enough that requests do not wait.
const importBatch = 200

// ImportRow is one subscriber to bring in from elsewhere.
type ImportRow struct {
	Line         int
	OperatorID   int64
	SubscriberID string
	Mobile       string
	Name         string
	PlanID       string
	Expires      time.Time
}

// ImportVerdict is what the store says of a row.
type ImportVerdict struct {
	// Known: this very subscriber is there already.
	Known bool
	// Problem is what stands in the way; empty if nothing does.
	Problem string
}

// RowError is what is wrong with one line of a file.
type RowError struct {
	Line    int
	Problem string
}

// ImportReport is what became of a file.
type ImportReport struct {
	Rows     int
	Added    int
	Known    int
	Problems []RowError
}

// ImportSubscribers reads a CSV file of subscribers and brings them in. Every
// row's error is reported at once, and with one error nothing is imported. Rows
// that are there already are passed over, so that a file can be given again.
// With check set nothing is changed.
func (d *Desk) ImportSubscribers(ctx context.Context, file io.Reader, check bool, progress func(done, total int)) (ImportReport, error) {
	rows, problems, err := readImport(file)
	if err != nil {
		return ImportReport{}, err
	}
	report := ImportReport{Rows: len(rows) + len(problems), Problems: problems}
	fresh := make([]ImportRow, 0, len(rows))
	for chunk := range slices.Chunk(rows, importBatch) {
		verdicts, err := d.store.CheckImport(ctx, chunk)
		if err != nil {
			return report, err
		}
		for i, verdict := range verdicts {
			switch {
			case verdict.Problem != "":
				report.Problems = append(report.Problems, RowError{chunk[i].Line, verdict.Problem})
			case verdict.Known:
				report.Known++
			default:
				fresh = append(fresh, chunk[i])
			}
		}
	}
	slices.SortStableFunc(report.Problems, func(a, b RowError) int { return a.Line - b.Line })
	if check || len(report.Problems) > 0 {
		return report, nil
	}
	for chunk := range slices.Chunk(fresh, importBatch) {
		added, err := d.store.ImportSubscribers(ctx, d.act("subscriber import"), chunk)
		report.Added += added
		if err != nil {
			if report.Added > 0 {
				err = fmt.Errorf("%w; %d lines before it were imported: mend it and give the file again", err, report.Added)
			}
			return report, err
		}
		progress(report.Added, len(fresh))
	}
	return report, nil
}

// readImport reads a file's rows and judges each by itself.
func readImport(file io.Reader) ([]ImportRow, []RowError, error) {
	reader := csv.NewReader(file)
	reader.FieldsPerRecord = -1
	header, err := reader.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, Refuse("the file is not CSV: %v", err)
	}
	if len(header) > 0 {
		header[0] = strings.TrimPrefix(header[0], "\ufeff") // spreadsheets put it there
	}
	if !slices.Equal(header, importColumns) {
		return nil, nil, Refuse("the first line is not the header %s", strings.Join(importColumns, ","))
	}
	var rows []ImportRow
	var problems []RowError
	seen := map[string]int{}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, problems, nil
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) {
			problems = append(problems, RowError{broken.Line, "it is not CSV: " + broken.Err.Error()})
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the file: %w", err)
		}
		line, _ := reader.FieldPos(0)
		row, err := readImportRow(line, record)
		if err == nil {
			err = once(seen, row)
		}
		if err != nil {
			problems = append(problems, RowError{line, err.Error()})
			continue
		}
		rows = append(rows, row)
	}
}

// once refuses an id or a number that an earlier line has.
func once(seen map[string]int, row ImportRow) error {
	for _, key := range []string{"subscriber_id " + row.SubscriberID, "mobile " + row.Mobile} {
		if earlier, twice := seen[key]; twice {
			return fmt.Errorf("%s is on line %d already", key, earlier)
		}
		seen[key] = row.Line
	}
	return nil
}

func readImportRow(line int, record []string) (ImportRow, error) {
	if len(record) != len(importColumns) {
		return ImportRow{}, fmt.Errorf("it has %d fields; want %d", len(record), len(importColumns))
	}
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	row := ImportRow{Line: line, SubscriberID: record[1], Mobile: record[2], Name: record[3], PlanID: record[4]}
	var problems []string
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var err error
	if row.OperatorID, err = strconv.ParseInt(record[0], 10, 64); err != nil || row.OperatorID < 1 {
		complain("lco %q is not an operator's id", record[0])
	}
	if !digits(row.SubscriberID, 6, 10) {
		complain("subscriber_id %q is not 6 to 10 digits", row.SubscriberID)
	}
	if !digits(row.Mobile, 10, 10) {
		complain("mobile %q is not 10 digits", row.Mobile)
	}
	if err := checkText("name", row.Name, 1, 100); err != nil {
		complain("%v", err)
	}
	if row.PlanID == "" {
		complain("plan_id is missing")
	}
	if row.Expires, err = readExpiry(record[5]); err != nil {
		complain("%v", err)
	} else if year := row.Expires.Year(); year < 2000 || year > 2100 {
		complain("expiry %q is not in the years 2000 to 2100", record[5])
	}
	if len(problems) > 0 {
		return row, errors.New(strings.Join(problems, "; "))
	}
	return row, nil
}

func digits(text string, least, most int) bool {
	return len(text) >= least && len(text) <= most && strings.Trim(text, "0123456789") == ""
}

// readExpiry reads a moment in Indian time; a day alone lasts to its end.
func readExpiry(text string) (time.Time, error) {
	if moment, err := time.ParseInLocation(time.DateTime, text, subscription.IST); err == nil {
		return moment, nil
	}
	day, err := time.ParseInLocation(time.DateOnly, text, subscription.IST)
	if err != nil {
		return time.Time{}, fmt.Errorf("expiry %q is neither YYYY-MM-DD HH:MM:SS nor YYYY-MM-DD", text)
	}
	return day.Add(24*time.Hour - time.Second), nil
}
