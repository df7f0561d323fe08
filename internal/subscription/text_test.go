package subscription

import (
	"fmt"
	"strings"
	"testing"
)

// Each row is a code point that has no place in a text, with its neighbours on
// both sides of every boundary.
func TestUnprintable(t *testing.T) {
	const (
		fine    = ""
		control = "control character"
		turns   = "turns the direction"
		none    = "not a character"
	)
	for r, want := range map[rune]string{
		0x00: control, 0x09: control, 0x0a: control, 0x1f: control, 0x20: fine, 0x7e: fine,
		0x7f: control, 0x80: control, 0x85: control, 0x9f: control, 0xa0: fine,
		0x200b: fine, 0x200c: fine, 0x200d: fine, 0x2029: fine,
		0x202a: turns, 0x202c: turns, 0x202e: turns, 0x202f: fine,
		0x2065: fine, 0x2066: turns, 0x2069: turns, 0x206a: fine,
		0xfdcf: fine, 0xfdd0: none, 0xfde0: none, 0xfdef: none, 0xfdf0: fine,
		0xfffc: fine, 0xfffd: fine, 0xfffe: none, 0xffff: none, 0x10000: fine,
		0x1fffd: fine, 0x1fffe: none, 0x1ffff: none, 0x20000: fine, 0x10fffd: fine, 0x10fffe: none, 0x10ffff: none,
		'a': fine, 'अ': fine, '😀': fine,
	} {
		for _, text := range []string{string(r), "Asha " + string(r) + " Rao"} {
			got := Unprintable(text)
			if (got == "") != (want == fine) || !strings.Contains(got, want) {
				t.Errorf("%U: %q; want %q", r, got, want)
			}
			if want != fine && !strings.Contains(got, fmt.Sprintf("U+%04X", r)) {
				t.Errorf("%U: %q does not name it", r, got)
			}
		}
	}
	for _, broken := range []string{"\xff", "a\xc3", "\xed\xa0\x80"} {
		if got := Unprintable(broken); !strings.Contains(got, "UTF-8") {
			t.Errorf("%q: %q; want it to say that this is not UTF-8", broken, got)
		}
	}
	if got := Unprintable(""); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestUnprintableLines_AllowsLineBreaksAndTabs(t *testing.T) {
	for text, want := range map[string]string{
		"12 Lake Road\r\n\tKochi\n": "", "": "",
		"a\vb": "U+000B", "a\fb": "U+000C", "a\n\x00": "U+0000", "a\n\u0085": "U+0085", "a\n\u202eb": "U+202E", "a\n\ufdd0": "U+FDD0",
		"a\n\xff": "UTF-8", "a\xe0\n\xa4\x85": "UTF-8",
	} {
		if got := UnprintableLines(text); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}
