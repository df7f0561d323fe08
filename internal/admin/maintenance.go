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

// MaintenanceSubject is the mode's subject in the audit log.
const MaintenanceSubject = "maintenance"

// MaintenanceState describes the mode for the audit log. accepted: the actor who switched
// it off accepted the store as it is.
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

// RestoredState is MaintenanceState for a mode that a restore began.
func RestoredState(m Maintenance, r Restore) map[string]any {
	state := MaintenanceState(m, false)
	state["restored_at"] = moment(r.FoundAt)
	if !r.Since.IsZero() {
		state["restored_since"] = moment(r.Since)
	}
	return state
}

// StartMaintenance switches maintenance mode on. When it returns, no node makes a
// reservation any more; operations under way are completed. Running bulk renewals are
// interrupted until a person continues them. If the mode is on already, only the reason
// changes.
func (s *Service) StartMaintenance(ctx context.Context, reason string) (Maintenance, error) {
	action, err := s.newReasonedAction(MaintenanceOn, reason)
	if err != nil {
		return Maintenance{}, err
	}
	return s.store.StartMaintenance(ctx, action)
}

// EndMaintenance switches maintenance mode off, if it is on. Accepting the store as it is
// needs a reason. A restored store has to be accepted, or ErrRestored is returned.
func (s *Service) EndMaintenance(ctx context.Context, accept bool, reason string) error {
	return s.endMaintenance(ctx, accept, false, reason)
}

// EndComparedMaintenance is EndMaintenance for a caller that has just compared the store
// with the provider, and has found no difference.
func (s *Service) EndComparedMaintenance(ctx context.Context, reason string) error {
	return s.endMaintenance(ctx, false, true, reason)
}

func (s *Service) endMaintenance(ctx context.Context, accept, compared bool, reason string) error {
	action := s.newAction(MaintenanceOff)
	if accept || strings.TrimSpace(reason) != "" {
		var err error
		if action, err = s.newReasonedAction(MaintenanceOff, reason); err != nil {
			return err
		}
	}
	_, err := s.store.EndMaintenance(ctx, action, accept, compared)
	return err
}

// NewRestoreAction returns the staff action of a restore that a node found.
func NewRestoreAction(at time.Time) StaffAction {
	return StaffAction{Actor: RestoredActor, Action: string(MaintenanceOn), At: at}
}
