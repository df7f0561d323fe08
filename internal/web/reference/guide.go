package reference

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"html/template"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// guide is the data of a page of the guide.
type guide struct {
	Title string
	Body  template.HTML
}

// served maps the files of the repository that are served to their paths.
var served = map[string]string{
	"docs/integrating.md":        "/docs/guide",
	"docs/what-happens-when.md":  "/docs/what-happens-when",
	"docs/after-each-answer.svg": "/docs/after-each-answer.svg",
	"sdk/BEHAVIOUR.md":           "/docs/sdk-behaviour",
	"contract/openapi.yaml":      "/openapi.yaml",
}

// renderGuide renders a file of the repository as HTML. Raw HTML in it is left out.
func renderGuide(file string, source []byte) (guide, error) {
	md := goldmark.New(
		// An alignment as an attribute, because the pages' policy forbids inline styles.
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)
	document := md.Parser().Parse(text.NewReader(source))
	heading, ok := document.FirstChild().(*ast.Heading)
	if !ok {
		return guide{}, errors.New("render the guide: it does not begin with a heading")
	}
	if err := replaceLinks(document, path.Dir(file)); err != nil {
		return guide{}, err
	}
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, source, document); err != nil {
		return guide{}, err
	}
	// What scrolls sideways on a phone must be reachable by keyboard. Code shown on the page
	// has no such tags: it is escaped.
	body := strings.NewReplacer(
		"<pre>", `<pre tabindex="0">`,
		"<table>", `<div class="docs-scroll" tabindex="0"><table>`,
		"</table>", "</table></div>",
		"<th></th>", "<td></td>", // a header that names nothing
	).Replace(out.String())
	return guide{Title: string(heading.Lines().Value(source)), Body: template.HTML(body)}, nil
}

// replaceLinks makes links to files of the repository, relative to a folder, fit the served
// page: of a file that is not served it names the path instead.
func replaceLinks(document ast.Node, folder string) error {
	var missing []*ast.Link
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch link := node.(type) {
		case *ast.Link:
			to, section, within := strings.Cut(string(link.Destination), "#")
			at, is := served[path.Join(folder, to)]
			switch {
			case to == "" || strings.HasPrefix(to, "https://"):
			case !is:
				missing = append(missing, link)
			case within:
				link.Destination = []byte(at + "#" + section)
			default:
				link.Destination = []byte(at)
			}
		case *ast.Image:
			at, is := served[path.Join(folder, string(link.Destination))]
			if !is {
				return ast.WalkStop, fmt.Errorf("the picture %s is not served", link.Destination)
			}
			link.Destination = []byte(at)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range missing {
		file, _, _ := strings.Cut(path.Join(folder, string(link.Destination)), "#")
		named := ast.NewString([]byte(" (<code>" + html.EscapeString(file) + "</code> in the source)"))
		named.SetCode(true) // it is HTML already
		parent := link.Parent()
		for child := link.FirstChild(); child != nil; child = link.FirstChild() {
			parent.InsertBefore(parent, link, child)
		}
		parent.InsertBefore(parent, link, named)
		parent.RemoveChild(parent, link)
	}
	return err
}
