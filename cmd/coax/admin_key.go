package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/spf13/cobra"
)

func (a *app) keyCommand() *cobra.Command {
	return group("key", "API keys", `API keys: issue, rotate, revoke them, and set what they may do.

A secret is shown once, when its key is made; only a sealed copy is stored. Rotate a
key whose secret was lost.`,
		a.keyIssue(), a.keyRotate(), a.keyRevoke(), a.keyPermit(), a.keyList())
}

func (a *app) keyIssue() *cobra.Command {
	var id int64
	var given []string
	command := &cobra.Command{
		Use:   "issue --lco ID [--permission NAME …]",
		Short: "Make an API key; its secret is shown this once",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			permissions, err := readPermissions(given)
			if err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				issued, err := service.IssueKey(ctx, id, permissions)
				if err != nil {
					return err
				}
				return a.showIssued(issued)
			})
		},
	}
	lcoFlag(command, &id)
	permissionFlag(command, &given, "what the key may do, by `NAME`; none given = all seven")
	return command
}

func permissionFlag(command *cobra.Command, given *[]string, help string) {
	command.Flags().StringArrayVar(given, "permission", nil, help)
}

// readPermissions parses names of permissions; none means all of them.
func readPermissions(given []string) (access.Permissions, error) {
	if len(given) == 0 {
		return access.AllPermissions, nil
	}
	permissions, err := access.ParsePermissions(given)
	if err != nil {
		return permissions, admin.Refuse("--permission: %v", err)
	}
	return permissions, nil
}

func (a *app) showIssued(issued admin.IssuedKey) error {
	err := a.show(object{{"key_id", issued.ID}, {"api_key", issued.Key}, {"api_secret", issued.Secret.Reveal()}})
	if err == nil && !a.asJSON {
		fmt.Fprintln(a.out, "\nThe secret is not shown again. It belongs on the operator's server, never in a browser or an app.")
	}
	return err
}

// keyFlag adds the required flag --key-id.
func keyFlag(command *cobra.Command, id *int64) {
	command.Flags().Int64Var(id, "key-id", 0, "the key's `ID`")
	_ = command.MarkFlagRequired("key-id")
}

func (a *app) keyRotate() *cobra.Command {
	var id int64
	var grace time.Duration
	command := &cobra.Command{
		Use:   "rotate --key-id ID [--grace 72h]",
		Short: "Replace a key; the old one stays valid for the grace period",
		Long: `Replace a key by a new one with the same permissions. The old key stays valid for the
grace period, up to 72h, so that the operator's software can change over.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				issued, err := service.RotateKey(ctx, id, grace)
				if err != nil {
					return err
				}
				return a.showIssued(issued)
			})
		},
	}
	keyFlag(command, &id)
	command.Flags().DurationVar(&grace, "grace", admin.MaxGrace, "how long the old key stays valid, 0 to 72h")
	return command
}

func (a *app) keyRevoke() *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   "revoke --key-id ID",
		Short: "End a key at once",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if err := service.RevokeKey(ctx, id); err != nil {
					return err
				}
				return a.show(object{{"key_id", id}, {"status", "revoked"}})
			})
		},
	}
	keyFlag(command, &id)
	return command
}

func (a *app) keyPermit() *cobra.Command {
	var id int64
	var given []string
	command := &cobra.Command{
		Use:   "permit --key-id ID --permission NAME …",
		Short: "Replace what a key may do",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			permissions, err := readPermissions(given)
			if err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				if err := service.PermitKey(ctx, id, permissions); err != nil {
					return err
				}
				return a.show(object{{"key_id", id}, {"permissions", permissionNames(permissions)}})
			})
		},
	}
	keyFlag(command, &id)
	permissionFlag(command, &given, "what the key may do from now on, by `NAME`; may be repeated")
	_ = command.MarkFlagRequired("permission")
	return command
}

func (a *app) keyList() *cobra.Command {
	var id int64
	command := &cobra.Command{
		Use:   "list --lco ID",
		Short: "List an operator's keys, ended ones too",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				keys, err := service.Keys(ctx, id)
				if err != nil {
					return err
				}
				var rows []object
				for _, key := range keys {
					rows = append(rows, object{
						{"key_id", key.ID}, {"key", key.Hint}, {"permissions", permissionNames(key.Permissions)},
						{"created_at", when(key.CreatedAt)}, {"expires_at", when(key.ExpiresAt)}, {"revoked_at", when(key.RevokedAt)},
						{"replaced_by", orNone(key.ReplacedBy)},
					})
				}
				return a.list("The operator has no key yet; `coax admin key issue` makes one.", rows)
			})
		},
	}
	lcoFlag(command, &id)
	return command
}

func permissionNames(permissions access.Permissions) []string {
	list := []string{}
	for _, permission := range permissions.List() {
		list = append(list, permission.String())
	}
	return list
}
