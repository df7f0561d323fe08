package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coaxhq/coax/contract/contracttest"
	"github.com/coaxhq/coax/internal/store/pgtest"
)

// cliPatience is how long anything here may take before it counts as stuck. No
// test waits for it to pass.
const cliPatience = 3 * time.Minute

// cliResult is how a command ended and what it said.
type cliResult struct {
	code     int
	out, err string
}

func (r cliResult) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.code, r.out, r.err)
}

// run is the program within this process, which is not its own.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, environ []string) int {
	return (&app{out: stdout, err: stderr, environ: environ}).run(ctx, args)
}

// cliRun runs the program in this process with an empty environment.
func cliRun(t testing.TB, args ...string) cliResult {
	t.Helper()
	return cliRunIn(t, nil, args...)
}

func cliRunIn(t testing.TB, environ []string, args ...string) cliResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cliPatience)
	defer cancel()
	var out, err bytes.Buffer
	// Never nil: cobra would take the arguments of the test binary instead.
	code := run(ctx, append([]string{}, cliOnStore(t, args)...), &out, &err, environ)
	if ctx.Err() != nil {
		t.Fatalf("coax %q did not end by itself\nstderr: %s", args, err.String())
	}
	cliCheckPrinted(t, args, out.String())
	return cliResult{code, out.String(), err.String()}
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

// cliOK demands that a command was done without a word on standard error.
func cliOK(t testing.TB, got cliResult) cliResult {
	t.Helper()
	if got.code != exitDone || got.err != "" {
		t.Fatalf("the command was to succeed silently; %s", got)
	}
	return got
}

// cliSays demands that a text mentions every one of these.
func cliSays(t testing.TB, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not mention %q:\n%s", what, w, text)
		}
	}
}

// cliRefusal demands exit 1, nothing on standard output, and one line on
// standard error that mentions what it should.
func cliRefusal(t testing.TB, got cliResult, want ...string) {
	t.Helper()
	if got.code != exitRefused || got.out != "" {
		t.Errorf("want exit 1 and nothing on stdout; %s", got)
	}
	if !strings.HasPrefix(got.err, "coax: ") || strings.Count(got.err, "\n") != 1 || !strings.HasSuffix(got.err, "\n") {
		t.Errorf("want one line on stderr, beginning with the program's name; got %q", got.err)
	}
	cliSays(t, "the refusal", got.err, want...)
}

// cliWrongUsage demands exit 2 with the reason and where help is to be had.
func cliWrongUsage(t testing.TB, got cliResult, want ...string) {
	t.Helper()
	if got.code != exitUsage || got.out != "" {
		t.Errorf("want exit 2 and nothing on stdout; %s", got)
	}
	cliSays(t, "the complaint", got.err, append(want, "coax: ", "--help")...)
}

// cliHouse is a folder with a furnished demo in it that does not run.
type cliHouse struct {
	t      testing.TB
	folder string
	config string
	// db is for looking into the store; opened by the first who does.
	db *sql.DB
}

// cliHouseAt is the house in a folder that is there already.
func cliHouseAt(t testing.TB, folder string) *cliHouse {
	return &cliHouse{t: t, folder: folder, config: filepath.Join(folder, "coax.toml")}
}

// store is where the house keeps things.
func (h *cliHouse) store() storeConfig {
	h.t.Helper()
	return storeAt(h.t, h.config)
}

// in is the same house for a subtest.
func (h *cliHouse) in(t testing.TB) *cliHouse {
	inner := *h
	inner.t = t
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
	a := &app{out: io.Discard, err: io.Discard}
	if pgtest.Chosen() {
		address, err := pgtest.KeptDatabase()
		if err != nil {
			return folder, err
		}
		a.sets = []string{"store.url=" + address}
	}
	config, err := a.prepareDemo(folder, "127.0.0.1:0", "http://127.0.0.1:9")
	if err != nil {
		return folder, err
	}
	n, err := openNode(context.Background(), config, nil, slog.New(slog.DiscardHandler), clock(0))
	if err != nil {
		return folder, err
	}
	if _, err := furnish(context.Background(), n, filepath.Join(folder, "demo.json")); err != nil {
		return folder, err
	}
	return folder, n.close()
})

func cliRemoveTemplate() {
	if cliTemplateDir != "" {
		_ = os.RemoveAll(cliTemplateDir)
	}
}

// cliNewHouse copies the furnished demo into a folder of the test's own.
func cliNewHouse(t testing.TB) *cliHouse {
	t.Helper()
	template, err := cliTemplate()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "house")
	cliCopy(t, template, folder)
	h := cliHouseAt(t, folder)
	if from := h.store(); from.Kind == "postgres" {
		own := pgtest.CopyDatabase(t, from.URL)
		cliWrite(t, h.config, strings.Replace(cliRead(t, h.config), from.URL, own, 1))
		demoStores.Store(folder, []string{"store.url=" + own})
	}
	return h
}

// cliCopy copies a folder with the modes of its files, which os.CopyFS does not
// keep.
func cliCopy(t testing.TB, from, to string) {
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

// admin runs coax admin on the house's store.
func (h *cliHouse) admin(args ...string) cliResult {
	h.t.Helper()
	return cliRun(h.t, append([]string{"admin", "--config", h.config}, args...)...)
}

// json runs coax admin --json and returns its one line of output.
func (h *cliHouse) json(args ...string) string {
	h.t.Helper()
	got := cliOK(h.t, h.admin(append(args, "--json")...))
	if strings.Count(got.out, "\n") != 1 || !strings.HasSuffix(got.out, "\n") || !json.Valid([]byte(got.out)) {
		h.t.Fatalf("%q --json: want one line of JSON; got %q", args, got.out)
	}
	return strings.TrimSuffix(got.out, "\n")
}

// refuses demands that a command is refused and that nothing in the store has
// changed by it.
func (h *cliHouse) refuses(args []string, want ...string) {
	h.t.Helper()
	h.refusesAfter(h.dump(), args, want...)
}

// refusesAfter is refuses where the store's content is known, and returns what
// it is afterwards.
func (h *cliHouse) refusesAfter(before, args []string, want ...string) []string {
	h.t.Helper()
	cliRefusal(h.t, h.admin(args...), want...)
	after := h.dump()
	if !slices.Equal(before, after) {
		h.t.Errorf("%q was refused and changed the store all the same:\n%s", args, cliDifference(before, after))
	}
	return after
}

// dump is the content of the store, row by row, without what a node that runs beside
// writes down of the calls it had: that comes when it comes.
func (h *cliHouse) dump() []string {
	h.t.Helper()
	if h.db == nil {
		h.db = peekStore(h.t, h.store())
	}
	var all []string
	for _, table := range storeTables(h.t, h.db) {
		if table == "request_log" || table == "key_uses" {
			continue
		}
		for _, row := range cliRows(h.t, h.db, `SELECT * FROM "`+table+`"`) {
			all = append(all, table+": "+row)
		}
	}
	slices.Sort(all) // rows come in no order
	return all
}

// cliRows reads rows as texts.
func cliRows(t testing.TB, db *sql.DB, query string) []string {
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

func cliDifference(before, after []string) string {
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

// cliWrite writes a file and returns its path.
func cliWrite(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func cliRead(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
