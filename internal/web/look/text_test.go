package look

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"text/template/parse"
)

// module is the root: templates and Go files anywhere in it may have texts.
const module = "../../.."

// spokenTexts are the English texts of a tree, each with one position.
type spokenTexts map[string]string

func TestTexts_MatchTranslations(t *testing.T) {
	for _, complaint := range checkTexts(t, os.DirFS(module)) {
		t.Error(complaint)
	}
}

// Each kind of text is used once without a translation and must be found: a search that
// finds nothing would pass too.
func TestCheckTexts_FindsEachKind(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"a text in a template":       {"internal/web/panel/pages/a.html", `{{define "main"}}{{if .X}}{{template "y" (dict "a" (t "Unsaid"))}}{{end}}{{end}}`, `"Unsaid" has no Hindi`},
		"either form of a plural":    {"internal/web/panel/parts/a.html", `{{define "main"}}{{tn .N "Known" "Unsaid"}}{{end}}`, `"Unsaid" has no Hindi`},
		"a text that Go says":        {"internal/web/panel/a.go", "package p\nvar _ = l.T(\"hi\", \"Unsaid\", 5)", `"Unsaid" has no Hindi`},
		"a text that Go marks":       {"internal/web/a.go", "package p\nvar _ = look.Text(\"Unsaid\")", `"Unsaid" has no Hindi`},
		"a text in two pieces":       {"internal/web/a.go", "package p\nvar _ = look.Text(\"Un\" +\n\"said\")", `"Unsaid" has no Hindi`},
		"a notice":                   {"internal/web/console/a.go", "package p\nvar _ = v.Success(\"Unsaid\", 5)", `"Unsaid" has no Hindi`},
		"an entry of the navigation": {"internal/web/console/a.go", "package p\nvar _ = Route{Menu: \"Unsaid\"}", `"Unsaid" has no Hindi`},
		"Hindi that nobody says":     {"internal/web/panel/words/hi.json", `{"Unsaid": "अनकहा"}`, `"Unsaid" is said nowhere`},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{
				"internal/web/words/hi.json": {Data: []byte(`{"Known": "ज्ञात"}`)},
				"internal/login/refusal.go":  {Data: []byte("package p\nvar _ = \"Known\"")},
				tt.file:                      {Data: []byte(tt.text)},
			}
			if got := checkTexts(t, tree); len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("found %q; want only that %s", got, tt.want)
			}
		})
	}
}

// checkTexts holds what pages say against the translations. Every text that is
// surely said needs one. A translation needs to be said surely, or at least to be
// a text somewhere in the code: reasons for a refusal come from other rooms.
func checkTexts(t *testing.T, tree fs.FS) (complaints []string) {
	t.Helper()
	said, written, hindi := spokenTexts{}, map[string]bool{}, spokenTexts{}
	err := fs.WalkDir(tree, "internal", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		ofPages := strings.HasPrefix(file, "internal/web/")
		if !ofPages && path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		switch {
		case path.Ext(file) == ".html":
			return textsOfTemplate(file, string(text), said)
		case path.Ext(file) == ".go":
			return textsOfGo(file, text, ofPages, said, written)
		case path.Base(file) == "hi.json":
			var words map[string]string
			if err := json.Unmarshal(text, &words); err != nil {
				return err
			}
			for english := range words {
				hindi[english] = file
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, english := range slices.Sorted(maps.Keys(said)) {
		if _, ok := hindi[english]; !ok {
			complaints = append(complaints, said[english]+": "+strconv.Quote(english)+" has no Hindi: add it to words/hi.json beside the pages")
		}
	}
	for _, english := range slices.Sorted(maps.Keys(hindi)) {
		if said[english] == "" && !written[english] {
			complaints = append(complaints, hindi[english]+": "+strconv.Quote(english)+" is said nowhere")
		}
	}
	return complaints
}

// textsOfTemplate finds the literal texts passed to t and tn, at any depth.
func textsOfTemplate(file, text string, said spokenTexts) error {
	anything := map[string]any{}
	tree := parse.New(file)
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", set, anything); err != nil {
		return err
	}
	for _, one := range set {
		if one.Root != nil {
			walkTemplate(one.Root, func(call *parse.CommandNode) {
				name, ok := call.Args[0].(*parse.IdentifierNode)
				if !ok || name.Ident != "t" && name.Ident != "tn" {
					return
				}
				most := 1
				if name.Ident == "tn" {
					most = 2
				}
				for _, arg := range call.Args[1:] {
					if literal, ok := arg.(*parse.StringNode); ok && most > 0 {
						said[literal.Text] = file
						most--
					}
				}
			})
		}
	}
	return nil
}

func walkTemplate(node parse.Node, visit func(*parse.CommandNode)) {
	pipe := func(p *parse.PipeNode) {
		if p != nil {
			walkTemplate(p, visit)
		}
	}
	branch := func(b *parse.BranchNode) {
		pipe(b.Pipe)
		walkTemplate(b.List, visit)
		if b.ElseList != nil {
			walkTemplate(b.ElseList, visit)
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, one := range n.Nodes {
			walkTemplate(one, visit)
		}
	case *parse.ActionNode:
		pipe(n.Pipe)
	case *parse.TemplateNode:
		pipe(n.Pipe)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			visit(command)
			for _, arg := range command.Args {
				if inner, ok := arg.(*parse.PipeNode); ok {
					walkTemplate(inner, visit)
				}
			}
		}
	}
}

// sayers are the functions that take an English text to translate.
var sayers = []string{"T", "Text", "say", "Success", "Failure", "Info"}

// textsOfGo finds the translated texts of a file of the pages, and all string literals of
// a file.
func textsOfGo(file string, text []byte, ofPages bool, said spokenTexts, written map[string]bool) error {
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, filepath.Base(file), text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BasicLit:
			if literal, ok := constant(n); ok {
				written[literal] = true
			}
		case *ast.BinaryExpr:
			if literal, ok := constant(n); ok {
				written[literal] = true
			}
		case *ast.CallExpr:
			if !ofPages || !slices.Contains(sayers, calledName(n.Fun)) {
				return true
			}
			for i, arg := range n.Args {
				// T takes the language first.
				if literal, ok := constant(arg); ok && !(i == 0 && len(n.Args) > 1 && slices.Contains(Languages, literal)) {
					said[literal] = file
					break
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && ofPages && key.Name == "Menu" {
				if literal, ok := constant(n.Value); ok {
					said[literal] = file
				}
			}
		}
		return true
	})
	return nil
}

func calledName(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// constant returns the value of a string literal, or of literals joined by +.
func constant(e ast.Expr) (string, bool) {
	switch n := e.(type) {
	case *ast.BasicLit:
		if n.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(n.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		a, okA := constant(n.X)
		b, okB := constant(n.Y)
		return a + b, okA && okB && n.Op == token.ADD
	}
	return "", false
}
