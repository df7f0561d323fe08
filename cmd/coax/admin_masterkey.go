package main

import (
	"context"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) masterKeyCommand() *cobra.Command {
	return group("masterkey", "Replace the master key", `Replace the master key while nodes serve. It is a ring of keys in a file
(secrets.master_key_file), the same on every node: one key seals, all open.

  1. add puts a new key into this machine's ring.
  2. Put that file on every node, and send SIGHUP (systemctl reload coax).
  3. rotate makes the new key seal, and seals everything again.
  4. retire takes an old key out. Put the file on every node again, and send SIGHUP.

Backups from before need the keys that they were made under: keep the old ring as long as
those. The commands run as the user who can read the ring's file.`,
		a.masterKeyAdd(), a.masterKeyRotate(), a.masterKeyRetire(), a.masterKeyList())
}

func (a *app) masterKeyAdd() *cobra.Command {
	return &cobra.Command{
		Use:   "add",
		Short: "Add a new key to this machine's ring",
		Long: `Add a new key to the ring of this machine. It opens and does not seal: nothing changes until
the ring is on every node, and rotate makes it seal.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withRing(c.Context(), func(ctx context.Context, ring server.Ring) error {
				id, file, err := ring.Add(ctx)
				if err != nil {
					return err
				}
				if a.asJSON {
					return a.show(object{{"key_id", id}, {"file", file}})
				}
				fmt.Fprintf(a.out, "Key %d was added to %s.\n", id, file)
				fmt.Fprintln(a.out, "1. Make a copy of the file, apart from the backups.")
				fmt.Fprintln(a.out, "2. Put it on every node, mode 0400, and send SIGHUP (systemctl reload coax).")
				fmt.Fprintln(a.out, "3. coax admin masterkey rotate")
				return nil
			})
		},
	}
}

func (a *app) masterKeyRotate() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Make the ring's last key seal, and seal everything again",
		Long: `Make the last key of the ring the one that seals, and seal again what older keys have
sealed. Refused, and nothing changed, while a node does not hold the key. Nodes serve
meanwhile. If it is interrupted, run it again: it goes on.

The first rotation moves the keys for fingerprints, client keys and MACs into the store, so
that no master key is needed for them any more. Older releases cannot use the store then.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withRing(c.Context(), a.rotateMasterKey)
		},
	}
}

func (a *app) rotateMasterKey(ctx context.Context, ring server.Ring) error {
	var progress func(int64)
	if isTerminal(a.err) {
		progress = func(resealed int64) { fmt.Fprintf(a.err, "\r%d sealed again", resealed) }
	}
	done, err := ring.Rotate(ctx, progress)
	if progress != nil {
		fmt.Fprintln(a.err)
	}
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.show(object{{"primary", done.Primary}, {"rotated", done.Rotated}, {"resealed", done.Resealed},
			{"unreadable", orEmpty(done.Unreadable)}, {"waiting_nodes", orEmpty(done.Waiting)}, {"unused", orEmpty(done.Unused)}})
	}
	if done.Rotated {
		fmt.Fprintf(a.out, "Key %d seals now.\n", done.Primary)
	} else {
		fmt.Fprintf(a.out, "Key %d was the one that seals already.\n", done.Primary)
	}
	fmt.Fprintf(a.out, "%s sealed again.\n", counted(done.Resealed, "secret"))
	for _, name := range done.Unreadable {
		fmt.Fprintf(a.out, "No key of the ring opens this, so it was left: %s\n", name)
	}
	for _, node := range done.Waiting {
		fmt.Fprintf(a.out, "Node %s has not begun to use the key yet: see its log, then run this again.\n", node)
	}
	for _, id := range done.Unused {
		fmt.Fprintf(a.out, "Nothing is sealed with key %d any more: coax admin masterkey retire --key %d\n", id, id)
	}
	return nil
}

// orEmpty returns an empty list for nil, which JSON would write as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *app) masterKeyRetire() *cobra.Command {
	var id uint32
	command := &cobra.Command{
		Use:   "retire --key ID",
		Short: "Take an old key out of the ring",
		Long: `Take a key out of the ring of this machine, and no longer require it of nodes. Refused while
it seals, or anything is sealed with it: rotate first. It is never needed again for this
store, but for backups that were made before: keep the old ring as long as those.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withRing(c.Context(), func(ctx context.Context, ring server.Ring) error {
				file, err := ring.Retire(ctx, id)
				if err != nil {
					return err
				}
				if a.asJSON {
					return a.show(object{{"key_id", id}, {"file", file}})
				}
				fmt.Fprintf(a.out, "Key %d was taken out of %s.\n", id, file)
				fmt.Fprintln(a.out, "1. Put the file on every node, mode 0400, and send SIGHUP (systemctl reload coax).")
				fmt.Fprintln(a.out, "2. Backups from before this still need the key: keep a copy of the old ring as long as those.")
				return nil
			})
		},
	}
	command.Flags().Uint32Var(&id, "key", 0, "the key's `ID`, as in coax admin masterkey list")
	_ = command.MarkFlagRequired("key")
	return command
}

func (a *app) masterKeyList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys of the ring, and who has them",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withRing(c.Context(), func(ctx context.Context, ring server.Ring) error {
				keys, err := ring.List(ctx)
				if err != nil {
					return err
				}
				rows := []object{}
				for _, key := range keys {
					rows = append(rows, object{{"key_id", key.ID}, {"primary", key.Primary}, {"enabled", key.Enabled}, {"in_ring", key.InRing},
						{"required", key.Required}, {"sealed", key.Sealed}, {"nodes", orEmpty(key.Nodes)}, {"since", when(key.AddedAt)}})
				}
				return a.list("no keys", rows)
			})
		},
	}
}

// withRing opens the store for a command of the master key.
func (a *app) withRing(ctx context.Context, do func(context.Context, server.Ring) error) error {
	return a.withStore(ctx, func(ctx context.Context, config server.Config, s staffStore) error {
		return do(ctx, server.Ring{Config: config, Environ: a.environ, Store: s.store, Vault: s.vault, Service: admin.NewService(s.store, s.vault, s.actor, a.now), Now: a.now})
	})
}
