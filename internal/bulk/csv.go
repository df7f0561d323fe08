package bulk

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/subscription"
)

// MaxFile is how many bytes a file may have.
const MaxFile = 1 << 20

// The columns of a file, in any order.
const (
	columnSubscriber = "subscriber_id"
	columnMobile     = "mobile"
	columnPlan       = "plan_id"
)

var columns = []string{columnSubscriber, columnMobile, columnPlan}

// Selection is a subscriber selected for renewal, as given.
type Selection struct {
	Line         int
	SubscriberID string
	Mobile       string
	PlanID       string // empty for the plan that the subscriber has
	// NotRenewedSince is for a retry: the row is refused if the subscriber was renewed after
	// that moment. The tag keeps the ids of idForVoucher.
	NotRenewedSince time.Time `json:"NotSince"`
}

// Problem is an error in a file, and how to correct it.
type Problem struct {
	Line   int    // 0 for the file as a whole
	Column string // empty for the line as a whole
	Text   string
	// Form and Args are the format and arguments of Text, for translation.
	Form string
	Args []any
}

func (p Problem) String() string {
	switch {
	case p.Line == 0:
		return p.Text
	case p.Column == "":
		return fmt.Sprintf("Line %d: %s", p.Line, p.Text)
	}
	return fmt.Sprintf("Line %d, %s: %s", p.Line, p.Column, p.Text)
}

// FileError has all problems of a file.
type FileError struct{ Problems []Problem }

func (e *FileError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, problem := range e.Problems {
		texts[i] = problem.String()
	}
	return strings.Join(texts, "\n")
}

// ReadCSV reads a list of renewals. For an invalid file it returns a FileError with all
// problems.
func ReadCSV(file io.Reader) ([]Selection, error) {
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	r := reading{seen: map[string]int{}}
	switch {
	case len(text) > MaxFile:
		return nil, r.refuse(0, "", "The file is larger than 1 MB. Split it.")
	case !utf8.Valid(text):
		return nil, r.refuse(0, "", "The file is not UTF-8 text. Save it as “CSV UTF-8”.")
	}
	// Spreadsheets write a byte order mark.
	r.csv = csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	r.csv.FieldsPerRecord = -1
	if err := r.header(); err != nil {
		return nil, err
	}
	var selections []Selection
	for {
		record, err := r.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if broken := (*csv.ParseError)(nil); errors.As(err, &broken) {
			r.addProblem(broken.StartLine, "", "The quotation marks do not fit. Put a field that has a comma or a quotation mark in quotation marks, and double those inside.")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		if blank(record) {
			continue
		}
		if len(selections) == MaxRows {
			r.addProblem(0, "", "The file has more than %d rows. Split it.", MaxRows)
			break
		}
		at, _ := r.csv.FieldPos(0)
		selections = append(selections, r.selection(at, record))
	}
	if len(selections) == 0 && len(r.problems) == 0 {
		r.addProblem(0, "", "The file has no rows below its header.")
	}
	if len(r.problems) > 0 {
		return nil, &FileError{r.problems}
	}
	return selections, nil
}

// reading is the state of reading a file.
type reading struct {
	csv         *csv.Reader
	columnIndex map[string]int // of the columns
	width       int
	seen        map[string]int // where a customer was named first
	problems    []Problem
}

func (r *reading) addProblem(line int, column, format string, args ...any) {
	r.problems = append(r.problems, Problem{line, column, fmt.Sprintf(format, args...), format, args})
}

func (r *reading) refuse(line int, column, format string, args ...any) error {
	r.addProblem(line, column, format, args...)
	return &FileError{r.problems}
}

// header reads the header line.
func (r *reading) header() error {
	record, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return r.refuse(0, "", "The file is empty. Its first line names the columns: %s.", strings.Join(columns, ","))
	}
	if err != nil {
		return r.refuse(1, "", "It is not CSV. The first line names the columns: %s.", strings.Join(columns, ","))
	}
	r.columnIndex, r.width = map[string]int{}, len(record)
	for i, name := range record {
		name = strings.ToLower(strings.TrimSpace(name))
		_, twice := r.columnIndex[name]
		switch {
		case !slices.Contains(columns, name):
			r.addProblem(1, record[i], "There is no such column. The columns are %s; remove the others.", strings.Join(columns, ", "))
		case twice:
			r.addProblem(1, name, "The column is there twice. Remove one of them.")
		}
		r.columnIndex[name] = i
	}
	_, byID := r.columnIndex[columnSubscriber]
	_, byMobile := r.columnIndex[columnMobile]
	if !byID && !byMobile {
		r.addProblem(1, "", "The first line has to name a column %s or %s.", columnSubscriber, columnMobile)
	}
	if len(r.problems) > 0 {
		return &FileError{r.problems}
	}
	return nil
}

func blank(record []string) bool {
	return !slices.ContainsFunc(record, func(field string) bool { return strings.TrimSpace(field) != "" })
}

// selection reads one line, and records all its problems.
func (r *reading) selection(line int, record []string) Selection {
	w := Selection{Line: line}
	if len(record) != r.width {
		r.addProblem(line, "", "It has %d fields, and the first line has %d. Give every line as many.", len(record), r.width)
		return w
	}
	w.SubscriberID = r.field(line, columnSubscriber, record)
	w.Mobile = r.field(line, columnMobile, record)
	w.PlanID = r.field(line, columnPlan, record)
	if w.SubscriberID == "" && w.Mobile == "" {
		r.addProblem(line, columnSubscriber, "Give a %s or a %s.", columnSubscriber, columnMobile)
	}
	if w.SubscriberID == "" && w.Mobile != "" && !isMobile(w.Mobile) {
		r.addProblem(line, columnMobile, "%q is not a mobile number. Write its ten digits, without +91 and without blanks.", w.Mobile)
	}
	if utf8.RuneCountInString(w.PlanID) > 100 {
		r.addProblem(line, columnPlan, "It has more than 100 characters. Give the plan's id, or leave it empty for the plan that the subscriber has.")
	}
	for _, named := range []struct{ column, value string }{{columnSubscriber, w.SubscriberID}, {columnMobile, w.Mobile}} {
		if named.value == "" {
			continue
		}
		earlier, twice := r.seen[named.column+named.value]
		if twice {
			r.addProblem(line, named.column, "%s is on line %d already. Remove one of the two lines.", named.value, earlier)
			continue
		}
		r.seen[named.column+named.value] = line
	}
	return w
}

// field returns one field of a line, without surrounding blanks.
func (r *reading) field(line int, column string, record []string) string {
	index, found := r.columnIndex[column]
	if !found {
		return ""
	}
	text := strings.TrimSpace(record[index])
	if problem := subscription.Unprintable(text); problem != "" {
		r.addProblem(line, column, "%s Enter it again.", problem)
		return ""
	}
	return text
}

func isMobile(text string) bool {
	return len(text) == 10 && strings.Trim(text, "0123456789") == ""
}
