package admin_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/coaxhq/coax/internal/admin"
)

func TestNormaliseReference(t *testing.T) {
	for _, test := range []struct {
		want  string
		typed []string
	}{
		{"neft12", []string{
			"NEFT12", "NEFT-1 2", "neft12", "ＮＥＦＴ１２", "Ｎeft\u30001２", " NEFT/1.2 ", "NEFT#12", "N_E+F=T|1~2", "NEFT\u200b12", "NEFT\u200d12", "NEFT\u00ad12",
			"NEFT\ufeff12", "NE\u2060FT12", "NEFT12\ufe0f", "NEFT\u034f12", "NEFT\u3164\u115f\uffa012", "NEFT\U000e010012", "NEFT\u180e12", "NEFT\u206312", "NEFT①②",
			"NEFT\u00a012", "NEFT\u280012", "\U0001d40d\U0001d404\U0001d405\U0001d413\U0001d7cf\U0001d7d0", "NEFT´12", "NEFT \u030112", "\u0301NEFT12", "NEFT\u20dd12",
			"NEFT😀12", "NEFT\ue00012", "NEFT\u202e12", "NEFT\n12",
		}},
		{"strasse", []string{"Straße", "STRASSE", "STRAẞE", "ſtraße"}},
		{"é", []string{"é", "É", "e\u0301", "E\u0301", "e\u200d\u0301"}},
		{"e", []string{"e", "e-\u0301"}},
		{"ofis", []string{"ofis", "oﬁs", "OFIS"}},
		{"σσ", []string{"ΣΣ", "σς"}},
		{"가", []string{"가", "\u1100\u1161", "\u1100 \u1161"}},
		// क with and without its signs are different words, whatever joiner stands between.
		{"की", []string{"की", "क\u200dी"}},
		{"क", []string{"क", "क ", "क-"}},
		{"क्ष", []string{"क्ष", "क्\u200dष", "क्\u200cष"}},
		{"क\u093c", []string{"क\u093c", "\u0958"}},
		{"१२", []string{"१२", "१-२"}},
		{"", []string{"", " ", "---", "\u200b", "\ufe0f", "₹", "\u0301", "!\u0301"}},
	} {
		for _, typed := range test.typed {
			if got := admin.NormaliseReference(typed); got != test.want {
				t.Errorf("%q is compared as %q; want %q", typed, got, test.want)
			}
		}
	}
}

// ignored are characters of each kind that does not count.
var ignored = []rune(" \u00a0\u3000\t-_/.,:;#&'\"()[]+=|~^$₹€😀\u2800\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0f\u034f\u115f\u1160\u3164\uffa0\u180b\u17b4\u061c\U000e0041\U000e0100\ue000")

func TestNormaliseReference_IgnoredCharactersChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.Rune(), 0, 20, -1).Draw(t, "text")
		normalised := admin.NormaliseReference(text)
		var spelled strings.Builder
		for _, r := range text {
			// A mark belongs to the character before it, with or without an invisible one
			// between; a space there would take it along.
			invisible := unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
			if !invisible && !unicode.IsMark(r) && norm.NFKD.PropertiesString(string(r)).CCC() == 0 && !strings.ContainsFunc(norm.NFKD.String(string(r))[:firstLen(r)], unicode.IsMark) {
				spelled.WriteString(string(rapid.SliceOfN(rapid.SampledFrom(ignored), 0, 2).Draw(t, "between")))
			}
			spelled.WriteRune(r)
		}
		if got := admin.NormaliseReference(spelled.String()); got != normalised {
			t.Fatalf("%q is compared as %q, and %q as %q", text, normalised, spelled.String(), got)
		}
	})
}

// firstLen is the length of the first character that a character decomposes into.
func firstLen(r rune) int {
	_, n := utf8.DecodeRuneInString(norm.NFKD.String(string(r)))
	return n
}

func TestNormaliseReference_FormsOfOneTextAreOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkNormalised(t, rapid.String().Draw(t, "text")) })
}

func FuzzNormaliseReference(f *testing.F) {
	for _, text := range []string{"NEFT-1 2", "ＮＥＦＴ１２", "Straße", "की\u200d", "\u0345\u0301α", "ᾴ", "İ", "\xff", "\u1100\u1161\u11a8", "ﷺ", "\u0f73\u0f71"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkNormalised(t, text) })
}

type failing interface {
	Fatalf(format string, args ...any)
}

func checkNormalised(t failing, text string) {
	normalised := admin.NormaliseReference(text)
	if again := admin.NormaliseReference(normalised); again != normalised {
		t.Fatalf("%q is compared as %q, and that as %q", text, normalised, again)
	}
	if !utf8.ValidString(normalised) || !norm.NFKC.IsNormalString(normalised) {
		t.Fatalf("%q is compared as %q, which is not in NFKC", text, normalised)
	}
	for _, r := range normalised {
		if !unicode.In(r, unicode.L, unicode.N, unicode.Mn, unicode.Mc) {
			t.Fatalf("%q is compared as %q, which has %U", text, normalised, r)
		}
	}
	for name, form := range map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD} {
		if got := admin.NormaliseReference(form.String(text)); got != normalised {
			t.Fatalf("%q is compared as %q, and its %s as %q", text, normalised, name, got)
		}
	}
}
