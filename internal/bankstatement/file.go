package bankstatement

import (
	"errors"
	"io"

	"github.com/coaxhq/coax/internal/sheet"
)

// ReadRows reads a statement's file: CSV of any kind, or XLSX.
func ReadRows(file io.Reader) ([]sheet.Row, error) {
	rows, err := sheet.Read(file, sheet.Limits{Bytes: MaxBytes, Rows: MaxRows + maxHeaderRow})
	var unreadable *sheet.Unreadable
	if errors.As(err, &unreadable) {
		return nil, refuse(unreadable.Form, unreadable.Args...)
	}
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Broken {
			wrong := problem("The quotation marks do not fit.")
			wrong.Line = row.Line
			return nil, &Error{[]Problem{*wrong}}
		}
	}
	return rows, nil
}
