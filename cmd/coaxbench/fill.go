package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coaxhq/coax/cmd/coaxbench/growth"
	"github.com/spf13/cobra"
)

// maxOperations is more than fits on any disk.
const maxOperations = 1_000_000_000

func (a *app) fillCommand() *cobra.Command {
	var kind, cache string
	var asJSON bool
	var operations int
	command := &cobra.Command{
		Use:   "fill [--store KIND] [--operations N]",
		Short: "Make a store that has grown, for the bench to load",
		Long: `Make a store of very many operations, with the operators, subscribers and books that belong to
them, as sound as if it had been traded in for years: ten million operations of a million
subscribers in some minutes. It is kept in the cache, in a folder named by its kind, size and
schema, and the next time it is there already. The bench works in the store itself, which grows
by what the bench adds; remove the folder to have it as it was.

A PostgreSQL store is a whole data folder, made by PostgreSQL's own programs.`,
		Example: `  coaxbench fill --operations 1000000
  coaxbench fill --store postgres --cache /mnt/large/bench`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case kind != string(growth.SQLite) && kind != string(growth.Postgres):
				return usage("--store %q: write sqlite or postgres", kind)
			case operations < 1 || operations > maxOperations:
				return usage("--operations %d: write a number of 1 to %d", operations, maxOperations)
			}
			return a.fill(c.Context(), cache, growth.Kind(kind), operations, asJSON)
		},
	}
	flags := command.Flags()
	flags.StringVar(&kind, "store", string(growth.SQLite), "which `KIND` of store: sqlite or postgres")
	flags.IntVar(&operations, "operations", 10_000_000, "how many operations; there may be a few more, for they are dealt out evenly")
	flags.StringVar(&cache, "cache", ".bench", "the `FOLDER` to keep it in")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object at the end")
	return command
}

// filledView is the JSON output about a filled store.
type filledView struct {
	Folder            string `json:"folder"`
	Reused            bool   `json:"reused"`
	Store             string `json:"store"`
	Operations        int    `json:"operations"`
	Subscribers       int    `json:"subscribers"`
	Operators         int    `json:"operators"`
	Bytes             int64  `json:"bytes"`
	BytesPerOperation int64  `json:"bytes_per_operation"`
	SecondsTaken      int64  `json:"seconds_taken"`
}

func (a *app) fill(ctx context.Context, cache string, kind growth.Kind, operations int, asJSON bool) error {
	tell, end := fillProgress(a.err, isTerminal(a.err))
	filled, err := growth.Filled(ctx, cache, kind, operations, tell)
	end()
	if err != nil {
		return err
	}
	view := filledView{
		Folder: filled.Folder, Reused: filled.Reused, Store: string(filled.Kind), Operations: filled.Operations, Subscribers: filled.Subscribers,
		Operators: filled.Operators, Bytes: filled.Bytes, BytesPerOperation: filled.Bytes / int64(filled.Operations), SecondsTaken: int64(filled.Took.Seconds()),
	}
	if asJSON {
		return json.NewEncoder(a.out).Encode(view)
	}
	how := fmt.Sprintf("filled in %s", filled.Took.Round(time.Second))
	if filled.Reused {
		how = "was there already"
	}
	_, err = fmt.Fprintf(a.out, "%s %s: %d operations of %d subscribers of %d operators; %.1f MB, %d bytes for each operation\n",
		filled.Folder, how, view.Operations, view.Subscribers, view.Operators, float64(view.Bytes)/1e6, view.BytesPerOperation)
	return err
}

// isTerminal reports whether a writer is a terminal.
func isTerminal(writer io.Writer) bool {
	file, is := writer.(*os.File)
	if !is {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// fillPause is how often the progress of a long step is printed if the output is not a
// terminal.
const fillPause = 15 * time.Second

// fillProgress prints the progress: on a terminal in one line that is overwritten, elsewhere at
// every step and every fillPause.
func fillProgress(to io.Writer, onTerminal bool) (tell func(growth.Progress), end func()) {
	step, said := "", time.Duration(0)
	tell = func(p growth.Progress) {
		line := fmt.Sprintf("%3.0f %%  %s so far", 100*float64(p.Done)/float64(p.Total), p.Elapsed.Round(time.Second))
		if p.Left > 0 {
			line += fmt.Sprintf(", about %s to go", p.Left.Round(time.Second))
		}
		line += ": " + p.Step
		switch {
		case onTerminal:
			fmt.Fprintf(to, "\r\x1b[K%s", line)
		case p.Step != step || p.Elapsed-said >= fillPause:
			fmt.Fprintln(to, line)
			said = p.Elapsed
		}
		step = p.Step
	}
	return tell, func() {
		if onTerminal && step != "" {
			fmt.Fprint(to, "\r\x1b[K")
		}
	}
}
