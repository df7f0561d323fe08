package look

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Where icons are named: in a template's call or argument, and in the field of a route.
var (
	iconsOfTemplates = regexp.MustCompile(`icon"? (?:\(or \.[A-Za-z]+ )?"([a-z0-9-]+)"`)
	iconsOfRoutes    = regexp.MustCompile(`(?:Icon: |\.Icon = [^,\n]*, )"([a-z0-9-]+)"`)
)

// namedIcons returns the icons that pages and badges use, each with one position.
func namedIcons(t *testing.T) map[string]string {
	t.Helper()
	named := map[string]string{}
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return fs.SkipDir // the style guide is not a page of the product
		case entry.IsDir() || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		pattern := iconsOfTemplates
		switch filepath.Ext(file) {
		case ".html":
		case ".go":
			pattern = iconsOfRoutes
		default:
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, found := range pattern.FindAllStringSubmatch(string(text), -1) {
			named[found[1]] = file
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for state, badge := range badges {
		named[badge.icon] = "the state " + state
	}
	if len(named) < 40 {
		t.Fatalf("found only %d icons: the search looks in the wrong place", len(named))
	}
	return named
}

func TestIcons_UsedOnesExist(t *testing.T) {
	for name, place := range namedIcons(t) {
		if _, err := icon(name); err != nil {
			t.Errorf("%s: %v", place, err)
		}
	}
}

func TestIcons_ExistingOnesAreUsed(t *testing.T) {
	named := namedIcons(t)
	for name := range icons() {
		if named[name] == "" {
			t.Errorf("no page and no badge shows the icon %q: take its file out", name)
		}
	}
}

func TestNamedIcons_FindsEachUse(t *testing.T) {
	for text, want := range map[string][]string{
		`{{icon "menu"}} {{with .icon}}{{icon .}}{{end}}`:               {"menu"},
		`{{template "card" (dict "title" (t "Users") "icon" "users")}}`: {"users"},
		`{{icon (or .icon "inbox")}}`:                                   {"inbox"},
		`{{template "notice" (dict "kind" "info" "text" "key-round")}}`: nil,
		`{{template "x" (dict "icon" "key-round")}}{{icon "circle-x"}}`: {"key-round", "circle-x"},
	} {
		var got []string
		for _, found := range iconsOfTemplates.FindAllStringSubmatch(text, -1) {
			got = append(got, found[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("in %s were found %q; want %q", text, got, want)
		}
	}
}
