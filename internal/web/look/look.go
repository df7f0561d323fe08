// Package look is the design system of the pages: layouts, components, the stylesheet,
// icons, charts and translations. It formats amounts, days and states, and knows nothing
// of what the pages are about: it reads no store, no session and no clock.
//
// A page is a template that defines title and main, made of the components in
// components, each with a comment on its arguments;
// testdata/pages/guide.html uses all of them. Text on a page is English inside t, with
// its Hindi in words/hi.json beside the pages; a test finds texts without Hindi and Hindi
// without a text. testdata/glossary.json has the words to use and to avoid; see Pseudo, too. Text made by Go code goes through Look.T, or is marked with Text where
// the language is not known yet. Colours and distances are tokens of
// style/1-tokens.css. No page has an inline style or script: the pages' security policy
// forbids it.
//
// COAX_TEST_SHOTS=/tmp/shots go test ./internal/web/look -run StyleGuide takes pictures
// of every component.
package look

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed layouts components charts words
var own embed.FS

// Languages are the pages' languages; the first is the language of the source texts and
// the fallback.
var Languages = []string{English, Hindi}

// The languages by their HTML codes.
const (
	English = "en"
	Hindi   = "hi"
)

// Look holds every page in every language. A page's template is built when it is first
// used: all of them take some thirty megabytes and slow down the start.
type Look struct {
	pages map[string]map[string]func() (*template.Template, error) // by language, then by name
	words map[string]map[string]string                             // by language, then by the English text
}

// Frame is the data of the layout around a page's content.
type Frame struct {
	Lang  string
	Title string // instead of the one that the page defines
	Area  string // "account", "panel", "console" or "docs"

	Person, Operator string
	Nav              []NavItem
	Here             string // the Href of the current entry
	Shortcuts        []Shortcut
	// Search is the page of the search over everything, and Searched what was searched for.
	// Without Search there is no field for it.
	Search, Searched string
	Notice           *Notice
	Maintenance      *Maintenance // nil while it is off
	// Changes are notices about changes of the visitor's second factors, until dismissed.
	Changes []string
	// Suspended: the visitor's operator is suspended, so nothing can be changed.
	Suspended bool
	// Unfinished: the visitor is in the middle of the sign-in.
	Unfinished bool
	// Allowed reports whether the visitor may use the route of a method and path; see May.
	Allowed func(method, path string) bool
	// Named names an actor of a record for people; see Who.
	Named func(actor string) string
	Path  string
	Theme string    // "light", "dark", or empty for what the system says
	Now   time.Time // what `ago` counts from
}

// May reports whether the visitor may use the route of a method and path, such as POST
// and /panel/activate. A page asks before it shows a button for it.
func (f Frame) May(method, path string) bool { return f.Allowed != nil && f.Allowed(method, path) }

// Who names an actor of a record, such as web:asha, for people.
func (f Frame) Who(actor string) string {
	if f.Named == nil {
		return actor
	}
	return f.Named(actor)
}

// NavItem is one entry of the navigation. Text is English and is translated.
type NavItem struct {
	Href, Text, Icon string
	Badge            int
}

// Shortcut is a page with the keys that open it, such as "g h": they follow each other.
// Text is English and is translated.
type Shortcut struct{ Keys, Href, Text string }

// List returns the keys one by one.
func (s Shortcut) List() []string { return strings.Fields(s.Keys) }

// Notice is a message about what has just happened. Text is already translated.
type Notice struct {
	Kind string // "good", "bad" or "info"
	Text string
}

// Maintenance is the banner of every page while maintenance mode is on.
type Maintenance struct {
	// Restored: the store was restored from an older copy, and has to be compared with the
	// provider from CompareSince on, or from its beginning if that is zero.
	Restored     bool
	CompareSince time.Time

	Since      time.Time
	By, Reason string
}

// view is the dot (.) of a page's template.
type view struct {
	Frame
	Data any
}

// Load reads every page below pages/ of the given file systems. A page's name is
// its path there without .html, so pages/bulk/preview.html is "bulk/preview"; each
// defines "title" and "main". What parts/*.html define is available to every page of the
// same file system. words/hi.json, if present, has the Hindi of the pages' texts.
func Load(pages ...fs.FS) (*Look, error) {
	l := &Look{pages: map[string]map[string]func() (*template.Template, error){}, words: map[string]map[string]string{}}
	for _, lang := range Languages {
		words, err := loadTranslations(lang, append([]fs.FS{own}, pages...))
		if err != nil {
			return nil, err
		}
		l.words[lang] = words
	}
	for i, lang := range Languages {
		base, err := template.New("look").Funcs(l.functions(lang)).ParseFS(own, "layouts/*.html", "components/*.html")
		if err != nil {
			return nil, fmt.Errorf("parse the layouts: %w", err)
		}
		set := map[string]func() (*template.Template, error){}
		for _, tree := range pages {
			if err := addPages(set, base, tree); err != nil {
				return nil, err
			}
			if i > 0 {
				continue // the pages are the same in every language
			}
			if err := checkPages(tree, l.functions(lang)); err != nil {
				return nil, err
			}
		}
		l.pages[lang] = set
	}
	return l, nil
}

// addPages adds the pages of a tree. Each is put together at its first use.
func addPages(set map[string]func() (*template.Template, error), base *template.Template, tree fs.FS) error {
	common, err := base.Clone()
	if err != nil {
		return err
	}
	parts, err := fs.Glob(tree, "parts/*.html")
	if err != nil {
		return err
	}
	if len(parts) > 0 {
		if common, err = common.ParseFS(tree, parts...); err != nil {
			return fmt.Errorf("parse parts of pages: %w", err)
		}
	}
	return eachPage(tree, func(file, text string) error {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "pages/"), ".html")
		if set[name] != nil {
			return fmt.Errorf("there are two pages called %s", name)
		}
		set[name] = sync.OnceValues(func() (*template.Template, error) {
			page, err := common.Clone()
			if err != nil {
				return nil, err
			}
			return page.Parse(text)
		})
		return nil
	})
}

// checkPages parses every page of a tree, so that an invalid one stops the start.
func checkPages(tree fs.FS, functions template.FuncMap) error {
	return eachPage(tree, func(file, text string) error {
		page, err := template.New("look").Funcs(functions).Parse(text)
		if err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
		for _, part := range []string{"title", "main"} {
			if page.Lookup(part) == nil {
				return fmt.Errorf("%s does not define %q", file, part)
			}
		}
		return nil
	})
}

func eachPage(tree fs.FS, do func(file, text string) error) error {
	return fs.WalkDir(tree, "pages", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".html" {
			return err
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		return do(file, string(text))
	})
}

// Page writes a whole page, or nothing if rendering fails.
func (l *Look) Page(w io.Writer, page string, f Frame, data any) error {
	layout := "shell"
	switch f.Area {
	case "account":
		layout = "single"
	case "docs":
		layout = "docs"
	}
	return l.write(w, page, layout, f, data)
}

// Fragment writes one block of a page, for htmx.
func (l *Look) Fragment(w io.Writer, page, block string, f Frame, data any) error {
	return l.write(w, page, block, f, data)
}

func (l *Look) write(w io.Writer, page, block string, f Frame, data any) error {
	f.Lang = known(f.Lang)
	made := l.pages[f.Lang][page]
	if made == nil {
		return fmt.Errorf("there is no page called %q", page)
	}
	set, err := made()
	if err != nil {
		return fmt.Errorf("put page %q together: %w", page, err)
	}
	if set.Lookup(block) == nil {
		return fmt.Errorf("page %q has no block %q", page, block)
	}
	var whole bytes.Buffer
	if err := set.ExecuteTemplate(&whole, block, view{f, data}); err != nil {
		return fmt.Errorf("fill page %q: %w", page, err)
	}
	_, err = whole.WriteTo(w)
	return err
}

// Has reports whether there is a page of that name.
func (l *Look) Has(page string) bool { return l.pages[English][page] != nil }

func known(lang string) string {
	for _, l := range Languages {
		if l == lang {
			return l
		}
	}
	return English
}

var errOddDict = errors.New("dict takes names and values in pairs")

// dict makes a component's argument out of names and values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errOddDict
	}
	d := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is not a name", pairs[i])
		}
		d[name] = pairs[i+1]
	}
	return d, nil
}
