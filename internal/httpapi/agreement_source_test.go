package httpapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coaxhq/coax/internal/fault"
)

// sources are the packages that make refusals.
var sources = []fs.FS{os.DirFS("."), os.DirFS("../access"), os.DirFS("../operation"), os.DirFS("../catalogue")}

// detailsIn reads the details of refusals from the source code: the names passed to
// With, by the code passed to New. There is no list of them in the program.
func detailsIn(folders ...fs.FS) (map[fault.Code][]string, error) {
	named, err := codeNames()
	if err != nil {
		return nil, err
	}
	found := map[fault.Code][]string{}
	for _, folder := range folders {
		files, err := fs.Glob(folder, "*.go")
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := fs.ReadFile(folder, name)
			if err != nil {
				return nil, err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				call, detail := withCall(node)
				if call == nil {
					return true
				}
				code, known := named[madeWith(call)]
				if !known || detail == "" {
					err = fmt.Errorf("%s: %s: With has to follow fault.New and to be given a name in quotes", name, detail)
				} else if !slices.Contains(found[code], detail) {
					found[code] = append(found[code], detail)
				}
				return true
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// withCall takes a call of With apart; nil if the node is something else.
func withCall(node ast.Node) (call *ast.CallExpr, name string) {
	call, _ = node.(*ast.CallExpr)
	if call == nil {
		return nil, ""
	}
	method, _ := call.Fun.(*ast.SelectorExpr)
	// slog's loggers have a With too, with any number of arguments.
	if method == nil || method.Sel.Name != "With" || len(call.Args) != 2 {
		return nil, ""
	}
	if literal, ok := call.Args[0].(*ast.BasicLit); ok {
		name, _ = strconv.Unquote(literal.Value)
	}
	return call, name
}

// madeWith returns the name of the code at the beginning of a chain of calls.
func madeWith(call *ast.CallExpr) string {
	for {
		method, _ := call.Fun.(*ast.SelectorExpr)
		if method == nil {
			return ""
		}
		if method.Sel.Name == "New" && len(call.Args) > 0 {
			code, _ := call.Args[0].(*ast.SelectorExpr)
			if code == nil {
				return ""
			}
			return code.Sel.Name
		}
		inner, _ := method.X.(*ast.CallExpr)
		if inner == nil {
			return ""
		}
		call = inner
	}
}

// codeNames are the codes by their names in Go.
func codeNames() (map[string]fault.Code, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "../fault/code.go", nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	named := map[string]fault.Code{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				text, _ := strconv.Unquote(literal.Value)
				named[spec.Names[0].Name] = fault.Code(text)
			}
		}
		return true
	})
	return named, nil
}
