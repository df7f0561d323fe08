package sheet

import (
	"strings"
	"unicode"
)

// Heading is a column that a reader of tables knows. Titles are compared without regard to
// case, blanks and punctuation.
type Heading struct {
	Name string
	// Also are other titles for it, best first. They count where Name is missing.
	Also []string
}

// Columns says which column of a table is which.
type Columns struct {
	index map[string]int
	width int
	// Ignored are the titles of the columns that are not used, and Twice the names of headings
	// whose title is there twice.
	Ignored, Twice []string
}

// FindColumns finds the columns of a table by its titles.
func FindColumns(titles []string, headings ...Heading) Columns {
	c := Columns{index: map[string]int{}, width: len(titles)}
	used := make([]bool, len(titles))
	for _, heading := range headings {
		for _, name := range append([]string{heading.Name}, heading.Also...) {
			found := 0
			for i, title := range titles {
				if simplified(title) != simplified(name) {
					continue
				}
				if found++; found == 1 {
					c.index[heading.Name] = i
				}
				used[i] = true
			}
			if found > 1 {
				c.Twice = append(c.Twice, heading.Name)
			}
			if found > 0 {
				break
			}
		}
	}
	for i, title := range titles {
		if !used[i] && title != "" {
			c.Ignored = append(c.Ignored, title)
		}
	}
	return c
}

// simplified is a title without its case, blanks and punctuation.
func simplified(title string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// Has reports whether the table has a column.
func (c Columns) Has(name string) bool {
	_, has := c.index[name]
	return has
}

// Width is how many columns the table has, used or not.
func (c Columns) Width() int { return c.width }

// Cell returns a row's cell of a column; empty if the table or the row has none.
func (c Columns) Cell(row Row, name string) string {
	if i, has := c.index[name]; has && i < len(row.Cells) {
		return row.Cells[i]
	}
	return ""
}
