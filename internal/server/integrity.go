package server

import (
	"context"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/integrity"
)

const (
	// sealEvery is how often a node looks for days to seal, and exports the audit head.
	sealEvery = time.Hour
	// sealPause is the time between two reads, and after each commit, while rows are
	// sealed, so that sealing an old store leaves the disk to requests.
	sealPause = 5 * time.Millisecond
	// sealLogEvery is how often a long run logs how far it is.
	sealLogEvery = 10 * time.Second
	// headTimeout bounds the last export of a node that stops.
	headTimeout = 5 * time.Second
)

// sealLedger seals days that are over and exports the audit head, at once and every
// hour.
func (n *Node) sealLedger(ctx context.Context) {
	ticker := time.NewTicker(sealEvery)
	defer ticker.Stop()
	for {
		n.exportHead(ctx)
		if n.Seal(ctx) > 0 {
			n.exportHead(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Seal writes the digests of all days that are over, and returns how many.
func (n *Node) Seal(ctx context.Context) (digests int) {
	logged := time.Now()
	digests, err := integrity.Seal(ctx, n.Store, n.Now(), integrity.Watch{
		Pause: func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(sealPause):
			}
		},
		Committed: func(digests int, operatorID int64) {
			if time.Since(logged) >= sealLogEvery {
				logged = time.Now()
				n.log.Info("sealing wallet entries and ledger lines", "digests", digests, "operator", operatorID)
			}
		},
	})
	if digests > 0 {
		n.log.Info("wallet entries and ledger lines sealed", "digests", digests)
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("seal wallet entries and ledger lines", "error", err)
	}
	return digests
}

// exportHead writes where the chains end into the log and the metrics.
func (n *Node) exportHead(ctx context.Context) {
	head, err := n.Store.IntegrityHead(ctx)
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("export the audit head", "error", err)
		}
		return
	}
	mac, digestMAC := hex.EncodeToString(head.ActionMAC), hex.EncodeToString(head.DigestMAC)
	n.heads.Exported(head.ActionID, mac, head.DigestNumber, digestMAC)
	n.log.Info("audit head", slog.Group("head",
		"at", n.Now().UTC().Format(time.RFC3339Nano),
		"actions", head.ActionID, "hash", hex.EncodeToString(head.ActionHash), "mac", mac,
		"digests", head.DigestNumber, "day", head.Day, "digest_mac", digestMAC))
}

// AuditKeys are what an audit verifies MACs with.
func AuditKeys(vault *access.Vault) *audit.Keys {
	return &audit.Keys{
		CheckValues: vault.CheckValues(),
		Actions:     vault.Derive(integrity.ActionsPurpose),
		Digests:     vault.Derive(integrity.DigestsPurpose),
		Open: func(id uint32, sealed []byte) (actions, digests []byte, err error) {
			if actions, err = vault.DeriveSealed(id, sealed, integrity.ActionsPurpose); err != nil {
				return nil, nil, err
			}
			digests, err = vault.DeriveSealed(id, sealed, integrity.DigestsPurpose)
			return actions, digests, err
		},
	}
}

// SignActions begins to sign staff actions in a store that an older release has worked
// with. If the master key cannot be read, the next node does it.
func SignActions(ctx context.Context, config Config, environ []string, store Store) error {
	head, err := store.IntegrityHead(ctx)
	if err != nil || head.ActionID == 0 {
		return err
	}
	vault, err := OpenVault(config, environ)
	if err != nil {
		return nil
	}
	_, _, err = UnlockStore(ctx, store, vault, Clock(config.Clock.Offset)())
	return err
}
