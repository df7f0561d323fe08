package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/access"
)

// KeyringStore holds the keys that a store has under the master key ring, and what was sealed with
// the ring's keys.
type KeyringStore interface {
	// StoreKeys reads the keys of the store; zero if it was never rotated.
	StoreKeys(ctx context.Context) (access.StoreKeys, error)
	// KeyringVersion changes with StoreKeys, and is cheap to read.
	KeyringVersion(ctx context.Context) (int64, error)
	// MasterKeys lists the master keys that the store requires, the oldest first.
	MasterKeys(ctx context.Context) ([]MasterKey, error)
	// SealedWith counts what is sealed, by the master key that it is sealed with.
	SealedWith(ctx context.Context) (map[uint32]int64, error)
	// SealedRows reads at most limit rows that are sealed with another key than the primary one,
	// after a cursor; the zero cursor begins.
	SealedRows(ctx context.Context, primary uint32, after SealedCursor, limit int) ([]SealedRow, SealedCursor, error)
	// Reseal replaces what is sealed, where it is still what was read.
	Reseal(ctx context.Context, primary uint32, rows []ResealedRow) (changed int, err error)

	// ReportNode writes which keys a node holds, and ForgetNode removes it.
	ReportNode(ctx context.Context, report NodeKeys) error
	ForgetNode(ctx context.Context, name string) error
	// LiveNodes lists the nodes that work on the store. older describes nodes that do not report,
	// which are of an older release.
	LiveNodes(ctx context.Context, now time.Time) (live []NodeKeys, older []string, err error)

	// LogMasterKey records that a key was added to the ring.
	LogMasterKey(ctx context.Context, action StaffAction, id uint32) error
	// RotateMasterKey makes a key the primary one and replaces the store's keys, unless a live
	// node does not hold it, or was is not the primary key any more (0 for none).
	RotateMasterKey(ctx context.Context, action StaffAction, was uint32, keys access.RotatedKeys) error
	// RetireMasterKey no longer requires a key, unless it seals, anything is sealed with it, or a
	// live node seals with it. A key that is not required is only recorded as retired.
	RetireMasterKey(ctx context.Context, action StaffAction, id uint32) error
}

// MasterKey is a master key that a store requires.
type MasterKey struct {
	ID      uint32
	AddedAt time.Time
}

// NodeKeys says which master keys a node holds.
type NodeKeys struct {
	Name, Release string
	// Keys are tokens (access.KeyToken), separated by spaces.
	Keys string
	// Sealing is the key that it seals with.
	Sealing uint32
	SeenAt  time.Time
}

// NodeLiveFor is how long after its last report a node counts as running.
const NodeLiveFor = time.Minute

// Holds reports whether the node has a key.
func (n NodeKeys) Holds(token string) bool {
	return strings.Contains(" "+n.Keys+" ", " "+token+" ")
}

// SealedCursor is how far a run through what is sealed has come.
type SealedCursor struct {
	Column int
	Key    any
}

// SealedRow is a row with something sealed.
type SealedRow struct {
	Column int
	Key    any
	// Name says what it is, for messages.
	Name string
	// Sealed is bound to Context, its additional data.
	Sealed, Context []byte
}

// ResealedRow is a row and what takes the place of what is sealed in it.
type ResealedRow struct {
	SealedRow
	New []byte
}

// MasterKeySubject is a master key's subject in the audit log.
func MasterKeySubject(id uint32) string { return fmt.Sprintf("master key %d", id) }

// LogMasterKey records that a key was added to the ring.
func (s *Service) LogMasterKey(ctx context.Context, id uint32) error {
	return s.store.LogMasterKey(ctx, s.newAction(MasterKeyAdd), id)
}

// RotateMasterKey makes a key of the ring the primary one; see KeyringStore.
func (s *Service) RotateMasterKey(ctx context.Context, was uint32, keys access.RotatedKeys) error {
	return s.store.RotateMasterKey(ctx, s.newAction(MasterKeyRotate), was, keys)
}

// RetireMasterKey no longer requires a key; see KeyringStore.
func (s *Service) RetireMasterKey(ctx context.Context, id uint32) error {
	return s.store.RetireMasterKey(ctx, s.newAction(MasterKeyRetire), id)
}
