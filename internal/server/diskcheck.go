package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/audit"
)

// diskChecker is a store that records when its disk fails, for the next process.
type diskChecker interface {
	DiskFailure() (string, error)
	DiskFailureFile() string
	Inspect(ctx context.Context, progress func(table string)) error
	ClearDiskFailure() error
}

// violationsShown is how many violations a refusal to start lists.
const violationsShown = 5

// checkAfterDiskFailure checks a store whose disk failed in the previous process. A node
// does not start on a store that is damaged or whose books do not agree: its answers and
// its new entries could be wrong.
func checkAfterDiskFailure(ctx context.Context, opened Store, config Config, log *slog.Logger, now func() time.Time) error {
	store, ok := opened.(diskChecker)
	if !ok {
		return nil
	}
	failure, err := store.DiskFailure()
	if err != nil || failure == "" {
		return err
	}
	log.Warn("checking the store before serving, because the previous process ended with a disk failure", "cause", failure)
	if err := inspectStore(ctx, store, config, log, now()); err != nil {
		return fmt.Errorf("store.url %s: %s; the check of the store found: %w. Restore it from its backup, or repair it: "+
			"it is checked whenever a node starts, until the check finds nothing or %s is removed",
			config.Store.Address(), failure, err, store.DiskFailureFile())
	}
	log.Info("the check of the store found nothing wrong")
	return store.ClearDiskFailure()
}

func inspectStore(ctx context.Context, store diskChecker, config Config, log *slog.Logger, now time.Time) error {
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
	return violationsError(report)
}

// violationsError returns an error with the violations of a report, or nil.
func violationsError(report audit.Report) error {
	found := int64(len(report.Violations))
	if found == 0 {
		return nil
	}
	var shown []string
	for _, violation := range report.Violations[:min(found, violationsShown)] {
		shown = append(shown, violation.String())
	}
	return fmt.Errorf("the books do not agree in %d places, which `coax audit` lists: %s", found+report.LeftOut, strings.Join(shown, "; "))
}
