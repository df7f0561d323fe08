package sheet

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// CSV writes a table in the format of RFC 4180.
type CSV struct {
	writer  *csv.Writer
	columns []Column
}

var _ Writer = (*CSV)(nil)

// byteOrderMark makes Excel read a file as UTF-8.
const byteOrderMark = "\uFEFF"

// NewCSV begins a table with the titles of its columns. marked writes a byte order mark,
// which Excel needs and programs do not expect.
func NewCSV(w io.Writer, marked bool, columns ...Column) (*CSV, error) {
	if marked {
		if _, err := io.WriteString(w, byteOrderMark); err != nil {
			return nil, fmt.Errorf("write the table: %w", err)
		}
	}
	c := &CSV{writer: csv.NewWriter(w), columns: columns}
	c.writer.UseCRLF = true
	titles := make([]string, len(columns))
	for i, column := range columns {
		titles[i] = neutral(column.Title)
	}
	return c, c.write(titles)
}

// Row writes a cell for each column.
func (c *CSV) Row(values ...any) error {
	row, err := cells(c.columns, values)
	if err != nil {
		return err
	}
	texts := make([]string, len(row))
	for i, cell := range row {
		texts[i] = cell.csv()
	}
	return c.write(texts)
}

func (c *CSV) write(texts []string) error {
	if err := c.writer.Write(texts); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// Close ends the table.
func (c *CSV) Close() error {
	c.writer.Flush()
	return c.writer.Error()
}

func (c cell) csv() string {
	if c.empty {
		return ""
	}
	switch c.kind {
	case Rupees:
		return c.amount.String()
	case Number:
		return strconv.FormatInt(c.number, 10)
	case Moment:
		return c.at.Format(time.DateTime)
	case Date:
		return c.at.Format(time.DateOnly)
	}
	return neutral(c.text)
}

// neutral puts an apostrophe in front of a text that a spreadsheet would read as a formula.
func neutral(text string) string {
	if startsFormula(text) {
		return "'" + text
	}
	return text
}
