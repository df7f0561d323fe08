package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/spf13/cobra"
)

func (a *app) logCommand() *cobra.Command {
	var id int64
	var flags listFlags
	command := &cobra.Command{
		Use:   "log [--lco ID]",
		Short: "Show staff actions: who, what, before, after, when",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := optionalLCO(c, id); err != nil {
				return err
			}
			if err := flags.read(a, c); err != nil {
				return err
			}
			return a.withService(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return printList(a, flags, lister[admin.AuditEntry]{
					none: "There are no staff actions yet.",
					page: func(limit int, after *admin.AuditEntry) ([]admin.AuditEntry, error) {
						query := flags.query(id, limit)
						if after != nil {
							query.After.Number = after.ID
						}
						return service.AuditPage(ctx, query)
					},
					row:  auditObject,
					at:   func(entry admin.AuditEntry) time.Time { return entry.At },
					text: auditText,
				})
			})
		},
	}
	flags.add(command)
	command.Flags().Int64Var(&id, "lco", 0, "only for the operator with this `ID`")
	return command
}

func auditObject(entry admin.AuditEntry) object {
	return object{
		{"id", entry.ID}, {"at", at(entry.At)}, {"actor", entry.Actor}, {"action", entry.Action}, {"lco_id", orNone(entry.OperatorID)},
		{"subject", entry.Subject}, {"before", state(entry.Before)}, {"after", state(entry.After)}, {"reason", entry.Reason},
		{"origin", orNull(entry.Origin)},
	}
}

// auditText formats an entry as one line, with the changes below it.
func auditText(entry admin.AuditEntry) string {
	text := fmt.Sprintf("%d  %s  %s  %s  %s\n", entry.ID, stamp(entry.At).zoned("2006-01-02 15:04:05 -07:00"), entry.Actor, entry.Action, entry.Subject)
	for _, line := range []struct{ name, text string }{{"reason", entry.Reason}, {"from", entry.Origin}, {"before", entry.Before}, {"after", entry.After}} {
		if line.text != "" {
			text += fmt.Sprintf("      %-7s %s\n", line.name, line.text)
		}
	}
	return text
}

// state is a before or after of the log, which is JSON.
func state(text string) any {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func orNone(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}
