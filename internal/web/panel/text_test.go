package panel

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// Other packages give reasons in English, which the panel shows. Whole sentences in these
// files are such reasons and need a translation.
func TestFaultTexts_HaveHindi(t *testing.T) {
	text, err := os.ReadFile("words/hi.json")
	if err != nil {
		t.Fatal(err)
	}
	var hindi map[string]string
	if err := json.Unmarshal(text, &hindi); err != nil {
		t.Fatal(err)
	}
	for file, least := range map[string]int{
		"../../requestlog/hints.go": 30, "../../bulk/file.go": 8, "../../sheet/read.go": 6, "../../sheet/readxlsx.go": 6, "../../sheet/readcell.go": 1, "../../bulk/store.go": 2, "../../bulk/retry.go": 4,
	} {
		found := sentences(t, file)
		for _, sentence := range found {
			if hindi[sentence] == "" {
				t.Errorf("%s says %q, which words/hi.json does not have", file, sentence)
			}
		}
		if len(found) < least {
			t.Errorf("found %d sentences in %s: the search looks in the wrong place", len(found), file)
		}
	}
}

// Package bulk refuses lists with a format string and arguments.
func TestBulkRefusals_HaveHindi(t *testing.T) {
	pages, err := look.Load(Files)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../bulk/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			call, is := node.(*ast.CallExpr)
			if !is || len(call.Args) == 0 {
				return true
			}
			name, plain := call.Fun.(*ast.Ident)
			if form, whole := literal(call.Args[0]); plain && name.Name == "refuse" && whole {
				found++
				if pages.T(look.Hindi, form) == form {
					t.Errorf("%s refuses with %q, which words/hi.json does not have", file, form)
				}
			}
			return true
		})
	}
	if found < 7 {
		t.Errorf("found %d refusals: the search looks in the wrong place", found)
	}
}

// Fields are refused with the API's messages, which contain numbers; each must match a
// fieldForm, or it stays English.
func TestExplainField_KnowsEveryText(t *testing.T) {
	for _, file := range []string{"../../operation/validate.go", "../../subscription/text.go"} {
		for _, sentence := range sentences(t, file) {
			if strings.HasPrefix(sentence, "It ") && !slices.Contains(fieldForms, sentence) {
				t.Errorf("%s says %q of a field, which fieldForms does not have", file, sentence)
			}
		}
	}
	pages, err := look.Load(Files)
	if err != nil {
		t.Fatal(err)
	}
	v := &web.Visit{Look: pages, R: httptest.NewRequest("GET", "/panel/activate", nil)}
	v.R.Header.Set("Accept-Language", "hi")
	for text, want := range map[string]string{
		"It is required.":                                 "यह ज़रूरी है।",
		"It has to be exactly 10 digits.":                 "इसमें ठीक 10 अंक होने चाहिए।",
		"It has 101 characters; at most 100 are allowed.": "101",
		"It contains the control character U+000A.":       "इसमें नियंत्रण-चिह्न U+000A है।",
		"Something that nobody has heard of.":             "Something that nobody has heard of.",
	} {
		if got := explainField(v, text); !strings.Contains(got, want) || got == text && want != text {
			t.Errorf("%q is said as %q; want %q", text, got, want)
		}
	}
}

func TestInWords_PicksUnit(t *testing.T) {
	pages, err := look.Load(Files)
	if err != nil {
		t.Fatal(err)
	}
	v := &web.Visit{Look: pages, R: httptest.NewRequest("GET", "/panel/requests", nil)}
	for d, want := range map[time.Duration]string{
		30 * 24 * time.Hour: "30 days", 48 * time.Hour: "2 days", 24 * time.Hour: "24 hours", 36 * time.Hour: "36 hours",
		time.Hour: "60 minutes", 90 * time.Second: "90 seconds",
	} {
		if got := inWords(v, d); got != want {
			t.Errorf("%s is %q; want %q", d, got, want)
		}
	}
}

// sentences returns the whole sentences among a file's string literals.
func sentences(t *testing.T, file string) (found []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		expression, is := node.(ast.Expr)
		if !is {
			return true
		}
		sentence, whole := literal(expression)
		if !whole || !strings.HasSuffix(sentence, ".") || !strings.Contains(sentence, " ") {
			return !whole
		}
		found = append(found, sentence)
		return false // its parts are not sentences
	})
	return found
}

// literal returns a string literal, or literals joined by +.
func literal(expression ast.Expr) (text string, whole bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, first := literal(e.X)
		right, second := literal(e.Y)
		return left + right, e.Op == token.ADD && first && second
	}
	return "", false
}
