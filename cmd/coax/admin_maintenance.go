package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/server"
	"github.com/spf13/cobra"
)

func (a *app) maintenanceCommand() *cobra.Command {
	return group("maintenance", "Stop new operations on every node", `Maintenance mode stops new operations on every node at once: API, panel and bulk renewals.
The API answers 503 to any POST whose Idempotency-Key is new; a known key is answered as
before. Look-ups, review, settlement and staff actions go on.`,
		a.maintenanceOn(), a.maintenanceOff(), a.maintenanceShow())
}

func (a *app) maintenanceOn() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use:   "on --reason TEXT",
		Short: "Stop new operations",
		Long: `Stop new operations. When the command has ended, no node begins one; those under way are
completed. Bulk renewals that run are interrupted, and wait for their
operators to continue or stop them once maintenance is off. If it is on already, the
reason is changed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changeMaintenance(c.Context(), func(ctx context.Context, service *admin.Service) error {
				_, err := service.StartMaintenance(ctx, reason)
				return err
			})
		},
	}
	reasonFlag(command, &reason)
	return command
}

func (a *app) maintenanceOff() *cobra.Command {
	var reason string
	var accept bool
	command := &cobra.Command{
		Use:   "off [--accept --reason TEXT]",
		Short: "Let new operations in again",
		Long: `Let new operations in again, at once and on every node. With --accept it is recorded
that the store was compared with the provider and is accepted as it is; that takes a reason.
A store that was restored from an older copy is compared with the provider first, at the
earliest review.refund_after (or provider.timeout, if that is longer) after the restore:
until then the provider may carry out what it was asked before. If it differs, see coax
reconcile, or accept it in this way.
Nodes with the setting maintenance = true switch it on again when they start.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if accept && !c.Flags().Changed("reason") {
				return usage("--accept needs --reason TEXT")
			}
			return a.changeMaintenance(c.Context(), func(ctx context.Context, service *admin.Service) error {
				return a.endMaintenance(ctx, service, accept, reason)
			})
		},
	}
	command.Flags().BoolVar(&accept, "accept", false, "the store was compared with the provider and is accepted as it is")
	command.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	return command
}

func (a *app) maintenanceShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show whether maintenance is on, and which bulk renewals wait",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := a.config()
			if err != nil {
				return err
			}
			// It needs no master key: it reads no secrets.
			store, err := server.OpenStore(c.Context(), config, server.StoreOptions{Tool: true})
			if err != nil {
				return err
			}
			defer store.Close()
			return a.printMaintenance(c.Context(), store)
		},
	}
}

// endMaintenance ends the mode. A restored store that is not accepted is compared with the
// provider first.
func (a *app) endMaintenance(ctx context.Context, service *admin.Service, accept bool, reason string) error {
	err := service.EndMaintenance(ctx, accept, reason)
	if !errors.Is(err, admin.ErrRestored) {
		return err
	}
	config, err := a.config()
	if err != nil {
		return err
	}
	differences, err := a.compareWithProvider(ctx, config)
	if err != nil {
		return fmt.Errorf("compare the restored store with the provider: %w", err)
	}
	if differences > 0 {
		return fmt.Errorf("%s from the provider left: %w", counted(int64(differences), "difference"), admin.ErrRestored)
	}
	return service.EndComparedMaintenance(ctx, reason)
}

// changeMaintenance changes the mode and prints how it is afterwards.
func (a *app) changeMaintenance(ctx context.Context, change func(context.Context, *admin.Service) error) error {
	return a.withStore(ctx, func(ctx context.Context, _ server.Config, s staffStore) error {
		if err := change(ctx, admin.NewService(s.store, s.vault, s.actor, a.now)); err != nil {
			return err
		}
		return a.printMaintenance(ctx, s.store)
	})
}

func (a *app) printMaintenance(ctx context.Context, store server.Store) error {
	mode, err := store.Maintenance(ctx)
	if err != nil {
		return err
	}
	restore, err := store.OpenRestore(ctx)
	if err != nil {
		return err
	}
	waiting, err := store.InterruptedBulkJobs(ctx)
	if err != nil {
		return err
	}
	jobs := []object{}
	for _, job := range waiting {
		jobs = append(jobs, object{
			{"lco_id", job.OperatorID}, {"job_id", job.ID}, {"title", job.Title}, {"started_at", when(job.StartedAt)},
			{"interrupted_by", job.Interrupted}, {"interrupted_at", when(job.InterruptedAt)},
		})
	}
	return a.show(object{
		{"maintenance", mode.On}, {"since", when(mode.Since)}, {"by", orNull(mode.Actor)}, {"reason", orNull(mode.Reason)}, {"bulk_jobs_waiting", jobs},
		{"restored_at", when(restore.FoundAt)}, {"restored_since", when(restore.Since)}, {"restored_how", orNull(restore.How)},
	})
}
