package sheet

import (
	"encoding/xml"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// rows reads the rows of a sheet.
func (w *workbook) rows(part string) (rows []Row, err error) {
	current := Row{}
	cells := 0
	end := func() error {
		if blank(current.Cells) {
			return nil
		}
		current.Cells = dropEmpty(current.Cells, 1)
		if len(rows) > 0 {
			for len(current.Cells) < len(rows[0].Cells) {
				current.Cells = append(current.Cells, "")
			}
		}
		if rows = append(rows, current); len(rows) > w.limits.Rows+1 {
			return tooManyRows(w.limits)
		}
		return nil
	}
	err = w.each(part, func(d *xml.Decoder, element xml.StartElement) error {
		switch element.Name.Local {
		case "row":
			if err := end(); err != nil {
				return err
			}
			current = Row{Line: current.Line + 1, Workbook: true}
			if n, err := strconv.Atoi(attribute(element, "r")); err == nil && n > 0 {
				current.Line = n
			}
		case "c":
			if cells++; cells > cellsPerRow*(w.limits.Rows+1) {
				return errUnpacked
			}
			var c xlsxCell
			if err := d.DecodeElement(&c, &element); err != nil {
				return err
			}
			text, err := w.text(c)
			if err != nil || text == "" {
				return err
			}
			if utf8.RuneCountInString(text) > maxCellText {
				return unreadable("A cell of row %d has more than %d characters. Copy the list to a new workbook.", current.Line, maxCellText)
			}
			// Many cells may share one text, which was unpacked once.
			if w.left -= int64(len(text)); w.left < 0 {
				return errUnpacked
			}
			column := len(current.Cells)
			if c.Place != "" {
				column = columnIndex(c.Place)
			}
			if column < 0 || current.Line == 0 {
				return errDamaged
			}
			if column >= maxReadColumns {
				return unreadable("The sheet has more than %d columns. Copy the list to a new workbook.", maxReadColumns)
			}
			for len(current.Cells) <= column {
				current.Cells = append(current.Cells, "")
			}
			current.Cells[column] = text
		}
		return nil
	})
	if err == nil {
		err = end()
	}
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func attribute(element xml.StartElement, name string) string {
	for _, a := range element.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// columnIndex returns the column of a cell's place, as in AB12; -1 if it is no place.
func columnIndex(place string) int {
	column := 0
	for i, r := range place {
		switch {
		case r >= 'A' && r <= 'Z' && i < 3:
			column = column*26 + int(r-'A') + 1
		case r >= '0' && r <= '9' && i > 0:
		default:
			return -1
		}
	}
	return column - 1
}

// xlsxCell is a cell as it is stored.
type xlsxCell struct {
	Place  string   `xml:"r,attr"`
	Type   string   `xml:"t,attr"`
	Style  string   `xml:"s,attr"`
	Value  string   `xml:"v"`
	Inline richText `xml:"is"`
}

// text returns a cell's content as text: numbers in digits without an exponent, dates as
// 2006-01-02, with the time of day if they have one.
func (w *workbook) text(c xlsxCell) (string, error) {
	switch c.Type {
	case "s":
		i, err := strconv.Atoi(strings.TrimSpace(c.Value))
		if err != nil || i < 0 || i >= len(w.shared) {
			return "", errDamaged
		}
		return w.shared[i], nil
	case "inlineStr":
		return c.Inline.String(), nil
	case "str":
		return unescaped(c.Value), nil
	case "b":
		return map[string]string{"1": "TRUE", "0": "FALSE"}[c.Value], nil
	case "", "n":
		style, err := strconv.Atoi(c.Style)
		return w.number(strings.TrimSpace(c.Value), err == nil && style >= 0 && style < len(w.dates) && w.dates[style])
	}
	return c.Value, nil
}

// significant is how many digits of a number a spreadsheet shows.
const significant = 15

func (w *workbook) number(stored string, date bool) (string, error) {
	if stored == "" {
		return "", nil
	}
	n, err := strconv.ParseFloat(stored, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return "", errDamaged
	}
	const secondsPerDay, lastDay = 86_400, 2_958_465 // 9999-12-31
	if date && n >= 0 && n <= lastDay {
		at := time.Unix(int64(math.Round((n-float64(w.from))*secondsPerDay)), 0).UTC()
		switch {
		case n < 1:
			return at.Format(time.TimeOnly), nil
		case at.Truncate(24 * time.Hour).Equal(at):
			return at.Format(time.DateOnly), nil
		}
		return at.Format(time.DateTime), nil
	}
	n, _ = strconv.ParseFloat(strconv.FormatFloat(n, 'e', significant-1, 64), 64)
	return strconv.FormatFloat(n, 'f', -1, 64), nil
}

// isDateFormat reports whether a built-in number format is one of dates.
func isDateFormat(id int) bool {
	return id >= 14 && id <= 22 || id >= 27 && id <= 36 || id >= 45 && id <= 47 || id >= 50 && id <= 58
}

// literals are the parts of a number format that are written as they are, and conditions
// and locales in brackets.
var literals = regexp.MustCompile(`"[^"]*"|\\.|_.|\*.|\[[^\]]*\]`)

func isDateCode(code string) bool {
	code, _, _ = strings.Cut(literals.ReplaceAllString(code, ""), ";")
	return strings.ContainsAny(strings.ToLower(code), "ymdhs")
}
