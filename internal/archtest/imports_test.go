// Package archtest enforces the import table: which package may import which, and
// which may read the clock. A change to the table changes the architecture and
// deserves its own commit.
package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// A rule applies to a folder of the module and to everything beneath it that has no
// rule of its own, test files aside.
type rule struct {
	path      string   // below the module's root; a closing /* applies to each folder there by itself
	allowed   []string // packages of this module it may import
	never     []string // packages from elsewhere it may not import, nor what lies beneath them
	stdlib    bool     // of other modules it imports nothing but the standard library
	noClock   bool     // is given the time, and does not read the clock
	testsOnly bool     // is imported by test code only
	testing   bool     // is test code, and may import what is for tests only
}

var (
	// Packages that compute and have no side effects.
	pure = []string{"signing", "internal/fault", "internal/money", "internal/strictjson", "internal/subscription", "internal/failpoint"}

	// May import everything.
	everywhere = []string{"..."}

	forProviders = both(pure, []string{"internal/operation", "internal/catalogue"})
	forStores    = both(forProviders, []string{"internal/access", "internal/login", "internal/admin", "internal/bulk", "internal/report", "internal/receipt", "internal/requestlog"})
	forPages     = both(forStores, []string{"internal/reconcile", "internal/telemetry", "internal/sheet", "internal/bankstatement"})

	netHTTP = []string{"net/http"}
	drivers = []string{
		"modernc.org/sqlite", "modernc.org/libc", "zombiezen.com/go/sqlite",
		"github.com/mattn/go-sqlite3", "github.com/jackc/pgx", "github.com/lib/pq",
	}
	database = both(drivers, []string{"database/sql"})
)

var rules = []rule{
	// The promises to strangers, and the words everyone uses.
	{path: "contract", never: both(netHTTP, database)},
	{path: "contract/contracttest", allowed: []string{"contract"}, testsOnly: true},
	{path: "docs", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "sdk", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "signing", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "internal/fault", never: both(netHTTP, database), noClock: true},
	{path: "internal/money", never: both(netHTTP, database), noClock: true},
	{path: "internal/strictjson", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "internal/telemetry", never: database},
	{path: "internal/integrity", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "internal/acmecert", never: database, noClock: true},
	{path: "internal/retention", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "internal/fileowner", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "internal/filesync", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "internal/failpoint", never: both(netHTTP, database), stdlib: true, noClock: true},
	{path: "client", allowed: []string{"signing"}, never: database},

	// What decides.
	{
		path:    "internal/subscription",
		allowed: []string{"internal/money", "internal/fault"},
		never:   both(netHTTP, database),
		noClock: true,
	},
	{path: "internal/operation", allowed: pure, never: both(netHTTP, database), noClock: true},
	{path: "internal/catalogue", allowed: pure, never: both(netHTTP, database), noClock: true},
	{path: "internal/access", allowed: pure, never: both(netHTTP, database), noClock: true},
	{path: "internal/passkey", never: both(netHTTP, database), noClock: true},
	{path: "internal/passkey/passkeytest", never: both(netHTTP, database), noClock: true, testsOnly: true},
	{path: "internal/login", allowed: both(pure, []string{"internal/passkey"}), never: both(netHTTP, database), noClock: true},
	{
		path: "internal/admin",
		allowed: []string{
			"internal/access", "internal/login", "internal/operation", "internal/catalogue",
			"internal/subscription", "internal/money", "internal/fault", "internal/sheet",
		},
		never:   both(netHTTP, database),
		noClock: true,
	},
	{path: "internal/reconcile", allowed: both(pure, []string{"internal/operation", "internal/admin"}), never: both(netHTTP, database), noClock: true},
	{path: "internal/bulk", allowed: both(pure, []string{"internal/operation", "internal/sheet"}), never: both(netHTTP, database), noClock: true},

	// What pages read, and the files that they hand out.
	{
		path:    "internal/report",
		allowed: []string{"internal/operation", "internal/subscription", "internal/money"},
		never:   both(netHTTP, database),
		noClock: true,
	},
	{path: "internal/bankstatement", allowed: []string{"internal/money", "internal/subscription", "internal/sheet"}, never: both(netHTTP, database), noClock: true},
	{path: "internal/receipt", allowed: []string{"internal/money", "internal/subscription"}, never: both(netHTTP, database), noClock: true},
	{path: "internal/sheet", allowed: []string{"internal/money", "internal/subscription"}, never: both(netHTTP, database), noClock: true},
	{path: "internal/requestlog", allowed: both(pure, []string{"internal/telemetry"}), never: both(netHTTP, database), noClock: true},

	// What reaches outside, and implements what the deciding packages declare.
	{path: "internal/provider/*", allowed: both(forProviders, []string{"internal/fileowner", "internal/filesync"})},
	{path: "internal/provider/providertest", allowed: forProviders, testsOnly: true},
	{path: "internal/replica", allowed: []string{"internal/fileowner", "internal/filesync"}, never: drivers},
	{path: "internal/replica/replicatest", never: database, testsOnly: true, testing: true},
	{path: "internal/store/*", allowed: both(forStores, []string{"internal/fileowner", "internal/filesync", "internal/integrity", "internal/retention", "internal/acmecert", "internal/store/sqlstore"}), never: netHTTP, noClock: true},
	{path: "internal/store/sqlstore", allowed: both(forStores, []string{"internal/integrity", "internal/retention", "internal/acmecert"}), never: both(netHTTP, drivers), noClock: true},
	{path: "internal/store/storetest", allowed: both(forStores, []string{"internal/integrity", "internal/retention", "internal/acmecert"}), never: netHTTP, noClock: true, testsOnly: true},
	{path: "internal/store/sqlitetest", allowed: []string{"internal/store/*", "internal/store/storetest"}, never: netHTTP, noClock: true, testsOnly: true, testing: true},
	{path: "internal/store/pgtest", never: netHTTP, testsOnly: true},

	// The files of backups.
	{path: "internal/backup", never: both(netHTTP, database), noClock: true},

	// What proves the rows of a store by rules of its own.
	{path: "internal/audit", allowed: []string{"internal/money", "internal/subscription", "internal/fault"}, never: netHTTP, noClock: true},

	// What gives a demo a past, by way of everything that decides.
	{path: "internal/demohistory", allowed: both(forStores, []string{"internal/provider/*", "internal/telemetry"}), never: both(netHTTP, database), noClock: true},

	// What talks.
	{
		path: "internal/httpapi",
		allowed: both(pure, []string{
			"contract", "internal/access", "internal/operation", "internal/catalogue", "internal/requestlog", "internal/telemetry",
		}),
		never: database,
	},
	{path: "internal/web", allowed: both(forPages, []string{"internal/web/look"}), never: database},
	{path: "internal/web/*", allowed: both(forPages, []string{"internal/web", "internal/web/look"}), never: database},
	{path: "internal/web/reference", allowed: []string{"contract", "docs", "sdk", "internal/web", "internal/web/look"}, never: database, noClock: true},
	{path: "internal/web/look", allowed: []string{"internal/money", "internal/subscription"}, never: database, stdlib: true, noClock: true},
	{path: "internal/web/look/looktest", never: database, testsOnly: true},

	// What pages show, as its readers would write it: from outside.
	{path: "docs/examples", allowed: []string{"client"}, testsOnly: true},
	{path: "contract/samples", allowed: []string{"client"}, testsOnly: true},

	// What puts it all together: one node, and a demo around it.
	{path: "internal/server", allowed: everywhere},
	{path: "internal/demo", allowed: everywhere},

	// What tests a client: the service behind a bad connection.
	{path: "internal/certify", allowed: everywhere},
	{path: "internal/certify/line", never: database, stdlib: true},

	// The commands, and what drives the whole from outside. Nobody leans on it.
	{path: "cmd/coax", allowed: everywhere, testsOnly: true},
	{path: "cmd/coaxbench", allowed: everywhere, testsOnly: true, testing: true},
	{path: "internal/e2e", allowed: everywhere, testsOnly: true, testing: true},
	{path: "internal/sim", allowed: everywhere, testsOnly: true},
}

func both(a, b []string) []string { return slices.Concat(a, b) }

func TestImports_FollowTheTable(t *testing.T) {
	broken, packages, err := inspect(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatal("found no packages: the inspection looks in the wrong place")
	}
	for _, b := range broken {
		t.Error(b)
	}
}

func TestImportTable_NamesOnlyPackages(t *testing.T) {
	for i, r := range rules {
		if slices.ContainsFunc(rules[:i], func(other rule) bool { return other.path == r.path }) {
			t.Errorf("%s is in the table twice", r.path)
		}
		for _, other := range r.allowed {
			if other == "..." {
				continue
			}
			if !slices.ContainsFunc(rules, func(r rule) bool { return r.path == other }) {
				t.Errorf("%s may import %s, which has no rule", r.path, other)
			}
		}
	}
}

// A check that finds nothing looks like a module without violations, so each kind of
// violation is made here once and has to be found.
func TestInspect_FindsEachViolation(t *testing.T) {
	const coax = "example.org/coax"
	importing := func(packages ...string) string {
		src := "package p\n"
		for _, p := range packages {
			src += fmt.Sprintf("import _ %q\n", p)
		}
		return src
	}
	tests := []struct {
		name string
		file string
		src  string
		want string // part of the one violation; empty: none
	}{
		{"signing needs nobody", "signing/x.go", importing(coax + "/internal/fault"), "imports internal/fault"},
		{"signing is standard library only", "signing/x.go", importing("golang.org/x/crypto/argon2"), "only the standard library"},
		{"fault knows no HTTP", "internal/fault/x.go", importing("net/http"), "imports net/http"},
		{"telemetry needs nobody", "internal/telemetry/x.go", importing(coax + "/internal/fault"), "imports internal/fault"},
		{"client sees signing only", "client/x.go", importing(coax + "/internal/money"), "imports internal/money"},
		{"an example imports no internal package", "docs/examples/renewals/x.go", importing(coax + "/internal/money"), "imports internal/money"},
		{"subscription does not sign", "internal/subscription/x.go", importing(coax + "/signing"), "imports signing"},
		{"operation does not know catalogue", "internal/operation/x.go", importing(coax + "/internal/catalogue"), "imports internal/catalogue"},
		{"catalogue does not know operation", "internal/catalogue/x.go", importing(coax + "/internal/operation"), "imports internal/operation"},
		{"operation knows no driver", "internal/operation/x.go", importing("database/sql"), "imports database/sql"},
		{"a later major version is the same driver", "internal/admin/x.go", importing("github.com/jackc/pgx/v5/pgxpool"), "imports github.com/jackc/pgx"},
		{"access sees no HTTP, nor its helpers", "internal/access/x.go", importing("net/http/httptest"), "imports net/http"},
		{"admin knows no store", "internal/admin/x.go", importing(coax + "/internal/store/sqlite"), "imports internal/store/sqlite"},
		{"a provider knows no store", "internal/provider/gateway/x.go", importing(coax + "/internal/store/sqlite"), "imports internal/store/sqlite"},
		{"providers do not know each other", "internal/provider/gateway/x.go", importing(coax + "/internal/provider/simulator"), "imports internal/provider/simulator"},
		{"stores do not know each other", "internal/store/postgres/x.go", importing(coax + "/internal/store/sqlite"), "imports internal/store/sqlite"},
		{"what stores share knows no engine", "internal/store/sqlstore/x.go", importing("github.com/jackc/pgx/v5"), "imports github.com/jackc/pgx"},
		{"a store has no HTTP", "internal/store/sqlite/x.go", importing("net/http"), "imports net/http"},
		{"the suite of stores is for tests", "internal/store/sqlite/x.go", importing(coax + "/internal/store/storetest"), "only test code may import"},
		{"the suite of stores is for tests, not for commands", "cmd/coax/x.go", importing(coax + "/internal/store/storetest"), "only test code may import"},
		{"httpapi knows no store", "internal/httpapi/x.go", importing(coax + "/internal/store/sqlite"), "imports internal/store/sqlite"},
		{"httpapi does not import admin", "internal/httpapi/x.go", importing(coax + "/internal/admin"), "imports internal/admin"},
		{"pages know no store", "internal/web/panel/x.go", importing(coax + "/internal/store/sqlite"), "imports internal/store/sqlite"},
		{"look imports no domain package", "internal/web/look/x.go", importing(coax + "/internal/operation"), "imports internal/operation"},
		{"panel and console are apart", "internal/web/panel/x.go", importing(coax + "/internal/web/console"), "imports internal/web/console"},
		{"a command is not imported", "internal/httpapi/x.go", importing(coax + "/cmd/coax"), "only test code may import"},
		{"coax does not import benchmarks", "cmd/coax/x.go", importing(coax + "/cmd/coaxbench/growth"), "only test code may import"},
		{"coaxbench starts PostgreSQL as tests do", "cmd/coaxbench/x.go", importing(coax + "/internal/store/pgtest"), ""},
		{"e2e is not imported", "internal/httpapi/x.go", importing(coax + "/internal/e2e"), "only test code may import"},
		{"e2e imports test packages", "internal/e2e/x.go", importing(coax + "/internal/store/pgtest"), ""},
		{"pages know no node", "internal/web/panel/x.go", importing(coax + "/internal/server"), "imports internal/server"},
		{"a simulation is not imported", "internal/httpapi/x.go", importing(coax + "/internal/sim"), "only test code may import"},
		{"a folder without a rule", "internal/util/x.go", importing(), "add it to the table"},
		{"a stray package at the root", "x.go", importing(), "add it to the table"},
		{"an import without a rule", "cmd/coax/x.go", importing(coax + "/internal/util"), "imports internal/util, which has no rule"},

		{"reading the clock", "internal/subscription/x.go", "package p\nimport \"time\"\nvar t = time.Now()", "x.go:3: reads the clock (time.Now)"},
		{"passing time.Now on", "internal/operation/x.go", "package p\nimport \"time\"\nvar now = time.Now", "time.Now"},
		{"time.Since reads the clock", "internal/store/sqlite/x.go", "package p\nimport \"time\"\nfunc f(t time.Time) any { return time.Since(t) }", "time.Since"},
		{"a clock by another name", "internal/access/x.go", "package p\nimport clock \"time\"\nvar t = clock.Now()", "time.Now"},
		{"a dot import of time", "internal/admin/x.go", "package p\nimport . \"time\"\nvar t = Now()", "imports time with a dot"},

		{"operation imports the pure packages", "internal/operation/x.go", importing(coax+"/signing", coax+"/internal/money", "net/netip", "time"), ""},
		{"a command imports everything", "cmd/coax/x.go", importing(coax+"/internal/store/sqlite", coax+"/internal/web/panel", "net/http", "database/sql"), ""},
		{"a store and its own folders", "internal/store/sqlite/x.go", importing(coax+"/internal/store/sqlite/migrations", coax+"/internal/admin", "database/sql"), ""},
		{"panel imports web", "internal/web/panel/x.go", importing(coax+"/internal/web", "net/http"), ""},
		{"a command may read the clock", "cmd/coax/x.go", "package p\nimport \"time\"\nvar t = time.Now()", ""},
		{"a timer does not read the clock", "internal/operation/x.go", "package p\nimport \"time\"\nvar t = time.NewTimer(time.Second)", ""},
		{"another Now", "internal/operation/x.go", "package p\nvar config struct{ Now func() int }\nvar t = config.Now()", ""},
		{"tests may import everything", "internal/store/sqlite/x_test.go", importing(coax + "/internal/store/storetest"), ""},
		{"test data is not a package", "cmd/coax/testdata/x.go", importing(coax + "/internal/util"), ""},
		{"another module", "tools/x.go", importing(coax + "/internal/util"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			broken, _, err := inspect(fstest.MapFS{
				"go.mod":       {Data: []byte("module " + coax + "\n")},
				"tools/go.mod": {Data: []byte("module " + coax + "/tools\n")},
				tt.file:        {Data: []byte(tt.src)},
			})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.want == "" && len(broken) > 0:
				t.Errorf("%s: found %q; want nothing", tt.file, broken)
			case tt.want != "" && (len(broken) != 1 || !strings.Contains(broken[0], tt.want)):
				t.Errorf("%s: found %q; want one violation with %q", tt.file, broken, tt.want)
			}
		})
	}
}

// inspect reads every Go file that ships with the module at the root of tree. It
// returns what breaks the table, and the packages it saw.
func inspect(tree fs.FS) (broken []string, packages []string, err error) {
	module, err := modulePath(tree)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if !ships(tree, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}

		folder := path.Dir(name)
		own, at, known := ruleOf(folder)
		if !known && !seen[folder] {
			broken = append(broken, fmt.Sprintf("%s has no rule: add it to the table in internal/archtest/imports_test.go, or move it", folder))
		}
		seen[folder] = true
		if !known {
			return nil
		}
		violations, err := inspectFile(tree, name, module, own, at)
		broken = append(broken, violations...)
		return err
	})
	return broken, slices.Sorted(maps.Keys(seen)), err
}

// ships reports whether a folder can hold packages of this module.
func ships(tree fs.FS, folder string) bool {
	if folder == "." {
		return true
	}
	base := path.Base(folder)
	if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' || folder == "sdk" {
		return false
	}
	_, err := fs.Stat(tree, path.Join(folder, "go.mod"))
	return err != nil
}

// inspectFile checks one file against its rule, which applies at the folder at.
func inspectFile(tree fs.FS, name, module string, own rule, at string) (broken []string, err error) {
	src, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	object := func(pos token.Pos, format string, args ...any) {
		p := positions.Position(pos)
		broken = append(broken, fmt.Sprintf("%s:%d: ", p.Filename, p.Line)+fmt.Sprintf(format, args...))
	}

	clock := "" // what this file calls package time
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if why := own.refuses(at, module, imported); why != "" {
			object(spec.Pos(), "%s", why)
		}
		if imported == "time" {
			clock = "time"
			if spec.Name != nil {
				clock = spec.Name.Name
			}
		}
	}

	if !own.noClock {
		return broken, nil
	}
	if clock == "." {
		object(file.Pos(), "imports time with a dot, which hides reads of the clock in %s", own.path)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, ok := selector.X.(*ast.Ident)
		if ok && clock != "" && from.Name == clock && slices.Contains([]string{"Now", "Since", "Until"}, selector.Sel.Name) {
			object(selector.Pos(), "reads the clock (time.%s); %s must get the time as an argument", selector.Sel.Name, own.path)
		}
		return true
	})
	return broken, nil
}

// refuses returns why a file under this rule, at the folder at, may not import a package,
// or "" if it may.
func (r rule) refuses(at, module, imported string) string {
	for _, shut := range r.never {
		if within(imported, shut) {
			return fmt.Sprintf("imports %s, which %s must not import", imported, r.path)
		}
	}
	if !within(imported, module) {
		// The standard library's first path element is the one without a dot.
		first, _, _ := strings.Cut(imported, "/")
		if r.stdlib && strings.Contains(first, ".") {
			return fmt.Sprintf("imports %s; %s uses only the standard library", imported, r.path)
		}
		return ""
	}

	folder := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
	target, targetAt, known := ruleOf(folder)
	switch {
	case !known:
		return fmt.Sprintf("imports %s, which has no rule: add it to the table in internal/archtest/imports_test.go", folder)
	case targetAt == at:
		return ""
	case target.testsOnly && !r.testing:
		return fmt.Sprintf("imports %s, which only test code may import", folder)
	case slices.Contains(r.allowed, target.path) || slices.Equal(r.allowed, everywhere):
		return ""
	}
	return fmt.Sprintf("imports %s; %s may not import it (see the table in internal/archtest/imports_test.go)", folder, r.path)
}

// ruleOf finds the rule of a folder, and the folder where that rule
// begins. The longest path in the table wins.
func ruleOf(folder string) (found rule, at string, known bool) {
	for _, r := range rules {
		begin := r.path
		if parent, ok := strings.CutSuffix(r.path, "/*"); ok {
			rest, below := strings.CutPrefix(folder, parent+"/")
			if !below {
				continue
			}
			child, _, _ := strings.Cut(rest, "/")
			begin = parent + "/" + child
		}
		// Of two rows for one folder, the one that spells it out wins over /*.
		longer := len(begin) > len(at) || len(begin) == len(at) && begin == r.path
		if within(folder, begin) && longer {
			found, at, known = r, begin, true
		}
	}
	return found, at, known
}

// within reports whether an import path or folder is parent or lies beneath it.
func within(p, parent string) bool {
	return p == parent || strings.HasPrefix(p, parent+"/")
}

func modulePath(tree fs.FS) (string, error) {
	mod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", errors.New("go.mod names no module")
}
