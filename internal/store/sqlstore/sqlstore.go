// Package sqlstore holds the store methods that both engines share: everything that is
// not on the path of a payment. Statements are written once, with $n parameters, in the
// SQL of PostgreSQL; the SQLite engine rewrites the few constructs that it lacks when it
// prepares a statement. A statement that really differs is in the engine's Dialect.
package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/bulk"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/operation"
)

// Row is a row to be read. Scan returns sql.ErrNoRows if there is none.
type Row interface{ Scan(into ...any) error }

// Rows are read one after the other, and closed by the caller.
type Rows interface {
	Row
	Next() bool
	Err() error
	Close()
}

// RowQuerier reads single rows. The statement runs when the row is scanned, or before.
type RowQuerier interface {
	QueryRow(query string, args ...any) Row
}

// Querier reads rows.
type Querier interface {
	RowQuerier
	Query(query string, args ...any) (Rows, error)
}

// Tx is a transaction that writes.
type Tx interface {
	Querier
	// Exec runs a statement and returns how many rows it changed.
	Exec(query string, args ...any) (changed int64, err error)
	Dialect() *Dialect
	// Keys sign staff actions and digests; nil if the store has none.
	Keys() *integrity.Keys
	// Logged adds a staff action to those that are reported once this is committed.
	Logged(admin.AuditEntry)
}

// Engine runs statements. On SQLite a write shares its commit with others, on PostgreSQL it
// is retried if the server rolled it back. So a function given to Write, Snapshot or Page
// may run several times.
type Engine interface {
	// Write runs a transaction and returns when it is committed, was refused or failed.
	Write(ctx context.Context, run func(Tx) error) error
	// Read reads on any connection, each statement on its own.
	Read(ctx context.Context) Querier
	// Lookup is Read for a single row found by its key, as requests need it.
	Lookup(ctx context.Context) RowQuerier
	// Snapshot runs several reads in one read transaction.
	Snapshot(ctx context.Context, read func(Querier) error) error
	// Page reads rows in the order of an index until a LIMIT.
	Page(ctx context.Context, read func(Querier) error) error
	SubscriptionOf(ctx context.Context, operatorID int64, id, mobile string) (operation.Subscription, bool, error)
	// UseKeys sets the keys that transactions sign with from now on.
	UseKeys(*integrity.Keys)
	// IsDuplicate reports whether err is a violated unique constraint.
	IsDuplicate(err error) bool
}

// Dialect is what differs between the engines' SQL.
type Dialect struct {
	// OrderedJoin joins so that the table on the left is read first. PostgreSQL does
	// so because of its planner settings, SQLite because of the keyword CROSS.
	OrderedJoin string
	// ActionOrder orders the staff actions of one operator by id, as an index of them allows.
	ActionOrder string
	// VoucherIs is the condition on staff_acts that the reason ends with $1, written like
	// the expression of the index.
	VoucherIs string
	// ChainEnd reads id, hash and MAC of the last staff action, and locks the end of the
	// chain if there are concurrent writers. InsertAction adds a staff action; see logAction.
	ChainEnd, InsertAction string
	// LatestPlanName is the plan's name in the row with the highest l.line of a group;
	// max(l.line) is selected beside it.
	LatestPlanName string
	// OneNode: the store has one node at most.
	OneNode bool
	// Refused is the condition of the partial index on refused blocks of request_log.
	Refused string
	// JoinSubscribers joins a table t, such as subscriber_terms, with its subscribers s, in the
	// order of the table. CurrentPlan joins the plan p that began last before ? and the open operation o
	// of a subscriber s.
	JoinSubscribers, CurrentPlan string

	// LiveNodes selects those of the reported nodes that run, and describes nodes of an older
	// release, which do not report.
	LiveNodes func(from Querier, reported []admin.NodeKeys, now time.Time) (live []admin.NodeKeys, older []string, err error)
	// LockTable blocks other writers of a table until the commit.
	LockTable func(tx Tx, table string) error
	// LockMaintenance waits for the transactions that have found maintenance mode off, and
	// blocks further ones until the commit.
	LockMaintenance func(Tx) error
	// ChainStarted is called in the transaction that starts the signed chain of staff
	// actions, with the MAC that it starts with.
	ChainStarted func(tx Tx, mac []byte) error
	// SettleReview settles an operation in review, given as it is in the database.
	SettleReview func(Tx, operation.Operation, operation.Settlement) (operation.Operation, error)
	// TakeBulkRows gives at most limit rows that a condition selects to the owner of a job.
	TakeBulkRows func(tx Tx, h bulk.Lease, condition string, limit int) ([]bulk.Row, error)
}

// Store has the methods that the engines share.
type Store struct {
	engine  Engine
	dialect *Dialect
	tool    bool // opened by a command, perhaps beside a running node
}

// New returns a store on an engine, for a node or for a tool.
func New(engine Engine, dialect *Dialect, tool bool) *Store { return &Store{engine, dialect, tool} }

// Collect reads all rows of a query.
func Collect[T any](rows Rows, err error, read func(Row) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := read(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// page reads a page of rows in the order of an index.
func page[T any](ctx context.Context, db *Store, stmt statement, read func(Row) (T, error)) (all []T, err error) {
	err = db.engine.Page(ctx, func(from Querier) error {
		rows, err := from.Query(stmt.text, stmt.args...)
		all, err = Collect(rows, err, read)
		return err
	})
	return all, err
}

// NullString returns NULL for an empty string.
func NullString(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// Times are stored as Unix milliseconds, the zero time as NULL.

// Millis returns a time as it is stored.
func Millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// Time returns a stored time.
func Time(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}
