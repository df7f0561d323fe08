package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/backup"
	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

func (a *app) backupCommand() *cobra.Command {
	var recipients []string
	var keep, work string
	command := &cobra.Command{
		Use:   "backup DEST [--config FILE]",
		Short: "Back the store up, also while nodes run",
		Long: `Back the store up into one new file, also while nodes run: all rows of one moment,
compressed, with checksums. Both kinds of store give the same kind of file, and coax restore
makes either of it. A node keeps serving meanwhile.

DEST is a folder, where the file gets a name with the store and the time in UTC, or a new
file. Nothing is overwritten. The file appears once it is complete, flushed and read back.
From SQLite it is written at once and takes a quarter of the store's size or less; until it is
done the store's write-ahead log grows. From PostgreSQL the rows are first gathered in a SQLite
file, for which --work, by default the folder of the backup, needs some two thirds of the
database's size; that file is not encrypted, and is removed.

--encrypt-to takes age recipients (age1…, of age-keygen) or a file of them. --keep 7d,4w,12m
deletes older backups of the same store in the folder, after the new one is in place: of each of
the last 7 days, 4 weeks and 12 months that have backups it keeps the newest.

The master key is not in a backup. Keep copies of it apart from the backups, and of coax.toml
and the certificate.`,
		Example: `  coax backup /var/backups/coax/ --config coax.toml
  coax backup /var/backups/coax/ --config coax.toml --keep 7d,4w,12m --encrypt-to age1…`,
		Args: wants(1, "the folder or new file of the backup"),
		RunE: func(c *cobra.Command, args []string) error {
			options := server.BackupOptions{WorkFolder: work}
			var err error
			if options.Recipients, err = server.ReadRecipients(recipients); err != nil {
				return fmt.Errorf("--encrypt-to: %w", err)
			}
			if c.Flags().Changed("keep") {
				if options.Keep, err = backup.ParseKeep(keep); err != nil {
					return usage("--keep: %v", err)
				}
			}
			return a.backUp(c.Context(), args[0], options)
		},
	}
	a.addConfigFlags(command)
	command.Flags().BoolVar(&a.asJSON, "json", false, "print one JSON object")
	command.Flags().StringArrayVar(&recipients, "encrypt-to", nil, "encrypt for an age `RECIPIENT`, or for those in a file; may be repeated")
	command.Flags().StringVar(&keep, "keep", "", "delete older backups in the folder, but for `7d,4w,12m` or the like")
	command.Flags().StringVar(&work, "work", "", "the `FOLDER` where the rows of PostgreSQL are gathered")
	return command
}

func (a *app) backUp(ctx context.Context, dest string, options server.BackupOptions) error {
	if a.configFile == "" {
		if _, err := os.Stat("coax.toml"); err == nil {
			a.configFile = "coax.toml"
		}
	}
	config, err := server.LoadConfig(server.Sources{File: a.configFile, Sets: a.sets, Environ: a.environ})
	if err != nil {
		return err
	}
	var end func()
	options.Progress, end = stepProgress(a.err, isTerminal(a.err))
	result, err := server.BackUp(ctx, config, dest, options)
	end()
	if err != nil && result.SHA256 == "" {
		return err
	}
	if a.asJSON {
		if err != nil {
			return err
		}
		return json.NewEncoder(a.out).Encode(result)
	}
	encrypted := ""
	if result.Encrypted {
		encrypted = ", encrypted"
	}
	fmt.Fprintf(a.out, "%s: %s%s, of a store of %s, as of %s\nsha256 %s\n", result.Path, server.Megabytes(result.Bytes), encrypted,
		server.Megabytes(result.StoreBytes), result.TakenAt.In(subscription.IST).Format("2006-01-02 15:04:05 -07:00"), result.SHA256)
	for _, deleted := range result.Deleted {
		fmt.Fprintln(a.out, "deleted", deleted)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.out, "The master key is not in it. Keep copies of it elsewhere, and of coax.toml and the certificate.")
	return err
}

// stepProgress returns a function that prints, once a second, how far a step is.
func stepProgress(to io.Writer, onTerminal bool) (progress func(what string, done, of int64), end func()) {
	last := time.Now()
	begin, finish := "", "\n"
	if onTerminal {
		begin, finish = "\r\x1b[K", ""
	}
	shown := false
	return func(what string, done, of int64) {
			now := time.Now()
			if now.Sub(last) < time.Second {
				return
			}
			last, shown = now, true
			switch {
			case of > 0:
				fmt.Fprintf(to, "%s%s: %d %%%s", begin, strings.ReplaceAll(what, "_", " "), done*100/of, finish)
			default:
				fmt.Fprintf(to, "%s%s%s", begin, strings.ReplaceAll(what, "_", " "), finish)
			}
		}, func() {
			if shown {
				fmt.Fprint(to, begin)
			}
		}
}
