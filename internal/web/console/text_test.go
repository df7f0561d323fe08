package console

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/admin"
)

// hindi returns all translations.
func hindi(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range []string{"words/hi.json", "../panel/words/hi.json", "../words/hi.json", "../look/words/hi.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var words map[string]string
		if err := json.Unmarshal(text, &words); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, words)
	}
	return all
}

// refusers are the functions whose first string a page may show: a refusal's format string,
// or a text that is an argument of one.
var refusers = []string{"Refuse", "Term", "checkText", "advise", "refuse", "problem"}

// TestAdminRefusals_HaveHindi looks for refusals where admin and both stores
// make them. Each needs a translation.
func TestAdminRefusals_HaveHindi(t *testing.T) {
	hindi, forms := hindi(t), map[string]string{}
	for _, folder := range []string{"../../admin", "../../store/sqlite", "../../store/postgres", ".", "../../access", "../../bankstatement"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				refusalsIn(t, file, nil, forms)
			}
		}
	}
	// The reasons why a text is refused come from another package.
	for _, form := range []string{
		"It is not valid UTF-8.", "It contains the control character U+%04X.", "It contains U+%04X, which turns the direction of the text.",
		"It contains U+%04X, which is not a character.",
	} {
		forms[form] = "internal/subscription"
	}
	if len(forms) < 90 {
		t.Fatalf("found %d refusals: the search looks in the wrong place", len(forms))
	}
	for _, form := range slices.Sorted(maps.Keys(forms)) {
		if hindi[form] == "" {
			t.Errorf("%s refuses with %q, which words/hi.json does not have", forms[form], form)
		}
	}
}

func TestRefusalSearch_FindsEachKind(t *testing.T) {
	forms := map[string]string{}
	refusalsIn(t, "a.go", `package p
		var _ = Refuse("one %d", 1)
		var _ = admin.Refuse("two " +
			"pieces")
		var _ = checkText("three", text, 1, 2)
		var _ = Refuse("%s", Term("four"))
		var _ = Refuse("", advise("five"))`, forms)
	want := []string{"", "five", "four", "one %d", "three", "two pieces"}
	if got := slices.Sorted(maps.Keys(forms)); !slices.Equal(got, want) {
		t.Errorf("found %q; want %q", got, want)
	}
}

// refusalsIn adds the format strings of a file's refusals. A bare %s only passes on a text
// that is found by itself.
func refusalsIn(t *testing.T, file string, source any, forms map[string]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		call, is := node.(*ast.CallExpr)
		if !is || len(call.Args) == 0 {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if form, whole := literal(call.Args[0]); whole && form != "%s" && slices.Contains(refusers, name) {
			forms[form] = file
		}
		return true
	})
}

// literal returns a string literal, or literals joined by +.
func literal(expression ast.Expr) (text string, whole bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, first := literal(e.X)
		right, second := literal(e.Y)
		return left + right, e.Op == token.ADD && first && second
	}
	return "", false
}

func TestAuditLog_EveryActionHasAName(t *testing.T) {
	hindi := hindi(t)
	acts := []string{admin.CustomerContactChange, admin.CustomerPasswordReset, admin.CustomerPasswordAnswered, admin.PaymentAnnounce, admin.PaymentWithdraw, admin.OperationReversed}
	for _, action := range admin.Actions() {
		acts = append(acts, string(action))
	}
	for _, act := range acts {
		switch name := actionNames[act]; {
		case name == "":
			t.Errorf("the act %q has no name in actionNames", act)
		case hindi[name] == "":
			t.Errorf("the act %q is %q, which words/hi.json does not have", act, name)
		}
	}
	if len(actionNames) != len(acts) {
		t.Errorf("there are %d names for %d acts", len(actionNames), len(acts))
	}
	// An action without a name would be shown by its short name.
	files, err := filepath.Glob("../../admin/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && (strings.Contains(string(text), `Action: "`) || strings.Contains(string(text), `.act("`)) {
			t.Errorf("%s writes an act down by a text of its own: give it a constant and a name", file)
		}
	}
}

// Fields of states are stored under short names; the page needs display names.
func TestAuditLog_EveryFieldHasAName(t *testing.T) {
	found := 0
	for _, file := range []string{"../../admin/state.go", "../../admin/password.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			var key ast.Expr
			switch n := node.(type) {
			case *ast.KeyValueExpr:
				key = n.Key
			case *ast.IndexExpr:
				key = n.Index
			default:
				return true
			}
			if field, is := literal(key); is {
				found++
				if stateNames[field] == "" {
					t.Errorf("%s keeps %q, which has no name in stateNames", file, field)
				}
			}
			return true
		})
	}
	if found < 30 {
		t.Errorf("found %d fields: the search looks in the wrong place", found)
	}
}
