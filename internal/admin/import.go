package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/subscription"
)

// importColumns are the columns of a file of subscribers, in any order.
var importColumns = []string{"lco", "subscriber_id", "mobile", "name", "plan_id", "expiry"}

// contactColumns may be there, too.
var contactColumns = []string{"email", "area", "address", "box_number", "notes"}

// importHeadings are all columns with other titles for them.
var importHeadings = []sheet.Heading{
	{Name: "lco", Also: []string{"LCO ID", "Operator ID"}},
	{Name: "subscriber_id", Also: []string{"Subscriber number", "Subscriber No", "Customer ID"}},
	{Name: "mobile", Also: []string{"Mobile number", "Mobile No", "Phone", "Phone number", "Phone No"}},
	{Name: "name", Also: []string{"Full name", "Customer name", "Subscriber name"}},
	{Name: "plan_id", Also: []string{"Plan", "Plan code"}},
	{Name: "expiry", Also: []string{"Expiry date", "Expires"}},
	{Name: "email", Also: []string{"E-mail", "E-mail address"}},
	{Name: "area", Also: []string{"Locality", "Ward"}},
	{Name: "address"},
	{Name: "box_number", Also: []string{"Box No", "STB", "STB number", "STB No"}},
	{Name: "notes"},
}

// maxImport is how many bytes a file may have.
const maxImport = 256 << 20

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
	// Contact has the columns that may be missing; its name is Name.
	Contact operation.Contact
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
	Ignored  []string // titles of columns that are not used
	Rows     int
	Added    int
	Known    int
	Problems []RowError
}

// ImportSubscribers imports subscribers from a CSV or XLSX file. All errors are reported together,
// and with one error nothing is imported. Known rows are skipped, so that a file can be
// imported again. With check set nothing is changed.
func (s *Service) ImportSubscribers(ctx context.Context, file io.Reader, check bool, progress func(done, total int)) (ImportReport, error) {
	lines, ignored, err := readImport(file)
	if err != nil {
		return ImportReport{}, err
	}
	report := ImportReport{Ignored: ignored, Rows: len(lines)}
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
func readImport(file io.Reader) (lines []importLine, ignored []string, err error) {
	rows, err := sheet.Read(file, sheet.Limits{Bytes: maxImport, Rows: sheet.MaxRows})
	var unreadable *sheet.Unreadable
	if errors.As(err, &unreadable) {
		return nil, nil, Refuse(unreadable.Form, unreadable.Args...)
	}
	if err != nil {
		return nil, nil, err
	}
	header := strings.Join(importColumns, ",")
	if len(rows) == 0 {
		return nil, nil, Refuse("the file is empty; its first line has to be the header %s", header)
	}
	if rows[0].Broken {
		return nil, nil, Refuse("the file is not CSV: the quotation marks of its first line do not fit")
	}
	columns := sheet.FindColumns(rows[0].Cells, importHeadings...)
	if len(columns.Twice) > 0 {
		return nil, nil, Refuse("the header has these columns twice: %s", strings.Join(columns.Twice, ", "))
	}
	var missing []string
	for _, name := range importColumns {
		if !columns.Has(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, nil, Refuse("the first line is not the header %s: it lacks %s", header, strings.Join(missing, ", "))
	}
	seen := map[string]int{}
	for _, row := range rows[1:] {
		if row.Broken {
			lines = append(lines, importLine{ImportRow{Line: row.Line}, []string{"it is not CSV: its quotation marks do not fit"}})
			continue
		}
		lines = append(lines, readImportLine(row, columns, seen))
	}
	return lines, columns.Ignored, nil
}

// readImportLine reads one line. An invalid field is left empty, so that the rest of the
// line can still be checked against the store.
func readImportLine(row sheet.Row, columns sheet.Columns, seen map[string]int) importLine {
	line := importLine{ImportRow: ImportRow{Line: row.Line}}
	if len(row.Cells) != columns.Width() {
		line.problems = []string{fmt.Sprintf("it has %d fields; want %d", len(row.Cells), columns.Width())}
		return line
	}
	field := func(name string) string { return columns.Cell(row, name) }
	addProblem := func(format string, args ...any) { line.problems = append(line.problems, fmt.Sprintf(format, args...)) }
	once := func(what, value string) {
		if earlier, twice := seen[what+value]; twice {
			addProblem("%s %s is on line %d already", what, value, earlier)
			return
		}
		seen[what+value] = row.Line
	}
	var err error
	if line.OperatorID, err = strconv.ParseInt(field("lco"), 10, 64); err != nil || line.OperatorID < 1 {
		line.OperatorID = 0
		addProblem("lco %q is not an operator's id", field("lco"))
	}
	if id := field("subscriber_id"); digits(id, 6, 10) {
		line.SubscriberID = id
		once("subscriber_id", line.SubscriberID)
	} else {
		addProblem("subscriber_id %q is not 6 to 10 digits", id)
	}
	if mobile, ok := subscription.ReadMobile(field("mobile")); ok {
		line.Mobile = mobile
		once("mobile", line.Mobile)
	} else {
		addProblem("mobile %q is not 10 digits", field("mobile"))
	}
	line.Name = field("name")
	if err := checkText("name", line.Name, 1, 100); err != nil {
		addProblem("%v", err)
	}
	if err := checkText("plan_id", field("plan_id"), 1, 100); err != nil {
		addProblem("%v", err)
	} else {
		line.PlanID = field("plan_id")
	}
	if line.Expires, err = readExpiry(field("expiry")); err != nil {
		addProblem("%v", err)
	} else if year := line.Expires.Year(); year < 2000 || year > 2100 {
		addProblem("expiry %q is not in the years 2000 to 2100", field("expiry"))
	}
	line.readContact(columns, field)
	return line
}

// readContact reads the columns that may be missing.
func (line *importLine) readContact(columns sheet.Columns, field func(string) string) {
	fields := map[string]string{"full_name": "-"} // the name has been checked
	for _, column := range contactColumns {
		if columns.Has(column) {
			fields[column] = field(column)
		}
	}
	contact, err := operation.ParseContact(fields)
	contact.Name, line.Contact = line.Name, contact
	if err == nil {
		return
	}
	wrong, _ := fault.From(err).Data["fields"].(map[string]string)
	for _, column := range contactColumns {
		if problem := wrong[column]; problem != "" {
			line.problems = append(line.problems, fmt.Sprintf("%s: %s", column, strings.ToLower(problem[:1])+strings.TrimSuffix(problem[1:], ".")))
		}
	}
	line.Contact = operation.Contact{}
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
