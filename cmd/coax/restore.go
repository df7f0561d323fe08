package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/coaxhq/coax/internal/server"
	"github.com/coaxhq/coax/internal/subscription"
	"github.com/spf13/cobra"
)

func (a *app) restoreCommand() *cobra.Command {
	var dir, to, work, at string
	var identities, logs []string
	command := &cobra.Command{
		Use:   "restore SOURCE (--dir DIR | --to postgres://…)",
		Short: "Restore a backup into an empty folder or database",
		Long: `Restore a backup into a folder that is empty or not there, with a store on SQLite and a
coax.toml, or into an empty database of PostgreSQL, whichever the backup is from. Everything
is verified before anything is written: checksums and release first, then the file and the books.
A backup of an older release is brought up to date. If it fails, the folder is as it was; a
database that is half filled is in maintenance, and the same command goes on.

A restored store has forgotten what happened since the backup, so it is in maintenance: compare
it with the provider first (coax reconcile). People sign in again. What people did since, such as
top-ups and revoked keys, is listed from the security log that the backup names, and from logs
given with --log, so that it can be repeated by hand.

The master key is not in a backup: put yours in its place before a node starts. coax audit and
coax admin maintenance show need none.

SOURCE is a file of coax backup, the address of a replica (file://, sftp:// or s3://, as in
store.replica), of which --at TIME takes an earlier moment, or a SQLite file that SQLite's own backup interface made of a
store.`,
		Example: `  coax restore /var/backups/coax/coax-20261118T193501Z.coaxbackup --dir /var/lib/coax/restored
  coax restore coax-20261118T193501Z.coaxbackup --identity key.txt --to postgres://coax@db.example/coax`,
		Args: wants(1, "the file of the backup"),
		RunE: func(c *cobra.Command, args []string) error {
			options := server.RestoreOptions{Dir: dir, Logs: logs, WorkFolder: work, Environ: a.environ}
			if (dir == "") == (to == "") {
				return usage("give either --dir DIR or --to postgres://…")
			}
			var err error
			if at != "" {
				if options.At, err = time.Parse(time.RFC3339, at); err != nil {
					return usage("--at %s: write it as 2026-11-18T19:35:01+05:30", at)
				}
			}
			if to != "" {
				if options.To, err = server.ReadStoreURL(to); err != nil {
					return usage("--to: %v", err)
				}
				if options.To.Kind != "postgres" {
					return usage("--to takes the address of a PostgreSQL database; for a store on SQLite give --dir DIR")
				}
			}
			if options.Identities, err = server.ReadIdentities(identities); err != nil {
				return fmt.Errorf("--identity: %w", err)
			}
			return a.restore(c.Context(), args[0], options)
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "the `DIR` of the new installation")
	command.Flags().StringVar(&to, "to", "", "the `URL` of an empty database of PostgreSQL")
	command.Flags().StringArrayVar(&identities, "identity", nil, "a `FILE` with the age identity that opens the backup; may be repeated")
	command.Flags().StringArrayVar(&logs, "log", nil, "a `FILE` to search for what was forgotten: a security log or a node's log; may be repeated")
	command.Flags().StringVar(&at, "at", "", "of a replica: the `TIME` to restore, such as 2026-11-18T19:35:01+05:30")
	command.Flags().StringVar(&work, "work", "", "with --to, or from a replica: the `FOLDER` where the store is unpacked, by default $TMPDIR; it needs the size of the store, and for both twice that")
	command.Flags().BoolVar(&a.asJSON, "json", false, "print one JSON object")
	return command
}

// restoredJSON is what restore prints with --json.
type restoredJSON struct {
	Store       string                  `json:"store"`
	Config      string                  `json:"config,omitempty"`
	TakenAt     time.Time               `json:"taken_at"`
	Release     string                  `json:"release"`
	Kind        string                  `json:"kind"`
	Maintenance bool                    `json:"maintenance"`
	Audit       any                     `json:"audit"`
	Logs        []string                `json:"logs"`
	Problems    []string                `json:"problems"`
	Forgotten   []server.ForgottenEvent `json:"forgotten"`
	// MissingActions is null if no audit head was found.
	MissingActions *int64 `json:"missing_acts"`
}

func (a *app) restore(ctx context.Context, source string, options server.RestoreOptions) error {
	var end func()
	options.Progress, end = stepProgress(a.err, isTerminal(a.err))
	restored, err := server.Restore(ctx, source, options)
	end()
	if err != nil {
		return err
	}
	if a.asJSON {
		err = a.restoreJSON(restored)
	} else {
		err = a.showRestored(restored, options)
	}
	if violations := int64(len(restored.Audit.Violations)) + restored.Audit.LeftOut; err == nil && violations > 0 {
		err = fmt.Errorf("the store was restored and is in maintenance, and its books do not agree: %s", counted(violations, "violation"))
	}
	return err
}

func (a *app) restoreJSON(restored server.Restored) error {
	f := restored.Forgotten
	out := restoredJSON{
		Store: restored.Store, Config: restored.Config, TakenAt: restored.Manifest.TakenAt, Release: restored.Manifest.Release, Kind: restored.Manifest.Kind,
		Maintenance: true, Audit: restored.Audit,
		Logs: append([]string{}, f.Read...), Problems: append([]string{}, f.Problems...), Forgotten: append([]server.ForgottenEvent{}, f.Events...),
	}
	if f.Head != nil {
		out.MissingActions = &f.MissingActions
	}
	return json.NewEncoder(a.out).Encode(out)
}

func (a *app) showRestored(restored server.Restored, options server.RestoreOptions) error {
	m := restored.Manifest
	line := func(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }
	line("Restored to %s: the store as of %s.", restored.Store, m.TakenAt.In(subscription.IST).Format("2006-01-02 15:04:05 -07:00"))
	counts := restored.Audit.Counts
	line("Audited: %s, %s, %s; %s in wallets.", counted(counts.Operators, "operator"), counted(counts.Operations.Total, "operation"),
		counted(counts.Actions, "staff action"), counts.Sums.Balance)
	for _, skipped := range restored.Audit.Skipped {
		line("Not verified: %s", skipped)
	}
	for _, violation := range restored.Audit.Violations {
		line("%s", violation)
	}
	if restored.Audit.OK {
		line("Everything agrees.")
	}
	for _, key := range restored.Skipped {
		line("The setting %s of the backup is none that this release takes.", key)
	}
	line("")
	a.showForgotten(restored.Forgotten, m.SecurityFile)
	line("")
	line("It is in maintenance: nothing is sold until `coax admin maintenance off`. Next:")
	if options.Dir != "" {
		dir := filepath.Dir(restored.Config)
		line("  1. Put the master key at %s, mode 0400, and the certificate beside it.", filepath.Join(dir, "master.key"))
		line("  2. Read %s: listeners, files and provider.token_file are to be set.", restored.Config)
	} else {
		line("  1. Set store.url to this database, and give each node the master key that the old store had.")
		line("  2. Keep the old store from being served again.")
	}
	line("  3. Repeat what is listed above, and compare the store with the provider before you end the maintenance.")
	return nil
}

// showForgotten lists what is to be repeated by hand.
func (a *app) showForgotten(f server.Forgotten, named string) {
	for _, problem := range f.Problems {
		fmt.Fprintln(a.out, "Not read:", problem)
	}
	if f.Head != nil {
		fmt.Fprintf(a.out, "The newest audit head that was found, of %s, has %s more than the backup.\n",
			f.Head.At.In(subscription.IST).Format("2006-01-02 15:04:05"), counted(f.MissingActions, "staff action"))
	}
	if len(f.Read) == 0 {
		if named == "" {
			named = "none was set in the installation that was backed up"
		}
		if !f.Described {
			named = "whether it was set is not known: this copy says nothing of its installation"
		}
		fmt.Fprintf(a.out, "What people did since the backup is not known: no log was found. Look for the security log (log.security_file: %s)\n"+
			"or the nodes' logs, on the old machine or where logs are collected; give them with --log.\n", named)
		return
	}
	if len(f.Events) == 0 {
		fmt.Fprintln(a.out, "In the logs that were read, people did nothing since the backup.")
		return
	}
	fmt.Fprintf(a.out, "People did this since the backup, and the store has forgotten it. Repeat what still matters; references of\n"+
		"top-ups are shown, reasons and new secrets are not in the log:\n")
	for _, event := range f.Events {
		fmt.Fprintf(a.out, "  %s  %s\n", event.At.In(subscription.IST).Format("2006-01-02 15:04:05"), event)
	}
}
