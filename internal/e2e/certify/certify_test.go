// Package certify runs coax certify with the SDKs' adapters, with clients that are written by
// hand, and with broken ones.
package certify

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/certify"
	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/e2e/program"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

func TestMain(m *testing.M) {
	looktest.Host()
	e2e.Main(m, looktest.Close)
}

// root is the module's root, as seen from this package.
const root = "../../.."

// candidate is a program to certify.
type candidate struct {
	name string
	// built is the Go package of the program; command is another's, which needs a tool.
	built   string
	command []string
}

// adapters are the programs around the SDKs, as their READMEs show them.
var adapters = []candidate{
	{name: "go", built: "github.com/coaxhq/coax/docs/examples/certify"},
	{name: "php", command: []string{"php", root + "/sdk/php/examples/certify.php"}},
	{name: "node", command: []string{"node", root + "/sdk/node/examples/certify.js"}},
	{name: "python", command: []string{"python3", root + "/sdk/python/examples/certify.py"}},
}

// clients are written by hand, each in another style. With the name of a fault as its
// argument a client is wrong in that one way.
var clients = []candidate{
	{name: "go", built: "github.com/coaxhq/coax/internal/e2e/certify/clients/go"},
	{name: "php", command: []string{"php", "clients/php/client.php"}},
	{name: "node", command: []string{"node", "clients/node/client.mjs"}},
	{name: "python", command: []string{"python3", "clients/python/client.py"}},
}

// line returns the command line, and fails or skips the test if a tool is missing.
func (c candidate) line(t *testing.T, args ...string) []string {
	t.Helper()
	if c.built != "" {
		path, err := program.BuildPackage("certify-"+strings.ReplaceAll(c.built, "/", "-"), c.built)
		if err != nil {
			t.Fatal(err)
		}
		return append([]string{path}, args...)
	}
	if _, err := exec.LookPath(c.command[0]); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("CI needs %s: %v", c.command[0], err)
	} else if err != nil {
		t.Skipf("%s is not installed", c.command[0])
	}
	return append(slices.Clone(c.command), args...)
}

// certified plays stories, all of them if none is named.
func certified(t *testing.T, command []string, only ...string) []certify.Result {
	t.Helper()
	stories, err := certify.Stories()
	if err != nil {
		t.Fatal(err)
	}
	if len(only) > 0 {
		stories = slices.DeleteFunc(stories, func(s certify.Story) bool { return !slices.Contains(only, s.Name) })
		if len(stories) != len(only) {
			t.Fatalf("there are not all of %q", only)
		}
	}
	for i := range stories {
		stories[i].Limit *= 2 // the machine may be busy
	}
	began := time.Now()
	results, err := certify.Run(context.Background(), certify.Options{
		Command: command, Environ: append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), Stories: stories, Copies: 8, Grace: time.Minute,
		Progress: func(int, certify.Result) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d stories in %v", len(results), time.Since(began).Round(time.Second))
	return results
}

func requirePassed(t *testing.T, results []certify.Result) {
	t.Helper()
	for _, r := range results {
		if r.Passed {
			continue
		}
		t.Errorf("%s: %s: %s %v", r.Name, r.Fault, r.Explanation, r.Happened)
		for _, request := range r.Requests {
			t.Logf("%s at %.3f s:\n%s\n→ %s", r.Name, request.At, request.Text, request.Answer)
		}
	}
}

var fiveStories = []string{"lost-answer", "killed-after-work", "clock-ahead", "pending-then-failure", "other-authority"}

func TestAdapters_PassFiveStories(t *testing.T) {
	for _, one := range adapters {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			requirePassed(t, certified(t, one.line(t), fiveStories...))
		})
	}
}

func TestBrokenClient_IsFound(t *testing.T) {
	t.Parallel()
	results := certified(t, clients[0].line(t, "new-key-on-retry"), "lost-answer", "plain")
	if r := results[0]; r.Name != "lost-answer" || r.Fault != certify.ChargedTwice {
		t.Errorf("a client that takes a new key after a lost answer is found to have %q: %s", r.Fault, r.Explanation)
	}
	requirePassed(t, results[1:])
}
