package bulk_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/subscription"
)

func TestReadFile_AnyColumnOrder(t *testing.T) {
	for name, text := range map[string]string{
		"as listed":                       "subscriber_id,mobile,plan_id\n100001,,BASIC-1\n,9800000002,\n",
		"in another order":                "plan_id,subscriber_id,mobile\nBASIC-1,100001,\n,,9800000002\n",
		"with a mark, CRLF and blanks":    "\ufeffSubscriber_ID , MOBILE,plan_id\r\n 100001 ,,BASIC-1\r\n,9800000002,\r\n",
		"with quotation marks":            "\"subscriber_id\",\"mobile\",\"plan_id\"\n\"100001\",\"\",\"BASIC-1\"\n,9800000002,\n",
		"with empty lines in it":          "subscriber_id,mobile,plan_id\n100001,,BASIC-1\n,9800000002,\n\n,,\n",
		"with semicolons":                 "subscriber_id;mobile;plan_id\n100001;;BASIC-1\n;9800000002;\n",
		"with tabs":                       "subscriber_id\tmobile\tplan_id\n100001\t\tBASIC-1\n\t9800000002\t\n",
		"with titles of people":           "Subscriber ID,Mobile No.,Package\n100001,,BASIC-1\n,+91 98000-00002,\n",
		"without a line's end at its end": "subscriber_id,mobile,plan_id\n100001,,BASIC-1\n,9800000002,",
	} {
		list, err := bulk.ReadFile(strings.NewReader(text), nil)
		got, want := list.Selections, []bulk.Selection{{Line: 2, SubscriberID: "100001", PlanID: "BASIC-1"}, {Line: 3, Mobile: "9800000002"}}
		if err != nil || !slices.Equal(got, want) || len(list.Ignored) > 0 {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	one, err := bulk.ReadFile(strings.NewReader("mobile\n9800000001\n"), nil)
	if err != nil || !slices.Equal(one.Selections, []bulk.Selection{{Line: 2, Mobile: "9800000001"}}) {
		t.Errorf("one column: %+v, %v", one, err)
	}
}

// As Excel and other programs save a list: with columns of its own, and mobiles as numbers.
func TestReadFile_WorkbookWithOtherColumns(t *testing.T) {
	content, err := os.ReadFile("../sheet/testdata/openpyxl.xlsx")
	if err != nil {
		t.Fatal(err)
	}
	list, err := bulk.ReadFile(bytes.NewReader(content), nil)
	want := []bulk.Selection{
		{Line: 2, SubscriberID: "100001", Mobile: "9812345678", PlanID: "BASIC-1"}, {Line: 3, SubscriberID: "100002", Mobile: "9812345679", PlanID: "FAMILY-1"},
		{Line: 5, Mobile: "9812345680"},
	}
	if ignored := []string{"Customer Name", "Expiry", "Amount", "Paid on"}; err != nil || !slices.Equal(list.Selections, want) || !slices.Equal(list.Ignored, ignored) {
		t.Errorf("%+v, %v; want %+v, and %q ignored", list, err, want, ignored)
	}
}

// Each problem names its line and column.
func TestReadFile_ReportsAllProblems(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []string // line/column/part of the text
	}{
		{"nothing", "", []string{"0//empty"}},
		{"only a header", "mobile\n", []string{"0//no rows"}},
		{"no header", "9800000001,BASIC-1\n", []string{"1//has to name"}},
		{"a column twice", "mobile,mobile\n9800000001,9800000001\n", []string{"1/mobile/twice"}},
		{"neither id nor mobile as a column", "plan_id\nBASIC-1\n", []string{"1//subscriber_id or mobile"}},
		{"not UTF-8", "mobile\n98\xff\n", []string{"0//Line 2 is not UTF-8"}},
		{"a workbook that is damaged", "PK\x03\x04", []string{"0//damaged"}},
		{"a number that was rounded", "mobile\n9.81235E+09\n", []string{"2/mobile/has rounded"}},
		{"a mobile twice, written otherwise", "mobile\n+91 98000 00001\n09800000001\n", []string{"3/mobile/9800000001 is on line 2"}},
		{"several lines", "subscriber_id,mobile,plan_id\n,,BASIC-1\n,98,\n100001,,\n100001,,\n1,2\n,9800000001,\"a\"b\n,9800000002,\u202eX\n", []string{
			"2/subscriber_id/Give a subscriber_id or a mobile", "3/mobile/ten digits", "5/subscriber_id/on line 4 already", "6//has 2 fields",
			"7//quotation marks", "8/plan_id/direction",
		}},
		{"a mobile twice", "mobile\n9800000001\n9800000001\n", []string{"3/mobile/on line 2 already"}},
		{"a plan that is too long", "mobile,plan_id\n9800000001," + strings.Repeat("x", 101) + "\n", []string{"2/plan_id/more than 100"}},
	} {
		list, err := bulk.ReadFile(strings.NewReader(row.text), nil)
		selections := list.Selections
		var wrong *bulk.FileError
		if !errors.As(err, &wrong) || selections != nil {
			t.Errorf("%s: %+v, %v; want it refused", row.name, selections, err)
			continue
		}
		if len(wrong.Problems) != len(row.want) {
			t.Errorf("%s: %v; want %d problems", row.name, wrong.Problems, len(row.want))
			continue
		}
		for i, problem := range wrong.Problems {
			parts := strings.SplitN(row.want[i], "/", 3)
			if fmt.Sprint(problem.Line) != parts[0] || problem.Column != parts[1] || !strings.Contains(problem.Text, parts[2]) {
				t.Errorf("%s: problem %d is %+v; want %s", row.name, i+1, problem, row.want[i])
			}
			if !strings.Contains(err.Error(), problem.String()) {
				t.Errorf("%s: %q does not say %q", row.name, err, problem)
			}
		}
	}
}

func TestReadFile_Limits(t *testing.T) {
	var full strings.Builder
	full.WriteString("mobile\n")
	for i := range bulk.MaxRows {
		fmt.Fprintf(&full, "98%08d\n", i)
	}
	if list, err := bulk.ReadFile(strings.NewReader(full.String()), nil); err != nil || len(list.Selections) != bulk.MaxRows {
		t.Errorf("%d rows: %v; want %d", len(list.Selections), err, bulk.MaxRows)
	}
	if _, err := bulk.ReadFile(strings.NewReader(full.String()+"9900000000\n"), nil); err == nil || !strings.Contains(err.Error(), "more than 5000 rows") {
		t.Errorf("one row more: %v; want it refused", err)
	}
	large := "mobile\n9800000001\n" + strings.Repeat("\n", bulk.MaxFile)
	if _, err := bulk.ReadFile(strings.NewReader(large), nil); err == nil || !strings.Contains(err.Error(), "1 MB") {
		t.Errorf("a large file: %v; want it refused", err)
	}
	exact := "mobile\n9800000001\n"
	exact += strings.Repeat("\n", bulk.MaxFile-len(exact))
	if list, err := bulk.ReadFile(strings.NewReader(exact), nil); err != nil || len(list.Selections) != 1 {
		t.Errorf("as large as can be: %d rows, %v; want it read", len(list.Selections), err)
	}
}

// workbook is an XLSX file with the rows of a sheet and a shared text.
func workbook(t *testing.T, rows, shared string) *bytes.Reader {
	t.Helper()
	const namespace = `"http://schemas.openxmlformats.org/package/2006/relationships"`
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, part := range []struct{ name, content string }{
		{"_rels/.rels", `<Relationships xmlns=` + namespace + `><Relationship Id="a" Type="http://x/officeDocument" Target="xl/workbook.xml"/></Relationships>`},
		{"xl/workbook.xml", `<workbook xmlns:r="http://r"><sheets><sheet r:id="b"/></sheets></workbook>`},
		{"xl/_rels/workbook.xml.rels", `<Relationships xmlns=` + namespace + `><Relationship Id="b" Type="http://x/worksheet" Target="s.xml"/>` +
			`<Relationship Id="c" Type="http://x/sharedStrings" Target="t.xml"/></Relationships>`},
		{"xl/s.xml", `<worksheet><sheetData>` + rows + `</sheetData></worksheet>`},
		{"xl/t.xml", `<sst><si><t>` + shared + `</t></si></sst>`},
	} {
		w, err := archive.Create(part.name)
		if err == nil {
			_, err = io.WriteString(w, part.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(out.Bytes())
}

// sheetRow is a row of a workbook; "s" is the shared text.
func sheetRow(cells ...string) string {
	text := "<row>"
	for i, cell := range cells {
		if cell == "s" {
			text += fmt.Sprintf(`<c r="%c1" t="s"><v>0</v></c>`, 'A'+i)
		} else {
			text += fmt.Sprintf(`<c r="%c1" t="str"><v>%s</v></c>`, 'A'+i, cell)
		}
	}
	return text + "</row>"
}

// A note beside or below a list in a workbook has no title. It does not keep the list from being
// read, and is reported. In CSV it may as well be a field too many.
func TestReadFile_CellsBeyondTitles(t *testing.T) {
	rows := sheetRow("mobile", "plan_id") + sheetRow("9800000001", "BASIC-1", "", "paid in cash") + sheetRow("9800000002", "BASIC-1") +
		sheetRow("", "", "2 customers") + sheetRow("9800000003", "", "call him")
	list, err := bulk.ReadFile(workbook(t, rows, ""), nil)
	want := []bulk.Selection{{Line: 2, Mobile: "9800000001", PlanID: "BASIC-1"}, {Line: 3, Mobile: "9800000002", PlanID: "BASIC-1"}, {Line: 5, Mobile: "9800000003"}}
	if err != nil || !slices.Equal(list.Selections, want) || !slices.Equal(list.Beyond, []int{2, 4, 5}) {
		t.Errorf("%+v, %v; want %+v, and lines 2, 4 and 5 with cells that are not used", list, err, want)
	}
	_, err = bulk.ReadFile(strings.NewReader("mobile,plan_id\n9800000001,BASIC-1,paid\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "Line 2: It has 3 fields") {
		t.Errorf("CSV: %v; want it refused", err)
	}
}

// A small file may refer to one long text from every row.
func TestReadFile_SharedTextOfWorkbook(t *testing.T) {
	for _, c := range []struct {
		length, rows int
		want         string
	}{
		{8_000_000, bulk.MaxRows, "more than 32767 characters"},
		{32_000, bulk.MaxRows, "too large when unpacked"},
		{3_000, bulk.MaxRows, "There are 9949 more problems."},
	} {
		file := workbook(t, sheetRow("mobile")+strings.Repeat(sheetRow("s"), c.rows), strings.Repeat("x", c.length))
		list, err := bulk.ReadFile(file, nil)
		if err == nil || list.Selections != nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 10_000 {
			t.Errorf("%d rows of %d characters: %d rows, %.300v; want %q", c.rows, c.length, len(list.Selections), err, c.want)
		}
	}
}

// Exports, and lists that people keep, have the names of plans.
func TestReadFile_PlanNames(t *testing.T) {
	plans := []subscription.Plan{
		{ID: "BASIC-1", Name: "Basic Pack"}, {ID: "SPORTS-1", Name: "Sports"}, {ID: "SPORTS-3", Name: "SPORTS"}, {ID: "Sports", Name: "Old sports"}, {ID: "HINDI-1", Name: "हिंदी प्लान"},
	}
	list, err := bulk.ReadFile(strings.NewReader("Subscriber id,Plan\n1,basic pack\n2,BASIC-1\n3,Sports\n4,हिंदी प्लान\n5,Gone\n6,\n"), plans)
	var got []string
	for _, selection := range list.Selections {
		got = append(got, selection.PlanID)
	}
	if want := []string{"BASIC-1", "BASIC-1", "Sports", "HINDI-1", "Gone", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("plans %q, %v; want %q", got, err, want)
	}
	list, err = bulk.ReadFile(strings.NewReader("Subscriber id,Plan\n1,BASIC-1\n2,sports\n"), plans)
	if want := "Line 3, plan_id: Several plans have the name sports: SPORTS-1, SPORTS-3. Write the id of one of them."; err == nil || err.Error() != want {
		t.Errorf("an ambiguous name: %+v, %v; want %s", list, err, want)
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add("subscriber_id,mobile,plan_id\n100001,,BASIC-1\n")
	f.Add("\ufeffmobile\r\n\"98\n\"\"")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := bulk.ReadFile(strings.NewReader(text), nil)
		selections := list.Selections
		var wrong *bulk.FileError
		switch {
		case err == nil && len(selections) == 0, err != nil && !errors.As(err, &wrong), wrong != nil && len(wrong.Problems) == 0:
			t.Errorf("%d selections, %v", len(selections), err)
		}
		for _, selection := range selections {
			if selection.Line < 2 || selection.SubscriberID == "" && selection.Mobile == "" {
				t.Errorf("selection %+v", selection)
			}
		}
	})
}
