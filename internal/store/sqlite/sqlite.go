// Package sqlite is the store of a single node, in one SQLite file. It decides no
// business rule: each method is one atomic write or read, and writes of many callers
// share a commit.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	engine "zombiezen.com/go/sqlite"

	"github.com/coaxhq/coax/internal/admin"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/store/sqlstore"
	"github.com/coaxhq/coax/internal/subscription"
)

// Role is how a process uses the file.
type Role int

const (
	// Node serves requests. There is one for a folder.
	Node Role = iota
	// Tool is a command that runs beside a node.
	Tool
)

// Options configure a store; the zero value is a node's store that reports nothing.
type Options struct {
	Role Role
	// Replication is set if the store has a replica. A tool only leaves the log alone: the
	// node, or the next one that starts, uploads what it writes.
	Replication *Replication
	// Observe is called for every batch.
	Observe Observer
	// OnAuditEntry is called with every committed staff action or change of an own
	// login, and the caller's context. It may be nil.
	OnAuditEntry func(context.Context, admin.AuditEntry)
	// Progress is told what a node does that takes long in a large store before it opens. It may
	// be nil.
	Progress func(text string)
	// Before is called before every batch and can run pragmas on the writer's connection,
	// for tests of a full disk. It may be nil.
	Before func(pragma func(text string) (int64, error))
	// Commit wraps every COMMIT, for tests of a failing disk: it may run the commit or
	// not, and the writer uses the error that it returns. It may be nil.
	Commit func(commit func() error) error
	// NonceBuffer is how many used nonces are kept in memory before they are moved to
	// the index, for tests; 0 is the default.
	NonceBuffer int
}

// Observer observes the writer. It brings its own clock.
type Observer interface {
	// Batch is called before writes share a commit. The writer calls done when their
	// callers have their results and it is ready for the next batch.
	Batch(writes int) (done func())
}

// DB is an open store.
type DB struct {
	*sqlstore.Store
	path    string
	role    Role
	writer  *writer
	readers *readers
	lookups *batcher
	// replication is nil without a replica.
	replication *replication
	locks       []io.Closer           // files and locks, closed after the connections and in reverse order
	free        func() (int64, error) // free bytes on the disk
	ids         *subscription.IDs
	closing     sync.Once
}

// Open opens the store in the file at path, which a node creates if it is missing. A
// node migrates the schema; a tool requires the current one.
func Open(ctx context.Context, path string, options Options) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the store's file: %w", err)
	}
	db := &DB{path: path, role: options.Role, free: freeSpace(path), ids: subscription.NewIDs(subscription.IDDigits)}
	own := *dialect
	own.LiveNodes = db.liveNodes
	db.Store = sqlstore.New(sqlEngine{db}, &own, options.Role == Tool)
	if err := db.open(ctx, options); err != nil {
		db.release()
		return nil, err
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, options Options) error {
	lock, err := db.claimFolder(options.Role)
	if err != nil {
		return err
	}
	pragmas := []string{
		fmt.Sprintf("page_size = %d", PageSize), "journal_mode = WAL", "synchronous = FULL", "foreign_keys = 1",
		fmt.Sprintf("cache_size = -%d", writerCache(fileSize(db.path))>>10),
	}
	if options.Role == Node || options.Replication != nil {
		pragmas = append(pragmas, noCheckpoint)
	}
	conn, err := connect(db.path, pragmas...)
	if err != nil {
		return openError(db.path, err)
	}
	if err := db.setUp(ctx, conn, options); err != nil {
		_ = conn.close()
		return err
	}
	db.readers, db.lookups = newReaders(db.path), newBatcher(db.path)
	db.writer = newWriter(conn, lock, options, db.recordDiskFailure)
	if options.Role == Node {
		if err := db.prepareNode(ctx, options.Replication); err != nil {
			_ = conn.close()
			db.writer = nil
			return err
		}
	} else if options.Replication != nil {
		if err := db.keepLog(); err != nil {
			_ = conn.close()
			db.writer = nil
			return err
		}
	}
	go db.writer.loop()
	if db.replication == nil {
		return nil
	}
	return db.replication.run(ctx)
}

// keepLog opens a connection that stays open until the process ends. When the last
// connection is closed SQLite copies and removes the log, which the replica needs.
func (db *DB) keepLog() error {
	conn, err := connect(db.path, noCheckpoint)
	if err != nil {
		return err
	}
	var one int
	return conn.QueryRow(`SELECT count(*) FROM schema_tolerance`).Scan(&one)
}

// prepareNode sets up what only a node's writer has: the nonces and checkpoints.
func (db *DB) prepareNode(ctx context.Context, replicate *Replication) (err error) {
	// Before the first request, which would have to wait for it.
	if err := db.writer.indexBacklog(); err != nil {
		return err
	}
	if err := db.writer.tx.nonces.load(db.writer.tx); err != nil {
		return err
	}
	file, err := os.OpenFile(db.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the store's file for checkpoints: %w", err)
	}
	db.locks = append(db.locks, file)
	if replicate != nil {
		if db.replication, err = startReplication(ctx, db, file, *replicate); err != nil {
			return fmt.Errorf("store.replica: %w", err)
		}
		db.writer.replication = db.replication
	}
	if db.writer.log, err = startCheckpoints(db.path, file); err == nil {
		db.writer.log.replication = db.replication
	}
	return err
}

// setUp checks that the writer's connection is durable and the schema current.
func (db *DB) setUp(ctx context.Context, conn *connection, options Options) error {
	if err := checkDurability(conn); err != nil {
		return err
	}
	return db.checkSchema(ctx, options)
}

// openError explains why a file could not be opened: it is no SQLite file, or access was
// denied.
func openError(path string, err error) error {
	if primaryCode(err) == engine.ResultNotADB {
		return fmt.Errorf("another program's file is there: name another one, or move it away: %w", engine.ResultNotADB.ToError())
	}
	// SQLite reports neither which file it cannot open nor why.
	for _, suffix := range []string{"", "-wal", "-shm"} {
		file, denied := os.OpenFile(path+suffix, os.O_RDWR, 0)
		if errors.Is(denied, fs.ErrPermission) {
			return fmt.Errorf("%w: %w", err, fileowner.Explain(path+suffix, denied))
		}
		if denied == nil {
			_ = file.Close()
		}
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// claimFolder takes the locks of a role and returns the write lock.
func (db *DB) claimFolder(role Role) (writeLock, error) {
	if role == Tool {
		if _, err := os.Stat(db.path); errors.Is(err, fs.ErrPermission) {
			return writeLock{}, fmt.Errorf("find the store's file: %w", fileowner.Explain(db.path, err))
		} else if err != nil {
			return writeLock{}, fmt.Errorf("there is no store at %s: start a node or run `coax migrate` first: %w", db.path, err)
		}
	} else {
		if err := fileowner.MkdirAll(filepath.Dir(db.path), 0o700); err != nil {
			return writeLock{}, fmt.Errorf("make the data folder: %w", err)
		}
		lock, err := LockFolder(db.path + ".lock")
		if err != nil {
			return writeLock{}, err
		}
		db.locks = append(db.locks, lock)
		if err := createPrivately(db.path); err != nil {
			return writeLock{}, err
		}
	}
	file, err := fileowner.OpenFile(db.path+".turnstile", 0o600)
	if err != nil {
		return writeLock{}, fmt.Errorf("open the write lock: %w", err)
	}
	db.locks = append(db.locks, file)
	return writeLock{file: file, exclusive: role == Tool}, nil
}

// createPrivately creates the file readable by its owner only; SQLite would create it
// readable by all. SQLite gives its side files the same mode, and as root the same owner.
func createPrivately(path string) error {
	file, err := fileowner.OpenFile(path, 0o600)
	if err != nil {
		return fmt.Errorf("make the store's file: %w", err)
	}
	return file.Close()
}

// address names the file as a connection wants it.
func address(path string) string {
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) + "?mode=rw"
}

// checkDurability reads back what the promises rest on. A driver that was built
// with another default, or a file system that cannot do WAL, must not pass.
func checkDurability(conn *connection) error {
	var journal string
	var synchronous, foreignKeys int
	for name, target := range map[string]any{"journal_mode": &journal, "synchronous": &synchronous, "foreign_keys": &foreignKeys} {
		if err := conn.QueryRow("PRAGMA " + name).Scan(target); err != nil {
			return fmt.Errorf("open the store: read back %s: %w", name, err)
		}
	}
	const full = 2
	if journal != "wal" || synchronous != full || foreignKeys != 1 {
		return fmt.Errorf("the store would not be durable here: journal_mode=%s synchronous=%d foreign_keys=%d; "+
			"WAL, 2 and 1 are needed (is the data folder on a network file system?)", journal, synchronous, foreignKeys)
	}
	return nil
}

// Ready reports whether the store can be read and written.
func (db *DB) Ready(ctx context.Context) error {
	if err := db.writer.broken(); err != nil {
		return err
	}
	if db.replication != nil {
		if err := db.replication.available(); err != nil {
			return err
		}
	}
	// Reading the schema finds a file that was replaced or truncated.
	var one int
	if err := db.read(ctx).QueryRow(`SELECT count(*) FROM schema_tolerance`).Scan(&one); err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	if _, err := os.Stat(db.path); err != nil {
		return fmt.Errorf("the store's file is gone: %w", err)
	}
	return db.checkSpace()
}

// Broken is closed when the disk has failed in a way that no retry can mend. The process
// should end: acknowledged writes are safe, and a restart recovers.
func (db *DB) Broken() <-chan struct{} { return db.writer.dead }

// Queued is how many writes wait for the next batch.
func (db *DB) Queued() int { return len(db.writer.queue) }

// Written returns a number that grows with every write of this process that was committed, or
// may have been.
func (db *DB) Written() uint64 { return db.writer.written.Load() }

// ExpectMark does nothing: while a node runs, its file cannot be replaced by another.
func (db *DB) ExpectMark(string, int64, func()) {}

// Close waits for accepted writes and releases the folder.
func (db *DB) Close() error {
	var err error
	db.closing.Do(func() { err = db.release() })
	return err
}

func (db *DB) release() error {
	var errs []error
	if db.writer != nil {
		db.writer.stop()
		if db.writer.broken() != nil {
			// Closing the last connection would run a checkpoint and remove the log, which
			// is not safe on a failed disk. So everything stays open until the process
			// ends, and the next process finds the log.
			return nil
		}
		if db.replication != nil {
			errs = append(errs, db.replication.stop())
		}
		errs = append(errs, db.writer.close())
	}
	if db.readers != nil {
		errs = append(errs, db.lookups.close(), db.readers.close())
	}
	for _, lock := range slices.Backward(db.locks) {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}
