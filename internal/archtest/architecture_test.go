package archtest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	architecturePage = "docs/architecture.md"
	importsPage      = "docs/imports.md"
)

// The import table of the page and the one that internal/archtest/imports_test.go enforces are the same.
func TestArchitecture_ImportTable(t *testing.T) {
	got := strings.Join(regexp.MustCompile(`(?m)^\|.*\n`).FindAllString(read(t, importsPage), -1), "")
	if want := importTable(rules); got != want {
		t.Errorf("%s differs from the table in internal/archtest/imports_test.go; the table to paste is\n%s", importsPage, want)
	}
}

// TestArchitecture_ImportTable can only fail if every rule shows in the table.
func TestArchitecture_ImportTableShowsEveryRule(t *testing.T) {
	is := importTable(rules)
	for i := range rules {
		for what, change := range map[string]func(*rule){
			"other path":      func(r *rule) { r.path += "x" },
			"added import":    func(r *rule) { r.allowed = append(slices.Clone(r.allowed), "cmd/coax") },
			"removed import":  func(r *rule) { r.allowed = r.allowed[:max(0, len(r.allowed)-1)] },
			"added ban":       func(r *rule) { r.never = append(slices.Clone(r.never), "os") },
			"removed ban":     func(r *rule) { r.never = r.never[:max(0, len(r.never)-1)] },
			"stdlib toggled":  func(r *rule) { r.stdlib = !r.stdlib },
			"clock toggled":   func(r *rule) { r.noClock = !r.noClock },
			"testing toggled": func(r *rule) { r.testsOnly = !r.testsOnly },
		} {
			changed := slices.Clone(rules)
			change(&changed[i])
			none := what == "removed import" && len(rules[i].allowed) == 0 || what == "removed ban" && len(rules[i].never) == 0
			if got := importTable(changed) != is; got == none {
				t.Errorf("%s, %s: the table differs: %v, want %v", rules[i].path, what, got, !none)
			}
		}
	}
}

// importTable renders the rules as Markdown. Paths are below internal/ where that
// exists; groups of packages that occur in many rows have a name.
func importTable(rules []rule) string {
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
	domain := slices.DeleteFunc(slices.Clone(forStores), func(one string) bool { return slices.Contains(pure, one) })
	var text strings.Builder
	text.WriteString("| package | may import | never | also |\n|---|---|---|---|\n")
	for _, r := range rules {
		var also []string
		for _, rule := range []struct {
			holds bool
			words string
		}{
			{r.stdlib, "stdlib only"}, {r.noClock, "no clock"}, {r.testsOnly, "tests only"},
		} {
			if rule.holds {
				also = append(also, rule.words)
			}
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", short(r.path),
			join(r.allowed, namedGroup{"everything", everywhere}, namedGroup{"*pure*", pure}, namedGroup{"*domain*", domain}),
			join(r.never, namedGroup{"HTTP", netHTTP}, namedGroup{"SQL", database}, namedGroup{"drivers", drivers}), strings.Join(also, ", "))
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

// The tree of packages lists every package that the import table is applied to, and
// nothing that does not exist.
func TestArchitecture_PackageTree(t *testing.T) {
	listed := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(  )?([a-z][a-z0-9/]+) +\S`).FindAllStringSubmatch(section(t, "## Packages"), -1) {
		name := match[2]
		if match[1] != "" {
			name = "internal/" + name
		}
		listed[name] = true
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s lists the package %s, which does not exist", architecturePage, name)
		}
	}
	_, folders, err := inspect(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if _, at, known := ruleOf(folder); known && !listed[at] {
			t.Errorf("%s does not list the package %s", architecturePage, at)
			listed[at] = true
		}
	}
}

// section returns what follows a heading of the architecture page.
func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func section(t *testing.T, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(read(t, architecturePage), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", architecturePage, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}
