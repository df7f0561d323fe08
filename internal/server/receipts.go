package server

import (
	"context"
	"time"
)

// numberEvery is how often a node looks for purchases without a receipt number: only nodes of
// 0.1.0 leave any, while they are being replaced.
const numberEvery = time.Minute

// numberPause leaves the store to requests where there is much to number.
const numberPause = 100 * time.Millisecond

// numberReceipts gives receipt numbers to what a release without them has settled, at once and
// every minute.
func (n *Node) numberReceipts(ctx context.Context) {
	ticker := time.NewTicker(numberEvery)
	defer ticker.Stop()
	for {
		numbered, more, err := n.Store.NumberReceipts(ctx)
		if numbered > 0 {
			n.log.Info("receipts numbered that an older release had settled", "receipts", numbered)
		}
		if err != nil && ctx.Err() == nil {
			n.log.Warn("number the receipts of an older release", "error", err)
		}
		wait := ticker.C
		if more && err == nil {
			wait = time.After(numberPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-wait:
		}
	}
}
