package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// Timeout is how long anything here may take before it counts as stuck. No
// test waits for it to pass.
const Timeout = 3 * time.Minute

// Result is how a command ended and what it said.
type Result struct {
	Code     int
	Out, Err string
}

func (r Result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.Code, r.Out, r.Err)
}

// Exit statuses of the program.
const (
	ExitDone    = 0
	ExitRefused = 1
	ExitUsage   = 2
)

// Coax returns the path of the binary.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := program.Coax()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Run runs the program with an empty environment.
func Run(t testing.TB, args ...string) Result {
	t.Helper()
	return RunWithEnv(t, nil, args...)
}

func RunWithEnv(t testing.TB, environ []string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	var out, err bytes.Buffer
	command := exec.CommandContext(ctx, Binary(t), WithDemoStore(t, args)...)
	command.Env, command.Stdout, command.Stderr = append(CoverageEnv(), environ...), &out, &err
	failed := command.Run()
	var exit *exec.ExitError
	if failed != nil && !errors.As(failed, &exit) || ctx.Err() != nil {
		t.Fatalf("coax %q did not end by itself: %v\nstderr: %s", args, failed, err.String())
	}
	cliCheckPrinted(t, args, out.String())
	return Result{command.ProcessState.ExitCode(), out.String(), err.String()}
}

// Coverage is the setting by which a binary that was built with -cover knows where to
// leave its counters: the folder that `make coverage` names. (go test keeps GOCOVERDIR
// itself for its own use.)
func CoverageEnv() []string {
	if folder := os.Getenv("COAX_TEST_COVERDIR"); folder != "" {
		return []string{"GOCOVERDIR=" + folder}
	}
	return []string{}
}

// cliCheckPrinted holds what call printed against the contract: all of the answer
// if its head was asked for, else its body. Other commands print something else,
// and a call that got no answer nothing.
func cliCheckPrinted(t testing.TB, args []string, printed string) {
	t.Helper()
	var words []string
	include := false
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-i" || arg == "--include":
			include = true
		case slices.Contains([]string{"--credentials", "--data", "--idempotency-key"}, arg):
			i++
		case !strings.HasPrefix(arg, "-"):
			words = append(words, arg)
		}
	}
	if printed == "" || len(words) != 3 || words[0] != "call" || slices.Contains(args, "--help") {
		return
	}
	method, path := strings.ToUpper(words[1]), words[2]
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/" + path
	}
	if !include {
		contracttest.CheckPrinted(t, method, path, []byte(printed))
		return
	}
	head, body, _ := strings.Cut(printed, "\n\n")
	first, rest, _ := strings.Cut(head, "\n")
	var status int
	if _, err := fmt.Sscanf(first, "HTTP %d ", &status); err != nil {
		t.Errorf("coax %q prints %q first; want the status", args, first)
	}
	header := http.Header{}
	for line := range strings.Lines(rest) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		header.Add(name, value)
	}
	contracttest.Check(t, method, path, status, header, []byte(body))
}

// OK demands that a command was done without a word on standard error.
func RequireOK(t testing.TB, got Result) Result {
	t.Helper()
	if got.Code != ExitDone || got.Err != "" {
		t.Fatalf("the command was to succeed silently; %s", got)
	}
	return got
}

// Mentions demands that a text mentions every one of these.
func CheckMentions(t testing.TB, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not mention %q:\n%s", what, w, text)
		}
	}
}

// Refusal demands exit 1, nothing on standard output, and one line on
// standard error that mentions what it should.
func CheckRefused(t testing.TB, got Result, want ...string) {
	t.Helper()
	if got.Code != ExitRefused || got.Out != "" {
		t.Errorf("want exit 1 and nothing on stdout; %s", got)
	}
	if !strings.HasPrefix(got.Err, "coax: ") || strings.Count(got.Err, "\n") != 1 || !strings.HasSuffix(got.Err, "\n") {
		t.Errorf("want one line on stderr, beginning with the program's name; got %q", got.Err)
	}
	CheckMentions(t, "the refusal", got.Err, want...)
}

// WrongUsage demands exit 2 with the reason and where help is to be had.
func CheckUsageError(t testing.TB, got Result, want ...string) {
	t.Helper()
	if got.Code != ExitUsage || got.Out != "" {
		t.Errorf("want exit 2 and nothing on stdout; %s", got)
	}
	CheckMentions(t, "the complaint", got.Err, append(want, "coax: ", "--help")...)
}

// Install is a folder with a furnished demo in it that does not run.
type Install struct {
	TB     testing.TB
	Folder string
	Config string
	// db is for looking into the store; opened by the first who does.
	db *sql.DB
}

// InstallAt is the house in a folder that is there already.
func InstallAt(t testing.TB, folder string) *Install {
	return &Install{TB: t, Folder: folder, Config: filepath.Join(folder, "coax.toml")}
}

// Store is where the house keeps things.
func (i *Install) Store() server.StoreConfig {
	i.TB.Helper()
	return LoadStoreConfig(i.TB, i.Config)
}

// In is the same house for a subtest.
func (i *Install) WithTB(t testing.TB) *Install {
	inner := *i
	inner.TB = t
	return &inner
}

// cliTemplateDir is where cliTemplate put its demo; empty if nobody asked.
var cliTemplateDir string

// cliTemplate furnishes a demo once, in this process; tests work on copies.
var cliTemplate = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "coax-cli-template-")
	if err != nil {
		return "", err
	}
	cliTemplateDir = folder
	in := demo.Folder{Path: folder}
	if pgtest.Chosen() {
		address, err := pgtest.KeptDatabase()
		if err != nil {
			return folder, err
		}
		in.Sets = []string{"store.url=" + address}
	}
	config, err := demo.Prepare(in, "127.0.0.1:0", "http://127.0.0.1:9")
	if err != nil {
		return folder, err
	}
	n, err := server.Open(context.Background(), config, nil, slog.New(slog.DiscardHandler), server.Clock(0))
	if err != nil {
		return folder, err
	}
	if _, err := demo.Furnish(context.Background(), n, filepath.Join(folder, "demo.json")); err != nil {
		return folder, err
	}
	return folder, n.Close()
})

func cliRemoveTemplate() {
	if cliTemplateDir != "" {
		_ = os.RemoveAll(cliTemplateDir)
	}
}

// NewInstall copies the furnished demo into a folder of the test's own.
func NewInstall(t testing.TB) *Install {
	t.Helper()
	template, err := cliTemplate()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "house")
	CopyDir(t, template, folder)
	i := InstallAt(t, folder)
	if from := i.Store(); from.Kind == "postgres" {
		own := pgtest.CopyDatabase(t, from.URL)
		WriteFile(t, i.Config, strings.Replace(ReadFile(t, i.Config), from.URL, own, 1))
		demoStores.Store(folder, []string{"store.url=" + own})
	}
	return i
}

// Copy copies a folder with the modes of its files, which os.CopyFS does not
// keep.
func CopyDir(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.Walk(from, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if info.IsDir() {
			return os.Mkdir(target, info.Mode().Perm())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode().Perm())
	})
	if err != nil {
		t.Fatalf("copy %s: %v", from, err)
	}
}

// Admin runs coax admin on the house's store.
func (i *Install) Admin(args ...string) Result {
	i.TB.Helper()
	return Run(i.TB, append([]string{"admin", "--config", i.Config}, args...)...)
}

// JSON runs coax admin --json and returns its one line of output.
func (i *Install) JSON(args ...string) string {
	i.TB.Helper()
	got := RequireOK(i.TB, i.Admin(append(args, "--json")...))
	if strings.Count(got.Out, "\n") != 1 || !strings.HasSuffix(got.Out, "\n") || !json.Valid([]byte(got.Out)) {
		i.TB.Fatalf("%q --json: want one line of JSON; got %q", args, got.Out)
	}
	return strings.TrimSuffix(got.Out, "\n")
}

// Refuses demands that a command is refused and that nothing in the store has
// changed by it.
func (i *Install) CheckRefused(args []string, want ...string) {
	i.TB.Helper()
	i.CheckRefusedFrom(i.Dump(), args, want...)
}

// RefusesAfter is refuses where the store's content is known, and returns what
// it is afterwards.
func (i *Install) CheckRefusedFrom(before, args []string, want ...string) []string {
	i.TB.Helper()
	CheckRefused(i.TB, i.Admin(args...), want...)
	after := i.Dump()
	if !slices.Equal(before, after) {
		i.TB.Errorf("%q was refused and changed the store all the same:\n%s", args, Diff(before, after))
	}
	return after
}

// Dump is the content of the store, row by row, without what a node that runs beside
// writes down of the calls it had: that comes when it comes.
func (i *Install) Dump() []string {
	i.TB.Helper()
	if i.db == nil {
		i.db = OpenReadOnly(i.TB, i.Store())
	}
	var all []string
	for _, table := range storeTables(i.TB, i.db) {
		if table == "request_log" || table == "key_uses" {
			continue
		}
		for _, row := range QueryRows(i.TB, i.db, `SELECT * FROM "`+table+`"`) {
			all = append(all, table+": "+row)
		}
	}
	slices.Sort(all) // rows come in no order
	return all
}

// Rows reads rows as texts.
func QueryRows(t testing.TB, db *sql.DB, query string) []string {
	t.Helper()
	var all []string
	eachRow(t, db, query, func(values []any) {
		var parts []string
		for _, value := range values {
			if bytes, ok := value.([]byte); ok {
				parts = append(parts, fmt.Sprintf("%x", bytes))
			} else {
				parts = append(parts, fmt.Sprint(value))
			}
		}
		all = append(all, strings.Join(parts, " | "))
	})
	return all
}

// eachRow reads rows as they come.
func eachRow(t testing.TB, db *sql.DB, query string, visit func(values []any)) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		visit(values)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func Diff(before, after []string) string {
	var text strings.Builder
	for _, row := range before {
		if !slices.Contains(after, row) {
			fmt.Fprintln(&text, "-", row)
		}
	}
	for _, row := range after {
		if !slices.Contains(before, row) {
			fmt.Fprintln(&text, "+", row)
		}
	}
	return text.String()
}

// Write writes a file and returns its path.
func WriteFile(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func ReadFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// AuditPath is where a house keeps its store.
func StorePath(i *Install) string { return filepath.Join(i.Folder, "data", "coax.db") }

// AuditDamage changes a house's store behind its back.
func ExecOnInstall(i *Install, statements ...string) {
	i.TB.Helper()
	ExecOnStore(i.TB, i.Store(), statements...)
}

var (
	ImportShape     = []string{"rows int", "imported int", "already_there int", "problems any"}
	SubscriberShape = []string{
		"subscriber_id text", "lco_id int", "name any", "mobile text", "email string", "address string", "connection_type text", "status text", "plan_id text?",
		"expiry_date moment?", "created_at moment?", "renewed_at moment?", "last_provider_transaction text?", "cycles any", "pending_operations any",
	}
)

// CSV writes a file of subscribers, as it is given.
func WriteCSV(t testing.TB, content string) string {
	t.Helper()
	return WriteFile(t, filepath.Join(t.TempDir(), "customers.csv"), content)
}

// Imports brings in a file and demands how many came in, and how many were
// there.
func (i *Install) CheckImport(content string, imported, there int, args ...string) {
	i.TB.Helper()
	got := i.Admin(append([]string{"subscriber", "import", WriteCSV(i.TB, content), "--json"}, args...)...)
	if got.Code != ExitDone || strings.Count(got.Out, "\n") != 1 {
		i.TB.Fatalf("the import was to succeed; %s", got)
	}
	report := CheckShape(i.TB, got.Out, ImportShape...)
	want := fmt.Sprint(imported+there, " ", imported, " ", there, " []")
	if slices.Contains(args, "--check") {
		want = fmt.Sprint(imported+there, " 0 ", there, " []")
	} else if progress := fmt.Sprintf("imported %d of %d\n", imported, imported); imported > 0 != strings.HasSuffix(got.Err, progress) {
		i.TB.Errorf("standard error ends with %q; want %q", got.Err, progress)
	}
	if text := JoinUnquoted(report["rows"], report["imported"], report["already_there"], report["problems"]); text != want {
		i.TB.Errorf("the report is %s; want %s", text, want)
	}
}

// FreePorts are settings that keep a node out of everybody's way.
var FreePorts = []string{"--set", "server.addr=127.0.0.1:0", "--set", "server.internal_addr=127.0.0.1:0"}

// Serve runs coax serve, which is to be refused.
func (i *Install) RunServe(more ...string) Result {
	i.TB.Helper()
	return Run(i.TB, append(append([]string{"serve", "--config", i.Config}, FreePorts...), more...)...)
}

// Bare joins JSON values without their quotes.
func JoinUnquoted(values ...string) string {
	return strings.ReplaceAll(strings.Join(values, " "), `"`, "")
}

func HTTPGet(t testing.TB, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
