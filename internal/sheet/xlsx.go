package sheet

import (
	"archive/zip"
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coaxhq/coax/internal/subscription"
)

// XLSX writes a table as a workbook of one sheet with a bold, frozen first row. Every text
// is an inline string, which spreadsheets never evaluate.
type XLSX struct {
	archive *zip.Writer
	sheet   *bufio.Writer
	columns []Column
	row     int
}

var _ Writer = (*XLSX)(nil)

// MaxRows is the maximum number of rows of a sheet, including the titles.
const MaxRows = 1 << 20

// ErrFull is returned by Row for a row beyond MaxRows.
var ErrFull = errors.New("a sheet holds 1,048,576 rows: choose a shorter period, or CSV")

// Cell styles, by their index in styles.xml.
const (
	plainStyle = iota
	titleStyle
	rupeesStyle
	momentStyle
	dateStyle
)

const xmlHead = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"

// The parts of a workbook that are always the same. Rupees are grouped by lakhs and crores,
// which takes a number format for each length.
var fixedParts = []struct{ name, content string }{
	{"[Content_Types].xml", `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
		`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>` +
		`<Default Extension="xml" ContentType="application/xml"/>` +
		`<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>` +
		`<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>` +
		`<Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/></Types>`},
	{"_rels/.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
		`<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`},
	{"xl/_rels/workbook.xml.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
		`<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/>` +
		`<Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`},
	{"xl/styles.xml", `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">` +
		`<numFmts count="3">` +
		`<numFmt numFmtId="164" formatCode="[&gt;=10000000]##\,##\,##\,##0.00;[&gt;=100000]##\,##\,##0.00;##,##0.00"/>` +
		`<numFmt numFmtId="165" formatCode="yyyy\-mm\-dd\ hh:mm:ss"/><numFmt numFmtId="166" formatCode="yyyy\-mm\-dd"/></numFmts>` +
		`<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts>` +
		`<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>` +
		`<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>` +
		`<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>` +
		`<cellXfs count="5"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>` +
		`<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>` +
		`<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>` +
		`<xf numFmtId="165" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>` +
		`<xf numFmtId="166" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/></cellXfs>` +
		`<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>`},
}

// NewXLSX begins a workbook, with a sheet of that name and the titles of its columns.
func NewXLSX(w io.Writer, name string, columns ...Column) (*XLSX, error) {
	x := &XLSX{archive: zip.NewWriter(w), columns: columns}
	for _, part := range fixedParts {
		if err := x.part(part.name, part.content); err != nil {
			return nil, err
		}
	}
	err := x.part("xl/workbook.xml", `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" `+
		`xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="`+escaped(sheetName(name))+`" sheetId="1" r:id="rId1"/></sheets></workbook>`)
	if err != nil {
		return nil, err
	}
	part, err := x.archive.Create("xl/worksheets/sheet1.xml")
	if err != nil {
		return nil, fmt.Errorf("write the workbook: %w", err)
	}
	x.sheet = bufio.NewWriter(part)
	x.emit(xmlHead, `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">`,
		`<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews><cols>`)
	for i, column := range columns {
		n := strconv.Itoa(i + 1)
		x.emit(`<col min="`, n, `" max="`, n, `" width="`, strconv.Itoa(width(column)), `" customWidth="1"/>`)
	}
	x.emit(`</cols><sheetData>`)
	titles := make([]cell, len(columns))
	for i, column := range columns {
		titles[i] = cell{kind: Text, text: column.Title}
	}
	return x, x.write(titles, titleStyle)
}

func (x *XLSX) part(name, content string) error {
	part, err := x.archive.Create(name)
	if err == nil {
		_, err = io.WriteString(part, xmlHead+content)
	}
	if err != nil {
		return fmt.Errorf("write the workbook: %w", err)
	}
	return nil
}

// emit writes to the sheet; the buffer returns an error at the end of the row.
func (x *XLSX) emit(texts ...string) {
	for _, text := range texts {
		_, _ = x.sheet.WriteString(text)
	}
}

// Row writes a cell for each column.
func (x *XLSX) Row(values ...any) error {
	if x.row == MaxRows {
		return ErrFull
	}
	row, err := cells(x.columns, values)
	if err != nil {
		return err
	}
	return x.write(row, plainStyle)
}

func (x *XLSX) write(row []cell, textStyle int) error {
	x.row++
	number := strconv.Itoa(x.row)
	x.emit(`<row r="`, number, `">`)
	for i, c := range row {
		if c.empty {
			continue
		}
		at := `<c r="` + columnName(i) + number + `"`
		switch c.kind {
		case Text:
			x.emit(at, style(textStyle), ` t="inlineStr"><is><t xml:space="preserve">`, escaped(literal(c.text)), `</t></is></c>`)
		case Rupees:
			x.emit(at, style(rupeesStyle), `><v>`, c.amount.String(), `</v></c>`)
		case Number:
			x.emit(at, `><v>`, strconv.FormatInt(c.number, 10), `</v></c>`)
		case Moment:
			x.emit(at, style(momentStyle), `><v>`, serial(c.at), `</v></c>`)
		case Date:
			y, m, d := c.at.Date()
			x.emit(at, style(dateStyle), `><v>`, serial(time.Date(y, m, d, 0, 0, 0, 0, subscription.IST)), `</v></c>`)
		}
	}
	x.emit(`</row>`)
	if _, err := x.sheet.WriteString("\n"); err != nil {
		return fmt.Errorf("write the workbook: %w", err)
	}
	return nil
}

// Close ends the workbook.
func (x *XLSX) Close() error {
	x.emit(`</sheetData></worksheet>`)
	if err := x.sheet.Flush(); err != nil {
		return fmt.Errorf("write the workbook: %w", err)
	}
	if err := x.archive.Close(); err != nil {
		return fmt.Errorf("write the workbook: %w", err)
	}
	return nil
}

func style(n int) string { return ` s="` + strconv.Itoa(n) + `"` }

// width returns the width of a column in characters.
func width(c Column) int {
	minimum := map[Kind]int{Text: 22, Rupees: 16, Number: 10, Moment: 20, Date: 12}[c.Kind]
	return max(minimum, utf8.RuneCountInString(c.Title)+2)
}

// columnName returns A, B, …, Z, AA, AB, and so on.
func columnName(i int) string {
	name := ""
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}

// serial returns a time in the serial format of spreadsheets: days since 1899-12-30, in IST.
func serial(at time.Time) string {
	begin := time.Date(1899, 12, 30, 0, 0, 0, 0, subscription.IST)
	return strconv.FormatFloat(at.Sub(begin).Seconds()/86_400, 'f', -1, 64)
}

// escaped escapes a text for XML. Characters that XML does not allow become U+FFFD.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder returns no errors
	return b.String()
}

// literal keeps a spreadsheet from reading _x003D_ in a text as an escaped character.
func literal(text string) string { return strings.ReplaceAll(text, "_x", "_x005F_x") }

// sheetName makes a valid name of a sheet: at most 31 characters, without reserved ones.
func sheetName(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`[]:*?/\'`, r) {
			return ' '
		}
		return r
	}, name)
	if runes := []rune(name); len(runes) > 31 {
		name = string(runes[:31])
	}
	if strings.TrimSpace(name) == "" {
		return "Sheet"
	}
	return name
}
