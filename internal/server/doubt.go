package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/audit"
)

// doubted is a store that knows whether its disk failed under the process before.
type doubted interface {
	DiskFailure() (string, error)
	DiskFailureFile() string
	Inspect(ctx context.Context, progress func(table string)) error
	ClearDiskFailure() error
}

// violationsTold is how many violations a refusal to start names.
const violationsTold = 5

// settleDoubt looks at a store whose disk has failed before anybody is served from
// it. A store that is damaged, or whose books do not agree, is not: what it would
// answer could be wrong, and what it would book as well.
func settleDoubt(ctx context.Context, opened Store, config Config, log *slog.Logger, now func() time.Time) error {
	store, can := opened.(doubted)
	if !can {
		return nil
	}
	doubt, err := store.DiskFailure()
	if err != nil || doubt == "" {
		return err
	}
	log.Warn("the store is looked at before anybody is served, for the process before has ended because of it", "cause", doubt)
	if err := inspectStore(ctx, store, config, log, now()); err != nil {
		return fmt.Errorf("store.url %s: %s; and now that it was looked at: %w. Restore it from its backup, or mend it: "+
			"it is looked at whenever a node starts, until nothing is found or somebody removes %s",
			config.Store.Address(), doubt, err, store.DiskFailureFile())
	}
	log.Info("nothing is wrong with the store")
	return store.ClearDiskFailure()
}

func inspectStore(ctx context.Context, store doubted, config Config, log *slog.Logger, now time.Time) error {
	if err := store.Inspect(ctx, func(table string) { log.Info("inspecting", "table", table) }); err != nil {
		return fmt.Errorf("the file is damaged: %w", err)
	}
	snapshot, done, err := OpenSnapshot(ctx, config.Store)
	if err != nil {
		return err
	}
	defer done()
	log.Info("auditing")
	report, err := AuditSettings(config).Run(ctx, snapshot, now, nil)
	if err != nil {
		return fmt.Errorf("audit the books: %w", err)
	}
	return disagreement(report)
}

// disagreement says what an audit has found, nil if nothing.
func disagreement(report audit.Report) error {
	found := int64(len(report.Violations))
	if found == 0 {
		return nil
	}
	var told []string
	for _, violation := range report.Violations[:min(found, violationsTold)] {
		told = append(told, violation.String())
	}
	return fmt.Errorf("the books do not agree in %d places, which `coax audit` names: %s", found+report.LeftOut, strings.Join(told, "; "))
}
