package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"github.com/coaxhq/coax/internal/audit"
	"github.com/coaxhq/coax/internal/backup"
	"github.com/coaxhq/coax/internal/failpoint"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/filesync"
	"github.com/coaxhq/coax/internal/replica"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/transfer"
	"github.com/coaxhq/coax/internal/subscription"
)

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	// Dir is the folder of a new installation; To is an empty database instead.
	Dir string
	To  StoreConfig
	// At is the moment to restore from a replica; zero for the newest.
	At time.Time
	// Identities open an encrypted backup.
	Identities []age.Identity
	// Logs are files to search for what was forgotten, besides the one that the backup names.
	Logs []string
	// WorkFolder is where the store is unpacked on its way to a database, or from a replica; ""
	// is the folder for temporary files.
	WorkFolder string
	// Environ may have the master key, for the audit.
	Environ  []string
	Progress func(what string, done, of int64)
}

// Restored is what Restore made.
type Restored struct {
	// Store is the address of the restored store, and Config the configuration that was
	// written; empty for a database.
	Store, Config string
	Manifest      backup.Manifest
	Audit         audit.Report
	Forgotten     Forgotten
	// Skipped are settings of the backup that this release does not take.
	Skipped []string
}

// restoreSource is what a store is restored from. One function makes each kind.
type restoreSource interface {
	// check reads and verifies everything. Nothing has been written by then.
	check(ctx context.Context) (backup.Manifest, error)
	// unpack writes the SQLite file of the store to a new file.
	unpack(ctx context.Context, path string) error
	// close removes what check and unpack have left for themselves.
	close() error
}

// openRestoreSource finds out what kind of source it is.
func openRestoreSource(source string, options RestoreOptions) (restoreSource, error) {
	if replica.IsAddress(source) {
		address, err := replica.ParseAddress(source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", replica.Redact(source), err)
		}
		return &replicaSource{address: address, options: options}, nil
	}
	if !options.At.IsZero() {
		return nil, errors.New("--at is for a replica: a backup has one moment")
	}
	if scheme, _, found := strings.Cut(source, "://"); found {
		return nil, fmt.Errorf("%s:// is nothing that this release can restore from: give the file of a backup", scheme)
	}
	file, err := os.Open(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no backup at %s", source)
	}
	if err != nil {
		return nil, fileowner.Explain(source, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file: name one backup", source)
	}
	start := make([]byte, len(sqliteMagic))
	if _, err := io.ReadFull(file, start); err == nil && string(start) == sqliteMagic {
		return storeFileSource{path: source, modified: info.ModTime()}, nil
	}
	return backupSourceFile{path: source, size: info.Size(), options: options}, nil
}

// backupSourceFile is a file that `coax backup` made.
type backupSourceFile struct {
	path    string
	size    int64
	options RestoreOptions
}

func (s backupSourceFile) check(ctx context.Context) (backup.Manifest, error) {
	return s.read(ctx, "checking the backup", io.Discard)
}

func (s backupSourceFile) unpack(ctx context.Context, path string) error {
	return writeStoreFile(path, func(to io.Writer) error {
		_, err := s.read(ctx, "unpacking", to)
		return err
	})
}

func (s backupSourceFile) close() error { return nil }

func (s backupSourceFile) read(ctx context.Context, what string, into io.Writer) (backup.Manifest, error) {
	file, err := os.Open(s.path)
	if err != nil {
		return backup.Manifest{}, fileowner.Explain(s.path, err)
	}
	defer file.Close()
	from := &progressReader{from: file, of: s.size, tell: func(done, of int64) { s.options.Progress(what, done, of) }}
	m, err := backup.Read(ctx, from, s.options.Identities, into)
	if err != nil {
		return m, fmt.Errorf("%s: %w", s.path, err)
	}
	return m, nil
}

type progressReader struct {
	from     io.Reader
	done, of int64
	tell     func(done, of int64)
}

func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.done += int64(n)
	r.tell(r.done, r.of)
	return n, err
}

const sqliteMagic = "SQLite format 3\x00"

// storeFileSource is a SQLite file that was copied by other means, such as SQLite's backup
// interface. It has no manifest and no checksum.
type storeFileSource struct {
	path     string
	modified time.Time
}

func (s storeFileSource) check(context.Context) (m backup.Manifest, err error) {
	for _, suffix := range []string{"-wal", ".lock"} {
		if _, err := os.Lstat(s.path + suffix); err == nil {
			return m, fmt.Errorf("%s is the store of an installation, or was copied without its log: %s is beside it. Make a backup of it with `coax backup`", s.path, s.path+suffix)
		}
	}
	snapshot, err := sqlite.OpenFileSnapshot(s.path)
	if err != nil {
		return m, err
	}
	defer snapshot.Close()
	facts, err := snapshot.Facts()
	if err != nil {
		return m, fmt.Errorf("%s: %w", s.path, err)
	}
	return backup.Manifest{
		Store: StoreID(facts), TakenAt: s.modified.UTC().Truncate(time.Millisecond), Kind: "sqlite", Bytes: snapshot.Bytes(),
		Migration: facts.Migration, Generation: facts.Generation, Actions: facts.Actions,
	}, nil
}

func (s storeFileSource) unpack(ctx context.Context, path string) error {
	snapshot, err := sqlite.OpenFileSnapshot(s.path)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	return writeStoreFile(path, func(to io.Writer) error { return snapshot.WriteTo(ctx, to, func(int64, int64) {}) })
}

func (s storeFileSource) close() error { return nil }

// replicaSource is a replica of a store on SQLite. Its check restores it into a temporary
// file, where it can be read.
type replicaSource struct {
	address replica.Address
	options RestoreOptions
	folder  string
	release func() error
}

func (s *replicaSource) check(ctx context.Context) (m backup.Manifest, err error) {
	if s.folder, s.release, err = workFolder(s.options); err != nil {
		return m, err
	}
	defer func() { err = explainFull(err, s.folder) }()
	restored, err := replica.Restore(ctx, s.address, os.Getenv, s.options.At, s.file(), func(done, of int64) {
		s.options.Progress("reading the replica", done, of)
	})
	if err != nil {
		return m, err
	}
	if restored.Incomplete != "" {
		return m, fmt.Errorf("%s is damaged: %s; name an earlier moment with --at, up to %s", s.address, restored.Incomplete, restored.At.Format(time.RFC3339))
	}
	of, err := storeFileSource{path: s.file(), modified: restored.At}.check(ctx)
	if err != nil || restored.Installation == nil {
		return of, err
	}
	// The store is worth more than what is said of its installation.
	if json.Unmarshal(restored.Installation, &m) == nil {
		of.Release, of.SecurityFile, of.ClockOffset, of.Settings = m.Release, m.SecurityFile, m.ClockOffset, m.Settings
		of.TakenAt = of.TakenAt.Add(m.ClockOffset) // uploads have the machine's time
	}
	return of, nil
}

func (s *replicaSource) file() string { return filepath.Join(s.folder, "coax.db") }

// unpack makes room at once: what follows may need it.
func (s *replicaSource) unpack(ctx context.Context, path string) error {
	return errors.Join(storeFileSource{path: s.file()}.unpack(ctx, path), s.close())
}

func (s *replicaSource) close() error {
	if s.release == nil {
		return nil
	}
	release := s.release
	s.release = nil
	return errors.Join(os.RemoveAll(s.folder), release())
}

// workFolder makes a folder where a store is unpacked, and holds it until release is called. What
// restores left that were killed is removed before.
func workFolder(options RestoreOptions) (folder string, release func() error, err error) {
	in := options.WorkFolder
	if in == "" {
		in = os.TempDir()
	}
	if err := removeStaleDrafts(in); err != nil {
		return "", nil, err
	}
	return draftFolder(in)
}

// writeStoreFile writes a new file, flushed.
func writeStoreFile(path string, content func(io.Writer) error) error {
	file, err := fileowner.OpenFile(path, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	return errors.Join(content(buffered), buffered.Flush(), file.Sync(), file.Close())
}

// Restore makes a store from a backup, in an empty folder or an empty database. The store is
// verified and audited, is marked as restored, and is in maintenance. If it fails, the folder
// is as it was; a database that is half filled stays in maintenance.
func Restore(ctx context.Context, source string, options RestoreOptions) (restored Restored, err error) {
	from, err := openRestoreSource(source, options)
	if err != nil {
		return restored, err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	m, err := from.check(ctx)
	if err == nil {
		err = checkRelease(m)
	}
	if err != nil {
		return restored, err
	}
	restored.Manifest = m
	if options.Dir == "" {
		err = restoreDatabase(ctx, from, options, &restored)
	} else {
		err = restoreFolder(ctx, from, options, &restored)
	}
	if err != nil {
		return restored, err
	}
	restored.Forgotten = FindForgotten(m, options.Logs)
	return restored, nil
}

// checkRelease refuses a backup whose schema this release does not know.
func checkRelease(m backup.Manifest) error {
	newest, err := sqlite.NewestMigration()
	if err != nil {
		return err
	}
	if m.Migration > newest || m.Generation > sqlite.Generation() {
		return fmt.Errorf("%w (release %s with migration %d; this one has %d)", backup.ErrNewer, m.Release, m.Migration, newest)
	}
	return nil
}

// restoringName is the folder, within the new one, in which a store is prepared. As long as it
// is there and the store is not, the restore was interrupted and may be repeated.
const restoringName = ".restoring"

// restoreFolder makes a new installation in a folder. Moving the prepared store into place is
// the last step that matters.
func restoreFolder(ctx context.Context, from restoreSource, options RestoreOptions, restored *Restored) (err error) {
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return err
	}
	undo, err := claimEmptyFolder(dir)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(explainFull(err, dir), undo(err != nil))
	}()
	work := filepath.Join(dir, restoringName)
	draft := filepath.Join(work, "coax.db")
	if err := prepareStore(ctx, from, draft, restored.Manifest, options.Progress); err != nil {
		return err
	}
	side, done, err := openSide(ctx, StoreConfig{Kind: "sqlite", Path: draft}, unusedSource)
	if err != nil {
		return err
	}
	err = markRestored(ctx, side, restored.Manifest)
	if err := errors.Join(err, done()); err != nil {
		return err
	}
	masterKey := filepath.Join(dir, "master.key")
	if restored.Audit, err = auditRestored(ctx, "sqlite:"+draft, masterKey, restored.Manifest, options); err != nil {
		return err
	}
	settings, skipped := takenOver(restored.Manifest.Settings)
	restored.Skipped = skipped
	restored.Config = filepath.Join(dir, "coax.toml")
	data := filepath.Join(dir, "data")
	restored.Store = filepath.Join(data, "coax.db")
	if err := fileowner.MkdirAll(data, 0o700); err != nil {
		return err
	}
	// Drafts stay in the folder that a repeated restore removes.
	configDraft := filepath.Join(work, "coax.toml")
	if err := WriteNew(configDraft, 0o600, RenderConfig(restoredHead, settings)); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := moveNew(configDraft, restored.Config); err != nil {
		return err
	}
	if err := moveNew(draft, restored.Store); err != nil {
		return err
	}
	return errors.Join(filesync.Folder(data), filesync.Folder(dir))
}

const restoredHead = `Coax's configuration, written by ` + "`coax restore`" + `. Settings that are commented out have their
default value; the others are those of the installation that was backed up, but for its
addresses, files and secrets. Paths are relative to this file. The environment
(COAX_SERVER_ADDR for server.addr) wins over it, and the command line over both.`

// claimEmptyFolder makes a folder and the one in it where the store is prepared. undo removes
// that, and with all, everything that was made.
func claimEmptyFolder(dir string) (undo func(all bool) error, err error) {
	_, err = os.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if err := fileowner.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	work := filepath.Join(dir, restoringName)
	if err := clearInterrupted(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fileowner.Explain(dir, err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty, %s is in it, and a restore overwrites nothing: name a folder that is empty or not there", dir, entries[0].Name())
	}
	if err := fileowner.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	held, err := lockFolder(work)
	if err != nil {
		return nil, err
	}
	return func(all bool) error {
		err := errors.Join(os.RemoveAll(work), held.Close())
		if all {
			err = errors.Join(err, removeUnfinished(dir))
		}
		if all && made {
			err = errors.Join(err, os.Remove(dir))
		}
		return err
	}, nil
}

func lockFolder(path string) (*os.File, error) {
	folder, err := os.Open(path)
	if err != nil {
		return nil, fileowner.Explain(path, err)
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = folder.Close()
		return nil, fmt.Errorf("another restore works in %s: wait for it, or end it: %w", filepath.Dir(path), err)
	}
	return folder, nil
}

// clearInterrupted removes what a restore left that was killed before its store was in place.
func clearInterrupted(dir string) error {
	work := filepath.Join(dir, restoringName)
	if _, err := os.Lstat(work); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	held, err := lockFolder(work)
	if err != nil {
		return err
	}
	defer held.Close()
	if _, err := os.Lstat(filepath.Join(dir, "data", "coax.db")); err == nil {
		return nil // it is complete; the folder is not empty
	}
	return errors.Join(removeUnfinished(dir), os.RemoveAll(work))
}

// removeUnfinished removes the configuration and the empty data folder of a restore that did
// not get as far as its store.
func removeUnfinished(dir string) error {
	for _, name := range []string{"data", "coax.toml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// prepareStore unpacks a store, checks the file, and brings its schema up to date.
func prepareStore(ctx context.Context, from restoreSource, path string, m backup.Manifest, progress func(string, int64, int64)) error {
	if err := from.unpack(ctx, path); err != nil {
		return err
	}
	progress("checking the store's file", 0, 0)
	if err := checkIntegrity(ctx, path); err != nil {
		return err
	}
	progress("bringing the schema up to date", 0, 0)
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	return store.Close()
}

// checkIntegrity reads every page and index of a file.
func checkIntegrity(ctx context.Context, path string) error {
	pool, err := sqlite.OpenSQL(path)
	if err != nil {
		return err
	}
	defer pool.Close()
	rows, err := pool.QueryContext(ctx, `PRAGMA integrity_check(5)`)
	if err != nil {
		return fmt.Errorf("the store in the backup is damaged: %w", err)
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		found = append(found, strings.Join(strings.Fields(line), " "))
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("the store in the backup is damaged: %w", err)
	}
	if !slices.Equal(found, []string{"ok"}) {
		return fmt.Errorf("the store in the backup is damaged: %s", strings.Join(found, "; "))
	}
	return nil
}

// markRestored marks a store that nobody uses as restored. With that it is in maintenance, and
// all sessions have ended.
func markRestored(ctx context.Context, side transfer.Store, m backup.Manifest) error {
	if _, err := side.DB.ExecContext(ctx, `DELETE FROM login_challenges`); err != nil {
		return fmt.Errorf("end the sign-ins under way: %w", err)
	}
	at := Clock(m.ClockOffset)()
	how := fmt.Sprintf("`coax restore` made it from a backup of %s", m.TakenAt.In(subscription.IST).Format("2006-01-02 15:04:05 -07:00"))
	return transfer.MarkRestored(ctx, side, how, m.TakenAt, at)
}

// auditRestored audits a store as of the backup's moment: what was under way then is not stuck.
func auditRestored(ctx context.Context, url, masterKey string, m backup.Manifest, options RestoreOptions) (audit.Report, error) {
	config, err := LoadConfig(Sources{Sets: []string{"store.url=" + url, "secrets.master_key_file=" + masterKey}})
	if err != nil {
		return audit.Report{}, err
	}
	return RunAudit(ctx, config, options.Environ, m.TakenAt, nil, func(what string, rows int64) { options.Progress("auditing "+what, rows, 0) })
}

// takenOver returns the recorded settings that this release takes; the others by their keys.
func takenOver(recorded map[string]string) (settings map[string]string, skipped []string) {
	settings = map[string]string{}
	for key, value := range recorded {
		var trial Config
		if s := FindSetting(key); s == nil || s.path || s.Read(&trial, value) != nil {
			skipped = append(skipped, key)
			continue
		}
		settings[key] = value
	}
	slices.Sort(skipped)
	return settings, skipped
}

// restoreDatabase fills an empty database. Until that is done the database is in maintenance;
// an interrupted restore of the same backup goes on.
func restoreDatabase(ctx context.Context, from restoreSource, options RestoreOptions, restored *Restored) (err error) {
	work, release, err := workFolder(options)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(explainFull(err, work), os.RemoveAll(work), release())
	}()
	path := filepath.Join(work, "coax.db")
	// First the target, because unpacking takes long.
	target, closeTarget, err := openSide(ctx, options.To, copyTarget)
	if err != nil {
		return fmt.Errorf("open the target, %s: %w", options.To.Place(), err)
	}
	defer func() { err = errors.Join(err, closeTarget()) }()
	if err := transfer.CheckTarget(ctx, target); err != nil {
		return err
	}
	if err := prepareStore(ctx, from, path, restored.Manifest, options.Progress); err != nil {
		return err
	}
	source, closeSource, err := openSide(ctx, StoreConfig{Kind: "sqlite", Path: path}, unusedSource)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSource()) }()
	_, err = transfer.Copy(ctx, source, target, time.Now(), func(p transfer.Progress) { options.Progress(p.Table, p.Rows, p.Of) })
	if err == nil {
		restored.Audit, err = auditRestored(ctx, options.To.URL, filepath.Join(work, "none"), restored.Manifest, options)
	}
	if err == nil {
		err = failpoint.Hit("C.audited")
	}
	// The copy's maintenance becomes that of the restore in one commit.
	if err == nil {
		err = markRestored(ctx, target, restored.Manifest)
	}
	if err == nil {
		err = failpoint.Hit("C.marked")
	}
	if err != nil {
		return fmt.Errorf("fill %s: %w. It stays in maintenance; restore the same backup again to go on, or begin with an empty database", options.To.Place(), err)
	}
	restored.Store = options.To.Place()
	return nil
}
