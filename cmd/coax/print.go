package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/coaxhq/coax/internal/subscription"
)

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, f := range o {
		if i > 0 {
			text = append(text, ',')
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}

// show prints an object: as JSON, or as lines of name and value.
func (a *app) show(o object) error {
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(o)
	}
	// A tabwriter would end the column at a value of several lines.
	width := 0
	for _, f := range o {
		width = max(width, len(f.name))
	}
	for _, f := range o {
		line := fmt.Sprintf("%-*s  %s", width, f.name, cell(f.value))
		if head, rest, several := strings.Cut(line, "\n"); several {
			line = strings.TrimRight(head, " ") + "\n" + rest
		}
		if _, err := fmt.Fprintln(a.out, line); err != nil {
			return err
		}
	}
	return nil
}

// list prints objects: as a JSON array, or as a table.
func (a *app) list(none string, rows []object) error {
	if a.asJSON {
		if rows == nil {
			rows = []object{}
		}
		return json.NewEncoder(a.out).Encode(rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, none)
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	var cells []string
	for _, f := range rows[0] {
		cells = append(cells, f.name)
	}
	fmt.Fprintln(table, strings.Join(cells, "\t"))
	for _, row := range rows {
		cells = cells[:0]
		for _, f := range row {
			cells = append(cells, cell(f.value))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// escapeBreaks escapes line breaks, so that a customer's address cannot look like further
// lines of output.
var escapeBreaks = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`)

// cell formats a value for people; an empty one is a dash.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		return escapeBreaks.Replace(v)
	case []string:
		if len(v) == 0 {
			return "-"
		}
		text := ""
		for i, one := range v {
			if i > 0 {
				text += ", "
			}
			text += escapeBreaks.Replace(one)
		}
		return text
	case json.RawMessage:
		return string(v)
	case []object:
		if len(v) == 0 {
			return "-"
		}
		text := ""
		for _, o := range v {
			text += "\n"
			for _, f := range o {
				if shown := cell(f.value); shown != "-" {
					text += "  " + f.name + "=" + shown
				}
			}
		}
		return text
	}
	return fmt.Sprint(value)
}

// when formats a time as the contract does; nil if it is zero.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.In(subscription.IST).Format("2006-01-02 15:04:05")
}
