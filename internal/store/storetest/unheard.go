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

// looksLikeSQL tells a statement, or a part of one, from other raw texts.
var looksLikeSQL = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|RETURNING|ORDER BY)\b|[=<>] ?[?$][0-9]`)

// Unheard are the SQL texts in the source of a store and of ../sqlstore, as
// "file: function: text", that are part of none of the statements that were heard. What is excused, by file
// or by function, is not looked at; an excuse that nothing needs is named, too.
func Unheard(t *testing.T, heard []string, excused map[string]string) (unheard []string) {
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
				if isPart(text, heard) {
					continue
				}
				switch {
				case excused[file] != "":
					needed[file] = true
				case excused[function] != "":
					needed[function] = true
				default:
					unheard = append(unheard, fmt.Sprintf("%s: %s: %s", file, function, text))
				}
			}
		}
	}
	if texts < 50 {
		t.Errorf("there are only %d SQL texts: they are looked for in the wrong way", texts)
	}
	for excuse := range excused {
		if !needed[excuse] {
			unheard = append(unheard, fmt.Sprintf("%s: nothing needs the excuse that it is %s", excuse, excused[excuse]))
		}
	}
	return unheard
}

// numbered are the places for arguments. A part that is put together with others
// gets its numbers then, and has none in the source.
var numbered = regexp.MustCompile(`[?$][0-9]+`)

func isPart(text string, statements []string) bool {
	for _, statement := range statements {
		if strings.Contains(statement, text) || strings.Contains(text, "?") && strings.Contains(numbered.ReplaceAllString(statement, "?"), text) {
			return true
		}
	}
	return false
}

// sqlTexts are the raw string literals of a file that look like SQL, by the function
// or the name that has them.
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
