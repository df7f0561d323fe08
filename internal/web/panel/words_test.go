package panel

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Other rooms give their reasons in English, and here they are shown. Whole sentences
// in these files are such reasons; whoever adds one is told to translate it.
func TestReasonsOfOtherRoomsCanBeSaidInHindi(t *testing.T) {
	text, err := os.ReadFile("words/hi.json")
	if err != nil {
		t.Fatal(err)
	}
	var hindi map[string]string
	if err := json.Unmarshal(text, &hindi); err != nil {
		t.Fatal(err)
	}
	for file, least := range map[string]int{
		"../../requestlog/hints.go": 30, "../../bulk/csv.go": 10, "../../bulk/store.go": 2, "../../bulk/again.go": 4,
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		ast.Inspect(parsed, func(node ast.Node) bool {
			expression, is := node.(ast.Expr)
			if !is {
				return true
			}
			sentence, whole := literal(expression)
			if !whole || !strings.HasSuffix(sentence, ".") || !strings.Contains(sentence, " ") {
				return !whole
			}
			found++
			if hindi[sentence] == "" {
				t.Errorf("%s says %q, which words/hi.json does not have", file, sentence)
			}
			return false // its pieces are no sentences
		})
		if found < least {
			t.Errorf("found %d sentences in %s: the search looks in the wrong place", found, file)
		}
	}
}

// literal is a text that is written out, in one piece or in several.
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
