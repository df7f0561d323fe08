// Package postgres is the store for several nodes, in a PostgreSQL database. It decides no
// business rule: each method is one transaction, and each rule that concurrent writes could
// break is enforced by a constraint, a guarded UPDATE or a row lock.
//
// Everything that a decision depends on is read from the primary. Nothing here needs
// advisory locks, notifications or procedures on the server.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/integrity"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// Role is how a process uses the store.
type Role int

const (
	// Node serves requests, beside other nodes.
	Node Role = iota
	// Tool is a command that runs beside nodes.
	Tool
)

// Options configure a store; the zero value is a node's store that reports nothing.
type Options struct {
	Role Role
	// Observe is called for every batch of admissions, reservations or settlements.
	Observe Observer
	// OnAuditEntry is called with every committed staff action, and every change that a
	// person made to their own login, and the caller's context. It may be nil.
	OnAuditEntry func(context.Context, admin.AuditEntry)
	// Begin is called before a node creates a store or opens one without operators; if it
	// returns an error, Open fails. It may be nil.
	Begin func() error
	// Progress is told what a node does that takes long in a large store before it opens. It may
	// be nil.
	Progress func(text string)
}

// Observer observes the store's batches. It measures their duration itself.
type Observer interface {
	// Batch is called before a batch of writes is committed, and done afterwards. batcher is
	// one of Batchers.
	Batch(batcher string, writes int) (done func())
}

// Batchers are the names of the batchers that are observed.
var Batchers = []string{admissions, reservations, settlements}

const admissions, reservations, settlements = "admission", "reservation", "settlement"

// DB is an open store.
type DB struct {
	*sqlstore.Store
	where string // the address without its password, for messages
	role  Role
	pool  *pgxpool.Pool
	// The batchers run the requests of many callers together.
	snapshots     *batcher[operation.SnapshotQuery, snapshotResult]
	wallets       *batcher[int64, *subscription.Wallet]
	subscriptions *batcher[subscriptionQuery, *operation.Subscription]
	transactions  *batcher[transactionQuery, *operation.Operation]
	admissions    *batcher[access.Admission, access.Admitted]
	reservations  *batcher[operation.Draft, operation.Operation]
	settlements   *batcher[pendingSettlement, operation.Operation]
	// commitOrder is shared by the batchers that write.
	commitOrder *commitOrder
	locks       *lockWaits
	// waiting counts the batches, and writes that are not batched, that have no connection yet.
	waiting atomic.Int64
	// primaries counts the primaries that were lost; each connection belongs to one.
	primaries    atomic.Int64
	broken       chan struct{} // never closed: see Broken
	ids          *subscription.IDs
	onAuditEntry func(context.Context, admin.AuditEntry)
	// written counts the commits; see Written.
	written atomic.Uint64
	// expected is the mark that a new connection has to find; nil for none.
	expected atomic.Pointer[expectedMark]
	// keys sign staff actions and digests; nil until UseIntegrityKeys.
	keys atomic.Pointer[integrity.Keys]
}

const (
	// poolSize is how many connections a node has unless its address says
	// otherwise (pool_max_conns).
	poolSize = 24
	// connectTimeout is for one host; with several, the next one is tried.
	connectTimeout = 2 * time.Second
	// statementTimeout ends a statement that hangs; never a COMMIT.
	statementTimeout = 10 * time.Second
	// acquireTimeout limits the wait for a connection; it allows for two dead hosts.
	acquireTimeout = 3 * connectTimeout
	// readyTimeout is for Ready.
	readyTimeout = 3 * time.Second
)

// session are the settings of every connection.
var session = map[string]string{
	"application_name": sessionName,
	// None, whatever is set for the role or the database: a COMMIT that is cancelled while
	// it waits for the standby is committed, although the standby may not have it.
	"statement_timeout": "0",
	// A node that hangs in a transaction must not block its rows for long. Other writes
	// wait longer than that, and then succeed. They wait by retrying; see lockWaits.
	"idle_in_transaction_session_timeout": "5s",
	"lock_timeout":                        "7s",
	// The server detects a dead node.
	"tcp_keepalives_idle":     "5",
	"tcp_keepalives_interval": "2",
	"tcp_keepalives_count":    "3",
}

// Open opens the store at a postgres:// address, which may have several hosts. A node
// migrates the schema; a tool requires the current one.
func Open(ctx context.Context, address string, options Options) (*DB, error) {
	config, err := readAddress(address)
	if err != nil {
		return nil, err
	}
	db := &DB{where: Redact(address), role: options.Role, broken: make(chan struct{}), commitOrder: newCommitOrder(maxOrderWait), locks: newLockWaits(config.MaxConns), ids: subscription.NewIDs(subscription.IDDigits), onAuditEntry: options.OnAuditEntry}
	db.Store = sqlstore.New(sqlEngine{db}, dialect, options.Role == Tool)
	config.BeforeConnect = db.prepareConn
	config.AfterConnect = db.checkMark
	config.PrepareConn = replan
	if db.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("prepare to connect: %w", err)
	}
	if err := db.prepare(ctx, options); err != nil {
		db.pool.Close()
		return nil, err
	}
	db.openReads()
	db.openAdmission(options.Observe)
	db.openReservation(options.Observe)
	db.openSettlement(options.Observe)
	return db, nil
}

func (db *DB) prepare(ctx context.Context, options Options) error {
	if err := db.pool.Ping(ctx); err != nil {
		// pgx writes a line for every host.
		return fmt.Errorf("it cannot be reached: %w; is PostgreSQL running there, does it take writes, and may this user connect?", inOneLine(err))
	}
	if err := db.checkDurability(ctx); err != nil {
		return err
	}
	if err := db.locks.readTotal(ctx, db); err != nil {
		return err
	}
	if options.Role == Node && options.Begin != nil {
		if begun, err := db.hasOperators(ctx); err != nil {
			return fmt.Errorf("check whether it has operators: %w", err)
		} else if !begun {
			if err := options.Begin(); err != nil {
				return err
			}
		}
	}
	return db.checkSchema(ctx, options)
}

// hasOperators reports whether there is a schema with an operator in it.
func (db *DB) hasOperators(ctx context.Context) (found bool, err error) {
	from := db.read(ctx)
	if err := from.QueryRow(`SELECT to_regclass('operators') IS NOT NULL`).Scan(&found); err != nil || !found {
		return false, err
	}
	err = from.QueryRow(`SELECT EXISTS (SELECT 1 FROM operators)`).Scan(&found)
	return found, err
}

// CheckAddress validates an address without connecting.
func CheckAddress(address string) error {
	_, err := readAddress(address)
	return err
}

func readAddress(address string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, addressError(address, err)
	}
	if err := checkHosts(config.ConnConfig); err != nil {
		return nil, addressError(address, err)
	}
	parameters := url.Values{}
	if _, query, found := strings.Cut(address, "?"); found {
		if parameters, err = url.ParseQuery(query); err != nil {
			return nil, addressError(address, err)
		}
	}
	for _, deadline := range []string{"statement_timeout", "transaction_timeout"} {
		if parameters.Has(deadline) {
			return nil, fmt.Errorf("%s has %s, which would end a COMMIT that waits for the standby: remove it", Redact(address), deadline)
		}
	}
	if !parameters.Has("pool_max_conns") {
		config.MaxConns = poolSize
	}
	if !parameters.Has("connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !parameters.Has("target_session_attrs") {
		// Of several hosts, connect to the one that accepts writes.
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	for _, settings := range []map[string]string{session, planning} {
		for name, value := range settings {
			if !parameters.Has(name) {
				config.ConnConfig.RuntimeParams[name] = value
			}
		}
	}
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         setUserTimeout,
	}
	config.ConnConfig.DialFunc = dialer.DialContext
	return config, nil
}

// OpenSQL opens an address for database/sql, with one connection without an idle timeout
// and with the server's own planner settings: for the audit, which reads everything.
func OpenSQL(address string) (*sql.DB, error) {
	config, err := readAddress(address)
	if err != nil {
		return nil, err
	}
	delete(config.ConnConfig.RuntimeParams, "idle_in_transaction_session_timeout")
	defaultPlanning(config.ConnConfig)
	pool := stdlib.OpenDB(*config.ConnConfig)
	pool.SetMaxOpenConns(1)
	return pool, nil
}

// defaultPlanning removes our planner settings, for statements that read whole tables.
func defaultPlanning(config *pgx.ConnConfig) {
	for name := range planning {
		delete(config.RuntimeParams, name)
	}
}

// checkDurability checks the server settings that durability depends on.
func (db *DB) checkDurability(ctx context.Context) error {
	var fsync, commits, pages string
	err := db.pool.QueryRow(ctx, `
		SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes')`).
		Scan(&fsync, &commits, &pages)
	if err != nil {
		return fmt.Errorf("read the settings of %s: %w", db.where, err)
	}
	if fsync != "on" || pages != "on" || commits != "on" && commits != "remote_apply" {
		return fmt.Errorf("the store at %s would not be durable: fsync=%s full_page_writes=%s synchronous_commit=%s; "+
			"on, on and on (or remote_apply) are needed: set them for the server, the database and the role", db.where, fsync, pages, commits)
	}
	return nil
}

// Ready reports whether the store can be read and written, within readyTimeout.
func (db *DB) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var standby bool
	var tolerances int
	err := db.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), (SELECT count(*) FROM schema_tolerance)`).Scan(&standby, &tolerances)
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	if standby {
		return errors.New("the store is a standby, and takes no writes")
	}
	return nil
}

// ServerTime returns the database's time.
func (db *DB) ServerTime(ctx context.Context) (time.Time, error) {
	var at time.Time
	if err := db.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
		return at, fmt.Errorf("read the server's time: %w", err)
	}
	return at, nil
}

// Broken is never closed: a lost primary may come back, or a standby be promoted.
func (db *DB) Broken() <-chan struct{} { return db.broken }

// Queued returns how many writes wait for a connection or for a batch.
func (db *DB) Queued() int {
	queued := int(db.waiting.Load())
	for _, batcher := range db.writes() {
		queued += batcher.queued()
	}
	return queued
}

// Close waits for accepted writes and closes the connections.
func (db *DB) Close() error {
	for _, batcher := range append(db.reads(), db.writes()...) {
		batcher.stop()
	}
	db.pool.Close()
	return nil
}

// anyBatcher is a batcher of any kind.
type anyBatcher interface {
	queued() int
	stop()
}

func (db *DB) reads() []anyBatcher {
	return []anyBatcher{db.snapshots, db.wallets, db.subscriptions, db.transactions}
}

func (db *DB) writes() []anyBatcher {
	return []anyBatcher{db.admissions, db.reservations, db.settlements}
}
