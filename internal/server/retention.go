package server

import (
	"context"
	"fmt"
	"time"

	"github.com/coaxhq/coax/internal/retention"
)

const (
	// removeEvery is how often a node looks for rows that are older than retention.*.
	removeEvery = time.Hour
	// A removal pauses this many times as long as its last batch took, so that it takes a
	// twentieth of the store's time. The shortest pause leaves SQLite's writer to requests.
	removePauseFactor = 19
	minRemovePause    = 20 * time.Millisecond
	maxRemovePause    = 10 * time.Second
)

// removeOldRows removes rows that are older than retention.*, at once and every hour.
func (n *Node) removeOldRows(ctx context.Context) {
	ticker := time.NewTicker(removeEvery)
	defer ticker.Stop()
	for {
		n.RemoveOldRows(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// RemoveOldRows removes all rows that are older than retention.*.
func (n *Node) RemoveOldRows(ctx context.Context) {
	removed := map[retention.What]int{}
	began := time.Now()
	err := n.Config.Retention.Run(ctx, n.Store, n.Now(), func(what retention.What, rows int) {
		removed[what] += rows
		n.metrics.RowsPurged(string(what), rows)
		if rows > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(min(max(removePauseFactor*time.Since(began), minRemovePause), maxRemovePause)):
			}
		}
		began = time.Now()
	})
	for _, what := range retention.Tables {
		if removed[what] > 0 {
			n.log.Info("old rows removed", "table", string(what), "rows", removed[what])
		}
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("remove old rows", "error", err)
	}
}

// keep reads how long rows of a table are kept.
func keep(what retention.What, field func(*retention.Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, value string) error {
		var d time.Duration
		read := duration(0, 100*366*24*time.Hour, func(*Config) *time.Duration { return &d })
		if err := read(c, value); err != nil {
			return err
		}
		if least := retention.Minimum[what]; d != 0 && d < least {
			return fmt.Errorf("%s is too short: give at least %s (%d days), because %s; 0s keeps them for good", d, least, int(least.Hours()/24), retention.Why[what])
		}
		*field(&c.Retention) = d
		return nil
	}
}
