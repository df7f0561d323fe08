package docstest

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/audit"
)

const (
	architecturePage = "docs/architecture.md"
	failuresPage     = "docs/failures.md"
	glossaryPage     = "docs/glossary.md"
	contributingPage = "CONTRIBUTING.md"
)

// The page lists every crash point of the code, and no other.
func TestFailures_CrashPoints(t *testing.T) {
	tree := os.DirFS(".")
	var inCode []string
	called := regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	for _, file := range goFilesOf(t, tree, false) {
		for _, match := range called.FindAllStringSubmatch(string(textOf(t, tree, file)), -1) {
			inCode = append(inCode, match[1])
		}
	}
	var onPage []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(tableUnder(t, failuresPage, "## Crash points"), -1) {
		onPage = append(onPage, match[1])
	}
	slices.Sort(inCode)
	slices.Sort(onPage)
	if len(inCode) == 0 || !slices.Equal(onPage, slices.Compact(inCode)) {
		t.Errorf("%s lists the crash points %v; the code has %v", failuresPage, onPage, inCode)
	}
}

// The page lists every invariant of the audit in the audit's own words, and marks
// the invariants that only tests check.
func TestFailures_Invariants(t *testing.T) {
	row := regexp.MustCompile(`^\| ([A-Z]\d+w?) \| (.+) \| (audit|tests)\b`)
	byAudit := map[string]string{}
	rows := strings.Split(strings.TrimSpace(tableUnder(t, failuresPage, "## Invariants")), "\n")[2:]
	for _, line := range rows {
		match := row.FindStringSubmatch(line)
		switch {
		case match == nil:
			t.Errorf("%s has a row that does not say what checks it:\n%s", failuresPage, line)
		case match[3] == "audit":
			byAudit[match[1]] = match[2]
		case slices.ContainsFunc(audit.Invariants, func(i audit.Invariant) bool { return i.ID == match[1] }):
			t.Errorf("%s leaves %s to tests; the audit checks it", failuresPage, match[1])
		}
	}
	for _, invariant := range audit.Invariants {
		if got := byAudit[invariant.ID]; got != invariant.Promise {
			t.Errorf("%s says of %s %q; the audit says %q", failuresPage, invariant.ID, got, invariant.Promise)
		}
		delete(byAudit, invariant.ID)
	}
	for id := range byAudit {
		t.Errorf("%s says that the audit checks %s, which it does not", failuresPage, id)
	}
}

// A table renders as one only if it stands between blank lines and each of its rows
// has as many cells as its header.
func TestPages_TablesRender(t *testing.T) {
	for _, p := range pages(t) {
		prose := p.prose()
		cells := 0
		for n := 1; n <= len(p.lines); n++ {
			line, isProse := prose[n]
			switch row := isProse && strings.HasPrefix(line, "|"); {
			case row && cells == 0 && strings.TrimSpace(prose[n-1]) != "":
				t.Errorf("%s:%d: a table without a blank line before it", p.name, n)
			case !row && cells > 0 && strings.TrimSpace(line) != "":
				t.Errorf("%s:%d: a table without a blank line after it", p.name, n)
			}
			if !isProse || !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			got := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") - 1
			if cells == 0 {
				cells = got
			}
			if got != cells {
				t.Errorf("%s:%d: a row of %d cells in a table of %d", p.name, n, got, cells)
			}
		}
	}
}

// tableUnder returns the lines of the one table in a section of a page.
func tableUnder(t *testing.T, page, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(string(textOf(t, os.DirFS("."), page)), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var table strings.Builder
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|") {
			table.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	return table.String()
}

// goFilesOf lists the tree's Go files: its tests, or all others.
func goFilesOf(t testing.TB, tree fs.FS, tests bool) (files []string) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == "sdk" || len(name) > 1 && strings.HasPrefix(entry.Name(), ".")) {
			return fs.SkipDir
		}
		if strings.HasSuffix(name, ".go") && strings.HasSuffix(name, "_test.go") == tests {
			files = append(files, name)
		}
		return nil
	})
	if err != nil || len(files) == 0 && !tests {
		t.Fatalf("read the tree: %d files, %v", len(files), err)
	}
	return files
}

func textOf(t testing.TB, tree fs.FS, name string) []byte {
	t.Helper()
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
