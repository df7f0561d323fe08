package sheet_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/coaxhq/coax/internal/sheet"
)

var limits = sheet.Limits{Bytes: 1 << 20, Rows: 100}

// utf16le is a text as Excel saves “Unicode text”.
func utf16le(text string) string {
	raw := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		raw = append(raw, byte(unit), byte(unit>>8))
	}
	return string(raw)
}

func utf16be(text string) string {
	raw := []byte{0xfe, 0xff}
	for _, unit := range utf16.Encode([]rune(text)) {
		raw = append(raw, byte(unit>>8), byte(unit))
	}
	return string(raw)
}

func TestRead_EveryFormOfCSV(t *testing.T) {
	const text = "Name,Mobile\r\n\"Rao, Ben\",98\r\n\r\n आशा ,\" 99\"\r\n"
	for name, content := range map[string]string{
		"commas":                 text,
		"a byte order mark":      "\ufeff" + text,
		"line feeds":             strings.ReplaceAll(text, "\r", ""),
		"semicolons":             strings.NewReplacer("Name,", "Name;", "\",", "\";", " ,", " ;").Replace(text),
		"tabs":                   "Name\tMobile\nRao, Ben\t98\n\nआशा\t99\n",
		"UTF-16 of a PC":         utf16le("Name\tMobile\r\nRao, Ben\t98\r\n\r\nआशा\t99\r\n"),
		"UTF-16 of a Mac":        utf16be("Name\tMobile\r\nRao, Ben\t98\r\n\r\nआशा\t99\r\n"),
		"empty cells at the end": "Name,Mobile,,\n\"Rao, Ben\",98,,\n,,,\nआशा,99,,\n",
		"no line feed at last":   strings.TrimSuffix(text, "\r\n"),
		"empty columns":          "Name,Mobile\n\"Rao, Ben\",98,,,\n\nआशा,99\n",
	} {
		rows, err := sheet.Read(strings.NewReader(content), limits)
		var got [][]string
		for _, row := range rows {
			got = append(got, row.Cells[:2])
		}
		if want := [][]string{{"Name", "Mobile"}, {"Rao, Ben", "98"}, {"आशा", "99"}}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		} else if lines := []int{rows[0].Line, rows[1].Line, rows[2].Line}; !slices.Equal(lines, []int{1, 2, 4}) {
			t.Errorf("%s: lines %v; want 1, 2, 4", name, lines)
		}
	}
}

func TestRead_DelimiterComesFromTheFirstLine(t *testing.T) {
	for content, want := range map[string][]string{
		"a;b\n1,2;3\n":         {"1,2", "3"},
		"\"a,b,c\";d\n1;2\n":   {"1", "2"},
		"mobile\n98;99\n":      {"98", "99"}, // the first line has none
		"mobile\n98\n":         {"98"},
		"sep=;\na;b,c\n1;2\n":  {"1", "2"},
		"SEP=,\r\na,b\r\n1,2":  {"1", "2"},
		"a\tb, c, d\n1\t2\n":   {"1\t2"}, // most of the first line
		"\n\n  \na;b\n1;2,3\n": {"1", "2,3"},
	} {
		rows, err := sheet.Read(strings.NewReader(content), limits)
		if err != nil || len(rows) != 2 || !slices.Equal(rows[1].Cells, want) {
			t.Errorf("%q: %+v, %v; want %q", content, rows, err, want)
		}
	}
}

func TestRead_BrokenQuotationMarks(t *testing.T) {
	rows, err := sheet.Read(strings.NewReader("a,b\n1,\"2\"x\n3,4\n5,\"6\n"), limits)
	if err != nil || len(rows) != 4 || rows[1].Line != 2 || !rows[1].Broken || rows[2].Broken || rows[3].Line != 4 || !rows[3].Broken {
		t.Errorf("%+v, %v; want lines 2 and 4 broken", rows, err)
	}
}

// The workbooks were written by LibreOffice 7.4, openpyxl 3.0 and XlsxWriter 3.0. The last one
// has a hidden sheet in front, days since 1904, a formula, shared and rich strings, and its
// titles in row 3.
func TestRead_Workbooks(t *testing.T) {
	want := [][]string{
		{"Customer Name", "Subscriber ID", "Mobile No.", "Plan", "Expiry", "Amount", "Paid on"},
		{"आशा शर्मा", "100001", "9812345678", "BASIC-1", "2027-03-31", "199", "2027-03-01 09:30:00"},
		{"Rao, \"Ben\" & sons", "100002", "9812345679", "FAMILY-1", "2027-02-28", "1234.5", "2027-03-02"},
		{"O'Neil", "", "+91 98123-45680", "", "2028-02-29", "0.3", ""},
	}
	for name, first := range map[string]int{"libreoffice.xlsx": 1, "openpyxl.xlsx": 1, "xlsxwriter.xlsx": 3} {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := sheet.Read(bytes.NewReader(content), limits)
		if err != nil || len(rows) != len(want) {
			t.Errorf("%s: %+v, %v; want %d rows", name, rows, err, len(want))
			continue
		}
		for i, row := range rows {
			line := first + i
			if i == 3 {
				line++ // behind a blank row
			}
			if !slices.Equal(row.Cells, want[i]) || row.Line != line {
				t.Errorf("%s: row %d is %q; want %d: %q", name, row.Line, row.Cells, line, want[i])
			}
		}
	}
}

// part is a part of a workbook.
type part struct{ name, content string }

const relationsHead = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`

// book is a workbook with one sheet.
func book(sheetData string, more ...part) []part {
	return append([]part{
		{"_rels/.rels", relationsHead + `<Relationship Id="a" Type="http://x/officeDocument" Target="xl/workbook.xml"/></Relationships>`},
		{"xl/workbook.xml", `<workbook xmlns:r="http://r"><sheets><sheet name="S" sheetId="1" r:id="b"/></sheets></workbook>`},
		{"xl/_rels/workbook.xml.rels", relationsHead + `<Relationship Id="b" Type="http://x/worksheet" Target="/xl/s.xml"/>` +
			`<Relationship Id="c" Type="http://x/sharedStrings" Target="t.xml"/></Relationships>`},
		{"xl/s.xml", `<worksheet><sheetData>` + sheetData + `</sheetData></worksheet>`},
		{"xl/t.xml", `<sst><si><t>shared</t></si></sst>`},
	}, more...)
}

func packed(t testing.TB, parts []part) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, p := range parts {
		w, err := archive.Create(p.name)
		if err == nil {
			_, err = io.WriteString(w, p.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRead_CellsOfAWorkbook(t *testing.T) {
	for cell, want := range map[string]string{
		`<c><v>9812345678</v></c>`:                   "9812345678",
		`<c t="n"><v>9.812345678E9</v></c>`:          "9812345678",
		`<c><v>199.00000000000003</v></c>`:           "199",
		`<c><v>-0.5</v></c>`:                         "-0.5",
		`<c><v>1E-3</v></c>`:                         "0.001",
		`<c t="s"><v>0</v></c>`:                      "shared",
		`<c t="str"><f>A1</f><v> made </v></c>`:      "made",
		`<c t="inlineStr"><is><t>plain</t></is></c>`: "plain",
		`<c t="inlineStr"><is><r><t>a</t></r><r><t>b</t></r><rPh><t>no</t></rPh></is></c>`: "ab",
		`<c t="inlineStr"><is><t>a_x0041_b_x005F_x0041_</t></is></c>`:                      "aAb_x0041_",
		`<c t="b"><v>1</v></c>`:                               "TRUE",
		`<c t="e"><v>#N/A</v></c>`:                            "#N/A",
		`<c t="d"><v>2027-03-01</v></c>`:                      "2027-03-01",
		`<c r="C1"/><c r="B1" s="7"><v>5</v></c><c r="ZZ9"/>`: "\x005",
	} {
		rows, err := sheet.Read(bytes.NewReader(packed(t, book(`<row>`+cell+`</row>`))), limits)
		if err != nil || len(rows) != 1 || strings.Join(rows[0].Cells, "\x00") != want {
			t.Errorf("%s: %+v, %v; want %q", cell, rows, err, want)
		}
	}
}

func TestRead_RefusalsSayHowToMend(t *testing.T) {
	file := func(name string) string {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	made := func(parts []part) string { return string(packed(t, parts)) }
	locked := []byte(made(book("")))
	for i := bytes.Index(locked, []byte("PK\x01\x02")); i < len(locked); {
		locked[i+8] |= 1 // the flag of encryption, in the archive's directory
		next := bytes.Index(locked[i+1:], []byte("PK\x01\x02"))
		if next < 0 {
			break
		}
		i += 1 + next
	}
	many := book("")
	for i := range 1000 {
		many = append(many, part{fmt.Sprint("x", i), ""})
	}
	for _, row := range []struct{ name, content, want string }{
		{"an old workbook", file("old.xls"), ".xls"},
		{"a workbook with a password", file("old.xls")[:512] + string(bytes.TrimPrefix([]byte(utf16le("EncryptedPackage")), []byte{0xff, 0xfe})), "password"},
		{"an archive with a password", string(locked), "password"},
		{"an OpenDocument file", file("list.ods"), "OpenDocument"},
		{"a binary workbook", made([]part{{"_rels/.rels", relationsHead + `<Relationship Id="a" Type="http://x/officeDocument" Target="xl/workbook.bin"/></Relationships>`}}), ".xlsb"},
		{"a letter", made([]part{{"_rels/.rels", relationsHead + `<Relationship Id="a" Type="http://x/officeDocument" Target="word/document.xml"/></Relationships>`}, {"word/document.xml", "<w/>"}}), "no workbook"},
		{"an archive of something else", made([]part{{"a.txt", "x"}}), "no workbook"},
		{"a web page", "\n<html><table><tr><td>mobile</td></tr></table></html>", "web page"},
		{"a picture", "\x89PNG\r\n\x1a\n\x00\x00", "neither a workbook nor text"},
		{"UTF-16 without its mark", utf16le("mobile\n98\n")[2:], "neither a workbook nor text"},
		{"Latin-1", "name\nBen\nJos\xe9\n", "Line 3 is not UTF-8"},
		{"a text that is too large", strings.Repeat("x", 1<<20+1), "larger than 1 MB"},
		{"too many rows of text", strings.Repeat("1\n", 102), "more than 100 rows"},
		{"too many rows", made(book(strings.Repeat(`<row><c><v>1</v></c></row>`, 102))), "more than 100 rows"},
		{"too many columns", made(book(`<row><c r="IW1"><v>1</v></c></row>`)), "more than 256 columns"},
		{"too many cells", made(book(`<row>` + strings.Repeat(`<c/>`, 64*101+1) + `</row>`)), "too large when unpacked"},
		{"too many shared strings", made(book("", part{"xl/t.xml", `<sst>` + strings.Repeat(`<si/>`, 101*256+2) + `</sst>`})), "too large when unpacked"},
		{"too many parts", made(many), "too large when unpacked"},
		{"a bomb", made(book(strings.Repeat(`<row></row>`, 100_000))), "too large when unpacked"},
		{"a bomb of text", made(book(`<row><c t="str"><v>` + strings.Repeat("9", 1<<20) + `</v></c></row>`)), "too large when unpacked"},
		{"a bomb of shared text", made(book(strings.Repeat(`<row><c t="s"><v>0</v></c></row>`, 100), part{"xl/t.xml", `<sst><si><t>` + strings.Repeat("x", 32_767) + `</t></si></sst>`})), "too large when unpacked"},
		{"a cell that is too long", made(book(`<row/><row><c t="s"><v>0</v></c></row>`, part{"xl/t.xml", `<sst><si><t>` + strings.Repeat("ग", 32_768) + `</t></si></sst>`})), "A cell of row 2 has more than 32767 characters"},
		{"half a workbook", made(book(""))[:200], "damaged"},
		{"a workbook without its sheet", made(book("")[:3]), "damaged"},
		{"XML that does not end", made(book(`<row><c><v>1</v>`)), "damaged"},
		{"a shared string that is not there", made(book(`<row><c t="s"><v>1</v></c></row>`)), "damaged"},
		{"a negative shared string", made(book(`<row><c t="s"><v>-1</v></c></row>`)), "damaged"},
		{"a number that is none", made(book(`<row><c><v>many</v></c></row>`)), "damaged"},
		{"a place that is none", made(book(`<row><c r="1A"><v>1</v></c></row>`)), "damaged"},
		{"no visible sheet", made(append(book(""), part{"xl/workbook.xml", `<workbook xmlns:r="http://r"><sheets><sheet state="hidden" r:id="b"/></sheets></workbook>`})), "no visible sheet"},
	} {
		within := limits
		if strings.HasPrefix(row.name, "a bomb") {
			within.Bytes = 32 << 10
		}
		rows, err := sheet.Read(strings.NewReader(row.content), within)
		var told *sheet.Unreadable
		if !errors.As(err, &told) || rows != nil || !strings.Contains(told.Text, row.want) || told.Text != fmt.Sprintf(told.Form, told.Args...) {
			t.Errorf("%s: %d rows, %v; want %q", row.name, len(rows), err, row.want)
		}
	}
	if rows, err := sheet.Read(strings.NewReader(" \n\n"), limits); err != nil || len(rows) != 0 {
		t.Errorf("an empty file: %+v, %v; want no rows", rows, err)
	}
	if rows, err := sheet.Read(strings.NewReader(strings.Repeat("1\n", 101)), limits); err != nil || len(rows) != 101 {
		t.Errorf("as many rows as can be: %d, %v", len(rows), err)
	}
}

// The cost of a text grows with its runs, not with their square.
func TestRead_TextOfManyRuns(t *testing.T) {
	content := packed(t, book(`<row><c><v>1</v></c></row>`, part{"xl/t.xml", `<sst><si>` + strings.Repeat(`<r><t>x</t></r>`, 100_000) + `</si></sst>`}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows, err := sheet.Read(bytes.NewReader(content), limits)
	runtime.ReadMemStats(&after)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d rows, %v; want one", len(rows), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<30 {
		t.Errorf("reading it took %d MB", used>>20)
	}
}

func TestFindColumns_BySynonymsInAnyCase(t *testing.T) {
	headings := []sheet.Heading{
		{Name: "subscriber_id", Also: []string{"Customer ID"}},
		{Name: "mobile", Also: []string{"Mobile number", "Phone", "मोबाइल"}},
		{Name: "plan_id", Also: []string{"Plan"}},
	}
	for _, row := range []struct{ titles, want, ignored, twice string }{
		{"subscriber_id|mobile|plan_id", "012", "", ""},
		{"PLAN|Subscriber ID|  Mobile-Number.", "120", "", ""},
		{"Name|मोबाइल|Area", "-1-", "Name Area", ""},
		{"Phone|Mobile", "-1-", "Phone", ""}, // the name itself comes first
		{"Mobile|mobile", "-0-", "", "mobile"},
		{"Phone|PHONE|Mobile No", "-0-", "Mobile No", "mobile"},
		{"Name||", "---", "Name", ""},
		{"", "---", "", ""},
	} {
		titles := strings.Split(row.titles, "|")
		columns := sheet.FindColumns(titles, headings...)
		got := ""
		cells := sheet.Row{Cells: []string{"0", "1", "2"}}
		for _, heading := range headings {
			if columns.Has(heading.Name) {
				got += columns.Cell(cells, heading.Name)
			} else {
				got += "-"
			}
		}
		if got != row.want || strings.Join(columns.Ignored, " ") != row.ignored || strings.Join(columns.Twice, " ") != row.twice || columns.Width() != len(titles) {
			t.Errorf("%q: %s, ignored %q, twice %q; want %+v", row.titles, got, columns.Ignored, columns.Twice, row)
		}
	}
	if cell := sheet.FindColumns([]string{"plan", "mobile"}, headings...).Cell(sheet.Row{Cells: []string{"x"}}, "mobile"); cell != "" {
		t.Errorf("a short row has %q", cell)
	}
}

// What was written is read back, from either format.
func FuzzRead_ReadsWhatWasWritten(f *testing.F) {
	f.Add("Asha", "9812345678", "two\nlines", true)
	f.Add("_x0041_", "=1+1", "\x01\"", false)
	f.Add("sep=;", ";;;", "\t", false)
	f.Fuzz(func(t *testing.T, a, b, c string, xlsx bool) {
		var out bytes.Buffer
		columns := []sheet.Column{{Title: "first"}, {Title: "second"}}
		var table sheet.Writer
		var err error
		if xlsx {
			table, err = sheet.NewXLSX(&out, "S", columns...)
		} else {
			table, err = sheet.NewCSV(&out, len(a)%2 == 0, columns...)
		}
		if err == nil {
			err = errors.Join(table.Row(a, b), table.Row("x"+c, nil), table.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		rows, err := sheet.Read(bytes.NewReader(out.Bytes()), limits)
		if err != nil {
			var told *sheet.Unreadable
			if xlsx || !errors.As(err, &told) {
				t.Fatalf("%q: %v", out.String(), err)
			}
			return // bytes that are no text
		}
		var got []string
		for _, row := range rows {
			if row.Broken || len(row.Cells) > 2 && strings.Join(row.Cells[2:], "") != "" {
				t.Fatalf("%q is read as %+v", out.String(), row)
			}
			got = append(got, strings.Join(row.Cells, "\x00"))
		}
		want := []string{"first\x00second"}
		for _, cells := range [][2]string{{a, b}, {"x" + c, ""}} {
			for i := range cells {
				cells[i] = strings.TrimSpace(expected(cells[i], xlsx))
			}
			if cells != [2]string{} {
				want = append(want, cells[0]+"\x00"+cells[1])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %q; want %q", got, want)
		}
	})
}

// isInvisible is what a spreadsheet may drop in front of a formula.
func isInvisible(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }

// expected is what a text has become in a file.
func expected(text string, xlsx bool) string {
	if xlsx {
		// XML has no control characters, and one kind of line end.
		var clean strings.Builder
		for _, r := range text {
			if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0xfffe && r <= 0xffff {
				r = '\uFFFD'
			}
			clean.WriteRune(r)
		}
		return clean.String()
	}
	if first := strings.TrimLeftFunc(text, isInvisible); first != "" && strings.ContainsRune("=+-@＝＋－＠﹦﹢﹣﹫", []rune(first)[0]) || text != "" && strings.ContainsRune("\t\r\n", rune(text[0])) {
		text = "'" + text
	}
	return strings.ReplaceAll(text, "\r", "")
}

// Whatever is uploaded, the rows stay within the limits, or the refusal says why.
func FuzzRead_AnyBytes(f *testing.F) {
	for _, name := range []string{"libreoffice.xlsx", "openpyxl.xlsx", "xlsxwriter.xlsx", "old.xls"} {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, "")
	}
	f.Add([]byte("a;b\n1;\"2\n"), "")
	f.Add([]byte(nil), `<row r="2"><c r="B2" t="s"><v>0</v></c><c s="1"><v>46000.5</v></c></row>`)
	f.Fuzz(func(t *testing.T, content []byte, rows string) {
		if rows != "" {
			content = packed(t, book(rows))
		}
		within := sheet.Limits{Bytes: 64 << 10, Rows: 5}
		read, err := sheet.Read(bytes.NewReader(content), within)
		if told := (*sheet.Unreadable)(nil); err != nil && (!errors.As(err, &told) || read != nil) {
			t.Fatalf("%d rows, %v", len(read), err)
		}
		if len(read) > within.Rows+1 {
			t.Fatalf("%d rows", len(read))
		}
		for _, row := range read {
			if row.Line < 1 || row.Broken == (len(row.Cells) > 0) || !row.Broken && strings.Join(row.Cells, "") == "" {
				t.Fatalf("%+v", row)
			}
			for _, cell := range row.Cells {
				if cell != strings.TrimSpace(cell) || strings.Contains(cell, "\x00") && rows == "" {
					t.Fatalf("%q", cell)
				}
			}
		}
	})
}
