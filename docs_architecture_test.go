package rooms_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/audit"
)

const architecturePage = "docs/architecture.md"

// The page shows the table of doors as people read it; rooms_test.go has it as
// the compiler does. They are one table.
func TestTheArchitecturePageHasTheTableOfDoors(t *testing.T) {
	got := tableUnder(t, architecturePage, "## The doors")
	if want := doorsTable(rooms); got != want {
		t.Errorf("%s has another table of doors than rooms_test.go; the one to paste is\n%s", architecturePage, want)
	}
}

// A table that came out the same whatever the rooms are would always agree.
func TestTheTableOfDoorsShowsEveryChange(t *testing.T) {
	is := doorsTable(rooms)
	for i := range rooms {
		for what, change := range map[string]func(*room){
			"another path":   func(r *room) { r.path += "x" },
			"another door":   func(r *room) { r.doors = append(slices.Clone(r.doors), "cmd/coax") },
			"a closed door":  func(r *room) { r.doors = r.doors[:max(0, len(r.doors)-1)] },
			"another never":  func(r *room) { r.never = append(slices.Clone(r.never), "os") },
			"a lifted never": func(r *room) { r.never = r.never[:max(0, len(r.never)-1)] },
			"stdlib":         func(r *room) { r.stdlib = !r.stdlib },
			"timeless":       func(r *room) { r.timeless = !r.timeless },
			"sealed":         func(r *room) { r.sealed = !r.sealed },
		} {
			changed := slices.Clone(rooms)
			change(&changed[i])
			none := what == "a closed door" && len(rooms[i].doors) == 0 || what == "a lifted never" && len(rooms[i].never) == 0
			if (doorsTable(changed) == is) != none {
				t.Errorf("%s, %s: the table shows it: %v", rooms[i].path, what, none)
			}
		}
	}
}

// doorsTable writes the rooms for people. Groups that occur again and again have
// a name, where they are whole.
func doorsTable(rooms []room) string {
	group := func(list []string, names ...namedGroup) string {
		var words []string
		for _, g := range names {
			if containsAll(list, g.members) {
				words = append(words, g.name)
				list = slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(g.members, one) })
			}
		}
		for _, one := range list {
			words = append(words, "`"+one+"`")
		}
		return strings.Join(words, ", ")
	}
	var text strings.Builder
	text.WriteString("| room | may import | never | besides |\n|---|---|---|---|\n")
	for _, r := range rooms {
		var besides []string
		for _, rule := range []struct {
			holds bool
			words string
		}{
			{r.stdlib, "the standard library only"}, {r.timeless, "is given the time"}, {r.sealed, "is imported by tests at most"},
		} {
			if rule.holds {
				besides = append(besides, rule.words)
			}
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", r.path,
			group(r.doors, namedGroup{"everything", everywhere}, namedGroup{"the pure rooms", pure}),
			group(r.never, namedGroup{"database drivers", database}), strings.Join(besides, "; "))
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

// The page lists every place where a test can break the program, and no other.
func TestTheArchitecturePageNamesEveryCrashPoint(t *testing.T) {
	tree := os.DirFS(".")
	var inCode []string
	called := regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	for _, file := range goFilesOf(t, tree, false) {
		for _, match := range called.FindAllStringSubmatch(string(textOf(t, tree, file)), -1) {
			inCode = append(inCode, match[1])
		}
	}
	var onPage []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(tableUnder(t, architecturePage, "## Crash points"), -1) {
		onPage = append(onPage, match[1])
	}
	slices.Sort(inCode)
	slices.Sort(onPage)
	if len(inCode) == 0 || !slices.Equal(onPage, slices.Compact(inCode)) {
		t.Errorf("%s names the crash points %v; the code has %v", architecturePage, onPage, inCode)
	}
}

// The page says of every promise who sees to it: the audit of each of its own, in
// its own words, and tests of the others.
func TestTheArchitecturePageNamesEveryInvariant(t *testing.T) {
	row := regexp.MustCompile(`^\| ([A-Z]\d+w?) \| (.+) \| (the audit|tests only: )`)
	byAudit := map[string]string{}
	rows := strings.Split(strings.TrimSpace(tableUnder(t, architecturePage, "## The audit")), "\n")[2:]
	for _, line := range rows {
		match := row.FindStringSubmatch(line)
		switch {
		case match == nil:
			t.Errorf("%s has a row that says nothing of who sees to it:\n%s", architecturePage, line)
		case match[3] == "the audit":
			byAudit[match[1]] = match[2]
		case slices.ContainsFunc(audit.Invariants, func(i audit.Invariant) bool { return i.ID == match[1] }):
			t.Errorf("%s leaves %s to tests, which the audit checks", architecturePage, match[1])
		}
	}
	for _, invariant := range audit.Invariants {
		if got := byAudit[invariant.ID]; got != invariant.Promise {
			t.Errorf("%s says of %s %q; the audit says %q", architecturePage, invariant.ID, got, invariant.Promise)
		}
		delete(byAudit, invariant.ID)
	}
	for id := range byAudit {
		t.Errorf("%s says that the audit checks %s, which it does not know", architecturePage, id)
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
