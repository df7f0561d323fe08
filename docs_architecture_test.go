package rooms_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
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

// The import table of the page and the one that rooms_test.go enforces are the same.
func TestArchitecture_ImportTable(t *testing.T) {
	got := tableUnder(t, architecturePage, importsHeading)
	if want := importTable(rooms); got != want {
		t.Errorf("%s differs from the table in rooms_test.go; the table to paste is\n%s", architecturePage, want)
	}
}

const importsHeading = "## Allowed imports"

// TestArchitecture_ImportTable can only fail if every rule shows in the table.
func TestArchitecture_ImportTableShowsEveryRule(t *testing.T) {
	is := importTable(rooms)
	for i := range rooms {
		for what, change := range map[string]func(*room){
			"other path":      func(r *room) { r.path += "x" },
			"added import":    func(r *room) { r.doors = append(slices.Clone(r.doors), "cmd/coax") },
			"removed import":  func(r *room) { r.doors = r.doors[:max(0, len(r.doors)-1)] },
			"added ban":       func(r *room) { r.never = append(slices.Clone(r.never), "os") },
			"removed ban":     func(r *room) { r.never = r.never[:max(0, len(r.never)-1)] },
			"stdlib toggled":  func(r *room) { r.stdlib = !r.stdlib },
			"clock toggled":   func(r *room) { r.timeless = !r.timeless },
			"testing toggled": func(r *room) { r.sealed = !r.sealed },
		} {
			changed := slices.Clone(rooms)
			change(&changed[i])
			none := what == "removed import" && len(rooms[i].doors) == 0 || what == "removed ban" && len(rooms[i].never) == 0
			if got := importTable(changed) != is; got == none {
				t.Errorf("%s, %s: the table differs: %v, want %v", rooms[i].path, what, got, !none)
			}
		}
	}
}

// importTable renders the rules as Markdown. Paths are below internal/ where that
// exists; groups of packages that occur in many rows have a name.
func importTable(rooms []room) string {
	short := func(path string) string { return strings.TrimPrefix(path, "internal/") }
	join := func(list []string, groups ...namedGroup) string {
		var words []string
		for _, g := range groups {
			if containsAll(list, g.members) {
				words = append(words, g.name)
				list = slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(g.members, one) })
			}
		}
		for _, one := range list {
			words = append(words, "`"+short(one)+"`")
		}
		return strings.Join(words, ", ")
	}
	domain := slices.DeleteFunc(slices.Clone(storeDoors), func(one string) bool { return slices.Contains(pure, one) })
	var text strings.Builder
	text.WriteString("| package | may import | never | also |\n|---|---|---|---|\n")
	for _, r := range rooms {
		var also []string
		for _, rule := range []struct {
			holds bool
			words string
		}{
			{r.stdlib, "stdlib only"}, {r.timeless, "no clock"}, {r.sealed, "tests only"},
		} {
			if rule.holds {
				also = append(also, rule.words)
			}
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", short(r.path),
			join(r.doors, namedGroup{"everything", everywhere}, namedGroup{"*pure*", pure}, namedGroup{"*domain*", domain}),
			join(r.never, namedGroup{"HTTP", netHTTP}, namedGroup{"SQL", database}), strings.Join(also, ", "))
	}
	return text.String()
}

type namedGroup struct {
	name    string
	members []string
}

func containsAll(list, members []string) bool {
	for _, one := range members {
		if !slices.Contains(list, one) {
			return false
		}
	}
	return true
}

// The tree of packages lists every package that has a row in the import table and
// code that ships, and nothing that does not exist.
func TestArchitecture_PackageTree(t *testing.T) {
	tree := os.DirFS(".")
	_, section, _ := strings.Cut(string(textOf(t, tree, architecturePage)), "\n## Packages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(  )?([a-z][a-z0-9/]+) +\S`).FindAllStringSubmatch(section, -1) {
		name := match[2]
		if match[1] != "" {
			name = "internal/" + name
		}
		listed[name] = true
		if !isThere(tree, name) {
			t.Errorf("%s lists the package %s, which does not exist", architecturePage, name)
		}
	}
	for _, file := range goFilesOf(t, tree, false) {
		folder := path.Dir(file)
		if _, at, known := roomOf(folder); known && !strings.Contains(folder, "testdata") && !listed[at] {
			t.Errorf("%s does not list the package %s", architecturePage, at)
			listed[at] = true
		}
	}
}

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
