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

// importBatch is how many subscribers share a transaction: enough to be fast, few enough
// not to delay requests.
const importBatch = 200

// ImportRow is one subscriber to import.
type ImportRow struct {
	Line         int
	OperatorID   int64
	SubscriberID string
	Mobile       string
	Name         string
	PlanID       string
	Expires      time.Time
}

// ImportResult is the store's check of a row.
type ImportResult struct {
	// Known: the same subscriber was imported already.
	Known bool
	// Problem is what prevents the import; empty if nothing does.
	Problem string
}

// RowError is what is wrong with one line of a file.
type RowError struct {
	Line    int
	Problem string
}

// ImportReport is the result of importing a file.
type ImportReport struct {
	Rows     int
	Added    int
	Known    int
	Problems []RowError
}

// ImportSubscribers imports a CSV file of subscribers. All errors are reported together,
// and with one error nothing is imported. Known rows are skipped, so that a file can be
// imported again. With check set nothing is changed.
func (s *Service) ImportSubscribers(ctx context.Context, file io.Reader, check bool, progress func(done, total int)) (ImportReport, error) {
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
		results, err := s.store.CheckImport(ctx, rows, s.now())
		if err != nil {
			return report, err
		}
		for i, result := range results {
			problems := chunk[i].problems
			if result.Problem != "" {
				problems = append(problems, result.Problem)
			}
			switch {
			case len(problems) > 0:
				report.Problems = append(report.Problems, RowError{rows[i].Line, strings.Join(problems, "; ")})
			case result.Known:
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
		added, err := s.importChunk(ctx, chunk)
		if err != nil {
			if done > 0 {
				err = fmt.Errorf("%w; %d lines before it were imported: mend it and give the file again", err, done)
			}
			return report, err
		}
		// Subscribers that were added between the check and now count as known.
		report.Added += added
		report.Known += len(chunk) - added
		done += len(chunk)
		progress(done, len(fresh))
	}
	return report, nil
}

// importChunk imports rows, and first releases numbers and ids of operators that were
// deleted too long ago to be undeleted.
func (s *Service) importChunk(ctx context.Context, rows []ImportRow) (added int, err error) {
	claims := make([]subscription.Claim, len(rows))
	for i, row := range rows {
		claims[i] = subscription.Claim{Mobile: row.Mobile, SubscriberID: row.SubscriberID}
	}
	if _, err := s.store.ReleaseLapsed(ctx, claims, s.now()); err != nil {
		return 0, err
	}
	return s.store.ImportSubscribers(ctx, s.newAction(SubscriberImport), rows)
}

// importLine is a line of the file, with the problems of its own fields.
type importLine struct {
	ImportRow
	problems []string
}

// readImport reads a file's lines and checks each by itself.
func readImport(file io.Reader) ([]importLine, error) {
	// Spreadsheets write a byte order mark.
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

// readImportLine reads one line. An invalid field is left empty, so that the rest of the
// line can still be checked against the store.
func readImportLine(at int, record []string, seen map[string]int) importLine {
	line := importLine{ImportRow: ImportRow{Line: at}}
	if len(record) != len(importColumns) {
		line.problems = []string{fmt.Sprintf("it has %d fields; want %d", len(record), len(importColumns))}
		return line
	}
	addProblem := func(format string, args ...any) { line.problems = append(line.problems, fmt.Sprintf(format, args...)) }
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	once := func(what, value string) {
		if earlier, twice := seen[what+value]; twice {
			addProblem("%s %s is on line %d already", what, value, earlier)
			return
		}
		seen[what+value] = at
	}
	var err error
	if line.OperatorID, err = strconv.ParseInt(record[0], 10, 64); err != nil || line.OperatorID < 1 {
		line.OperatorID = 0
		addProblem("lco %q is not an operator's id", record[0])
	}
	if digits(record[1], 6, 10) {
		line.SubscriberID = record[1]
		once("subscriber_id", line.SubscriberID)
	} else {
		addProblem("subscriber_id %q is not 6 to 10 digits", record[1])
	}
	if digits(record[2], 10, 10) {
		line.Mobile = record[2]
		once("mobile", line.Mobile)
	} else {
		addProblem("mobile %q is not 10 digits", record[2])
	}
	line.Name = record[3]
	if err := checkText("name", line.Name, 1, 100); err != nil {
		addProblem("%v", err)
	}
	if err := checkText("plan_id", record[4], 1, 100); err != nil {
		addProblem("%v", err)
	} else {
		line.PlanID = record[4]
	}
	if line.Expires, err = readExpiry(record[5]); err != nil {
		addProblem("%v", err)
	} else if year := line.Expires.Year(); year < 2000 || year > 2100 {
		addProblem("expiry %q is not in the years 2000 to 2100", record[5])
	}
	return line
}

func digits(text string, minLen, maxLen int) bool {
	return len(text) >= minLen && len(text) <= maxLen && strings.Trim(text, "0123456789") == ""
}

// readExpiry reads a moment in Indian time; a day alone lasts to its end.
func readExpiry(text string) (time.Time, error) {
	// Parse accepts more than Format writes, such as fractions of a second. They would be
	// truncated, and the row would differ on the next import.
	if moment, err := time.ParseInLocation(time.DateTime, text, subscription.IST); err == nil && moment.Format(time.DateTime) == text {
		return moment, nil
	}
	day, err := time.ParseInLocation(time.DateOnly, text, subscription.IST)
	if err != nil || day.Format(time.DateOnly) != text {
		return time.Time{}, fmt.Errorf("expiry %q is neither YYYY-MM-DD HH:MM:SS nor YYYY-MM-DD", text)
	}
	return day.Add(24*time.Hour - time.Second), nil
}
