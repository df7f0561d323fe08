package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	var backups string
	var node bool
	command := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Check an installation, and say what to do",
		Long: `Check an installation, and say what to do: configuration, permissions, disks, master key,
store and schema, maintenance, mark, clock, certificate, provider, prices, node, backups and
replica. A line each, and below it what to do. Exits with 1 if there is a problem; warnings
alone exit with 0.

It only reads, and may run beside nodes. What it asks the provider changes nothing there. Run
it as the service's user, or as root.`,
		Example: "  coax doctor --config /etc/coax/coax.toml --backups /var/backups/coax",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.configFile == "" {
				return usage("which configuration? Give --config FILE")
			}
			if node {
				config, err := a.config()
				if err != nil {
					return err
				}
				return server.NodeReady(c.Context(), config)
			}
			return a.showDiagnosis(server.Diagnose(c.Context(), a.sources(), backups))
		},
	}
	a.addConfigFlags(command)
	command.Flags().BoolVar(&a.asJSON, "json", false, "print one JSON object")
	command.Flags().StringVar(&backups, "backups", "", "the `FOLDER` of the backups, whose newest is looked at; without it the setting backup.folder")
	_ = command.MarkFlagDirname("backups")
	command.Flags().BoolVar(&node, "node", false, "ask only whether the node is ready to serve; for health checks of containers")
	command.MarkFlagsMutuallyExclusive("node", "backups")
	command.MarkFlagsMutuallyExclusive("node", "json")
	return command
}

func (a *app) showDiagnosis(found []server.Diagnosis) error {
	problems, warnings, width := int64(0), int64(0), 0
	for _, d := range found {
		switch d.Status {
		case server.StatusProblem:
			problems++
		case server.StatusWarning:
			warnings++
		}
		width = max(width, len(d.Check))
	}
	if a.asJSON {
		err := json.NewEncoder(a.out).Encode(struct {
			OK       bool               `json:"ok"`
			Problems int64              `json:"problems"`
			Warnings int64              `json:"warnings"`
			Checks   []server.Diagnosis `json:"checks"`
		}{problems == 0, problems, warnings, found})
		if err != nil {
			return err
		}
	} else {
		for _, d := range found {
			fmt.Fprintf(a.out, "%-7s  %-*s  %s\n", strings.ToUpper(string(d.Status)), width, d.Check, d.Message)
			if d.Cure != "" {
				fmt.Fprintf(a.out, "%-7s  %-*s  -> %s\n", "", width, "", d.Cure)
			}
		}
	}
	if problems > 0 {
		return fmt.Errorf("%s: %s and %s", a.configFile, counted(problems, "problem"), counted(warnings, "warning"))
	}
	if !a.asJSON {
		fmt.Fprintf(a.out, "No problem; %s.\n", counted(warnings, "warning"))
	}
	return nil
}
