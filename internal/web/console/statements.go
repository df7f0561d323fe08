package console

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bankstatement"
	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

const (
	// maxStatementForm is the size limit of a form with a statement. One that is too large for
	// a statement and not for the form gets a page that says so.
	maxStatementForm = 4 * bankstatement.MaxBytes
	// previewRows is how many rows are shown beside the choice of columns.
	previewRows = 5
)

// uploadStatement takes a file. If its header line is known, its credits are stored; otherwise
// its columns are asked for.
func (c console) uploadStatement(v *web.Visit) error {
	f := newForm(v, "upload")
	file, header, err := v.R.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		f.wrong("file", v.T("Choose a file first."))
		return c.paymentsPage(v, f, nil)
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	// One byte more than is allowed: a file that is too large is refused with the others.
	content, err := io.ReadAll(io.LimitReader(file, bankstatement.MaxBytes+1))
	if err != nil {
		return err
	}
	table, err := readTable(content)
	if err != nil {
		return c.refusedFile(v, f, err)
	}
	page := columnsPage{Form: f, Name: header.Filename, table: table, Columns: table.Guess, content: content}
	stored, err := c.service(v).BankColumns(v.Context(), table.Key())
	if err != nil {
		return err
	}
	if stored == "" || v.Field("choose") == "yes" {
		return page.show(v, nil)
	}
	if page.Columns, err = bankstatement.ReadColumns(stored); err != nil {
		return err
	}
	return c.importStatement(v, page)
}

func readTable(content []byte) (bankstatement.Table, error) {
	rows, err := bankstatement.ReadRows(bytes.NewReader(content))
	if err != nil {
		return bankstatement.Table{}, err
	}
	return bankstatement.Find(rows)
}

// chooseColumns takes the columns of a file that the form brings along.
func (c console) chooseColumns(v *web.Visit) error {
	f := newForm(v, "columns")
	content, err := base64.RawURLEncoding.DecodeString(v.R.PostForm.Get("content"))
	if err != nil || len(content) == 0 {
		f.Problem = v.T("Choose a file first.")
		return c.paymentsPage(v, f, nil)
	}
	table, err := readTable(content)
	if err != nil {
		return c.refusedFile(v, f, err)
	}
	page := columnsPage{Form: f, Name: v.Field("name"), table: table, Columns: bankstatement.NoColumns, content: content}
	for _, choice := range page.Choices() {
		if n, err := strconv.Atoi(v.Field(choice.Name)); err == nil && n >= 0 && n < len(table.Titles) {
			*page.column(choice.Name) = n
		}
	}
	return c.importStatement(v, page)
}

// refusedFile shows what is wrong with a file.
func (c console) refusedFile(v *web.Visit, f *form, err error) error {
	problems := fileProblems(v, err)
	if problems == nil {
		return err
	}
	return c.paymentsPage(v, f, problems)
}

// fileProblems returns the problems of a refused file, in the visitor's language; nil for any
// other error.
func fileProblems(v *web.Visit, err error) (problems []fileProblem) {
	var refused *bankstatement.Error
	if errors.As(err, &refused) {
		for _, p := range refused.Problems {
			problems = append(problems, fileProblem{p.Line, v.T(p.Form, p.Args...)})
		}
	}
	return problems
}

// importStatement stores the credits of a statement and shows what they match.
func (c console) importStatement(v *web.Visit, page columnsPage) error {
	read, err := page.table.Read(page.Columns)
	if problems := fileProblems(v, err); problems != nil {
		return page.show(v, problems)
	}
	if err != nil {
		return err
	}
	parsed := admin.ParsedStatement{
		FileName: fileTitle(page.Name), Header: page.table.Key(), Columns: page.Columns.JSON(), Debits: read.Debits, Skipped: read.Skipped,
	}
	for _, line := range read.Lines {
		parsed.Lines = append(parsed.Lines, admin.BankLine{PaidOn: line.On, Amount: line.Amount, Narration: line.Narration, Reference: line.Reference})
	}
	stored, known, err := c.service(v).ImportStatement(lasting(v), parsed)
	if err != nil {
		if err := page.Form.refused(err); err != nil {
			return err
		}
		return page.show(v, nil)
	}
	notice := v.Success("Uploaded. Nothing is credited yet: look at the lines and choose.")
	if known {
		notice = v.Info("Every credit of this file was uploaded before. Nothing was added.")
	}
	return v.Redirect(statementURL(stored.ID), notice)
}

// fileTitle is a file's name without what a page cannot show.
func fileTitle(name string) string {
	if name = strings.TrimSpace(name); name == "" || subscription.Unprintable(name) != "" {
		return "CSV"
	}
	return name
}

// columnsPage asks which column of a statement is which.
type columnsPage struct {
	Form    *form
	Name    string
	Columns bankstatement.Columns
	table   bankstatement.Table
	content []byte // the file

	Problems []fileProblem
}

// columnChoice is one question of the page.
type columnChoice struct {
	Name, Label string // Label is English
	Value       int
}

// Choices are the questions, with their present answers.
func (p *columnsPage) Choices() []columnChoice {
	c := p.Columns
	return []columnChoice{
		{"date", look.Text("Date"), c.Date},
		{"narration", look.Text("Narration"), c.Narration},
		{"reference", look.Text("Reference or UTR"), c.Reference},
		{"credit", look.Text("Credits (deposits)"), c.Credit},
		{"amount", look.Text("All amounts, if there is no column of credits"), c.Amount},
		{"side", look.Text("Cr or Dr, beside all amounts"), c.Side},
	}
}

// column returns where the answer to a question is kept.
func (p *columnsPage) column(name string) *int {
	return map[string]*int{
		"date": &p.Columns.Date, "narration": &p.Columns.Narration, "reference": &p.Columns.Reference,
		"credit": &p.Columns.Credit, "amount": &p.Columns.Amount, "side": &p.Columns.Side,
	}[name]
}

// Titles are the columns to choose from.
func (p *columnsPage) Titles(none string) []look.Choice {
	choices := []look.Choice{{Value: "-1", Text: none}}
	for i, title := range p.table.Titles {
		if title = strings.TrimSpace(title); title == "" {
			title = strconv.Itoa(i + 1)
		}
		choices = append(choices, look.Choice{Value: strconv.Itoa(i), Text: title})
	}
	return choices
}

// Head and Preview are the table's first rows.
func (p *columnsPage) Head() []string { return p.table.Titles }
func (p *columnsPage) Preview() (rows [][]string) {
	for _, row := range p.table.Rows[:min(len(p.table.Rows), previewRows)] {
		cells := make([]string, len(p.table.Titles))
		copy(cells, row.Cells)
		rows = append(rows, cells)
	}
	return rows
}

// Content is the file, which the form brings back: it is read again as it was uploaded.
func (p *columnsPage) Content() string { return base64.RawURLEncoding.EncodeToString(p.content) }

func (p *columnsPage) show(v *web.Visit, problems []fileProblem) error {
	if p.Problems = problems; len(problems) > 0 || !p.Form.ok() {
		return again(v, "console/payment-columns", p)
	}
	return v.Show("console/payment-columns", p)
}

func statementURL(id int64) string { return statementsPath + "/" + strconv.FormatInt(id, 10) }

// bankLine is a line of a statement as it is shown.
type bankLine struct {
	admin.BankLine
	State        admin.LineKind
	OperatorName string // of its announcement, or of the wallet it was credited to
	OperatorID   int64
	// Ticked: it is chosen to be credited.
	Ticked bool
}

// Path is the URL of the line's page.
func (l bankLine) Path() string { return statementURL(l.Statement) + "/" + strconv.Itoa(l.Number) }

// ByOtherReference reports whether it was credited under its announcement's reference.
func (l bankLine) ByOtherReference() bool {
	return admin.NormaliseReference(l.CreditedUnder) != admin.NormaliseReference(l.Reference)
}

// OperatorPath is the prefix of its operator's pages.
func (l bankLine) OperatorPath() string { return operatorPath(l.OperatorID) }

// AnnouncementPath is the URL of its announcement's page.
func (l bankLine) AnnouncementPath() string { return announced{Announcement: l.Announcement}.Path() }

func (c console) shownLines(v *web.Visit, lines []admin.BankLine, names map[int64]string) (shown []bankLine) {
	for _, line := range lines {
		l := bankLine{BankLine: line, State: line.Kind(v.Now), OperatorID: line.Announcement.OperatorID}
		if l.OperatorID == 0 {
			l.OperatorID = line.CreditedTo
		}
		l.OperatorName = names[l.OperatorID]
		shown = append(shown, l)
	}
	return shown
}

// statementPageData is a statement with those of its lines that are of one kind.
type statementPageData struct {
	admin.BankStatement
	Form  *form
	Kinds []lineGroup
	Kind  admin.LineKind
	Rows  []bankLine
	Pager web.Pager
	// Failed are lines that were to be credited and were refused.
	Failed []failedLine
	rights
}

// Choosable reports whether the lines of the kind can be credited from the page.
func (s statementPageData) Choosable() bool {
	return (s.Kind == admin.ExactLine || s.Kind == admin.DifferentLine) && s.May(string(admin.WalletTopUp))
}

// Path is the URL of the page.
func (s statementPageData) Path() string { return statementURL(s.ID) }

// lineGroup counts the lines of a kind.
type lineGroup struct {
	Kind  admin.LineKind
	Name  string // English
	Count int
}

// failedLine is a line with the reason why it was not credited, in the visitor's language.
type failedLine struct {
	bankLine
	Why string
}

func (c console) showStatement(v *web.Visit) error {
	return c.statementPage(v, newForm(v, ""), nil)
}

func (c console) statementPage(v *web.Visit, f *form, failed []failedLine) error {
	statement, lines, err := c.statement(v)
	if err != nil {
		return err
	}
	data := statementPageData{BankStatement: statement, Form: f, Failed: failed, rights: rightsOf(v), Kind: admin.LineKind(v.FormValue("kind", v.Query("kind")))}
	counts := map[admin.LineKind]int{}
	for _, line := range lines {
		counts[line.State]++
	}
	first := admin.LineKind("")
	for _, kind := range []admin.LineKind{admin.ExactLine, admin.DifferentLine, admin.UnmatchedLine, admin.WaitingLine, admin.DoneLine} {
		if counts[kind] == 0 && kind != data.Kind {
			continue
		}
		if first == "" {
			first = kind
		}
		name, _ := look.StateText(string(kind))
		data.Kinds = append(data.Kinds, lineGroup{kind, name, counts[kind]})
	}
	if _, known := look.StateText(string(data.Kind)); !known {
		data.Kind = first
	}
	// Those that fit are chosen, unless a form says otherwise.
	chosen := chosenLines(v)
	after, _ := strconv.Atoi(v.Query("after"))
	next := ""
	for _, line := range lines {
		if line.State != data.Kind {
			continue
		}
		switch {
		case line.Number <= after:
		case len(data.Rows) == web.PageRows:
			next = strconv.Itoa(data.Rows[web.PageRows-1].Number)
		default:
			shown, ticked := chosen[line.Number]
			line.Ticked = ticked && shown == line.Announcement.ID || chosen == nil && line.State == admin.ExactLine
			data.Rows = append(data.Rows, line)
		}
	}
	data.Pager = v.Pager(next)
	if len(failed) > 0 || !f.ok() {
		return again(v, "console/statement", data)
	}
	return v.Show("console/statement", data)
}

// statement reads the statement in the path with its lines.
func (c console) statement(v *web.Visit) (admin.BankStatement, []bankLine, error) {
	id, err := pathID(v, "id")
	if err != nil {
		return admin.BankStatement{}, nil, err
	}
	statement, lines, err := c.service(v).BankStatement(v.Context(), id)
	if err != nil {
		return statement, nil, orNotFound(err)
	}
	names, err := c.operatorNames(v)
	return statement, c.shownLines(v, lines, names), err
}

// Choice is the value of the line's tick: its number and the announcement that is shown.
func (l bankLine) Choice() string { return fmt.Sprintf("%d-%d", l.Number, l.Announcement.ID) }

// chosenLines are the numbers of the ticked lines, with the announcements that were shown; nil
// if no form was sent.
func chosenLines(v *web.Visit) map[int]int64 {
	values := v.FormValues("line")
	if values == nil && v.R.Method != http.MethodPost {
		return nil
	}
	chosen := map[int]int64{}
	for _, value := range values {
		number, announcement, _ := strings.Cut(value, "-")
		n, err := strconv.Atoi(number)
		id, wrong := strconv.ParseInt(announcement, 10, 64)
		if err == nil && wrong == nil && id > 0 {
			chosen[n] = id
		}
	}
	return chosen
}

// creditPage asks once more before lines are credited.
type creditPage struct {
	admin.BankStatement
	Rows []bankLine
	Sum  money.Amount
	Kind string
}

// Path is the URL of the statement's page.
func (p creditPage) Path() string { return statementURL(p.ID) }

// creditLines credits the chosen lines that match an announcement. Without the confirmation
// it only shows them.
func (c console) creditLines(v *web.Visit) error {
	statement, lines, err := c.statement(v)
	if err != nil {
		return err
	}
	f := newForm(v, "credit")
	chosen := chosenLines(v)
	page := creditPage{BankStatement: statement, Kind: v.Field("kind")}
	var failed []failedLine
	for _, line := range lines {
		shown, ticked := chosen[line.Number]
		if !ticked || line.State == admin.DoneLine || line.State == admin.WaitingLine {
			continue
		}
		if err := line.CheckShown(shown); err != nil {
			failed = append(failed, failedLine{line, told(v, err)})
			continue
		}
		page.Rows, page.Sum = append(page.Rows, line), page.Sum.Add(line.Amount)
	}
	switch {
	case v.Field("step") == editStep:
		return c.statementPage(v, f, nil)
	case len(page.Rows)+len(failed) == 0:
		f.Problem = v.T("Choose the lines to credit first. What is credited already is left alone.")
		return c.statementPage(v, f, nil)
	case v.Field("step") != confirmStep && len(failed) > 0:
		return c.statementPage(v, f, failed)
	case v.Field("step") != confirmStep:
		return v.Show("console/statement-confirm", page)
	}
	results, err := c.service(v).CreditLines(lasting(v), statement.ID, chosen)
	if err != nil {
		return err
	}
	var credited, waiting int
	var sum, waits money.Amount
	failed = nil
	for _, r := range results {
		switch {
		case r.Refusal != nil:
			failed = append(failed, failedLine{c.shownLines(v, []admin.BankLine{r.Line}, nil)[0], told(v, r.Refusal)})
		case r.Waits():
			waiting, waits = waiting+1, waits.Add(r.Line.Amount)
		case !r.Already:
			credited, sum = credited+1, sum.Add(r.Line.Amount)
		}
	}
	if len(failed) > 0 {
		return c.statementPage(v, f, failed)
	}
	notice := v.Success("%s credited, %s in all.", look.Count(int64(credited)), look.Rupees(sum))
	if waiting > 0 {
		notice = v.Info("%s credited, %s in all. %s more need a second approval, %s in all.", look.Count(int64(credited)), look.Rupees(sum), look.Count(int64(waiting)), look.Rupees(waits))
	}
	return v.Redirect(statementURL(statement.ID), notice)
}

// linePage is a line that nobody announced, to be credited by hand.
type linePage struct {
	bankLine
	Operators []look.Choice
	// Credited are payments that the line names and that were credited without it.
	Credited []admin.FoundPayment
	rights
}

// showLine shows a line. With an operator it goes on to the form of a top-up, filled in.
func (c console) showLine(v *web.Visit) error {
	_, lines, err := c.statement(v)
	if err != nil {
		return err
	}
	number, err := pathID(v, "line")
	if err != nil {
		return err
	}
	for _, line := range lines {
		if int64(line.Number) != number {
			continue
		}
		if id, err := strconv.ParseInt(v.Query("operator"), 10, 64); err == nil && id > 0 {
			return v.Redirect(topUpPath(id, line.Amount, line.Reference), nil)
		}
		data := linePage{bankLine: line, rights: rightsOf(v), Operators: []look.Choice{{Value: "", Text: v.T("Choose the operator")}}}
		all, err := c.Operators.Operators(v.Context())
		if err != nil {
			return err
		}
		if line.State == admin.UnmatchedLine {
			if data.Credited, err = c.service(v).CreditedInLine(v.Context(), line.BankLine); err != nil {
				return err
			}
		}
		for _, operator := range all {
			if operator.Status != subscription.OperatorDeleted {
				data.Operators = append(data.Operators, look.Choice{Value: strconv.FormatInt(operator.ID, 10), Text: operator.Name})
			}
		}
		return v.Show("console/payment-line", data)
	}
	return web.NotFound()
}
