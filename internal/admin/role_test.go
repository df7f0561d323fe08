package admin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declaredAndUsed returns the package's actions by the names of their constants, and those
// that a service uses: a constant's name, or a quoted text.
func declaredAndUsed(t *testing.T) (declared map[string]Action, used []string) {
	t.Helper()
	declared = map[string]Action{}
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range names {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch node := n.(type) {
			case *ast.ValueSpec:
				if kind, is := node.Type.(*ast.Ident); is && kind.Name == "Action" {
					text, err := strconv.Unquote(node.Values[0].(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					declared[node.Names[0].Name] = Action(text)
				}
			case *ast.CallExpr:
				method, is := node.Fun.(*ast.SelectorExpr)
				if !is || method.Sel.Name != "newAction" && method.Sel.Name != "newReasonedAction" || len(node.Args) == 0 {
					return true
				}
				switch given := node.Args[0].(type) {
				case *ast.Ident:
					used = append(used, given.Name)
				case *ast.BasicLit:
					used = append(used, given.Value)
				}
			}
			return true
		})
	}
	return declared, used
}

func TestRights_ListEveryAction(t *testing.T) {
	declared, used := declaredAndUsed(t)
	if len(declared) < 20 || len(used) < 20 {
		t.Fatalf("%d actions and %d uses were found: the search is broken", len(declared), len(used))
	}
	for name, action := range declared {
		if len(rights[action]) == 0 {
			t.Errorf("%s (%q) has no row in rights: say who may do it", name, action)
		}
	}
	if len(rights) != len(declared) {
		t.Errorf("rights has %d rows for %d actions", len(rights), len(declared))
	}
	for _, name := range used {
		if name == "name" {
			continue // newReasonedAction passes its parameter on
		}
		action, known := declared[name]
		if text, err := strconv.Unquote(name); err == nil {
			action, known = Action(text), true
		}
		if !known || len(rights[action]) == 0 {
			t.Errorf("a service uses %s, which has no row in rights: say who may do it", name)
		}
	}
}

func TestRights_ByRole(t *testing.T) {
	roles := []Role{Viewer, Support, Finance, Administrator}
	for action, who := range rights {
		for _, role := range who {
			if !slices.Contains(roles, role) {
				t.Errorf("%q names the role %q, which is none", action, role)
			}
		}
		if May(Viewer, action) {
			t.Errorf("a viewer may %q", action)
		}
		if !May(Administrator, action) {
			t.Errorf("an administrator may not %q", action)
		}
		if May("", action) || May("owner", action) {
			t.Errorf("an unknown role may %q", action)
		}
		// A role that moves money grants no access, and the other way round.
		money := strings.HasPrefix(string(action), "wallet") || strings.HasPrefix(string(action), "proposal") || strings.HasPrefix(string(action), "payment") || action == ReviewSettle || action == OperationReverse || action == ReversalSettle || action == CommissionClose
		if May(Finance, action) != (money || action == ExceptionClose) {
			t.Errorf("finance and %q: %v", action, May(Finance, action))
		}
		if money && May(Support, action) {
			t.Errorf("support may %q", action)
		}
	}
	if May(Administrator, "lco rename") {
		t.Error("an action that is not listed is allowed")
	}
}
