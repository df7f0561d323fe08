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

// Stories are what people type at the command line and see, one script each in
// testdata/script. The program runs in processes of its own, raced if the tests
// are. Beside testscript's commands (stdout, cp, env, exec, …) a story has these:
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
//	damage FILE SQL          changes a store behind everybody's back
//
// Where the suite runs on PostgreSQL, each story has a database of its own, which
// its environment names. [postgres] stands before what is only for then.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                filepath.Join("testdata", "script"),
		WorkdirRoot:        t.TempDir(), // testscript leaves its own behind where -run picks some stories
		RequireUniqueNames: true,
		Setup:              storySetup,
		Condition: func(condition string) (bool, error) {
			if condition != "postgres" {
				return false, fmt.Errorf("there is no condition %s", condition)
			}
			return pgtest.Chosen(), nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"coax": storyCoax, "misuse": storyMisuse, "until": storyUntil,
			"start": storyStart, "end": storyEnd,
			"see": storySee, "says": storySays, "field": storyField, "keep": storyKeep,
			"certificate": storyCertificate, "damage": storyDamage,
		},
	})
}

// story is what a script has under way.
type story struct {
	t        testing.TB
	environ  []string // what services are started with
	services map[string]*e2e.Process
}

type storyKey struct{}

func storySetup(env *testscript.Env) error {
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
	s := &story{t: t, environ: slices.Clone(env.Vars), services: map[string]*e2e.Process{}}
	env.Values[storyKey{}] = s
	env.Defer(func() {
		for _, service := range s.services {
			service.Kill()
		}
	})
	return nil
}

// storyArgs demands a command's own words, and behind them coax with its
// arguments, which it returns.
func storyArgs(ts *testscript.TestScript, negated bool, own int, args []string) []string {
	if negated || len(args) < own+2 || args[own] != "coax" {
		ts.Fatalf("the command is not written as TestScripts explains")
	}
	return args[own+1:]
}

// storyWords demands a number of words.
func storyWords(ts *testscript.TestScript, negated bool, least, most int, args []string) {
	if negated || len(args) < least || len(args) > most {
		ts.Fatalf("the command is not written as TestScripts explains")
	}
}

// storyRun runs the program and returns its exit status.
func storyRun(ts *testscript.TestScript, args []string) int {
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

func storyDemand(ts *testscript.TestScript, args []string, want int) {
	if code := storyRun(ts, args); code != want {
		ts.Fatalf("it ended with %d; want %d", code, want)
	}
}

func storyCoax(ts *testscript.TestScript, refused bool, args []string) {
	want := e2e.ExitDone
	if refused {
		want = e2e.ExitRefused
	}
	storyDemand(ts, args, want)
}

func storyMisuse(ts *testscript.TestScript, negated bool, args []string) {
	storyDemand(ts, storyArgs(ts, negated, 0, args), e2e.ExitUsage)
}

func storyUntil(ts *testscript.TestScript, negated bool, args []string) {
	command := storyArgs(ts, negated, 1, args)
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(e2e.Timeout); time.Now().Before(deadline); {
		if storyRun(ts, command) == e2e.ExitDone && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("it does not come to print %s", args[0])
}

func storyStart(ts *testscript.TestScript, negated bool, args []string) {
	words := storyArgs(ts, negated, 1, args)
	s, name := ts.Value(storyKey{}).(*story), args[0]
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
	defer func() { storyOutput(ts, p) }()
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
	storyReady(ts, ts.Getenv("INTERNAL")+"/readyz")
}

// storyReady waits until a node says that it is ready.
func storyReady(ts *testscript.TestScript, url string) {
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

func storyEnd(ts *testscript.TestScript, negated bool, args []string) {
	storyWords(ts, negated, 1, 1, args)
	s := ts.Value(storyKey{}).(*story)
	p := s.services[args[0]]
	if p == nil {
		ts.Fatalf("%s does not run", args[0])
	}
	delete(s.services, args[0])
	code := p.Terminate()
	storyOutput(ts, p)
	if code != e2e.ExitDone {
		ts.Fatalf("%s ended with %d; want 0", args[0], code)
	}
}

// storyOutput makes what a service wrote the story's stdout and stderr.
func storyOutput(ts *testscript.TestScript, p *e2e.Process) {
	_, err := io.WriteString(ts.Stdout(), p.Out.String())
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), p.Err.String())
	ts.Check(err)
}

// storyCompare holds a text against what a story shows of it.
func storyCompare(ts *testscript.TestScript, got, shown string) {
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

func storySee(ts *testscript.TestScript, negated bool, args []string) {
	storyWords(ts, negated, 1, 1, args)
	storyCompare(ts, ts.ReadFile("stdout"), ts.ReadFile(args[0]))
}

func storySays(ts *testscript.TestScript, negated bool, args []string) {
	storyWords(ts, negated, 1, 100, args)
	storyCompare(ts, ts.ReadFile("stderr"), strings.Join(args, "\n")+"\n")
}

// storyValue finds a value in the JSON on stdout, which call -i prints below the
// head. An amount keeps its digits.
func storyValue(ts *testscript.TestScript, path string) string {
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

func storyField(ts *testscript.TestScript, negated bool, args []string) {
	storyWords(ts, negated, 2, 2, args)
	if got := storyValue(ts, args[0]); got != args[1] {
		ts.Fatalf("%s is %s; want %s", args[0], got, args[1])
	}
}

func storyKeep(ts *testscript.TestScript, negated bool, args []string) {
	storyWords(ts, negated, 2, 3, args)
	value := storyValue(ts, args[1])
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

func storyCertificate(ts *testscript.TestScript, negated bool, args []string) {
	storyWords(ts, negated, 1, 1, args)
	ts.Check(server.EnsureCertificate(ts.MkAbs(args[0]), "127.0.0.1:0"))
}

func storyDamage(ts *testscript.TestScript, negated bool, args []string) {
	storyWords(ts, negated, 2, 2, args)
	e2e.ExecOnStore(ts.Value(storyKey{}).(*story).t, server.StoreConfig{Kind: "sqlite", Path: ts.MkAbs(args[0])}, args[1])
}
