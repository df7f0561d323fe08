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

// Explanation is how two strings to sign differ: the server's, and the one that an
// integrator's own program has signed.
type Explanation struct {
	// Same: they do not. Then it is the secret that does, or how it is used.
	Same bool
	// Lines are the six lines beside each other, and more if theirs has more.
	Lines []Line
	// First is the first byte that differs; nil if none does.
	First *Difference
	// Hints say what has probably happened, the surest first. There is always one.
	Hints []Hint
}

// Line is one line of both strings.
type Line struct {
	Name           string
	Server, Theirs Shown
	Same           bool
	// Missing: theirs has no such line.
	Missing bool
}

// Shown is a line for people to look at, with what cannot be seen made visible.
// Common is what both sides begin with, and Rest what is left.
type Shown struct{ Common, Rest string }

func (s Shown) String() string { return s.Common + s.Rest }

// Difference is where two strings part: the line and the byte in it, both counted
// from one, and what stands there on either side.
type Difference struct {
	Line, Byte     int
	Server, Theirs string
}

// Hint is what has probably happened, in words. Text may have places for Args, as
// fmt knows them, so that it can be translated first.
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

// CompareWithBody is Compare for somebody who also knows the body that was hashed.
// With it, the explanation can tell what was done to the body on its way. It is
// looked at and not kept.
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
	return "one line too many"
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// commonPrefix is how many bytes two texts begin with in common, without cutting a
// character in two.
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

// firstOf shows the character that a text begins with.
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

// visibleAs are the characters that people overlook, and what is shown for them.
var visibleAs = map[rune]string{' ': "␣", '\t': "␉", '\r': "␍", '\n': "␊"}

// Visible shows a text with everything that cannot be seen, or is taken for
// something else, as a sign or as its number.
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
	// absent is the line that theirs leaves out, if it seems to; -1 if not. An empty
	// one stands for it.
	absent int
}

func newSides(server, theirs, body string) sides {
	s := sides{server: strings.Split(server, "\n"), theirs: strings.Split(theirs, "\n"), whole: theirs, body: body, absent: -1}
	s.count = len(s.theirs)
	// Where an empty line was left out, the lines behind it have moved up. They are
	// compared with those that they stand for.
	movedUp := s.count >= len(lineNames)-1 && len(s.server) == len(lineNames) && s.server[queryLine] == "" &&
		allDigits(strings.TrimSuffix(s.theirs[queryLine], "\r"))
	if movedUp {
		s.absent = queryLine
		s.theirs = slices.Insert(s.theirs, queryLine, "")
	}
	// One line more than there should be, and nothing in it. Where there is none too
	// many, an empty last line is an empty hash.
	s.newline = strings.HasSuffix(theirs, "\n") && len(s.theirs) > len(lineNames)
	return s
}

// line is both sides' line of a kind. How the lines are joined is another question.
func (s sides) line(kind int) (server, theirs string) {
	return at(s.server, kind), strings.TrimSuffix(at(s.theirs, kind), "\r")
}
