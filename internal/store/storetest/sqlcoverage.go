package storetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// looksLikeSQL distinguishes SQL statements, or parts of them, from other raw strings.
var looksLikeSQL = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|RETURNING|ORDER BY)\b|[=<>] ?[?$][0-9]`)

// UnexercisedSQL returns the SQL texts in the source of a store and of ../sqlstore, as
// "file: function: text", that are part of none of the executed statements. excused
// names files and functions to ignore; an excuse that is not needed is returned too.
func UnexercisedSQL(t *testing.T, executed []string, excused map[string]string) (missing []string) {
	t.Helper()
	var files []string
	for _, folder := range []string{".", "../sqlstore"} {
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%d files in %s: %v", len(found), folder, err)
		}
		files = append(files, found...)
	}
	needed := map[string]bool{}
	texts := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for function, literals := range sqlTexts(t, name, source) {
			for _, text := range literals {
				texts++
				file := filepath.Base(name)
				if isPart(text, executed) {
					continue
				}
				switch {
				case excused[file] != "":
					needed[file] = true
				case excused[function] != "":
					needed[function] = true
				default:
					missing = append(missing, fmt.Sprintf("%s: %s: %s", file, function, text))
				}
			}
		}
	}
	if texts < 50 {
		t.Errorf("there are only %d SQL texts: they are looked for in the wrong way", texts)
	}
	for excuse := range excused {
		if !needed[excuse] {
			missing = append(missing, fmt.Sprintf("%s: nothing needs the excuse that it is %s", excuse, excused[excuse]))
		}
	}
	return missing
}

// numbered matches parameters. A part of a composed statement has unnumbered parameters
// in the source.
var numbered = regexp.MustCompile(`[?$][0-9]+`)

func isPart(text string, statements []string) bool {
	for _, statement := range statements {
		if strings.Contains(statement, text) || strings.Contains(text, "?") && strings.Contains(numbered.ReplaceAllString(statement, "?"), text) {
			return true
		}
	}
	return false
}

// sqlTexts returns the raw string literals of a file that look like SQL, by function.
func sqlTexts(t *testing.T, name string, source []byte) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, declaration := range file.Decls {
		where := "declarations"
		if function, is := declaration.(*ast.FuncDecl); is {
			where = function.Name.Name
		}
		ast.Inspect(declaration, func(n ast.Node) bool {
			literal, is := n.(*ast.BasicLit)
			if !is || literal.Kind != token.STRING || !strings.HasPrefix(literal.Value, "`") {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err == nil && looksLikeSQL.MatchString(text) {
				found[where] = append(found[where], text)
			}
			return true
		})
	}
	return found
}
