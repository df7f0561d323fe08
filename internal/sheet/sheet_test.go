package sheet_test

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/sheet"
)

var (
	columns = []sheet.Column{
		{Title: "Name", Kind: sheet.Text}, {Title: "Amount", Kind: sheet.Rupees}, {Title: "Lines", Kind: sheet.Number},
		{Title: "When", Kind: sheet.Moment}, {Title: "Day", Kind: sheet.Date},
	}
	at = time.Date(2027, 3, 1, 20, 0, 0, 0, time.UTC) // half past one on the second in India

	attacks = []string{
		`=HYPERLINK("http://evil.example","pay")`, `+1+cmd|' /C calc'!A0`, `-2+3`, `@SUM(1+1)`, "\t=1+1", "\r=1+1", "\n=1+1",
		`=cmd|'/C calc'!A0`, `_x003D_1+1`, `<f>1+1</f>`, `]]></t></is><f>1</f>`, `"quoted, with a comma"`, "two\nlines", "आशा शर्मा", "control \x01 here",
	}
)

func writeCSV(t *testing.T, marked bool, rows ...[]any) string {
	t.Helper()
	var out bytes.Buffer
	table, err := sheet.NewCSV(&out, marked, columns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := table.Row(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestCSV_Format(t *testing.T) {
	got := writeCSV(t, true, []any{"आशा, जी", money.Paise(-12345), 7, at, at}, []any{"", nil, int64(0), time.Time{}, nil})
	want := "\uFEFFName,Amount,Lines,When,Day\r\n\"आशा, जी\",-123.45,7,2027-03-02 01:30:00,2027-03-02\r\n,,0,,\r\n"
	if got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if plain := writeCSV(t, false); plain != "Name,Amount,Lines,When,Day\r\n" {
		t.Errorf("%q; want the titles alone, without a mark", plain)
	}
}

func TestCSV_NoTextStartsAFormula(t *testing.T) {
	for _, attack := range attacks {
		records, err := csv.NewReader(strings.NewReader(writeCSV(t, false, []any{attack, nil, nil, nil, nil}))).ReadAll()
		if err != nil {
			t.Fatalf("%q: %v", attack, err)
		}
		got := records[1][0]
		if strings.ContainsRune("=+-@\t\r\n", rune(got[0])) {
			t.Errorf("%q stands as %q", attack, got)
		}
	}
}

// A sign counts in its full-width and small forms too, and behind characters that a
// spreadsheet drops or does not show.
func TestCSV_SignsOfFormulasAreNeutralised(t *testing.T) {
	signs := []string{"=", "+", "-", "@", "＝", "＋", "－", "＠", "﹦", "﹢", "﹣", "﹫"}
	before := []string{"", " ", "\t", "\r", "\n", "\r\n", "\x00", "\x0b", "\u00a0", "\u00ad", "\u200b", "\u200d", "\u2060", "\u202e", "\u3000", "\ufeff", " \u200b\ufeff\u3000"}
	for _, prefix := range before {
		for _, sign := range signs {
			text := prefix + sign + "1+1"
			file := writeCSV(t, false, []any{text, nil, nil, nil, nil})
			records, err := csv.NewReader(strings.NewReader(file)).ReadAll()
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			// encoding/csv writes no carriage return but that of a line's end.
			if got, want := records[1][0], "'"+strings.ReplaceAll(text, "\r", ""); got != want {
				t.Errorf("%q stands as %q; want %q", text, got, want)
			}
		}
	}
	for _, text := range []string{"Asha", " Asha", "1-2", "a=b", "आशा＝", "\u200bAsha", "x@y.example", "'=1", "−", ""} {
		if file := writeCSV(t, false, []any{text, money.Paise(-5), -7, nil, nil}); !strings.HasSuffix(file, text+`,-0.05,-7,,`+"\r\n") && !strings.HasSuffix(file, `"`+text+`",-0.05,-7,,`+"\r\n") {
			t.Errorf("%q, minus five paise and minus seven stand as %q; want them as they are", text, file)
		}
	}
}

// worksheet is a sheet as a reader of XML finds it.
type worksheet struct {
	Pane struct {
		Split string `xml:"ySplit,attr"`
		State string `xml:"state,attr"`
	} `xml:"sheetViews>sheetView>pane"`
	Rows []struct {
		Cells []struct {
			Place   string  `xml:"r,attr"`
			Type    string  `xml:"t,attr"`
			Style   string  `xml:"s,attr"`
			Value   string  `xml:"v"`
			Text    *string `xml:"is>t"`
			Formula *string `xml:"f"`
		} `xml:"c"`
	} `xml:"sheetData>row"`
}

func writeXLSX(t *testing.T, rows ...[]any) (worksheet, map[string]string) {
	t.Helper()
	var out bytes.Buffer
	table, err := sheet.NewXLSX(&out, `Statement: "March" [2027]/of a name that is much too long`, columns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := table.Row(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, file := range archive.File {
		opened, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(opened)
		if err != nil {
			t.Fatal(err)
		}
		parts[file.Name] = string(content)
		// Every part is well-formed.
		for decoder := xml.NewDecoder(bytes.NewReader(content)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file.Name, err)
			}
		}
	}
	var found worksheet
	if err := xml.Unmarshal([]byte(parts["xl/worksheets/sheet1.xml"]), &found); err != nil {
		t.Fatal(err)
	}
	return found, parts
}

func TestXLSX_TypedCellsUnderFrozenTitles(t *testing.T) {
	found, parts := writeXLSX(t, []any{"Asha", money.Paise(12345678), 7, at, at}, []any{"", nil, int64(0), time.Time{}, nil})
	if found.Pane.Split != "1" || found.Pane.State != "frozen" {
		t.Errorf("the pane is %+v; want one frozen row", found.Pane)
	}
	if len(found.Rows) != 3 {
		t.Fatalf("%d rows; want the titles and two", len(found.Rows))
	}
	for i, cell := range found.Rows[0].Cells {
		if cell.Text == nil || *cell.Text != columns[i].Title || cell.Style != "1" {
			t.Errorf("title %d is %+v", i, cell)
		}
	}
	var got []string
	for _, cell := range found.Rows[1].Cells[1:] {
		got = append(got, cell.Place+" "+cell.Type+" "+cell.Style+" "+cell.Value)
	}
	// 2 March 2027 is day 46448 of the spreadsheets, and half past one a sixteenth of it.
	want := []string{"B2  2 123456.78", "C2   7", "D2  3 46448.0625", "E2  4 46448"}
	if !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	if cells := found.Rows[2].Cells; len(cells) != 1 || cells[0].Place != "C3" {
		t.Errorf("%+v; want nothing where nothing was given", cells)
	}
	if !strings.Contains(parts["xl/workbook.xml"], `name="Statement  &#34;March&#34;  2027  of a "`) {
		t.Errorf("the sheet's name: %s", parts["xl/workbook.xml"])
	}
	if want := []string{"[Content_Types].xml", "_rels/.rels", "xl/_rels/workbook.xml.rels", "xl/styles.xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"}; len(parts) != len(want) {
		t.Errorf("%d parts; want %v", len(parts), want)
	}
}

func TestXLSX_TextsReadBack(t *testing.T) {
	for _, attack := range attacks {
		found, _ := writeXLSX(t, []any{attack, nil, nil, nil, nil})
		cell := found.Rows[1].Cells[0]
		if cell.Type != "inlineStr" || cell.Formula != nil || cell.Value != "" || cell.Text == nil {
			t.Errorf("%q is a cell %+v", attack, cell)
			continue
		}
		want := strings.ReplaceAll(strings.ReplaceAll(attack, "_x", "_x005F_x"), "\x01", "\uFFFD")
		if *cell.Text != want {
			t.Errorf("%q reads back as %q", want, *cell.Text)
		}
	}
}

func TestRow_MismatchIsRefused(t *testing.T) {
	for name, table := range map[string]sheet.Writer{"CSV": first(sheet.NewCSV(io.Discard, false, columns...)), "XLSX": first(sheet.NewXLSX(io.Discard, "x", columns...))} {
		for _, row := range [][]any{
			{"too", "few"}, {"a text for money", "199.00", 1, at, at}, {money.Paise(1), money.Paise(1), 1, at, at},
			{"a float", 1.5, 1, at, at}, {"an amount for a number", money.Paise(1), money.Paise(1), at, at}, {"a text for a time", money.Paise(1), 1, "today", at},
		} {
			if err := table.Row(row...); err == nil {
				t.Errorf("%s takes %v", name, row)
			}
		}
	}
}

func first[Writer sheet.Writer](w Writer, err error) sheet.Writer {
	if err != nil {
		panic(err)
	}
	return w
}

// brokenPipe takes so many bytes, and then nothing more.
type brokenPipe struct{ left int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriter_ReturnsWriteErrors(t *testing.T) {
	for name, begin := range map[string]func(io.Writer) (sheet.Writer, error){
		"CSV":  func(w io.Writer) (sheet.Writer, error) { return sheet.NewCSV(w, true, columns...) },
		"XLSX": func(w io.Writer) (sheet.Writer, error) { return sheet.NewXLSX(w, "x", columns...) },
	} {
		table, err := begin(&brokenPipe{left: 5000})
		for n := 0; err == nil && n < 1_000_000; n++ {
			err = table.Row("Asha", money.Paise(int64(n)), n, at, at)
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s goes on writing: %v", name, err)
		}
	}
}
