package admin

import (
	"context"
	"strings"
	"time"
)

// Maintenance is the maintenance mode of the whole service: while it is on, no node
// accepts a new operation, from the API, the panel or a bulk renewal.
type Maintenance struct {
	On bool
	// Since is when it was switched on; Actor is who did, or who gave the reason last.
	Since  time.Time
	Actor  string
	Reason string
}

// MaintenanceSubject is how the log of acts names the mode.
const MaintenanceSubject = "maintenance"

// MaintenanceState describes the mode for the log. Accepted: whoever switched it off
// accepted the store as it is.
func MaintenanceState(m Maintenance, accepted bool) map[string]any {
	state := map[string]any{"maintenance": m.On}
	if m.On {
		state["reason"], state["since"] = m.Reason, moment(m.Since)
	}
	if accepted {
		state["accepted"] = true
	}
	return state
}

// StartMaintenance switches maintenance mode on. When it returns, no node reserves
// anything any more; operations under way are carried through. Bulk renewals that run
// are interrupted until a person continues them. Where the mode is on already, only the
// reason changes.
func (d *Service) StartMaintenance(ctx context.Context, reason string) (Maintenance, error) {
	act, err := d.reasoned(MaintenanceOn, reason)
	if err != nil {
		return Maintenance{}, err
	}
	return d.store.StartMaintenance(ctx, act)
}

// EndMaintenance switches maintenance mode off; where it is off, nothing happens. To
// accept the store as it is takes a reason.
func (d *Service) EndMaintenance(ctx context.Context, accept bool, reason string) error {
	act := d.act(MaintenanceOff)
	if accept || strings.TrimSpace(reason) != "" {
		var err error
		if act, err = d.reasoned(MaintenanceOff, reason); err != nil {
			return err
		}
	}
	_, err := d.store.EndMaintenance(ctx, act, accept)
	return err
}

// Maintenance reads the maintenance mode.
func (d *Service) Maintenance(ctx context.Context) (Maintenance, error) {
	return d.store.Maintenance(ctx)
}
