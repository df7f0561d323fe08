package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitDone    = 0
	exitRefused = 1 // refused or failed
	exitUsage   = 2 // usage error
)

// app is one run of the program: its outputs, environment and flags.
type app struct {
	out     io.Writer
	err     io.Writer
	environ []string
	// ownProcess is false in tests that run a command within their own process, whose
	// priority must not be changed.
	ownProcess bool
	// began is set once a command's own code runs. An error before that is a usage error.
	began bool
	// sets are the --set flags; configFile and asJSON belong to the commands
	// that have them.
	sets       []string
	newStore   bool // --new-store
	configFile string
	asJSON     bool
	// now is the clock of the store, once that is open.
	now func() time.Time
}

// run runs the program and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	if args == nil {
		args = []string{} // with nil, cobra would use os.Args
	}
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(a.err, "coax: %s\n", oneLine(err))
	var usage *usageError
	if !a.began || errors.As(err, &usage) {
		fmt.Fprintf(a.err, "Try `%s --help`.\n", command.CommandPath())
		return exitUsage
	}
	return exitRefused
}

// oneLine returns an error's text on one line, for scripts. Several mistakes in a
// configuration stay a list.
func oneLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	return strings.Join(lines, "\n      ")
}

// usageError is a usage error that is found by a command's own code.
type usageError struct{ reason string }

func (e *usageError) Error() string { return e.reason }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "coax",
		Short: "Subscription operations for cable operators",
		Long: `Coax lets a cable operator's billing software activate, renew and pre-book its
subscribers through a signed JSON API, from a prepaid wallet.

Try it:      coax demo
Install it:  coax init --dir /etc/coax, then coax serve --config /etc/coax/coax.toml
Run it:      coax admin --help
Call it:     coax call GET /api/v1/balance --credentials DIR/demo.json`,
		Version:       server.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		// An unknown command is an error, instead of help and success.
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.Flags().BoolP("version", "v", false, "print the version")
	root.SetVersionTemplate("coax {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(
		a.demoCommand(), a.serveCommand(), a.initCommand(), a.migrateCommand(), a.adminCommand(),
		a.auditCommand(), a.reconcileCommand(), a.backupCommand(), a.restoreCommand(), a.storeCommand(), a.benchCommand(),
		a.configCommand(), a.doctorCommand(), a.simulatorCommand(), a.callCommand(), a.signCommand(), a.vectorsCommand(), a.certifyCommand(), a.versionCommand(),
	)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.InitDefaultCompletionCmd() // it remembers the outputs set above
	for _, command := range root.Commands() {
		if command.Name() == "completion" {
			command.Args, command.RunE = cobra.NoArgs, needsCommand
		}
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// The flags of a mistyped command are unknown; report the command instead.
		if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
			return unknownCommand(c, words[0])
		}
		return err
	})
	a.prepare(root)
	addCompletions(root, a.completions(), nil)
	return root
}

// unknownCommand returns the error for an unknown command, with the one probably meant.
func unknownCommand(c *cobra.Command, word string) error {
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(word); len(near) > 0 {
		return usage("unknown command %q for %q; is %s meant?", word, c.CommandPath(), strings.Join(near, " or "))
	}
	return usage("unknown command %q for %q", word, c.CommandPath())
}

// prepare makes every command set began, and replaces cobra's errors about unexpected
// arguments.
func (a *app) prepare(command *cobra.Command) {
	if runE := command.RunE; runE != nil {
		command.RunE = func(c *cobra.Command, args []string) error {
			a.began = true
			return runE(c, args)
		}
	}
	if check := command.Args; check != nil {
		command.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var ours *usageError
			switch {
			case err == nil || errors.As(err, &ours):
				return err
			case c.HasSubCommands():
				return unknownCommand(c, args[0])
			}
			// cobra calls it an unknown command, as if there were others.
			return usage("%s takes no word behind it: %q", c.CommandPath(), args[0])
		}
	}
	for _, inner := range command.Commands() {
		a.prepare(inner)
	}
}

// wants requires an exact number of arguments, and describes them in its error.
func wants(count int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != count {
			return usage("give %s; %s given", what, counted(int64(len(args)), "word"))
		}
		return nil
	}
}

// group returns a command that only has subcommands.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.NoArgs,
		RunE: needsCommand,
	}
	command.AddCommand(commands...)
	return command
}

func needsCommand(c *cobra.Command, _ []string) error {
	return usage("%s needs one of its commands: %s", c.CommandPath(), strings.Join(names(c.Commands()), ", "))
}

func names(commands []*cobra.Command) []string {
	var all []string
	for _, command := range commands {
		all = append(all, command.Name())
	}
	return all
}

// addConfigFlags adds the flags --config and --set.
func (a *app) addConfigFlags(command *cobra.Command) {
	command.PersistentFlags().StringVar(&a.configFile, "config", "", "the configuration `FILE`, such as the coax.toml that init or demo made")
	a.addSetFlag(command)
}

func (a *app) addSetFlag(command *cobra.Command) {
	// An array, not a slice: a comma belongs to the value.
	command.PersistentFlags().StringArrayVar(&a.sets, "set", nil, "a setting as `key=value`, over file and environment; may be repeated")
}

// config loads the configuration of --config and --set.
func (a *app) config() (server.Config, error) {
	if a.configFile == "" {
		return server.Config{}, usage("which configuration? Give --config FILE")
	}
	config, err := server.LoadConfig(a.sources())
	config.Store.New = a.newStore
	return config, err
}

func (a *app) addNewStoreFlag(command *cobra.Command) {
	command.Flags().BoolVar(&a.newStore, "new-store", false, "create an empty store on PostgreSQL although the folder has a SQLite store with operators")
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(a.out, "coax", server.Version())
			return nil
		},
	}
}
