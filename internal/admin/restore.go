package admin

import (
	"errors"
	"time"
)

// Restore is a restore of the store that was found: the store was put back from an older
// copy, and has forgotten what happened after that copy. While one is open, the service is
// in maintenance.
type Restore struct {
	Open    bool
	FoundAt time.Time
	// Since is the last moment that the store knows all about: it is compared with the
	// provider from here. It is zero if nothing is known.
	Since time.Time
	// How is a sentence that says how the restore was noticed.
	How string
}

// RestoreMargin is how much earlier than its last mark a restored store is compared from: for
// clocks that differ.
const RestoreMargin = 5 * time.Minute

// BehindWhileRunning says how a running node noticed a restore.
const BehindWhileRunning = "a running node found the store behind what it had written"

// RestoredActor is the recorded actor of a restore that a node found.
const RestoredActor = "node:store_mark"

// ErrRestored refuses to end the maintenance of a restored store that was neither compared
// with the provider nor accepted.
var ErrRestored = errors.New("the store was restored from an older copy, and may have forgotten operations that the provider carried out: " +
	"compare it with `coax reconcile`, or accept it as it is with `coax admin maintenance off --accept --reason TEXT`")

// CopyActor is the recorded actor of the maintenance of a store that a copy has begun to fill.
const CopyActor = "coax store copy"

// ErrUnfinishedCopy refuses to serve a copy that is not complete, and to change its maintenance.
var ErrUnfinishedCopy = errors.New("the store is a copy that is not complete, or was not compared with its source yet: " +
	"call `coax store copy` or `coax restore` again as before, which goes on, or begin again with an empty store")

// MarkState says whether a store was marked.
type MarkState string

// The states of a store's mark.
const (
	// NeverMarked: made or migrated by a release with marks, and no node has marked it.
	NeverMarked MarkState = "new"
	// CopiedStore: made by `coax store copy`, and no node has marked it.
	CopiedStore MarkState = "copied"
	// Marked: a node has marked it, and has a file that says so.
	Marked MarkState = "marked"
)

// StoreMark is the mark of a store. Its value grows while a node writes, and the nodes
// keep it in files outside the store: a store behind such a file was restored.
type StoreMark struct {
	StoreID string
	// PreviousID is the id of the store that this one was copied from; empty if none.
	PreviousID string
	Value      int64
	State      MarkState
	// At is when it was marked last; zero if never.
	At time.Time

	// Operators: the store has operators.
	Operators bool
	// LastAction is the id of the newest staff action, which a command beside the node may
	// have written.
	LastAction int64
}

// ErrBehindMark is returned for a store that is behind a mark, or another one.
var ErrBehindMark = errors.New("the store is behind its mark")

// MarkAdvance is a step of a store's mark. It fails with ErrBehindMark unless the store has
// this id and at least this value.
type MarkAdvance struct {
	StoreID string
	AtLeast int64
	// By may be 0: the commit then only confirms that the present value is durable.
	By int64
	At time.Time
}

// RestoreLeap is how far a restore moves the mark: beyond what other nodes may have in
// their files.
const RestoreLeap = 1 << 32

// RestoreReason is the reason of the maintenance that a restore begins.
func RestoreReason(r Restore) string { return "the store was restored: " + r.How }
