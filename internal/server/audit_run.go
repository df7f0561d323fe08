package server

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/audit"
)

// RunAudit audits the store of a configuration. MACs are verified if the master key can
// be read; otherwise the report says that they were not.
func RunAudit(ctx context.Context, config Config, environ []string, now time.Time, heads []audit.Head, progress func(what string, rows int64)) (audit.Report, error) {
	snapshot, done, err := OpenSnapshot(ctx, config.Store)
	if err != nil {
		return audit.Report{}, fmt.Errorf("open the store at %s: %w", config.Store.Place(), err)
	}
	defer done()
	settings := AuditSettings(config)
	settings.Heads = heads
	if vault, err := OpenVault(config, environ); err != nil {
		settings.NoKeys = err.Error()
	} else {
		settings.Keys = AuditKeys(vault)
	}
	pace, release, err := AuditPaceOn(ctx, config.Store)
	if err != nil {
		return audit.Report{}, err
	}
	defer release()
	settings.Rest = pace.Rest
	report, err := settings.Run(ctx, snapshot, now, progress)
	if err != nil {
		return audit.Report{}, fmt.Errorf("audit the store at %s: %w", config.Store.Place(), err)
	}
	return report, nil
}
