package postgres

import (
	"fmt"
	"strings"
	"time"
)

// A statement for many rows takes them as one array for each column, and turns the
// arrays back into rows with unnest. So its text is the same for any number of rows,
// and is prepared once. The text and the arguments are both made from one list of
// columns.

// columns are the columns of the rows that a statement takes.
type columns[Row any] []rowColumn[Row]

// rowColumn is one column: its name and type in SQL, and the array of its values.
type rowColumn[Row any] struct {
	name, sqlType string
	array         func([]Row) any
}

// columnList is a list of columns for any type of row.
type columnList interface {
	each(visit func(name, sqlType string))
}

func (c columns[Row]) each(visit func(name, sqlType string)) {
	for _, column := range c {
		visit(column.name, column.sqlType)
	}
}

// unnest returns the call that makes rows of the lists' columns, one list after the
// other, from parameters that are numbered from first.
func unnest(first int, lists ...columnList) string {
	var arrays []string
	for _, list := range lists {
		list.each(func(_, sqlType string) { arrays = append(arrays, fmt.Sprintf("$%d::%s[]", first+len(arrays), sqlType)) })
	}
	return "unnest(" + strings.Join(arrays, ", ") + ")"
}

// names returns the lists' columns, separated by commas.
func names(lists ...columnList) string {
	var all []string
	for _, list := range lists {
		list.each(func(name, _ string) { all = append(all, name) })
	}
	return strings.Join(all, ", ")
}

// args returns the arguments for unnest.
func (c columns[Row]) args(rows []Row) []any { return c.appendArgs(make([]any, 0, len(c)), rows) }

func (c columns[Row]) appendArgs(args []any, rows []Row) []any {
	for _, column := range c {
		args = append(args, column.array(rows))
	}
	return args
}

func columnOf[Row, Value any](name, sqlType string, value func(Row) Value) rowColumn[Row] {
	return rowColumn[Row]{name, sqlType, func(rows []Row) any { return column(rows, value) }}
}

func textColumn[Row any](name string, value func(Row) string) rowColumn[Row] {
	return columnOf(name, "text", value)
}

// nullTextColumn stores NULL for an empty string.
func nullTextColumn[Row any](name string, value func(Row) string) rowColumn[Row] {
	return columnOf(name, "text", func(row Row) *string { return nullString(value(row)) })
}

func intColumn[Row any](name string, value func(Row) int64) rowColumn[Row] {
	return columnOf(name, "bigint", value)
}

// timeColumn stores Unix milliseconds.
func timeColumn[Row any](name string, value func(Row) time.Time) rowColumn[Row] {
	return columnOf(name, "bigint", func(row Row) int64 { return value(row).UnixMilli() })
}

// nullTimeColumn stores NULL for the zero time.
func nullTimeColumn[Row any](name string, value func(Row) time.Time) rowColumn[Row] {
	return columnOf(name, "bigint", func(row Row) *int64 { return nullMillis(value(row)) })
}

func boolColumn[Row any](name string, value func(Row) bool) rowColumn[Row] {
	return columnOf(name, "boolean", value)
}

func bytesColumn[Row any](name string, value func(Row) []byte) rowColumn[Row] {
	return columnOf(name, "bytea", value)
}
