package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/store/transfer"
	"github.com/spf13/cobra"
)

func (a *app) storeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "store",
		Short: "Move a store",
		Args:  cobra.NoArgs,
		RunE:  needsCommand,
	}
	command.AddCommand(a.storeCopyCommand())
	return command
}

func (a *app) storeCopyCommand() *cobra.Command {
	var from, to string
	command := &cobra.Command{
		Use:   "copy --from URL --to URL",
		Short: "Copy a store into an empty one, of the same kind or the other",
		Long: `Copy a store into an empty one, of the same kind or the other: from SQLite to PostgreSQL
and back. Ids, keys, ledgers and chains stay what they are. Sessions, and nonces and rate
counters of the last minutes, are not copied: people sign in again.

Stop every node first. The copy is interrupted without harm: called again it goes on. At its
end both sides are read again and compared, and the copy is audited. Until then the target is
in maintenance, which nothing else ends, and no node starts on it. Then it is in maintenance if
its source is, or if the audit found violations; the source has the same ones, and coax admin
maintenance off ends it. The master key is not in the store: give the new configuration the same.`,
		Example: `  coax store copy --from sqlite:/var/lib/coax/coax.db --to postgres://coax@db.example/coax`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if from == "" || to == "" {
				return usage("give --from URL and --to URL, such as sqlite:PATH and postgres://USER@HOST/DATABASE")
			}
			source, err := server.ReadStoreURL(from)
			if err != nil {
				return usage("--from: %v", err)
			}
			target, err := server.ReadStoreURL(to)
			if err != nil {
				return usage("--to: %v", err)
			}
			return a.copyStore(c.Context(), source, target)
		},
	}
	command.Flags().StringVar(&from, "from", "", "the `URL` of the store to copy, as store.url has it")
	command.Flags().StringVar(&to, "to", "", "the `URL` of the empty store")
	command.Flags().BoolVar(&a.asJSON, "json", false, "print the result as JSON")
	return command
}

func (a *app) copyStore(ctx context.Context, from, to server.StoreConfig) error {
	progress, end := copyProgress(a.err, isTerminal(a.err))
	result, err := server.CopyStore(ctx, from, to, a.environ, progress)
	end()
	if err != nil {
		return err
	}
	if result.Maintenance != "" {
		return fmt.Errorf("%s: `coax audit` names them. The copy is in maintenance until `coax admin maintenance off`", result.Maintenance)
	}
	if a.asJSON {
		return json.NewEncoder(a.out).Encode(result.Result)
	}
	_, err = fmt.Fprintf(a.out, "%s copied and compared, and the audit finds no violation.\ndigest %s\nSet store.url, and start the nodes with the same master key.\n", counted(result.Rows, "row"), result.Digest)
	return err
}

// copyProgress returns a function that prints how far a copy is, each second.
func copyProgress(to io.Writer, onTerminal bool) (progress func(transfer.Progress), end func()) {
	last := time.Now()
	begin, finish := "", "\n"
	if onTerminal {
		begin, finish = "\r\x1b[K", ""
	}
	return func(p transfer.Progress) {
		if now := time.Now(); now.Sub(last) > time.Second {
			last = now
			fmt.Fprintf(to, "%s%s: %d of %s%s", begin, p.Table, p.Rows, counted(p.Of, "row"), finish)
		}
	}, func() { fmt.Fprint(to, begin) }
}
