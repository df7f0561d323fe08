package bulk

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/sheet"
	"github.com/coaxhq/coax/internal/subscription"
)

// MaxFile is how many bytes a file may have.
const MaxFile = 1 << 20

const (
	// maxProblems bounds the problems of a file that are listed.
	maxProblems = 50
	// maxQuoted is how many characters of a cell a problem quotes.
	maxQuoted = 60
)

// The columns of a file, in any order.
const (
	columnSubscriber = "subscriber_id"
	columnMobile     = "mobile"
	columnPlan       = "plan_id"
)

var columns = []string{columnSubscriber, columnMobile, columnPlan}

// headings are the columns with other titles that they have in exports and in lists that
// people keep.
var headings = []sheet.Heading{
	{Name: columnSubscriber, Also: []string{"Subscriber number", "Subscriber No", "Subscriber", "Customer ID", "ग्राहक आईडी"}},
	{Name: columnMobile, Also: []string{"Mobile number", "Mobile No", "Registered mobile", "Phone", "Phone number", "Phone No", "मोबाइल", "मोबाइल नंबर"}},
	{Name: columnPlan, Also: []string{"Plan", "Plan code", "Package", "Pack", "प्लान"}},
}

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

// List is what a file asks for.
type List struct {
	Selections []Selection
	// Ignored are the titles of the file's columns that are not used.
	Ignored []string
	// Beyond are the lines of a workbook with cells beyond the last title, which are not used.
	Beyond []int
}

// ReadFile reads a list of renewals, as CSV or XLSX. It may name one of the plans by its name
// instead of its id. For an invalid file it returns a FileError with all problems.
func ReadFile(file io.Reader, plans []subscription.Plan) (List, error) {
	r := reading{seen: map[string]int{}, plans: plans}
	rows, err := sheet.Read(file, sheet.Limits{Bytes: MaxFile, Rows: MaxRows})
	var unreadable *sheet.Unreadable
	if errors.As(err, &unreadable) {
		return List{}, r.refuse(0, "", unreadable.Form, unreadable.Args...)
	}
	if err != nil {
		return List{}, err
	}
	if len(rows) == 0 {
		return List{}, r.refuse(0, "", "The file is empty. Its first line names the columns: %s.", strings.Join(columns, ","))
	}
	if err := r.header(rows[0]); err != nil {
		return List{}, err
	}
	list := List{Ignored: r.columns.Ignored}
	for _, row := range rows[1:] {
		if row.Broken {
			r.addProblem(row.Line, "", "The quotation marks do not fit. Put a field that has a comma or a quotation mark in quotation marks, and double those inside.")
			continue
		}
		if width := r.columns.Width(); row.Workbook && len(row.Cells) > width {
			list.Beyond, row.Cells = append(list.Beyond, row.Line), row.Cells[:width]
			if !slices.ContainsFunc(row.Cells, func(cell string) bool { return cell != "" }) {
				continue // a note below the list
			}
		}
		list.Selections = append(list.Selections, r.selection(row))
	}
	if len(list.Selections) == 0 && len(r.problems) == 0 {
		r.addProblem(0, "", "The file has no rows below its header.")
	}
	if r.unlisted > 0 {
		r.problems = append(r.problems, problem(0, "", "There are %d more problems.", r.unlisted))
	}
	if len(r.problems) > 0 {
		return List{}, &FileError{r.problems}
	}
	return list, nil
}

// reading is the state of reading a file.
type reading struct {
	columns  sheet.Columns
	plans    []subscription.Plan
	seen     map[string]int // where a customer was named first
	problems []Problem
	unlisted int // problems beyond maxProblems
}

func (r *reading) addProblem(line int, column, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.unlisted++
		return
	}
	r.problems = append(r.problems, problem(line, column, format, args...))
}

func problem(line int, column, format string, args ...any) Problem {
	for i, arg := range args {
		if text, is := arg.(string); is && utf8.RuneCountInString(text) > maxQuoted {
			args[i] = string([]rune(text)[:maxQuoted]) + "…"
		}
	}
	return Problem{line, column, fmt.Sprintf(format, args...), format, args}
}

func (r *reading) refuse(line int, column, format string, args ...any) error {
	r.addProblem(line, column, format, args...)
	return &FileError{r.problems}
}

// header reads the first line.
func (r *reading) header(titles sheet.Row) error {
	if titles.Broken {
		return r.refuse(1, "", "It is not CSV. The first line names the columns: %s.", strings.Join(columns, ","))
	}
	r.columns = sheet.FindColumns(titles.Cells, headings...)
	for _, name := range r.columns.Twice {
		r.addProblem(titles.Line, name, "The column is there twice. Remove one of them.")
	}
	if !r.columns.Has(columnSubscriber) && !r.columns.Has(columnMobile) {
		r.addProblem(titles.Line, "", "The first line has to name a column %s or %s.", columnSubscriber, columnMobile)
	}
	if len(r.problems) > 0 {
		return &FileError{r.problems}
	}
	return nil
}

// selection reads one line, and records all its problems.
func (r *reading) selection(row sheet.Row) Selection {
	line := row.Line
	w := Selection{Line: line}
	if len(row.Cells) != r.columns.Width() {
		r.addProblem(line, "", "It has %d fields, and the first line has %d. Give every line as many.", len(row.Cells), r.columns.Width())
		return w
	}
	w.SubscriberID = r.field(row, columnSubscriber)
	w.Mobile = r.field(row, columnMobile)
	w.PlanID = r.field(row, columnPlan)
	if w.SubscriberID == "" && w.Mobile == "" {
		r.addProblem(line, columnSubscriber, "Give a %s or a %s.", columnSubscriber, columnMobile)
	}
	if mobile, ok := subscription.ReadMobile(w.Mobile); ok {
		w.Mobile = mobile
	} else if w.SubscriberID == "" && w.Mobile != "" {
		form := "%q is not a mobile number. Write its ten digits."
		if rounded.MatchString(w.Mobile) {
			form = "%q is a number that the spreadsheet has rounded. Upload the list as XLSX, or give the column the format “Text”."
		}
		r.addProblem(line, columnMobile, form, w.Mobile)
	}
	if utf8.RuneCountInString(w.PlanID) > 100 {
		r.addProblem(line, columnPlan, "It has more than 100 characters. Give the plan's id, or leave it empty for the plan that the subscriber has.")
	} else {
		w.PlanID = r.planID(line, w.PlanID)
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

// planID returns the id of the plan that a cell means: exports and the lists that people keep have
// names. What means none is kept, and refused when the row is checked.
func (r *reading) planID(line int, text string) string {
	var named []string
	for _, plan := range r.plans {
		switch {
		case plan.ID == text:
			return text
		case strings.EqualFold(plan.Name, text):
			named = append(named, plan.ID)
		}
	}
	switch len(named) {
	case 0:
		return text
	case 1:
		return named[0]
	}
	r.addProblem(line, columnPlan, "Several plans have the name %s: %s. Write the id of one of them.", text, strings.Join(named, ", "))
	return ""
}

// rounded is how spreadsheets write large numbers to CSV, without most of their digits.
var rounded = regexp.MustCompile(`^[0-9](\.[0-9]+)?[eE]\+?[0-9]+$`)

// field returns one field of a line.
func (r *reading) field(row sheet.Row, column string) string {
	text := r.columns.Cell(row, column)
	if problem := subscription.Unprintable(text); problem != "" {
		r.addProblem(row.Line, column, "%s Enter it again.", problem)
		return ""
	}
	return text
}
