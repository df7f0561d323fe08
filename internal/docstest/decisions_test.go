package docstest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const decisionsFolder = "docs/decisions"

// Files, tests and pages that a page names exist.
func TestPages_NamesExist(t *testing.T) {
	for _, problem := range checkPages(t, os.DirFS(".")) {
		t.Error(problem)
	}
}

// checkPages reports each kind of mistake.
func TestPages_EachMistakeIsFound(t *testing.T) {
	const page = "# A page\n\n## Open\n\nx\n\n## Decided\n\nx\n\n## Why\n\nx\n\n## For callers\n\nx\n\n## Tested by\n\n`TestThere` in `internal/x/x_test.go`.\n"
	for name, tt := range map[string]struct {
		index, page string
		want        string // part of the one problem; empty: none
	}{
		"nothing wrong":                     {"- [A page](0001-a.md): it says a.\n", page, ""},
		"a page that the index lacks":       {"", page, "0001-a.md is not in"},
		"an index of a page that is gone":   {"- [A page](0001-a.md): a.\n- [B](0002-b.md): b.\n", page, "0002-b.md, which is not there"},
		"a page that is in the index twice": {"- [A page](0001-a.md): a.\n- [A page](0001-a.md): a.\n", page, "0001-a.md twice"},
		"another title than the page's":     {"- [A sheet](0001-a.md): a.\n", page, `"A page"`},
		"no line on what was decided":       {"- [A page](0001-a.md)\n", page, "0001-a.md is not in"},
		"a section less":                    {"- [A page](0001-a.md): a.\n", strings.Replace(page, "## Why", "Why", 1), "sections"},
		"a page without a test":             {"- [A page](0001-a.md): a.\n", strings.Replace(page, "TestThere", "there", 1), "names no test"},
		"a test that is not there":          {"- [A page](0001-a.md): a.\n", page + "\nTestGone\n", "TestGone"},
		"a file that is not there":          {"- [A page](0001-a.md): a.\n", page + "\n`internal/x/y.go`\n", "internal/x/y.go"},
		"a folder that is not there":        {"- [A page](0001-a.md): a.\n", page + "\n`internal/y`\n", "internal/y"},
		"a link that leads nowhere":         {"- [A page](0001-a.md): a.\n", page + "\n[b](0009-b.md)\n", "0009-b.md"},
		"a link that leads somewhere":       {"- [A page](0001-a.md): a.\n", page + "\n[b](../../internal/x/x_test.go), [c](https://example.org/)\n", ""},
		"a package of somebody else's":      {"- [A page](0001-a.md): a.\n", page + "\n`net/http`, `application/json`, `/api/v1/balance`\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := checkPages(t, fstest.MapFS{
				architecturePage:            {Data: []byte("# Architecture\n")},
				failuresPage:                {Data: []byte("# Failures\n")},
				glossaryPage:                {Data: []byte("# Glossary\n")},
				contributingPage:            {Data: []byte("# Contributing\n")},
				"docs/decisions/README.md":  {Data: []byte(tt.index)},
				"docs/decisions/0001-a.md":  {Data: []byte(tt.page)},
				"internal/x/x_test.go":      {Data: []byte("package x\n\nfunc TestThere(t *testing.T) {}\n")},
				"internal/x/testdata/x.txt": {Data: []byte("")},
			})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("problems %q; want none", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("problems %q; want one with %q", got, tt.want)
			}
		})
	}
}

// checkPages returns what is wrong with the pages about the code.
func checkPages(t testing.TB, tree fs.FS) (problems []string) {
	t.Helper()
	pages, err := fs.Glob(tree, decisionsFolder+"/[0-9]*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("found no decisions: %v", err)
	}
	tests := testsOf(t, tree)
	problems = checkIndex(t, tree, pages)
	for _, page := range append(pages, architecturePage, failuresPage, glossaryPage, contributingPage, decisionsFolder+"/README.md") {
		text := string(textOf(t, tree, page))
		problems = append(problems, checkNames(tree, page, text, tests)...)
		if slices.Contains(pages, page) {
			problems = append(problems, checkSections(page, text)...)
		}
	}
	return problems
}

// checkIndex compares the list of decisions with the pages, both ways.
func checkIndex(t testing.TB, tree fs.FS, pages []string) (problems []string) {
	t.Helper()
	index := decisionsFolder + "/README.md"
	listed := map[string]bool{}
	entry := regexp.MustCompile(`(?m)^- \[([^\]]+)\]\(([0-9][^)]*\.md)\): \S`)
	for _, match := range entry.FindAllStringSubmatch(string(textOf(t, tree, index)), -1) {
		title, name := match[1], match[2]
		page := path.Join(decisionsFolder, name)
		switch {
		case listed[page]:
			problems = append(problems, fmt.Sprintf("%s lists %s twice", index, name))
		case !slices.Contains(pages, page):
			problems = append(problems, fmt.Sprintf("%s lists %s, which is not there", index, name))
		default:
			first, _, _ := strings.Cut(string(textOf(t, tree, page)), "\n")
			if is := strings.TrimPrefix(first, "# "); is != title {
				problems = append(problems, fmt.Sprintf("%s calls %s %q; its title is %q", index, name, title, is))
			}
		}
		listed[page] = true
	}
	for _, page := range pages {
		if !listed[page] {
			problems = append(problems, fmt.Sprintf("%s is not in %s with a line on what was decided", page, index))
		}
	}
	return problems
}

var (
	namedTest       = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9_]*`)
	decisionSection = regexp.MustCompile(`(?m)^## (.+)$`)
)

// checkSections requires the sections of a decision, and a test in the last one.
func checkSections(page, text string) (problems []string) {
	var sections []string
	for _, match := range decisionSection.FindAllStringSubmatch(text, -1) {
		sections = append(sections, match[1])
	}
	if want := []string{"Open", "Decided", "Why", "For callers", "Tested by"}; !slices.Equal(sections, want) {
		return []string{fmt.Sprintf("%s has the sections %q; want %q", page, sections, want)}
	}
	if _, shown, _ := strings.Cut(text, "\n## Tested by\n"); !namedTest.MatchString(shown) {
		problems = append(problems, page+" names no test")
	}
	return problems
}

var (
	inBackticks = regexp.MustCompile("`([^`\n]+)`")
	pageLink    = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	// A path of ours begins with one of our folders or ends like one of our files. Other
	// things in backticks have slashes too.
	ourPath = regexp.MustCompile(`^(?:(?:client|cmd|contract|docs|internal|scripts|signing|tools|\.ci)/[A-Za-z0-9_./-]*|[A-Za-z0-9_./-]+\.(?:go|md|sql|yaml))$`)
)

// checkNames looks for every test, file and page that a text names. The import table
// has short paths, and may have rows for packages that do not exist yet.
func checkNames(tree fs.FS, page, text string, tests map[string]bool) (problems []string) {
	if before, after, found := strings.Cut(text, "\n## Allowed imports\n"); found {
		_, after, _ = strings.Cut(after, "\n## ")
		text = before + "\n## " + after
	}
	missing := func(kind, name string) {
		problems = append(problems, fmt.Sprintf("%s names the %s %s, which is not there", page, kind, name))
	}
	for _, name := range namedTest.FindAllString(text, -1) {
		if !tests[name] {
			missing("test", name)
		}
	}
	for _, match := range inBackticks.FindAllStringSubmatch(text, -1) {
		if name := match[1]; ourPath.MatchString(name) && !exists(tree, strings.TrimSuffix(name, "/")) {
			missing("path", name)
		}
	}
	for _, match := range pageLink.FindAllStringSubmatch(text, -1) {
		if to := match[1]; !strings.Contains(to, "://") && !exists(tree, path.Join(path.Dir(page), to)) {
			// checkIndex reports pages that are missing from the index.
			if page != decisionsFolder+"/README.md" {
				missing("page", to)
			}
		}
	}
	return problems
}

func exists(tree fs.FS, name string) bool {
	_, err := fs.Stat(tree, name)
	return err == nil
}

// testsOf are the tests and fuzz targets of the whole tree.
func testsOf(t testing.TB, tree fs.FS) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9_]*)\(`)
	names := map[string]bool{}
	for _, file := range goFilesOf(t, tree, true) {
		for _, match := range declared.FindAllSubmatch(textOf(t, tree, file), -1) {
			names[string(match[1])] = true
		}
	}
	return names
}
