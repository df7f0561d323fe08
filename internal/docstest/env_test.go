package docstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/store/pgtest"
)

var update = flag.Bool("update", false, "write what the commands print into the pages, where it differs")

// needed are the programs that the pages' commands use. `make test` installs them.
var needed = []string{"bash", "make", "go", "python3", "php", "node", "curl", "openssl"}

// Every page's console blocks run in order, in a fresh clone of the source; those of the
// operating pages share one. This differs
// from a reader's machine: ports are free ones, the folders in realRoots are below a
// temporary one, and systemctl is a stand-in.
func TestPages_ExamplesWork(t *testing.T) {
	for _, tool := range needed {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("CI needs %s to run the pages' examples: %v", tool, err)
			}
			t.Skipf("%s is not installed, so the pages' examples cannot be run: %v", tool, err)
		}
	}
	built := t.TempDir()
	copyTree(t, ".", built)
	build := exec.CommandContext(t.Context(), "make", "build")
	build.Dir, build.Env = built, cleanEnvironment()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	all := pages(t)
	t.Run("mentioned commands", func(t *testing.T) {
		t.Parallel()
		mentionedCommandsExist(t, all, built)
	})
	played := playedTogether(t, all)
	for _, together := range played {
		t.Run(together[0].name, func(t *testing.T) {
			t.Parallel()
			w := newPageEnv(t, together[0])
			copyTree(t, ".", w.clone)
			if together[0].name != "README.md" { // README.md builds it itself
				copyProgram(t, filepath.Join(built, "bin", "coax"), filepath.Join(w.clone, "bin", "coax"))
			}
			w.play(together)
		})
	}
	if len(played) == 0 {
		t.Error("no page has an example: the search looks in the wrong place")
	}
}

// operatingPages use one installation, which the first makes, in this order. Each goes on
// with what the pages before it left.
var operatingPages = []string{
	"docs/operating.md", "docs/certificates.md", "docs/people.md", "docs/monitoring.md", "docs/auditing.md", "docs/retention.md", "docs/backups.md", "docs/upgrading.md", "docs/master-key.md", "docs/incidents.md",
	"docs/moving.md", // last: it leaves the store of the pages before
}

// playedTogether returns the pages with examples: the operating pages in one group, each
// other page in a group of its own.
func playedTogether(t *testing.T, all []*page) [][]*page {
	t.Helper()
	operating := make([]*page, len(operatingPages))
	var groups [][]*page
	for _, p := range all {
		if !slices.ContainsFunc(p.blocks, func(b block) bool { return b.kind == "console" || b.kind == "toml" }) {
			continue
		}
		if i := slices.Index(operatingPages, p.name); i >= 0 {
			operating[i] = p
		} else {
			groups = append(groups, []*page{p})
		}
	}
	if i := slices.Index(operating, nil); i >= 0 {
		t.Fatalf("%s is not there, or has no example", operatingPages[i])
	}
	return append(groups, operating)
}

// realRoots are folders of a real machine that pages mention.
var realRoots = regexp.MustCompile(`(^|[\s='":]|file://)(/etc/coax|/var/lib/coax|/var/log/coax|/var/backups/coax|/usr/bin/coax)\b`)

// databaseOfPages is the address of the empty database that pages name.
const databaseOfPages = "postgres://coax@db.example/coax"

// homeOfClone is the folder of the source on the pages.
const homeOfClone = "/home/you/coax"

// pageEnv is the environment in which the examples of one or more pages run.
type pageEnv struct {
	t       *testing.T
	page    *page // the one whose examples run now
	root    string
	clone   string
	known   map[string]string // the page's names, and what they are in this run
	running []*server
	edits   []edit
	// database is the test's own in place of databaseOfPages, made when a page names that.
	database string
	// compared: a node has read the provider's catalogue.
	compared bool
}

type edit struct {
	from, to int // lines of the page, from included
	lines    []string
}

func newPageEnv(t *testing.T, p *page) *pageEnv {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &pageEnv{t: t, page: p, root: root, clone: filepath.Join(root, "coax"), known: map[string]string{}}
	for _, folder := range []string{"coax", "etc", "usr/bin", "var/lib", "var/log", "var/backups", "played"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The account coax is whoever runs the tests.
	w.write("played/runuser", "#!/bin/sh\nshift 3\nexec \"$@\"\n", 0o755)
	w.write("played/journalctl", "#!/bin/sh\nexec cat "+filepath.Join(root, "played/journal")+"\n", 0o755)
	w.write("played/cwd", w.clone, 0o644)
	return w
}

func (w *pageEnv) write(name, text string, mode os.FileMode) {
	if err := os.WriteFile(filepath.Join(w.root, name), []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
}

// cleanEnvironment returns a reader's environment: without the variables of our tests and
// of a make that may have started them.
func cleanEnvironment(more ...string) []string {
	var clean []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "COAX_") && !strings.HasPrefix(name, "MAKE") && name != "MFLAGS" && name != "DEMO_DIR" && name != "ARGS" {
			clean = append(clean, entry)
		}
	}
	return append(clean, more...)
}

func (w *pageEnv) environment() []string {
	settings := []string{
		// The standard ports may be in use; these override the configuration file.
		"COAX_SERVER_ADDR=127.0.0.1:0", "COAX_SERVER_INTERNAL_ADDR=127.0.0.1:0",
	}
	if w.page.name == "docs/backups.md" {
		// After a restore, maintenance off waits for as long.
		settings = append(settings, "COAX_PROVIDER_TIMEOUT=4s", "COAX_REVIEW_REFUND_AFTER=4s")
	}
	return cleanEnvironment(append(settings,
		"PATH="+filepath.Join(w.root, "played")+":"+filepath.Join(w.root, "usr/bin")+":"+os.Getenv("PATH"),
		"GOFLAGS=-trimpath", "CGO_ENABLED=0", "PYTHONDONTWRITEBYTECODE=1",
	)...)
}

// play runs the blocks of the pages.
func (w *pageEnv) play(together []*page) {
	defer w.stopAll()
	var printed []string
	for _, p := range together {
		w.page, w.edits = p, nil
		for _, b := range p.blocks {
			switch b.kind {
			case "toml":
				w.configure(b)
			case "console":
				for _, s := range steps(b) {
					if w.t.Failed() && !*update {
						return // later steps depend on this one
					}
					printed = append(printed, w.step(s)...)
				}
			}
		}
		w.rewrite()
	}
	// Last, so that it does not disturb the pages' own steps.
	for _, command := range printed {
		w.paste(command)
	}
}

// step runs one command and compares its output. For a demo it returns the commands that
// the demo printed for its user.
func (w *pageEnv) step(s step) (toPaste []string) {
	w.t.Helper()
	command := w.translate(s.command)
	at := fmt.Sprintf("%s:%d: $ %s", w.page.name, s.line, s.command)
	var got string
	var status int
	switch {
	case s.command == "":
		w.t.Errorf("%s:%d: a console block begins with a command, after `$ `", w.page.name, s.line)
		return nil
	case s.command == "make test":
		// make test runs this test, so only check that the target exists.
		got, status = w.run("make --dry-run test >/dev/null")
	case serves(s.command):
		server := w.serve(command)
		got = server.stdout.String()
		if strings.Contains(got, "Coax is running.") {
			toPaste = offered(got)
			if len(toPaste) == 0 {
				w.t.Errorf("%s\noffered its user nothing to try:\n%s", at, got)
			}
		}
	case strings.HasPrefix(s.command, "apt install ./coax_"):
		got = w.installPackage()
	case strings.HasPrefix(s.command, "systemctl "):
		w.systemctl(strings.Fields(s.command)[1:])
	default:
		got, status = w.run(command)
		w.awaitVoid(command, status)
	}
	if status != s.exits {
		w.t.Errorf("%s\nexits %d; want %d. It printed:\n%s", at, status, s.exits, got)
		return toPaste
	}
	w.compare(s, at, w.untranslate(got))
	return toPaste
}

// awaitVoid waits, after a manual refund, until the service has voided the operation at
// the provider. A reader types more slowly than that.
func (w *pageEnv) awaitVoid(command string, status int) {
	before, after, found := strings.Cut(command, " review settle --transaction ")
	id, rest, _ := strings.Cut(after, " ")
	if !found || status != 0 || !strings.Contains(rest, "--reject") {
		return
	}
	w.until("the void of the refund is recorded", func() bool {
		shown, _ := w.run(before + " operation show --json --transaction " + id)
		return strings.Contains(shown, `"void"`)
	})
}

func (w *pageEnv) compare(s step, at, got string) {
	w.t.Helper()
	lines := strings.Split(strings.Trim(got, "\n"), "\n")
	if strings.Trim(got, "\n") == "" {
		lines = nil
	}
	want := s.want
	for len(want) > 0 && want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	pairs, ok := match(want, lines)
	if !ok {
		if *update && !slices.Contains(want, anyLines) {
			for i := range lines {
				lines[i] = retranslate(w.known, lines[i])
			}
			w.edits = append(w.edits, edit{s.end - len(s.want), s.end, lines})
			return
		}
		w.t.Errorf("%s\nprinted:\n%s\nthe page says:\n%s\n(go test ./internal/docstest -run TestPages_ExamplesWork -update writes it into the page)", at, strings.Join(lines, "\n"), strings.Join(want, "\n"))
		return
	}
	for shown, printed := range pairs {
		if err := learn(w.known, want[shown], lines[printed]); err != nil {
			w.t.Errorf("%s\n%v", at, err)
		}
		// Times of two runs on one page would contradict each other.
		if fresh := retimed(want[shown], lines[printed]); *update && fresh != want[shown] {
			at := s.end - len(s.want) + shown
			w.edits = append(w.edits, edit{at, at + 1, []string{fresh}})
		}
	}
}

// translate turns a page's command into the one to run here.
func (w *pageEnv) translate(command string) string {
	if strings.Contains(command, databaseOfPages) {
		if w.database == "" {
			w.database, _, _ = strings.Cut(pgtest.NewDatabase(w.t), "&") // which sed would replace
		}
		command = strings.ReplaceAll(command, databaseOfPages, w.database)
	}
	return realRoots.ReplaceAllString(translate(w.known, command), "${1}"+w.root+"${2}")
}

// untranslate turns what was printed here into what a reader would see.
func (w *pageEnv) untranslate(text string) string {
	text = strings.ReplaceAll(text, w.clone, homeOfClone)
	if w.database != "" {
		text = strings.ReplaceAll(text, w.database, databaseOfPages)
	}
	return strings.ReplaceAll(text, w.root, "")
}

// run runs a command as in one open shell: the working directory and exported variables
// are kept for the next command.
func (w *pageEnv) run(command string) (printed string, status int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", w.prelude()+command+"\nstatus=$?; export -p >\"$PLAYED/exports\"; pwd >\"$PLAYED/cwd\"; exit $status")
	shell.Env = append(w.environment(), "PLAYED="+filepath.Join(w.root, "played"))
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	err := shell.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("bash: %v", err)
	}
	return progressLine.ReplaceAllString(out.String(), ""), shell.ProcessState.ExitCode()
}

// progressLine is what backup, restore and copy print of work that takes more than a second.
var progressLine = regexp.MustCompile(`(?m)^(?:auditing [a-z ]+|[a-z ]+: \d+ %)\n`)

func (w *pageEnv) prelude() string {
	return `set -o pipefail; umask 022; if [ -f "$PLAYED/exports" ]; then . "$PLAYED/exports"; fi; cd "$(cat "$PLAYED/cwd")" || exit 99
`
}

// configure parses a block of TOML with the product's own reader, and writes it to the
// file that the block names, if any.
func (w *pageEnv) configure(b block) {
	w.t.Helper()
	text := translate(w.known, b.String())
	trial := filepath.Join(w.root, fmt.Sprintf("trial-%d", b.line))
	if err := os.MkdirAll(trial, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.write(fmt.Sprintf("trial-%d/coax.toml", b.line), text, 0o600)
	if out, status := w.run("bin/coax migrate --config " + filepath.Join(trial, "coax.toml")); status != 0 {
		w.t.Errorf("%s:%d: the configuration is refused: %s", w.page.name, b.line, out)
	}
	if b.info != "" {
		w.write(strings.TrimPrefix(b.info, "/"), text, 0o600)
	}
}

// offered returns the commands that a demo prints for its user to paste.
func offered(text string) []string {
	var commands []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "    /") {
			continue
		}
		command := lines[i]
		for strings.HasSuffix(command, `\`) && i+1 < len(lines) {
			i++
			command += "\n" + lines[i]
		}
		commands = append(commands, command)
	}
	return commands
}

// paste runs a command that the demo printed.
func (w *pageEnv) paste(command string) {
	w.t.Helper()
	got, status := w.run(command)
	if status != 0 {
		w.t.Errorf("the demo offered\n%s\nwhich exits %d: %s", command, status, got)
		return
	}
	if !strings.Contains(command, " call ") {
		return
	}
	var answer struct{ Code string }
	if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.Code != "OK" {
		w.t.Errorf("the demo offered\n%s\nwhich is answered %s; want the code OK (%v)", command, got, err)
	}
}

// rewrite writes the printed output into the page.
func (w *pageEnv) rewrite() {
	if len(w.edits) == 0 {
		return
	}
	lines := w.page.lines
	slices.SortFunc(w.edits, func(a, b edit) int { return a.from - b.from })
	for _, e := range slices.Backward(w.edits) {
		lines = slices.Concat(lines[:e.from-1], e.lines, lines[e.to-1:])
	}
	if err := os.WriteFile(w.page.name, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.t.Errorf("%s was updated in %d places: read what has changed", w.page.name, len(w.edits))
}
