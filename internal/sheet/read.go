package sheet

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits bound what Read accepts.
type Limits struct {
	Bytes int // of the file; a workbook may unpack to unpackRatio times as many
	Rows  int // below the first one, not counting blank ones
}

// Row is a row of an uploaded table.
type Row struct {
	// Line is the row's number in its file, from 1: the first line of a row of CSV, the row's
	// number of a workbook.
	Line int
	// Cells are without blanks around them. A row of a workbook has at least as many as the
	// first row; one of CSV has as many as were written, but drops empty ones beyond the
	// first row's.
	Cells []string
	// Workbook is set for a row of a workbook.
	Workbook bool
	// Broken is set for a row of CSV whose quotation marks do not fit. It has no cells.
	Broken bool
}

// Unreadable is why a file could not be read, and how to mend it.
type Unreadable struct {
	Text string
	// Form and Args are the format and arguments of Text, for translation.
	Form string
	Args []any
}

func (u *Unreadable) Error() string { return u.Text }

func unreadable(form string, args ...any) error {
	return &Unreadable{fmt.Sprintf(form, args...), form, args}
}

// What other programs write, by its first bytes.
const (
	zipHead = "PK\x03\x04"
	oleHead = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" // old Excel files, and workbooks with a password
)

// Read reads the rows of a table that are not blank: text in UTF-8 or UTF-16 whose cells are
// separated by commas, semicolons or tabs, or the first sheet of an XLSX workbook. It goes
// by the content and needs no name. A file that is neither, or exceeds the limits, is an
// Unreadable.
func Read(file io.Reader, limits Limits) ([]Row, error) {
	content, err := io.ReadAll(io.LimitReader(file, int64(limits.Bytes)+1))
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	head := string(content[:min(len(content), 8)])
	switch {
	case len(content) > limits.Bytes:
		return nil, unreadable("The file is larger than %d MB. Split it.", limits.Bytes>>20)
	case strings.HasPrefix(head, zipHead):
		return readXLSX(content, limits)
	case head == oleHead && bytes.Contains(content, utf16Bytes("EncryptedPackage")):
		return nil, errPassword
	case head == oleHead:
		return nil, unreadable("The file is in the format of old versions of Excel (.xls). Open it, choose “Save as”, and save it as XLSX.")
	}
	text, err := decode(content)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		return nil, unreadable("The file is a web page, whatever its name says. Open it in a spreadsheet, and save it as XLSX.")
	}
	return readCSV(text, limits)
}

var errPassword = unreadable("The workbook has a password. Save it without one.")

func utf16Bytes(ascii string) []byte {
	var raw []byte
	for _, unit := range utf16.Encode([]rune(ascii)) {
		raw = binary.LittleEndian.AppendUint16(raw, unit)
	}
	return raw
}

// decode returns a text without its byte order mark. UTF-16, which Excel writes as “Unicode
// text”, is recognised by that mark.
func decode(content []byte) (string, error) {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(content, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(content, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	}
	if order != nil {
		content = content[2:]
		units := make([]uint16, len(content)/2)
		for i := range units {
			units[i] = order.Uint16(content[2*i:])
		}
		content = []byte(string(utf16.Decode(units)))
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return "", unreadable("The file is neither a workbook nor text. Save the list as XLSX or as CSV.")
	}
	text := strings.TrimPrefix(string(content), byteOrderMark)
	if i := invalidUTF8(text); i >= 0 {
		return "", unreadable("Line %d is not UTF-8 text. Save the file as XLSX, or as “CSV UTF-8”.", 1+strings.Count(text[:i], "\n"))
	}
	return text, nil
}

// invalidUTF8 returns where a text is not UTF-8; -1 if it is.
func invalidUTF8(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// readCSV reads the rows of a text.
func readCSV(text string, limits Limits) (rows []Row, err error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	reader.Comma = delimiter(text)
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if broken := (*csv.ParseError)(nil); errors.As(err, &broken) {
			rows = append(rows, Row{Line: broken.StartLine, Broken: true})
		} else if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		} else if line, _ := reader.FieldPos(0); !blank(record) && !isSeparatorLine(line, record) {
			if len(rows) > 0 {
				record = dropEmpty(record, len(rows[0].Cells))
			}
			rows = append(rows, Row{Line: line, Cells: record})
		}
		if len(rows) > limits.Rows+1 {
			return nil, tooManyRows(limits)
		}
	}
}

func tooManyRows(limits Limits) error {
	return unreadable("The file has more than %d rows. Split it.", limits.Rows)
}

// blank removes the blanks around the cells of a row, and reports whether nothing is left.
func blank(cells []string) bool {
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return !slices.ContainsFunc(cells, func(cell string) bool { return cell != "" })
}

// dropEmpty removes empty cells at the end of a row, down to a number of cells.
func dropEmpty(cells []string, least int) []string {
	for len(cells) > least && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	return cells
}

// separatorLine begins a first line that tells Excel the delimiter.
const separatorLine = "sep="

func isSeparatorLine(line int, record []string) bool {
	return line == 1 && strings.HasPrefix(strings.ToLower(record[0]), separatorLine) && len(strings.Join(record, "")) <= len(separatorLine)+1
}

// delimiter returns what separates the cells: what the first line that has any of them has
// most of, outside quotation marks.
func delimiter(text string) rune {
	const candidates = ",;\t"
	for line := range strings.Lines(text) {
		if named, is := strings.CutPrefix(strings.ToLower(strings.TrimRight(line, "\r\n")), separatorLine); is && len(named) == 1 && strings.Contains(candidates, named) {
			return rune(named[0])
		}
		count, quoted := map[rune]int{}, false
		for _, r := range line {
			switch {
			case r == '"':
				quoted = !quoted
			case !quoted && strings.ContainsRune(candidates, r):
				count[r]++
			}
		}
		best := ','
		for _, r := range candidates {
			if count[r] > count[best] {
				best = r
			}
		}
		if count[best] > 0 {
			return best
		}
	}
	return ','
}
