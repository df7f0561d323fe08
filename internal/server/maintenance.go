package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/web/look"
)

// settingActor is the recorded actor if the configuration switched maintenance mode on.
const settingActor = "setting:maintenance"

// RefuseUnfinishedCopy returns an error if a copy into a store that was opened as a tool is not
// complete: what is written to it meanwhile would be in the copy's way.
func RefuseUnfinishedCopy(ctx context.Context, store admin.Store) error {
	mode, err := store.Maintenance(ctx)
	if err == nil && mode.Actor == admin.CopyActor {
		err = admin.ErrUnfinishedCopy
	}
	return err
}

// enterMaintenance switches maintenance mode on if the setting says so, before the node
// serves, and logs it if it is on.
func enterMaintenance(ctx context.Context, store admin.Store, config Config, log *slog.Logger, now func() time.Time) error {
	mode, err := store.Maintenance(ctx)
	if err == nil && config.Maintenance && !mode.On {
		mode, err = admin.NewService(store, nil, settingActor, now).StartMaintenance(ctx, "a node was started with maintenance = true")
	}
	if err != nil {
		return fmt.Errorf("maintenance: %w", err)
	}
	if mode.On {
		log.Warn("maintenance mode is on: no new operations until `coax admin maintenance off`",
			"since", mode.Since, "by", mode.Actor, "reason", mode.Reason, "setting", config.Maintenance)
	}
	return nil
}

// maintenance returns the mode for the pages; nil while it is off.
func (n *Node) maintenance(ctx context.Context) (*look.Maintenance, error) {
	mode, err := n.Store.Maintenance(ctx)
	if err != nil || !mode.On {
		return nil, err
	}
	banner := &look.Maintenance{Since: mode.Since, By: mode.Actor, Reason: mode.Reason}
	restore, err := n.Store.OpenRestore(ctx)
	if err == nil && restore.Open {
		banner.Restored, banner.CompareSince = true, restore.Since
	}
	return banner, err
}

// interruptIdleJobs interrupts bulk renewals that no node has worked on for long: the
// store may be an old copy, and the renewals may have been made already.
func interruptIdleJobs(ctx context.Context, store bulk.Store, log *slog.Logger, now time.Time) error {
	interrupted, err := store.InterruptIdleBulkJobs(ctx, now.Add(-bulk.IdleLimit), now)
	if err == nil && interrupted > 0 {
		log.Warn("bulk renewals that no node has worked on for more than an hour wait for their operators to continue or stop them", "jobs", interrupted)
	}
	return err
}
