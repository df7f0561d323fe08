package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/demo"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/pgtest"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata/script: sessions at the command line and their
// output. The program runs in its own processes, with the race detector if the tests have
// it. Besides testscript's commands (stdout, cp, env, exec, …) a script has these:
//
//	coax ARGS                runs the program, which must do it: exit 0
//	! coax ARGS              … must refuse it: exit 1
//	misuse coax ARGS         … must not understand it: exit 2
//	until PATTERN coax ARGS  runs it again and again until its stdout matches
//	start NAME coax ARGS     runs demo, serve or simulator in the background and waits until it is ready. Sets $API,
//	                         $INTERNAL, $PLAIN, $SIMULATOR, $KEY, $SECRET, $PANEL, $BY_NAME, $ADMIN_PASSWORD, $OPERATOR_PASSWORD, $FINANCE_PASSWORD: those that it tells of. stdout is what it printed.
//	end NAME                 SIGTERM, upon which it must exit 0. Its stdout and stderr can be looked at then.
//	see FILE                 stdout must be as in the file, where … is anything on a line and $NAME a variable
//	says LINE …              the same for stderr, line by line
//	field PATH VALUE         the JSON on stdout must have this value there: data.customer.mobile, or 0.status
//	keep NAME PATH [AGE]     sets $NAME to what stands there, or to that time with an age such as 720h added
//	certificate FOLDER       puts tls.pem and tls.key there, as a CA would issue them for this machine, and that CA's ca.pem
//	damage FILE SQL          runs SQL directly on a store
//
// On PostgreSQL each script has its own database, named in its environment; lines marked
// [postgres] run only then.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                filepath.Join("testdata", "script"),
		WorkdirRoot:        t.TempDir(), // testscript leaves its own behind where -run picks some stories
		RequireUniqueNames: true,
		Setup:              scriptSetup,
		Condition: func(condition string) (bool, error) {
			if condition != "postgres" {
				return false, fmt.Errorf("there is no condition %s", condition)
			}
			return pgtest.Chosen(), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"coax": scriptCoax, "misuse": scriptMisuse, "until": scriptUntil,
			"start": scriptStart, "end": scriptEnd, "hangup": scriptHangup,
			"see": scriptSee, "says": scriptSays, "field": scriptField, "keep": scriptKeep,
			"certificate": scriptCertificate, "damage": scriptDamage,
		},
	})
}

// script is the state of a running script.
type script struct {
	t        testing.TB
	environ  []string // what services are started with
	services map[string]*e2e.Process
}

type scriptKey struct{}

func scriptSetup(env *testscript.Env) error {
	program, err := program.Coax()
	if err != nil {
		return err
	}
	bin := filepath.Join(env.WorkDir, ".bin")
	if err := errors.Join(os.Mkdir(bin, 0o700), os.Symlink(program, filepath.Join(bin, "coax"))); err != nil {
		return err
	}
	env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("PROGRAM", server.ShellQuote(program)) // as demo prints it
	for _, setting := range e2e.CoverageEnv() {
		name, value, _ := strings.Cut(setting, "=")
		env.Setenv(name, value)
	}
	t := env.T().(testing.TB)
	for _, set := range e2e.NewStoreSettings(t) {
		env.Setenv("COAX_STORE_URL", strings.TrimPrefix(set, "store.url="))
	}
	s := &script{t: t, environ: slices.Clone(env.Vars), services: map[string]*e2e.Process{}}
	env.Values[scriptKey{}] = s
	env.Defer(func() {
		for _, service := range s.services {
			service.Kill()
		}
	})
	return nil
}

// scriptArgs checks that a command has its own words, followed by coax with its arguments,
// which it returns.
func scriptArgs(ts *testscript.TestScript, negated bool, own int, args []string) []string {
	if negated || len(args) < own+2 || args[own] != "coax" {
		ts.Fatalf("the command is not written as TestScripts explains")
	}
	return args[own+1:]
}

// scriptWords checks the number of words.
func scriptWords(ts *testscript.TestScript, negated bool, least, most int, args []string) {
	if negated || len(args) < least || len(args) > most {
		ts.Fatalf("the command is not written as TestScripts explains")
	}
}

// scriptRun runs the program and returns its exit status.
func scriptRun(ts *testscript.TestScript, args []string) int {
	err := ts.Exec("coax", args...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		ts.Fatalf("run coax: %v", err)
	}
	return e2e.ExitDone
}

func scriptDemand(ts *testscript.TestScript, args []string, want int) {
	if code := scriptRun(ts, args); code != want {
		ts.Fatalf("it ended with %d; want %d", code, want)
	}
}

func scriptCoax(ts *testscript.TestScript, refused bool, args []string) {
	want := e2e.ExitDone
	if refused {
		want = e2e.ExitRefused
	}
	scriptDemand(ts, args, want)
}

func scriptMisuse(ts *testscript.TestScript, negated bool, args []string) {
	scriptDemand(ts, scriptArgs(ts, negated, 0, args), e2e.ExitUsage)
}

func scriptUntil(ts *testscript.TestScript, negated bool, args []string) {
	command := scriptArgs(ts, negated, 1, args)
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(e2e.Timeout); time.Now().Before(deadline); {
		if scriptRun(ts, command) == e2e.ExitDone && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("it does not come to print %s", args[0])
}

func scriptStart(ts *testscript.TestScript, negated bool, args []string) {
	words := scriptArgs(ts, negated, 1, args)
	s, name := ts.Value(scriptKey{}).(*script), args[0]
	if s.services[name] != nil {
		ts.Fatalf("%s runs already", name)
	}
	command := exec.Command(filepath.Join(ts.Getenv("WORK"), ".bin", "coax"), words...)
	command.Dir, command.Env = ts.MkAbs("."), slices.Clone(s.environ)
	p := e2e.LaunchCommand(s.t, command)
	s.services[name] = p
	await := func(from *e2e.Output, ready string) string {
		if !from.WaitFor(ready, p.Ended) {
			ts.Fatalf("%s did not come up:\n%s%s", name, p.Out, p.Err)
		}
		return from.String()
	}
	defer func() { scriptOutput(ts, p) }()
	switch words[0] {
	case "demo":
		if !slices.Contains(words, "--json") {
			await(p.Out, "finds everything again.\n\n")
		} else {
			await(p.Out, "\n")
		}
		folder := words[slices.Index(words, "--dir")+1]
		var line demo.Info
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(filepath.Join(folder, "demo.json"))), &line))
		for name, value := range map[string]string{
			"API": line.BaseURL, "INTERNAL": line.InternalURL, "PLAIN": line.PlainURL,
			"SIMULATOR": line.SimulatorURL, "KEY": line.APIKey, "SECRET": line.APISecret,
			"PANEL": line.PanelURL, "BY_NAME": strings.Replace(line.PanelURL, "127.0.0.1", "localhost", 1), "ADMIN_PASSWORD": line.Admin.Password, "OPERATOR_PASSWORD": line.Operator.Password,
			"FINANCE_PASSWORD": line.Finance.Password,
		} {
			ts.Setenv(name, value)
		}
	case "serve":
		found := regexp.MustCompile(`"msg":"serving","addr":"([^"]+)","internal_addr":"([^"]+)"`).FindStringSubmatch(await(p.Err, "\"serving\""))
		if found == nil {
			ts.Fatalf("%s does not say where it serves:\n%s", name, p.Err)
		}
		ts.Setenv("API", "https://"+found[1]+"/api/v1")
		ts.Setenv("INTERNAL", "http://"+found[2])
	case "simulator":
		ts.Setenv("SIMULATOR", strings.TrimSpace(strings.TrimPrefix(await(p.Out, "\n"), "The simulator listens on ")))
		return
	}
	scriptReady(ts, ts.Getenv("INTERNAL")+"/readyz")
}

// scriptReady waits until a node is ready.
func scriptReady(ts *testscript.TestScript, url string) {
	for deadline := time.Now().Add(e2e.Timeout); time.Now().Before(deadline); {
		response, err := http.Get(url)
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
	}
	ts.Fatalf("%s does not become ready", url)
}

func scriptEnd(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 1, 1, args)
	s := ts.Value(scriptKey{}).(*script)
	p := s.services[args[0]]
	if p == nil {
		ts.Fatalf("%s does not run", args[0])
	}
	delete(s.services, args[0])
	code := p.Terminate()
	scriptOutput(ts, p)
	if code != e2e.ExitDone {
		ts.Fatalf("%s ended with %d; want 0", args[0], code)
	}
}

// scriptHangup sends SIGHUP and waits until the service has read its master key again.
func scriptHangup(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 1, 1, args)
	p := ts.Value(scriptKey{}).(*script).services[args[0]]
	if p == nil {
		ts.Fatalf("%s does not run", args[0])
	}
	p.Hangup("the master key was read again")
}

// scriptOutput makes a service's output the script's stdout and stderr.
func scriptOutput(ts *testscript.TestScript, p *e2e.Process) {
	_, err := io.WriteString(ts.Stdout(), p.Out.String())
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), p.Err.String())
	ts.Check(err)
}

// scriptCompare compares a text with the expected one.
func scriptCompare(ts *testscript.TestScript, got, shown string) {
	gotLines, want := strings.Split(got, "\n"), strings.Split(os.Expand(shown, ts.Getenv), "\n")
	for i := range max(len(gotLines), len(want)) {
		if i >= len(gotLines) || i >= len(want) {
			ts.Fatalf("it has %d lines; want %d", len(gotLines), len(want))
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want[i]), "…", ".*") + "$"
		if !regexp.MustCompile(pattern).MatchString(gotLines[i]) {
			ts.Fatalf("line %d is\n%s\nwant\n%s", i+1, gotLines[i], want[i])
		}
	}
}

func scriptSee(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 1, 1, args)
	scriptCompare(ts, ts.ReadFile("stdout"), ts.ReadFile(args[0]))
}

func scriptSays(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 1, 100, args)
	scriptCompare(ts, ts.ReadFile("stderr"), strings.Join(args, "\n")+"\n")
}

// scriptValue finds a value in the JSON on stdout, which call -i prints below the
// head. An amount keeps its digits.
func scriptValue(ts *testscript.TestScript, path string) string {
	text := ts.ReadFile("stdout")
	if head, body, found := strings.Cut(text, "\n\n"); found && strings.HasPrefix(head, "HTTP ") {
		text = body
	}
	value := json.RawMessage(text)
	for step := range strings.SplitSeq(path, ".") {
		var list []json.RawMessage
		var object map[string]json.RawMessage
		if at, err := strconv.Atoi(step); err == nil {
			ts.Check(json.Unmarshal(value, &list))
			if at >= len(list) {
				ts.Fatalf("%s: there are %d only", path, len(list))
			}
			value = list[at]
			continue
		}
		ts.Check(json.Unmarshal(value, &object))
		if value = object[step]; value == nil {
			ts.Fatalf("%s: there is no %s", path, step)
		}
	}
	var compact bytes.Buffer
	ts.Check(json.Compact(&compact, value))
	var plain string
	if json.Unmarshal(value, &plain) == nil && compact.String() != "null" {
		return plain
	}
	return compact.String()
}

func scriptField(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 2, 2, args)
	if got := scriptValue(ts, args[0]); got != args[1] {
		ts.Fatalf("%s is %s; want %s", args[0], got, args[1])
	}
}

func scriptKeep(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 2, 3, args)
	value := scriptValue(ts, args[1])
	if len(args) == 3 {
		const layout = "2006-01-02 15:04:05"
		at, err := time.ParseInLocation(layout, value, subscription.IST)
		ts.Check(err)
		age, err := time.ParseDuration(args[2])
		ts.Check(err)
		value = at.Add(age).Format(layout)
	}
	ts.Setenv(args[0], value)
}

func scriptCertificate(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 1, 1, args)
	ts.Check(server.EnsureCertificate(ts.MkAbs(args[0]), "127.0.0.1:0"))
}

func scriptDamage(ts *testscript.TestScript, negated bool, args []string) {
	scriptWords(ts, negated, 2, 2, args)
	e2e.ExecOnStore(ts.Value(scriptKey{}).(*script).t, server.StoreConfig{Kind: "sqlite", Path: ts.MkAbs(args[0])}, args[1])
}
