package sqlstore

import (
	"fmt"
	"strings"
)

// statement is built from literals of this package, with its arguments.
type statement struct {
	text string
	args []any
}

// add adds to the text. Each ? stands for the next of the arguments.
func (s *statement) add(text string, args ...any) {
	for _, arg := range args {
		before, after, _ := strings.Cut(text, "?")
		s.args = append(s.args, arg)
		s.text += before + fmt.Sprintf("$%d", len(s.args))
		text = after
	}
	s.text += text
}
