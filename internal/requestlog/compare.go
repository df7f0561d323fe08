package requestlog

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineNames are the six lines of a string to sign.
var lineNames = [...]string{"method", "path", "query", "timestamp", "nonce", "body hash"}

const (
	methodLine = iota
	pathLine
	queryLine
	timestampLine
	nonceLine
	bodyLine
)

// Explanation is how two strings to sign differ: the server's, and the one that the
// integrator's program signed.
type Explanation struct {
	// Same is set if they are equal: then the secret, or how it is used, is wrong.
	Same bool
	// Lines has the six lines side by side, and more if theirs has more.
	Lines []Line
	// First is the first difference; nil if there is none.
	First *Difference
	// Hints are the probable causes, the most certain first. There is always one.
	Hints []Hint
}

// Line is one line of both strings.
type Line struct {
	Name           string
	Server, Theirs Shown
	Same           bool
	// Missing is set if theirs lacks the line.
	Missing bool
}

// Shown is a line for display, with invisible characters made visible. Common is the
// prefix that both sides share, Rest the remainder.
type Shown struct{ Common, Rest string }

func (s Shown) String() string { return s.Common + s.Rest }

// Difference is the position of the first difference, line and byte counted from one, and
// the character there on either side.
type Difference struct {
	Line, Byte     int
	Server, Theirs string
}

// Hint is a probable cause. Text is a format for Args, so that it can be translated before
// they are filled in.
type Hint struct {
	Cause Cause
	Text  string
	Args  []any
}

func (h Hint) String() string {
	if len(h.Args) == 0 {
		return h.Text
	}
	return fmt.Sprintf(h.Text, h.Args...)
}

// Compare explains how a string to sign differs from the server's.
func Compare(server, theirs string) Explanation { return CompareWithBody(server, theirs, "") }

// CompareWithBody is Compare with the body that was hashed: the explanation can then say
// how the body was changed on its way. The body is not stored.
func CompareWithBody(server, theirs, body string) Explanation {
	sides := newSides(server, theirs, body)
	e := Explanation{Same: server == theirs, Hints: sides.hints()}
	for i := range max(len(sides.server), len(sides.theirs)) {
		line := Line{Name: nameOf(i), Missing: i >= len(sides.theirs) || i == sides.absent}
		ours, others := at(sides.server, i), at(sides.theirs, i)
		common := commonPrefix(ours, others)
		line.Same = ours == others && !line.Missing && i < len(sides.server)
		line.Server = Shown{Visible(ours[:common]), Visible(ours[common:])}
		line.Theirs = Shown{Visible(others[:common]), Visible(others[common:])}
		if !line.Same && e.First == nil {
			e.First = &Difference{Line: i + 1, Byte: common + 1, Server: firstOf(ours[common:]), Theirs: firstOf(others[common:])}
			if line.Missing {
				e.First.Theirs = noSuchLine
			}
		}
		e.Lines = append(e.Lines, line)
	}
	return e
}

func nameOf(line int) string {
	if line < len(lineNames) {
		return lineNames[line]
	}
	return "extra line"
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// commonPrefix returns the length of the common prefix in bytes, without splitting a
// character.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && (n < len(a) && !utf8.RuneStart(a[n]) || n < len(b) && !utf8.RuneStart(b[n])) {
		n--
	}
	return n
}

// firstOf returns the first character for display.
func firstOf(text string) string {
	if text == "" {
		return endOfLine
	}
	_, size := utf8.DecodeRuneInString(text)
	return Visible(text[:size])
}

const (
	// endOfLine stands where a line has no further byte.
	endOfLine = "(end of the line)"
	// noSuchLine stands where a line is missing.
	noSuchLine = "(no such line)"
)

// visibleAs maps characters that are easily overlooked to what is shown for them.
var visibleAs = map[rune]string{' ': "␣", '\t': "␉", '\r': "␍", '\n': "␊"}

// Visible returns a string with invisible and ambiguous characters replaced by a symbol
// or an escape.
func Visible(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		char, size := utf8.DecodeRuneInString(text)
		switch sign, overlooked := visibleAs[char]; {
		case overlooked:
			out.WriteString(sign)
		case char == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case unicode.IsPrint(char):
			out.WriteRune(char)
		case char < 0x100:
			fmt.Fprintf(&out, `\x%02x`, char)
		default:
			fmt.Fprintf(&out, `\u%04x`, char)
		}
		text = text[size:]
	}
	return out.String()
}

// sides are the two strings, line by line, and the body if it is known.
type sides struct {
	server, theirs []string
	whole          string // theirs, as it was given
	count          int    // the lines in it
	newline        bool   // there is one at its end
	body           string
	// absent is the line that theirs seems to leave out; -1 if none. An empty line is
	// inserted for it.
	absent int
}

func newSides(server, theirs, body string) sides {
	s := sides{server: strings.Split(server, "\n"), theirs: strings.Split(theirs, "\n"), whole: theirs, body: body, absent: -1}
	s.count = len(s.theirs)
	// If an empty line was left out, the lines after it have moved up. They are compared
	// with the lines they were meant to be.
	movedUp := s.count >= len(lineNames)-1 && len(s.server) == len(lineNames) && s.server[queryLine] == "" &&
		allDigits(strings.TrimSuffix(s.theirs[queryLine], "\r"))
	if movedUp {
		s.absent = queryLine
		s.theirs = slices.Insert(s.theirs, queryLine, "")
	}
	// One extra line, and it is empty. Without an extra line, an empty last line is an
	// empty hash.
	s.newline = strings.HasSuffix(theirs, "\n") && len(s.theirs) > len(lineNames)
	return s
}

// line returns a line of both sides, without a carriage return at the end of theirs.
func (s sides) line(kind int) (server, theirs string) {
	return at(s.server, kind), strings.TrimSuffix(at(s.theirs, kind), "\r")
}
