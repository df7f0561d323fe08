package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

// inProcess runs a command within the test.
func inProcess(t testing.TB, args ...string) e2e.Result {
	t.Helper()
	var out, err bytes.Buffer
	code := (&app{out: &out, err: &err}).run(t.Context(), args)
	return e2e.Result{Code: code, Out: out.String(), Err: err.String()}
}

func TestInitHelp_ListsEverySetting(t *testing.T) {
	t.Parallel()
	help := e2e.RequireOK(t, inProcess(t, "init", "--help")).Out
	for _, setting := range server.Settings {
		e2e.CheckMentions(t, "init --help", help, setting.Key, setting.Doc)
	}
}

func TestCommands_ExplainThemselves(t *testing.T) {
	t.Parallel()
	root := (&app{}).rootCommand()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: its one line is %q; want one, without a full stop", c.CommandPath(), c.Short)
		}
		if c.RunE == nil {
			t.Errorf("%s: it does nothing", c.CommandPath())
		}
		path := strings.Fields(c.CommandPath())[1:]
		got := e2e.RequireOK(t, inProcess(t, append(path, "--help")...))
		e2e.CheckMentions(t, c.CommandPath()+" --help", got.Out, "Usage:", "--help")
		for _, inner := range c.Commands() {
			e2e.CheckMentions(t, c.CommandPath()+" --help", got.Out, inner.Name(), inner.Short)
			visit(inner)
		}
	}
	visit(root)

	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		e2e.CheckMentions(t, "the first help", e2e.RequireOK(t, inProcess(t, args...)).Out, "demo", "serve", "init", "migrate", "admin", "call", "sign", "version", "completion")
	}
}
