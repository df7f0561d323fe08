// Package sqlite remembers everything in one file, for an installation of one
// node. It decides no business rule: each method makes one fact true, whole or
// not at all, and many callers' facts share a commit.
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

// Role is what a process does with the file.
type Role int

const (
	// Node serves: it owns the folder, and there is one of it.
	Node Role = iota
	// Tool works beside a node for the length of a command.
	Tool
)

// Options are what a store can be told; the zero value is a node's store that
// reports nothing.
type Options struct {
	Role Role
	// Observe is told of every batch.
	Observe Observer
	// Acted is told of every staff action, and of what people did to their own logins,
	// once it is committed, with the context of whoever did it. Nil tells nobody.
	Acted func(context.Context, admin.AuditEntry)
	// Before is called before every batch with the writer's pragmas, for tests of
	// a disk that fills up. Nil does nothing.
	Before func(pragma func(text string) (int64, error))
	// Commit stands around every COMMIT, for tests of a disk that fails: it
	// runs the commit or does not, and what it returns is what the writer
	// believes. Nil commits.
	Commit func(commit func() error) error
	// NonceBuffer is how many used nonces are kept in memory before they are moved to
	// the index, for tests with few of them; the store's own number if zero.
	NonceBuffer int
}

// Observer is told what the writer does. It brings its own clock.
type Observer interface {
	// Batch is called when so many facts are about to share one commit, and
	// what it returns when they are answered and the writer is free again.
	Batch(facts int) (done func())
}

// DB is an open store.
type DB struct {
	*sqlstore.Store
	path    string
	role    Role
	writer  *writer
	readers *readers
	lane    *lane
	locks   []io.Closer           // what is held besides connections, let go of after them and in the opposite order
	free    func() (int64, error) // bytes that the disk has left
	ids     *subscription.IDs
	closing sync.Once
}

// Open opens the store in the file at path, which a node makes if it is not
// there. A node brings the schema up to date; a tool demands that it is.
func Open(ctx context.Context, path string, options Options) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the store's file: %w", err)
	}
	db := &DB{path: path, role: options.Role, free: freeSpace(path), ids: subscription.NewIDs(subscription.IDDigits)}
	db.Store = sqlstore.New(sqlEngine{db}, dialect, options.Role == Tool)
	if err := db.open(ctx, options); err != nil {
		db.release()
		return nil, err
	}
	return db, nil
}

func (db *DB) open(ctx context.Context, options Options) error {
	turn, err := db.claimFolder(options.Role)
	if err != nil {
		return err
	}
	pragmas := []string{
		fmt.Sprintf("page_size = %d", PageSize), "journal_mode = WAL", "synchronous = FULL", "foreign_keys = 1",
		fmt.Sprintf("cache_size = -%d", writerCache(fileSize(db.path))>>10),
	}
	if options.Role == Node {
		pragmas = append(pragmas, noCheckpoint)
	}
	conn, err := connect(db.path, pragmas...)
	if err != nil {
		return unopened(db.path, err)
	}
	if err := db.setUp(ctx, conn, options.Role); err != nil {
		_ = conn.close()
		return err
	}
	db.readers, db.lane = newReaders(db.path), newLane(db.path)
	db.writer = newWriter(conn, turn, options, db.leaveDoubt)
	if options.Role == Node {
		if err := db.prepareToServe(); err != nil {
			_ = conn.close()
			db.writer = nil
			return err
		}
	}
	go db.writer.loop()
	return nil
}

// prepareToServe is what a node's writer has besides a tool's.
func (db *DB) prepareToServe() (err error) {
	// Now, so that no request has to wait for it.
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
	db.writer.log, err = startCheckpoints(db.path, file)
	return err
}

// setUp makes sure that the writer's connection is durable and the schema its own.
func (db *DB) setUp(ctx context.Context, conn *connection, role Role) error {
	if err := checkDurability(conn); err != nil {
		return err
	}
	return db.checkSchema(ctx, role)
}

// unopened tells a file that is none of ours from one that cannot be read.
func unopened(path string, err error) error {
	if primaryCode(err) == engine.ResultNotADB {
		return fmt.Errorf("another program's file is there: name another one, or move it away: %w", engine.ResultNotADB.ToError())
	}
	// SQLite says of a file that it cannot open neither which one nor why.
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

// claimFolder takes the locks that go with a role and returns how this process
// takes its turn at writing.
func (db *DB) claimFolder(role Role) (turnstile, error) {
	if role == Tool {
		if _, err := os.Stat(db.path); errors.Is(err, fs.ErrPermission) {
			return turnstile{}, fmt.Errorf("find the store's file: %w", fileowner.Explain(db.path, err))
		} else if err != nil {
			return turnstile{}, fmt.Errorf("there is no store at %s: start a node or run `coax migrate` first: %w", db.path, err)
		}
	} else {
		if err := fileowner.MkdirAll(filepath.Dir(db.path), 0o700); err != nil {
			return turnstile{}, fmt.Errorf("make the data folder: %w", err)
		}
		lock, err := LockFolder(db.path + ".lock")
		if err != nil {
			return turnstile{}, err
		}
		db.locks = append(db.locks, lock)
		if err := createPrivately(db.path); err != nil {
			return turnstile{}, err
		}
	}
	gate, err := fileowner.OpenFile(db.path+".turnstile", 0o600)
	if err != nil {
		return turnstile{}, fmt.Errorf("open the turnstile: %w", err)
	}
	db.locks = append(db.locks, gate)
	return turnstile{file: gate, holds: role == Tool}, nil
}

// createPrivately makes the file readable by its owner only, before SQLite
// makes it readable by everybody. SQLite gives its side files the same mode, and as
// root the same owner.
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
	// The schema is read afresh, so that a file that was replaced or cut off
	// under us does not pass for a healthy one.
	var one int
	if err := db.read(ctx).QueryRow(`SELECT count(*) FROM schema_tolerance`).Scan(&one); err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	if _, err := os.Stat(db.path); err != nil {
		return fmt.Errorf("the store's file is gone: %w", err)
	}
	return db.checkRoom()
}

// Broken is closed when the disk has failed in a way that no retry can mend.
// The process should end; what was answered is safe, and a restart recovers.
func (db *DB) Broken() <-chan struct{} { return db.writer.dead }

// Queued is how many facts wait for the next batch.
func (db *DB) Queued() int { return len(db.writer.queue) }

// Close waits for the facts that were accepted and lets go of the folder.
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
			// The last connection to be closed writes the log back and removes it, which
			// a disk that has failed must not be trusted with. So everything stays as it
			// is until the process has ended; whoever comes next finds the log.
			return nil
		}
		errs = append(errs, db.writer.close())
	}
	if db.readers != nil {
		errs = append(errs, db.lane.close(), db.readers.close())
	}
	for _, lock := range slices.Backward(db.locks) {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}
