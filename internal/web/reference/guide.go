package reference

import (
	"bytes"
	"errors"
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

// guide is the data of the guide's page.
type guide struct {
	Title string
	Body  template.HTML
}

// renderGuide renders a page of docs as HTML. Raw HTML in it is left out.
func renderGuide(source []byte) (guide, error) {
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
	if err := replaceLinks(document); err != nil {
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

// replaceLinks makes links to files of the repository fit the served page: openapi.yaml is
// served too; of any other file the page names the path instead.
func replaceLinks(document ast.Node) error {
	var missing []*ast.Link
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		link, ok := node.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		switch to := string(link.Destination); {
		case strings.HasPrefix(to, "#"), strings.HasPrefix(to, "https://"):
		case to == "../contract/openapi.yaml":
			link.Destination = []byte("/openapi.yaml")
		default:
			missing = append(missing, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range missing {
		file, _, _ := strings.Cut(path.Join("docs", string(link.Destination)), "#")
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
