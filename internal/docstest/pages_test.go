package docstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/contract/contracttest"
)

// A page is one Markdown file of the project. Its examples are the fenced blocks; each
// is of a kind that some test checks.
type page struct {
	name   string // below the module's root
	lines  []string
	blocks []block
}

type block struct {
	kind string
	info string // what follows the kind: a file's name, or what a JSON text answers
	line int    // of the opening fence, from 1
	text []string
}

func (b block) String() string { return strings.Join(b.text, "\n") + "\n" }

// kinds says how a block is checked; a kind that is not listed is an error. A block
// stands between fences at the start of a line.
//
// A page's blocks run in order, in a fresh copy of the source; what serves (make demo,
// coax serve) is left running. The operating pages share one copy: operatingPages. In a console block a trailing backslash continues a
// command, a line … stands for any lines, and "# exits 1" behind a command says that it
// is meant to fail. Request and transaction ids, keys, times and ports are compared by
// their form, and an id that a page has shown can be used in a later command. /etc/coax
// and a few other folders lie below a temporary one, and systemctl and apt are stubs.
//
// go test ./internal/docstest -run TestPages_ExamplesWork/docs/integrating.md -update writes what was printed
// into that page; check the difference. docs/operating.md stands for all operating pages.
var kinds = map[string]string{
	"console":    "commands after `$ ` are run in order, and print exactly the lines that follow",
	"go":         "a whole program, the same as the file that is named after the kind; a console block runs it",
	"python":     "the same in Python",
	"php":        "the same in PHP",
	"javascript": "the same in JavaScript",
	"toml":       "a configuration that the product reads; with a path, it is written there first",
	"json":       "is valid; an answer of the API names its request and status: POST /api/v1/renew 402",
	"http":       "an exchange with a provider, replayed by internal/provider/simulator",
	"text":       "a drawing or a format; nothing that could be typed",
}

// pages reads every Markdown file there is.
func pages(t *testing.T) []*page {
	t.Helper()
	var all []*page
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); name != "." && (base[0] == '.' || base == "testdata" || base == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".md") {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			p, problems := readPage(name, string(text))
			for _, problem := range problems {
				t.Error(problem)
			}
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 4 {
		t.Fatalf("found %d pages: the search looks in the wrong place", len(all))
	}
	return all
}

// readPage returns the blocks of a page, and a problem for everything that looks like an
// example but is not in a block that a test runs.
func readPage(name, text string) (*page, []string) {
	p := &page{name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	var problems []string
	object := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: ", name, line)+fmt.Sprintf(format, args...))
	}
	var open *block
	for i, line := range p.lines {
		fence := strings.HasPrefix(strings.TrimLeft(line, " \t>"), "```")
		switch {
		case open != nil && line == "```":
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil && fence:
			object(i+1, "a fence inside the block of line %d", open.line)
		case open != nil:
			open.text = append(open.text, line)
		case fence && !strings.HasPrefix(line, "```"):
			object(i+1, "an indented fence: begin it at the line's start")
		case fence:
			kind, info, _ := strings.Cut(strings.TrimPrefix(line, "```"), " ")
			open = &block{kind: kind, info: strings.TrimSpace(info), line: i + 1}
			if kinds[kind] == "" {
				object(i+1, "a block of kind %q, which no test looks at; kinds in docs_test.go lists them", kind)
			}
		case strings.HasPrefix(strings.TrimSpace(line), "~~~"), strings.Contains(strings.ToLower(line), "<pre"):
			object(i+1, "write an example as a block between ```KIND and ```")
		case indented(line) && (i == 0 || strings.TrimSpace(p.lines[i-1]) == ""):
			object(i+1, "an indented block, which no test looks at: write it between ```KIND and ```")
		}
	}
	if open != nil {
		object(open.line, "the block does not end")
	}
	for _, b := range p.blocks {
		if b.kind == "http" && name != "docs/provider-protocol.md" {
			object(b.line, "exchanges are replayed from docs/provider-protocol.md only; show a call as a console block")
		}
		if b.kind == "text" {
			for i, line := range b.text {
				if typed(line) {
					object(b.line+1+i, "%q looks like a command: make it a console block, so that it is run", line)
				}
			}
		}
	}
	return p, problems
}

func indented(line string) bool {
	return (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")) && strings.TrimSpace(line) != ""
}

// typed reports whether a line looks like a shell command.
func typed(line string) bool {
	words := strings.Fields(line)
	if len(words) == 0 {
		return false
	}
	if words[0] == "$" || words[0] == "#" || strings.HasPrefix(words[0], "./") {
		return true
	}
	commands := []string{
		"bin/coax", "coax", "make", "go", "python3", "python", "php", "curl", "wget", "git", "sudo", "systemctl", "journalctl",
		"docker", "openssl", "sqlite3", "cd", "export", "apt-get", "bash", "sh",
	}
	return slices.Contains(commands, words[0])
}

// Each way to hide an example from the tests is tried once.
func TestReadPage_FindsEveryExample(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"an indented block", "Run:\n\n    make demo\n", "x.md:3: an indented block"},
		{"a block without a kind", "```\nmake demo\n```\n", `kind ""`},
		{"a block of another kind", "```bash\nmake demo\n```\n", `kind "bash"`},
		{"a command called text", "```text\ncoax demo\n```\n", "x.md:2: \"coax demo\" looks like a command"},
		{"a prompt called text", "```text\n$ ls\n```\n", "looks like a command"},
		{"an exchange that nobody replays", "```http\nGET /\n```\n", "x.md:1: exchanges are replayed"},
		{"tildes", "~~~\nmake demo\n~~~\n", "x.md:1: write an example"},
		{"HTML", "<pre>make demo</pre>\n", "x.md:1: write an example"},
		{"an indented fence", "- first\n  ```console\n", "x.md:2: an indented fence"},
		{"a block that does not end", "```text\n", "x.md:1: the block does not end"},
		{"a drawing", "```text\na → b\n```\n", ""},
		{"a list that goes on", "- one\n  and more\n\n1. two\n   and more\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := readPage("x.md", tt.text)
			got := strings.Join(problems, "\n")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("objected %q; want %q", got, tt.want)
			}
		})
	}
}

// A program on a page is also a file, which people can copy and tests run. Both must be
// the same, and a console block of the page must use it. A longer program may be linked
// instead; its own test runs it. The README of an SDK shows the SDK's own files.
func TestPages_ProgramsMatchFiles(t *testing.T) {
	shown := map[string]bool{}
	for _, p := range pages(t) {
		for _, line := range p.prose() {
			for _, match := range linkPattern.FindAllStringSubmatch(line, -1) {
				shown[path.Join(path.Dir(p.name), match[1])] = true
			}
		}
		for _, b := range p.blocks {
			if !slices.Contains([]string{"go", "python", "php", "javascript"}, b.kind) {
				continue
			}
			if strings.HasPrefix(p.name, "sdk/") {
				checkSame(t, p, b)
				continue
			}
			if !strings.HasPrefix(b.info, "docs/examples/") {
				t.Errorf("%s:%d: name the file this is, such as ```%s docs/examples/…", p.name, b.line, b.kind)
				continue
			}
			shown[b.info] = true
			checkSame(t, p, b)
			used := b.info
			if b.kind == "go" {
				used = "./" + path.Dir(b.info)
			}
			if !slices.ContainsFunc(p.blocks, func(other block) bool {
				return other.kind == "console" && slices.ContainsFunc(steps(other), func(s step) bool { return strings.Contains(s.command, used) })
			}) {
				t.Errorf("%s:%d: no console block of the page uses %s, so nobody knows whether it works", p.name, b.line, used)
			}
		}
	}
	err := fs.WalkDir(os.DirFS("."), "docs/examples", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !shown[name] && !strings.Contains(name, "__pycache__") {
			t.Errorf("%s is on no page: show it, link to it, or remove it", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// checkSame compares a program on a page with its file.
func checkSame(t *testing.T, p *page, b block) {
	t.Helper()
	text, err := os.ReadFile(b.info)
	if err != nil {
		t.Errorf("%s:%d: %v", p.name, b.line, err)
	} else if b.String() != string(text) {
		t.Errorf("%s:%d: the block is not the same as %s; mend the file, then copy it here: %s", p.name, b.line, b.info, firstDifference(b.String(), string(text)))
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %q; want %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines; want %d", len(a), len(b))
}

func TestPages_JSONMatchesContract(t *testing.T) {
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.kind != "json" {
				continue
			}
			if err := checkJSON(b); err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
			}
		}
	}
	const good = `{"success":false,"request_id":"req_0123456789abcdef0123456789abcdef","code":"NOT_FOUND","message":"No.","data":{}}`
	for _, tt := range []struct{ info, text, want string }{
		{"GET /api/v2/balance 404", good, ""},
		{"", `{"subscriber_id":"100001","plan_id":"BASIC-1"}`, ""},
		{"", `{"subscriber_id":"100001",}`, "invalid character"},
		{"", good, "an answer says to what"},
		{"GET /api/v2/balance 200", good, "violates the contract"},
		{"GET /api/v2/balance 404", strings.Replace(good, `"data":{}`, `"details":{}`, 1), "violates the contract"},
	} {
		err := checkJSON(block{kind: "json", info: tt.info, text: []string{tt.text}})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("```json %s\n%s\ngives %v; want %q", tt.info, tt.text, err, tt.want)
		}
	}
}

// checkJSON returns what is wrong with a block of JSON. One with a request id is a
// response of the API.
func checkJSON(b block) error {
	var value any
	if err := json.Unmarshal([]byte(b.String()), &value); err != nil {
		return err
	}
	envelope, _ := value.(map[string]any)
	id, isAnswer := envelope["request_id"].(string)
	if !isAnswer {
		return nil
	}
	words := strings.Fields(b.info)
	if len(words) != 3 {
		return errors.New("an answer says to what, and with which status: ```json GET /api/v1/balance 200")
	}
	status, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(b.String())); err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"no-store"}, "X-Request-Id": {id}}
	if err := contracttest.Violations(words[0], words[1], status, header, compact.Bytes()); err == nil {
		return nil
	}
	// Most responses have rate limit headers, some never do.
	for name, value := range map[string]string{"Limit": "60", "Remaining": "59", "Reset": "1800000000"} {
		header.Set("X-RateLimit-"+name, value)
	}
	return contracttest.Violations(words[0], words[1], status, header, compact.Bytes())
}
