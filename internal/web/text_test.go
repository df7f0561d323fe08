package web

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Package login gives reasons in English, which the pages show, so they need translations.
// Whole sentences in its code are such reasons.
func TestLoginRefusals_HaveHindi(t *testing.T) {
	text, err := os.ReadFile("words/hi.json")
	if err != nil {
		t.Fatal(err)
	}
	var hindi map[string]string
	if err := json.Unmarshal(text, &hindi); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../login/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			sentence, err := strconv.Unquote(literal.Value)
			if err != nil || !strings.HasSuffix(sentence, ".") || !strings.Contains(sentence, " ") {
				return true
			}
			found++
			if hindi[sentence] == "" {
				t.Errorf("%s refuses with %q, which words/hi.json does not have", file, sentence)
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("found %d sentences in login: the search looks in the wrong place", found)
	}
}
