//go:build long

package sdk

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
)

// example is the program of a language that renews from a table of orders. Killing runs
// it until a number of lines were executed.
type example struct {
	run     func(credentials, orders string) *exec.Cmd
	killing func(after int, credentials, orders string) *exec.Cmd
}

func exampleOf(t *testing.T, l language) example {
	t.Helper()
	testdata := func(name string) string { return filepath.Join("testdata", name) }
	switch l.name {
	case "python":
		const path = root + "/sdk/python/examples/renewals.py"
		return example{
			func(c, o string) *exec.Cmd { return exec.Command("python3", path, c, o) },
			func(n int, c, o string) *exec.Cmd {
				return exec.Command("python3", testdata("kill.py"), fmt.Sprint(n), path, c, o)
			},
		}
	case "php":
		const path = root + "/sdk/php/examples/renewals.php"
		return example{
			func(c, o string) *exec.Cmd { return exec.Command("php", path, c, o) },
			func(n int, c, o string) *exec.Cmd {
				return exec.Command("php", testdata("kill.php"), fmt.Sprint(n), path, c, o)
			},
		}
	case "node":
		path, err := filepath.Abs(root + "/sdk/node/examples/renewals.js")
		if err != nil {
			t.Fatal(err)
		}
		return example{
			func(c, o string) *exec.Cmd { return exec.Command("node", path, c, o) },
			func(n int, c, o string) *exec.Cmd {
				command := exec.Command("node", "--import", "./"+testdata("kill.mjs"), path, c, o)
				command.Env = append(os.Environ(), fmt.Sprintf("COAX_TEST_KILL_AFTER=%d", n), "COAX_TEST_PROGRAM="+path)
				return command
			},
		}
	}
	plain, err := program.BuildPackage("renewals", "github.com/coaxhq/coax/docs/examples/renewals")
	if err != nil {
		t.Fatal(err)
	}
	killed, err := buildKilled(t, "docs/examples/renewals/main.go")
	if err != nil {
		t.Fatal(err)
	}
	return example{
		func(c, o string) *exec.Cmd { return exec.Command(plain, c, o) },
		func(n int, c, o string) *exec.Cmd {
			command := exec.Command(killed, c, o)
			command.Env = append(os.Environ(), fmt.Sprintf("COAX_TEST_KILL_AFTER=%d", n))
			return command
		},
	}
}

// buildKilled builds a Go program with a counter after every statement.
func buildKilled(t *testing.T, file string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, file))
	if err != nil {
		return "", err
	}
	files := token.NewFileSet()
	source, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return "", err
	}
	counted := func(list []ast.Stmt) []ast.Stmt {
		var all []ast.Stmt
		for _, statement := range list {
			count := &ast.ExprStmt{X: &ast.CallExpr{Fun: ast.NewIdent("executed")}}
			switch statement.(type) {
			case *ast.ReturnStmt, *ast.BranchStmt: // nothing is executed after these
				all = append(all, count, statement)
			default:
				all = append(all, statement, count)
			}
		}
		return all
	}
	ast.Inspect(source, func(n ast.Node) bool {
		switch block := n.(type) {
		case *ast.SwitchStmt: // its body has clauses, not statements
			for _, clause := range block.Body.List {
				c := clause.(*ast.CaseClause)
				c.Body = counted(c.Body)
			}
		case *ast.FuncDecl:
			block.Body.List = counted(block.Body.List)
		case *ast.IfStmt:
			block.Body.List = counted(block.Body.List)
		case *ast.ForStmt:
			block.Body.List = counted(block.Body.List)
		case *ast.RangeStmt:
			block.Body.List = counted(block.Body.List)
		}
		return true
	})
	var text bytes.Buffer
	if err := format.Node(&text, files, source); err != nil {
		return "", err
	}
	text.WriteString(`
var left, _ = strconv.Atoi(os.Getenv("COAX_TEST_KILL_AFTER"))

func executed() {
	if left--; left < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
`)
	changed := strings.Replace(text.String(), "import (", "import (\n\t\"strconv\"\n\t\"syscall\"\n", 1)
	folder := t.TempDir()
	copied := filepath.Join(folder, "main.go")
	if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: copied}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	return program.BuildPackage("renewals-killed", "github.com/coaxhq/coax/docs/examples/renewals", "-overlay", list)
}

// The example of every SDK is killed after its first line, run again and killed after its
// second, and so on, until one run has carried out two orders. Then it may finish. Every
// order was paid once.
func TestExample_KilledAfterEveryLine(t *testing.T) {
	shared := &stage{env: e2e.NewLiveEnv(t)}
	t.Run("sdk", func(t *testing.T) {
		forEach(t, func(t *testing.T, l language) {
			shop := newShop(t, shared, l)
			program := exampleOf(t, l)
			kills := 0
			for {
				shop.fillTable()
				output, killed := runKilled(t, program.killing(kills, shop.credentials, shop.table))
				kills++
				done := shop.takeDone()
				switch {
				case !killed:
					t.Fatalf("it ended although it should have been killed after %d lines:\n%s", kills-1, output)
				case kills > 300:
					t.Fatalf("300 lines do not carry out two orders:\n%s", output)
				}
				if done >= 2 {
					break
				}
			}
			shop.fillTable()
			if output, err := program.run(shop.credentials, shop.table).CombinedOutput(); err != nil {
				t.Fatalf("the last run: %v\n%s", err, output)
			}
			shop.takeDone()
			if len(shop.open) > 0 {
				t.Errorf("orders %v are forgotten", shop.open)
			}
			want := int64(shop.ordered) * 349_00
			if now := shared.env.WalletPaise(shop.me); shop.before-now[0] != want || now[1] != 0 {
				t.Errorf("%d paise were charged and %d are held; want %d for %d orders", shop.before-now[0], now[1], want, shop.ordered)
			}
			if kills < 25 {
				t.Errorf("there were only %d lines; want a real program", kills)
			}
			t.Logf("killed %d times, %d orders", kills, shop.ordered)
		})
	})
	shared.env.CheckAudit()
}

// shop has a table of a few open orders, which a program carries out.
type shop struct {
	t                  *testing.T
	stage              *stage
	me                 e2e.Caller
	table, credentials string
	open               [][]string
	ordered            int
	before             int64 // the wallet before the first order
}

var tableHead = []string{"order", "subscriber_id", "plan_id", "state", "transaction_id"}

func newShop(t *testing.T, g *stage, l language) *shop {
	t.Helper()
	folder := t.TempDir()
	s := &shop{t: t, stage: g, table: filepath.Join(folder, "orders.csv"), credentials: filepath.Join(folder, "credentials.json")}
	g.mu.Lock()
	s.me = g.env.NewFundedOperator("killed "+l.name, "100000")
	g.mu.Unlock()
	text, err := json.Marshal(map[string]string{
		"base_url": g.env.Demo.BaseURL, "api_key": s.me.Key, "api_secret": s.me.Secret, "ca_cert": filepath.Join(g.env.Folder, "ca.pem"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.credentials, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.before = g.env.WalletPaise(s.me)[0]
	return s
}

// fillTable writes a table of four open orders, of new subscribers if need be.
func (s *shop) fillTable() {
	s.t.Helper()
	for len(s.open) < 4 {
		s.stage.mu.Lock()
		s.stage.n++
		id := s.stage.env.Activate(s.me, fmt.Sprintf("98765%05d", s.stage.n), "BASIC-1")
		s.stage.mu.Unlock()
		s.before -= 199_00
		s.ordered++
		s.open = append(s.open, []string{fmt.Sprint(7000 + s.ordered), id, "FAMILY-1", "open", ""})
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(append([][]string{tableHead}, s.open...)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.table, text.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// takeDone removes the orders that are done, and returns their number. The others have to
// be as they were.
func (s *shop) takeDone() int {
	s.t.Helper()
	text, err := os.ReadFile(s.table)
	if err != nil {
		s.t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != len(s.open)+1 || !slices.Equal(rows[0], tableHead) {
		s.t.Fatalf("the table is damaged: %v\n%s", err, text)
	}
	var open [][]string
	for i, row := range rows[1:] {
		switch {
		case slices.Equal(row, s.open[i]):
			open = append(open, row)
		case !slices.Equal(row[:3], s.open[i][:3]) || row[3] != "done" || !strings.HasPrefix(row[4], "CX"):
			s.t.Fatalf("an order became %v", row)
		}
	}
	done := len(s.open) - len(open)
	s.open = open
	return done
}

func runKilled(t *testing.T, command *exec.Cmd) (output []byte, killed bool) {
	t.Helper()
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	status, _ := command.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() && err != nil {
		t.Fatalf("it ended with %v:\n%s", err, output)
	}
	return output, status.Signaled() && status.Signal() == syscall.SIGKILL
}
