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
	"regexp"
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

// Timeout is how long anything in these tests may take before it counts as stuck. No test
// waits for it to pass.
const Timeout = 3 * time.Minute

// Result is the exit code and the output of a command.
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

// Binary returns the path of the coax binary.
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

// RunWithEnv runs the program with an environment and waits for its end.
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
		t.Fatalf("coax %q did not exit by itself: %v\nstderr: %s", args, failed, err.String())
	}
	checkCallOutput(t, args, out.String())
	return Result{command.ProcessState.ExitCode(), out.String(), err.String()}
}

// CoverageEnv tells a binary built with -cover where to write its counters: to the folder
// that `make coverage` names. (go test uses GOCOVERDIR itself.)
func CoverageEnv() []string {
	if folder := os.Getenv("COAX_TEST_COVERDIR"); folder != "" {
		return []string{"GOCOVERDIR=" + folder}
	}
	return []string{}
}

// checkCallOutput checks the output of `coax call` against the contract: the whole response
// with --include, else its body. It ignores other commands and calls without an answer.
func checkCallOutput(t testing.TB, args []string, printed string) {
	t.Helper()
	var words []string
	include := false
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-i" || arg == "--include":
			include = true
		case slices.Contains([]string{"--credentials", "--profile", "--data", "--idempotency-key"}, arg):
			i++
		case !strings.HasPrefix(arg, "-"):
			words = append(words, arg)
		}
	}
	if strings.TrimSpace(printed) == "" || len(words) != 3 || words[0] != "call" || slices.Contains(args, "--help") {
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

// RequireOK stops the test unless a command succeeded with nothing but progress on standard error.
func RequireOK(t testing.TB, got Result) Result {
	t.Helper()
	if got.Code != ExitDone || progressLine.ReplaceAllString(got.Err, "") != "" {
		t.Fatalf("want success and nothing but progress on stderr; %s", got)
	}
	return got
}

// CheckMentions checks that a text contains each of these.
func CheckMentions(t testing.TB, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not mention %q:\n%s", what, w, text)
		}
	}
}

// progressLine is what work prints that takes more than a moment.
var progressLine = regexp.MustCompile(`(?m)^[a-z_ ]+(: \d+ %|: \d+ of \d+ rows?)?\n`)

// CheckRefused checks for exit 1, nothing on standard output, and one line on standard
// error, after its progress, that contains each of these texts.
func CheckRefused(t testing.TB, got Result, want ...string) {
	t.Helper()
	if got.Code != ExitRefused || got.Out != "" {
		t.Errorf("want exit 1 and nothing on stdout; %s", got)
	}
	refusal := progressLine.ReplaceAllString(got.Err, "")
	if !strings.HasPrefix(refusal, "coax: ") || strings.Count(refusal, "\n") != 1 || !strings.HasSuffix(refusal, "\n") {
		t.Errorf("want one line on stderr, beginning with the program's name; got %q", got.Err)
	}
	CheckMentions(t, "the refusal", got.Err, want...)
}

// CheckUsageError checks for exit 2 and a message with these texts and a hint at --help.
func CheckUsageError(t testing.TB, got Result, want ...string) {
	t.Helper()
	if got.Code != ExitUsage || got.Out != "" {
		t.Errorf("want exit 2 and nothing on stdout; %s", got)
	}
	CheckMentions(t, "the usage error", got.Err, append(want, "coax: ", "--help")...)
}

// Install is the folder of a demo that need not be running, for coax admin.
type Install struct {
	TB     testing.TB
	Folder string
	Config string
	// db reads the store; opened at the first use.
	db *sql.DB
}

// InstallAt returns the installation in an existing folder.
func InstallAt(t testing.TB, folder string) *Install {
	return &Install{TB: t, Folder: folder, Config: filepath.Join(folder, "coax.toml")}
}

// Store returns the store settings of the installation.
func (i *Install) Store() server.StoreConfig {
	i.TB.Helper()
	return LoadStoreConfig(i.TB, i.Config)
}

// WithTB returns the same installation for a subtest.
func (i *Install) WithTB(t testing.TB) *Install {
	inner := *i
	inner.TB = t
	return &inner
}

// cliTemplateDir is the folder of cliTemplate; empty if no test used it.
var cliTemplateDir string

// cliTemplate sets up a demo once, in this process; tests work on copies.
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
	if _, err := demo.Setup(context.Background(), n, filepath.Join(folder, "demo.json")); err != nil {
		return folder, err
	}
	return folder, n.Close()
})

func cliRemoveTemplate() {
	if cliTemplateDir != "" {
		_ = os.RemoveAll(cliTemplateDir)
	}
}

// NewInstall returns an installation in a new folder, copied from the template.
func NewInstall(t testing.TB) *Install {
	t.Helper()
	template, err := cliTemplate()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "install")
	CopyDir(t, template, folder)
	i := InstallAt(t, folder)
	if from := i.Store(); from.Kind == "postgres" {
		own := pgtest.CopyDatabase(t, from.URL)
		WriteFile(t, i.Config, strings.Replace(ReadFile(t, i.Config), from.URL, own, 1))
		demoStores.Store(folder, []string{"store.url=" + own})
	}
	return i
}

// CopyDir copies a folder with its file modes, which os.CopyFS does not preserve.
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

// Admin runs coax admin on the installation's store.
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

// CheckRefused checks that a command is refused and changes nothing in the store.
func (i *Install) CheckRefused(args []string, want ...string) {
	i.TB.Helper()
	i.CheckRefusedFrom(i.Dump(), args, want...)
}

// CheckRefusedFrom is CheckRefused with a dump taken before. It returns the dump after.
func (i *Install) CheckRefusedFrom(before, args []string, want ...string) []string {
	i.TB.Helper()
	CheckRefused(i.TB, i.Admin(args...), want...)
	after := i.Dump()
	if !slices.Equal(before, after) {
		i.TB.Errorf("%q was refused but changed the store:\n%s", args, Diff(before, after))
	}
	return after
}

// Dump returns the rows of the store, sorted, without the request log, which a running node
// writes with a delay.
func (i *Install) Dump() []string {
	i.TB.Helper()
	if i.db == nil {
		i.db = OpenReadOnly(i.TB, i.Store())
	}
	var all []string
	for _, table := range storeTables(i.TB, i.db) {
		if table == "request_log" || table == "key_uses" || table == "store_mark" {
			continue
		}
		for _, row := range QueryRows(i.TB, i.db, `SELECT * FROM "`+table+`"`) {
			all = append(all, table+": "+row)
		}
	}
	slices.Sort(all) // the queries have no ORDER BY
	return all
}

// QueryRows returns the rows of a query as texts.
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

// eachRow calls visit for each row of a query.
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

// Diff returns the rows that two dumps do not share.
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

// WriteFile writes a file and returns its path.
func WriteFile(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// StorePath is the path of an installation's SQLite file.
func StorePath(i *Install) string { return filepath.Join(i.Folder, "data", "coax.db") }

// ExecOnInstall runs statements directly on an installation's store.
func ExecOnInstall(i *Install, statements ...string) {
	i.TB.Helper()
	ExecOnStore(i.TB, i.Store(), statements...)
}

var (
	ImportShape     = []string{"rows int", "imported int", "already_there int", "ignored_columns any", "problems any"}
	SubscriberShape = []string{
		"subscriber_id text", "lco_id int", "name any", "mobile text", "email string", "area string", "address string", "box_number string", "notes string", "connection_type text", "status text", "plan_id text?",
		"expiry_date moment?", "created_at moment?", "renewed_at moment?", "last_provider_transaction text?", "cycles any", "pending_operations any",
	}
)

// WriteCSV writes a file of subscribers.
func WriteCSV(t testing.TB, content string) string {
	t.Helper()
	return WriteFile(t, filepath.Join(t.TempDir(), "customers.csv"), content)
}

// CheckImport imports a file and checks how many rows were imported and how many existed.
func (i *Install) CheckImport(content string, imported, existing int, args ...string) {
	i.TB.Helper()
	got := i.Admin(append([]string{"subscriber", "import", WriteCSV(i.TB, content), "--json"}, args...)...)
	if got.Code != ExitDone || strings.Count(got.Out, "\n") != 1 {
		i.TB.Fatalf("want the import to succeed; %s", got)
	}
	report := CheckShape(i.TB, got.Out, ImportShape...)
	want := fmt.Sprint(imported+existing, " ", imported, " ", existing, " []")
	if slices.Contains(args, "--check") {
		want = fmt.Sprint(imported+existing, " 0 ", existing, " []")
	} else if progress := fmt.Sprintf("imported %d of %d\n", imported, imported); imported > 0 != strings.HasSuffix(got.Err, progress) {
		i.TB.Errorf("standard error ends with %q; want %q", got.Err, progress)
	}
	if text := JoinUnquoted(report["rows"], report["imported"], report["already_there"], report["problems"]); text != want {
		i.TB.Errorf("the report is %s; want %s", text, want)
	}
}

// FreePorts are settings that make a node listen on free ports.
var FreePorts = []string{"--set", "server.addr=127.0.0.1:0", "--set", "server.internal_addr=127.0.0.1:0"}

// RunServe runs coax serve and waits for its end; the caller expects a refusal.
func (i *Install) RunServe(more ...string) Result {
	i.TB.Helper()
	return Run(i.TB, append(append([]string{"serve", "--config", i.Config}, FreePorts...), more...)...)
}

// JoinUnquoted joins JSON values without their quotes.
func JoinUnquoted(values ...string) string {
	return strings.ReplaceAll(strings.Join(values, " "), `"`, "")
}

// HTTPGet returns the status and the body of a GET.
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
