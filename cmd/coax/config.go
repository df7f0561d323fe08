package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	command := group("config", "Check and explain the configuration", `Check and explain the configuration: file, environment and --set, as serve reads them.
Neither the store nor the provider is needed. coax doctor looks at those.`,
		a.configCheckCommand(), a.configExplainCommand())
	a.addConfigFlags(command)
	command.PersistentFlags().BoolVar(&a.asJSON, "json", false, "print JSON")
	return command
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check --config FILE",
		Short: "Find everything that is wrong with the configuration",
		Long: `Find everything that is wrong with the configuration, all at once: unknown keys, values
that cannot be, settings that do not go together, and insecure ones. Each is named with its
line and what to do. Exits with 1 if serve would refuse the configuration; warnings alone
exit with 0.`,
		Example: "  coax config check --config /etc/coax/coax.toml",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.configFile == "" {
				return usage("which configuration? Give --config FILE")
			}
			return a.checkConfig(server.CheckConfig(a.sources()))
		},
	}
}

func (a *app) sources() server.Sources {
	return server.Sources{File: a.configFile, Sets: a.sets, Environ: a.environ}
}

func (a *app) checkConfig(found []server.Finding) error {
	problems, warnings := 0, 0
	for _, f := range found {
		if f.Warning {
			warnings++
		} else {
			problems++
		}
	}
	if a.asJSON {
		if found == nil {
			found = []server.Finding{}
		}
		err := json.NewEncoder(a.out).Encode(struct {
			OK       bool             `json:"ok"`
			Findings []server.Finding `json:"findings"`
		}{problems == 0, found})
		if err != nil {
			return err
		}
	} else {
		for _, f := range found {
			fmt.Fprint(a.out, findingText(f))
		}
	}
	if problems > 0 {
		return fmt.Errorf("%s: %s and %s", a.configFile, counted(int64(problems), "problem"), counted(int64(warnings), "warning"))
	}
	if !a.asJSON {
		fmt.Fprintf(a.out, "%s: serve takes this configuration; %s.\n", a.configFile, counted(int64(warnings), "warning"))
	}
	return nil
}

func findingText(f server.Finding) string {
	var out strings.Builder
	if f.Warning {
		out.WriteString("warning: ")
	}
	out.WriteString(f.Text() + "\n")
	if f.Cure != "" {
		fmt.Fprintf(&out, "    %s\n", f.Cure)
	}
	return out.String()
}

func (a *app) configExplainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [KEY…] [--config FILE]",
		Short: "Say what settings mean, what they are and where that was set",
		Long: `Say what settings mean, their default, their value and where it was set: in the file with
its line, in the environment or with --set. KEY is a setting, such as provider.timeout, or a
section, such as provider; without one, all are explained. Passwords are not shown.

Without --config, the file is left out.`,
		Example:           "  coax config explain --config /etc/coax/coax.toml provider\n  coax config explain review.refund_after",
		ValidArgsFunction: completeSettings,
		RunE: func(_ *cobra.Command, names []string) error {
			all, err := server.ExplainConfig(a.sources(), names)
			if err != nil {
				return err
			}
			if a.asJSON {
				return json.NewEncoder(a.out).Encode(all)
			}
			for i, e := range all {
				if i > 0 {
					fmt.Fprintln(a.out)
				}
				fmt.Fprint(a.out, explanationText(e))
			}
			return nil
		},
	}
}

func explanationText(e server.Explanation) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s = %s\n    %s\n", e.Key, cell(e.Value), e.Meaning)
	if e.Where == "" {
		fmt.Fprintf(&out, "    the default; %s or --set %s=… sets it, too\n", e.Variable, e.Key)
	} else {
		fmt.Fprintf(&out, "    from %s; the default is %s\n", e.Where, cell(e.Default))
	}
	if e.Choices != nil {
		fmt.Fprintf(&out, "    one of %s\n", strings.Join(e.Choices, ", "))
	}
	if e.Problem != "" {
		fmt.Fprintf(&out, "    REFUSED: %s\n", e.Problem)
	}
	if e.Note != "" {
		fmt.Fprintf(&out, "    %s\n", e.Note)
	}
	return out.String()
}
