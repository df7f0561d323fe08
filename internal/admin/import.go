package admin

import (
	"bufio"
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

// ImportResult is what the store says of a row.
type ImportResult struct {
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
func (d *Service) ImportSubscribers(ctx context.Context, file io.Reader, check bool, progress func(done, total int)) (ImportReport, error) {
	lines, err := readImport(file)
	if err != nil {
		return ImportReport{}, err
	}
	report := ImportReport{Rows: len(lines)}
	fresh := make([]ImportRow, 0, len(lines))
	for chunk := range slices.Chunk(lines, importBatch) {
		rows := make([]ImportRow, len(chunk))
		for i, line := range chunk {
			rows[i] = line.ImportRow
		}
		verdicts, err := d.store.CheckImport(ctx, rows, d.now())
		if err != nil {
			return report, err
		}
		for i, verdict := range verdicts {
			problems := chunk[i].problems
			if verdict.Problem != "" {
				problems = append(problems, verdict.Problem)
			}
			switch {
			case len(problems) > 0:
				report.Problems = append(report.Problems, RowError{rows[i].Line, strings.Join(problems, "; ")})
			case verdict.Known:
				report.Known++
			default:
				fresh = append(fresh, rows[i])
			}
		}
	}
	if check || len(report.Problems) > 0 {
		return report, nil
	}
	done := 0
	for chunk := range slices.Chunk(fresh, importBatch) {
		added, err := d.importChunk(ctx, chunk)
		if err != nil {
			if done > 0 {
				err = fmt.Errorf("%w; %d lines before it were imported: mend it and give the file again", err, done)
			}
			return report, err
		}
		// Whoever came in between the check and now is there already.
		report.Added += added
		report.Known += len(chunk) - added
		done += len(chunk)
		progress(done, len(fresh))
	}
	return report, nil
}

// importChunk brings rows in, with numbers and ids that deleted operators' subscribers
// had long ago.
func (d *Service) importChunk(ctx context.Context, rows []ImportRow) (added int, err error) {
	claims := make([]subscription.Claim, len(rows))
	for i, row := range rows {
		claims[i] = subscription.Claim{Mobile: row.Mobile, SubscriberID: row.SubscriberID}
	}
	if _, err := d.store.ReleaseLapsed(ctx, claims, d.now()); err != nil {
		return 0, err
	}
	return d.store.ImportSubscribers(ctx, d.act(SubscriberImport), rows)
}

// importLine is a line of the file, with what is wrong with it by itself.
type importLine struct {
	ImportRow
	problems []string
}

// readImport reads a file's lines and judges each by itself.
func readImport(file io.Reader) ([]importLine, error) {
	// Spreadsheets put a mark at the beginning, which is no part of the text.
	text := bufio.NewReader(file)
	if mark, err := text.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = text.Discard(len(mark))
	}
	reader := csv.NewReader(text)
	reader.FieldsPerRecord = -1
	header, err := reader.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, Refuse("the file is not CSV: %v", err)
	}
	if !slices.Equal(header, importColumns) {
		return nil, Refuse("the first line is not the header %s", strings.Join(importColumns, ","))
	}
	var lines []importLine
	seen := map[string]int{}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) {
			lines = append(lines, importLine{ImportRow{Line: broken.StartLine}, []string{"it is not CSV: " + broken.Err.Error()}})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		at, _ := reader.FieldPos(0)
		lines = append(lines, readImportLine(at, record, seen))
	}
}

// readImportLine reads one line. What is wrong with a field is emptied, so that
// the rest of the line can still be held against what is there.
func readImportLine(at int, record []string, seen map[string]int) importLine {
	line := importLine{ImportRow: ImportRow{Line: at}}
	if len(record) != len(importColumns) {
		line.problems = []string{fmt.Sprintf("it has %d fields; want %d", len(record), len(importColumns))}
		return line
	}
	complain := func(format string, args ...any) { line.problems = append(line.problems, fmt.Sprintf(format, args...)) }
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	once := func(what, value string) {
		if earlier, twice := seen[what+value]; twice {
			complain("%s %s is on line %d already", what, value, earlier)
			return
		}
		seen[what+value] = at
	}
	var err error
	if line.OperatorID, err = strconv.ParseInt(record[0], 10, 64); err != nil || line.OperatorID < 1 {
		line.OperatorID = 0
		complain("lco %q is not an operator's id", record[0])
	}
	if digits(record[1], 6, 10) {
		line.SubscriberID = record[1]
		once("subscriber_id", line.SubscriberID)
	} else {
		complain("subscriber_id %q is not 6 to 10 digits", record[1])
	}
	if digits(record[2], 10, 10) {
		line.Mobile = record[2]
		once("mobile", line.Mobile)
	} else {
		complain("mobile %q is not 10 digits", record[2])
	}
	line.Name = record[3]
	if err := checkText("name", line.Name, 1, 100); err != nil {
		complain("%v", err)
	}
	if err := checkText("plan_id", record[4], 1, 100); err != nil {
		complain("%v", err)
	} else {
		line.PlanID = record[4]
	}
	if line.Expires, err = readExpiry(record[5]); err != nil {
		complain("%v", err)
	} else if year := line.Expires.Year(); year < 2000 || year > 2100 {
		complain("expiry %q is not in the years 2000 to 2100", record[5])
	}
	return line
}

func digits(text string, least, most int) bool {
	return len(text) >= least && len(text) <= most && strings.Trim(text, "0123456789") == ""
}

// readExpiry reads a moment in Indian time; a day alone lasts to its end.
func readExpiry(text string) (time.Time, error) {
	// Parse takes more than it writes, such as fractions of a second, which
	// would be cut off and then not be the same on the next import.
	if moment, err := time.ParseInLocation(time.DateTime, text, subscription.IST); err == nil && moment.Format(time.DateTime) == text {
		return moment, nil
	}
	day, err := time.ParseInLocation(time.DateOnly, text, subscription.IST)
	if err != nil || day.Format(time.DateOnly) != text {
		return time.Time{}, fmt.Errorf("expiry %q is neither YYYY-MM-DD HH:MM:SS nor YYYY-MM-DD", text)
	}
	return day.Add(24*time.Hour - time.Second), nil
}
