package server

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"

	"github.com/coaxhq/coax/internal/backup"
	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/filesync"
	"github.com/coaxhq/coax/internal/store/sqlite"
	"github.com/coaxhq/coax/internal/store/transfer"
)

// BackupOptions are the options of BackUp.
type BackupOptions struct {
	// Recipients are whom it is encrypted for; none means that it is not.
	Recipients []age.Recipient
	// Keep deletes older backups of the folder; the zero value keeps all.
	Keep backup.Keep
	// WorkFolder is where the rows of PostgreSQL are gathered; "" is beside the backup.
	WorkFolder string
	Progress   func(what string, done, of int64)
}

// BackupResult is what BackUp made.
type BackupResult struct {
	Path string `json:"path"`
	// Bytes and SHA256 are the file's.
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`
	TakenAt time.Time `json:"taken_at"`
	// StoreBytes is the size of the store in it.
	StoreBytes int64 `json:"store_bytes"`
	Encrypted  bool  `json:"encrypted"`
	// Deleted are older backups.
	Deleted []string `json:"deleted,omitempty"`
}

// draftPattern names files and folders of a backup under way. They do not look like a backup,
// and the next backup removes those that nobody holds any more.
const draftPattern = ".coaxbackup-*.part"

// BackUp writes a backup of one moment of the store to a new file: at dest, or, if that is a
// folder, under a name of its own in there. Nodes may be working on the store.
func BackUp(ctx context.Context, config Config, dest string, options BackupOptions) (result BackupResult, err error) {
	folder, path, err := backupPlace(dest)
	if err != nil {
		return result, err
	}
	if path != "" && options.Keep != (backup.Keep{}) {
		return result, fmt.Errorf("--keep needs a folder, in which it may delete older backups; %s is a file", dest)
	}
	if options.WorkFolder == "" {
		options.WorkFolder = folder
	}
	for _, each := range []string{folder, options.WorkFolder} {
		if err := removeStaleDrafts(each); err != nil {
			return result, err
		}
	}
	defer func() { err = explainFull(err, folder, options.WorkFolder) }()
	m, source, err := openBackupSource(ctx, config, options)
	if err != nil {
		return result, fmt.Errorf("back up the store at %s: %w", config.Store.Place(), err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if path == "" {
		path = freeName(folder, storeName(config.Store), m.TakenAt)
	}
	result = BackupResult{Path: path, TakenAt: m.TakenAt, StoreBytes: m.Bytes, Encrypted: len(options.Recipients) > 0}
	if err := refuseExisting(path); err != nil {
		return result, err
	}
	result.Bytes, result.SHA256, err = writeBackup(ctx, path, m, source, options)
	if err != nil {
		return result, fmt.Errorf("write the backup %s: %w", path, err)
	}
	if options.Keep != (backup.Keep{}) {
		if result.Deleted, err = deleteExpired(path, storeName(config.Store), m.Store, options.Keep); err != nil {
			return result, fmt.Errorf("%s is written and checked, but older backups could not be deleted: %w", path, err)
		}
	}
	return result, nil
}

// backupPlace returns the folder of a destination, and the file's path unless its name is
// ours to choose.
func backupPlace(dest string) (folder, path string, err error) {
	if dest == "" {
		return "", "", errors.New("the destination is empty: name a folder or a new file")
	}
	info, err := os.Stat(dest)
	switch {
	case err == nil && info.IsDir():
		return filepath.Clean(dest), "", nil
	case err == nil:
		return "", "", refuseExisting(dest)
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("the destination: %w", fileowner.Explain(dest, err))
	case strings.HasSuffix(dest, "/"):
		return "", "", fmt.Errorf("there is no folder %s: make it first", dest)
	}
	folder = filepath.Dir(dest)
	if info, err := os.Stat(folder); err != nil {
		return "", "", fmt.Errorf("the destination's folder: %w", fileowner.Explain(folder, err))
	} else if !info.IsDir() {
		return "", "", fmt.Errorf("%s is not a folder", folder)
	}
	return folder, dest, refuseExisting(dest) // a link that leads nowhere
}

// freeName returns a path of the folder that is not taken.
func freeName(folder, store string, takenAt time.Time) string {
	for n := 1; ; n++ {
		path := filepath.Join(folder, backup.Name(store, takenAt, n))
		if _, err := os.Lstat(path); err != nil {
			return path
		}
	}
}

func refuseExisting(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already, and a backup replaces nothing: choose another name, or name a folder", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the destination: %w", fileowner.Explain(path, err))
	}
	return nil
}

// storeName is what the names of a store's backups begin with.
func storeName(store StoreConfig) string {
	if store.Kind == "postgres" {
		if at, err := url.Parse(store.URL); err == nil {
			return strings.Trim(at.Path, "/")
		}
		return ""
	}
	base := filepath.Base(store.Path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// backupSource is the SQLite file that a backup has.
type backupSource struct {
	*sqlite.FileSnapshot
	// remove removes what was made for the backup.
	remove func() error
}

func (s backupSource) Close() error { return errors.Join(s.FileSnapshot.Close(), s.remove()) }

// openBackupSource fixes the moment of the backup: of a SQLite store by a snapshot of its
// file, of PostgreSQL by a copy of all rows into a SQLite file.
func openBackupSource(ctx context.Context, config Config, options BackupOptions) (m backup.Manifest, source backupSource, err error) {
	m = describe(config)
	// The time is read right before the snapshot: what happens in between is in the backup, and
	// may be listed by a restore as missing. The other way round it would be missing in both.
	begin := func() { m.TakenAt = Clock(config.Clock.Offset)() }
	path, remove := config.Store.Path, func() error { return nil }
	if config.Store.Kind == "postgres" {
		var copied transfer.Result
		if path, copied, remove, err = gatherPostgres(ctx, config.Store, options, begin); err != nil {
			return m, source, err
		}
		m.Rows, m.Digest = copied.Rows, copied.Digest
	} else {
		begin()
	}
	snapshot, err := sqlite.OpenFileSnapshot(path)
	if err != nil {
		return m, source, errors.Join(err, remove())
	}
	source = backupSource{snapshot, remove}
	facts, err := snapshot.Facts()
	if err == nil && facts.Generation > sqlite.Generation() {
		err = errors.New("it was migrated by a newer release: back it up with that one")
	}
	if err != nil {
		return m, source, errors.Join(err, source.Close())
	}
	m.Store, m.Bytes, m.Migration, m.Generation = StoreID(facts), snapshot.Bytes(), facts.Migration, facts.Generation
	m.MarkID, m.Mark = facts.MarkID, facts.Mark
	m.Actions, m.ActionHash = facts.Actions, hex.EncodeToString(facts.ActionHash)
	return m, source, nil
}

// StoreID identifies a store, and copies of it, by its first staff action. A store without one
// is not told from others.
func StoreID(facts sqlite.Facts) string {
	if len(facts.FirstHash) < 16 {
		return "empty"
	}
	return hex.EncodeToString(facts.FirstHash[:16])
}

// gatherPostgres copies one moment of a database into a new SQLite file, and compares both.
func gatherPostgres(ctx context.Context, store StoreConfig, options BackupOptions, begin func()) (path string, copied transfer.Result, remove func() error, err error) {
	folder, release, err := draftFolder(options.WorkFolder)
	if err != nil {
		return "", copied, nil, err
	}
	discard := func() error { return errors.Join(os.RemoveAll(folder), release()) }
	defer func() {
		if err != nil {
			err = errors.Join(err, discard())
		}
	}()
	from, closeFrom, err := openSide(ctx, store, sourceInUse)
	if err != nil {
		return "", copied, nil, err
	}
	defer func() { err = errors.Join(err, closeFrom()) }()
	path = filepath.Join(folder, "store.db")
	to, closeTo, err := openSide(ctx, StoreConfig{Kind: "sqlite", Path: path}, copyTarget)
	if err != nil {
		return "", copied, nil, err
	}
	defer func() { err = errors.Join(err, closeTo()) }()
	// A file that does not outlive this process needs no flushing.
	if _, err := to.DB.ExecContext(ctx, `PRAGMA synchronous = OFF`); err != nil {
		return "", copied, nil, err
	}
	begin()
	made, err := transfer.Copy(ctx, from, to, time.Now(), func(p transfer.Progress) { options.Progress(p.Table, p.Rows, p.Of) })
	if err == nil {
		err = made.Finish(ctx)
	}
	return path, made.Result, discard, err
}

// draftFolder makes a folder for a backup under way, and holds it until release is called.
func draftFolder(in string) (folder string, release func() error, err error) {
	if folder, err = os.MkdirTemp(in, draftPattern); err != nil {
		return "", nil, fmt.Errorf("make a folder for the rows: %w", fileowner.Explain(in, err))
	}
	held, err := os.Open(folder)
	if err == nil {
		err = syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(folder))
	}
	return folder, held.Close, nil
}

// freshDraft is how old a draft must be before it can count as abandoned: its maker takes its
// lock right after it made it.
const freshDraft = 10 * time.Second

// removeStaleDrafts removes what backups left behind that were killed.
func removeStaleDrafts(folder string) error {
	found, err := filepath.Glob(filepath.Join(globEscape(folder), draftPattern))
	if err != nil {
		return err
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < freshDraft || !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			err = os.RemoveAll(path)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("remove what an interrupted backup left: %w", fileowner.Explain(path, err))
		}
	}
	return nil
}

// globEscape makes a path match itself.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// writeBackup writes a backup to a temporary file, flushes it, reads it back and moves it into
// place. It never replaces a file.
func writeBackup(ctx context.Context, path string, m backup.Manifest, source backupSource, options BackupOptions) (size int64, sum string, err error) {
	draft, err := fileowner.CreateTemp(filepath.Dir(path), draftPattern)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, draft.Close()) }()
	defer os.Remove(draft.Name())
	if err := syscall.Flock(int(draft.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return 0, "", fmt.Errorf("lock %s: %w", draft.Name(), err)
	}
	written := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(draft, written), 1<<20)
	err = backup.Write(buffered, m, options.Recipients, func(to io.Writer) error {
		return source.WriteTo(ctx, to, func(done, of int64) { options.Progress("writing", done, of) })
	})
	if err := errors.Join(err, buffered.Flush()); err != nil {
		return 0, "", err
	}
	if err := draft.Sync(); err != nil {
		return 0, "", err
	}
	read := sha256.New()
	if size, err = readBack(ctx, draft, read, options.Progress); err != nil {
		return 0, "", fmt.Errorf("read it back: %w", err)
	}
	if sum = hex.EncodeToString(written.Sum(nil)); sum != hex.EncodeToString(read.Sum(nil)) {
		return 0, "", errors.New("read back, it is not what was written: the disk or the file system is not sound")
	}
	if err := moveNew(draft.Name(), path); errors.Is(err, fs.ErrExist) {
		return 0, "", refuseExisting(path)
	} else if err != nil {
		return 0, "", err
	}
	return size, sum, filesync.Folder(filepath.Dir(path))
}

func readBack(ctx context.Context, file *os.File, into io.Writer, progress func(string, int64, int64)) (size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	buffer := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return size, err
		}
		progress("checking", size, info.Size())
		n, err := file.Read(buffer)
		size += int64(n)
		_, _ = into.Write(buffer[:n]) // a hash
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
}

// deleteExpired deletes the backups of a store beside the newest one that keep does not keep.
// Files of other names, of other stores, and those whose header says something else stay.
func deleteExpired(newest, name, store string, keep backup.Keep) (deleted []string, err error) {
	folder := filepath.Dir(newest)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var paths []string
	var times []time.Time
	for _, entry := range entries {
		takenAt, ours := backup.ParseName(name, entry.Name())
		if !ours || !entry.Type().IsRegular() {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		head, err := readBackupHeader(path)
		if err != nil || head.Store != store || !head.TakenAt.Truncate(time.Second).Equal(takenAt) {
			continue
		}
		// The name has no fractions of a second.
		paths, times = append(paths, path), append(times, head.TakenAt)
	}
	for _, i := range keep.Expired(times) {
		if paths[i] == newest {
			continue // the clock was set back
		}
		if err := os.Remove(paths[i]); err != nil {
			return deleted, fileowner.Explain(paths[i], err)
		}
		deleted = append(deleted, paths[i])
	}
	return deleted, nil
}

func readBackupHeader(path string) (backup.Header, error) {
	file, err := os.Open(path)
	if err != nil {
		return backup.Header{}, err
	}
	defer file.Close()
	return backup.ReadHeader(file)
}

// explainFull says how much room there is, if the disk was full, for what has left nothing there.
func explainFull(err error, folders ...string) error {
	return adviseFull(err, "Nothing was left there; make room or name another folder", folders...)
}

func adviseFull(err error, advice string, folders ...string) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EFBIG) && !errors.Is(err, syscall.EDQUOT) && !sqlite.IsFull(err) {
		return err
	}
	var rooms []string
	for i, folder := range folders {
		if i > 0 && folder == folders[0] {
			continue
		}
		if free, statErr := freeBytes(folder); statErr == nil {
			rooms = append(rooms, fmt.Sprintf("%s has %s free", folder, Megabytes(free)))
		}
	}
	return fmt.Errorf("%w: %s. %s", err, strings.Join(rooms, ", "), advice)
}

func freeBytes(folder string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return 0, err
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil
}

// Megabytes writes a size for people.
func Megabytes(bytes int64) string {
	switch {
	case bytes < 1<<20:
		return fmt.Sprintf("%d KB", (bytes+1023)>>10)
	case bytes < 10<<20:
		return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d MB", bytes>>20)
}

// portable returns the settings that a restored installation takes over: those that differ from
// their defaults, and are not of one machine. Paths, listeners, the store's address and secrets
// stay behind, and so do maintenance and the clock of a demo.
func portable(given map[string]origin) map[string]string {
	kept := map[string]string{}
	for _, s := range Settings {
		section, _ := s.parts()
		switch {
		case s.path, section == "server", section == "store", section == "secrets", section == "clock", section == "log", s.Key == "maintenance":
			continue
		}
		o, ok := given[s.Key]
		if !ok || o.value == s.Default {
			continue
		}
		if s.Key == "provider.url" {
			if at, err := url.Parse(o.value); err != nil || at.User != nil {
				continue // it has a password
			}
		}
		kept[s.Key] = o.value
	}
	return kept
}

// describe returns what a backup or a replica says of the installation of its store.
func describe(config Config) backup.Manifest {
	return backup.Manifest{
		Release: release, Kind: config.Store.Kind,
		SecurityFile: config.Log.SecurityFile, ClockOffset: config.Clock.Offset, Settings: config.Portable,
	}
}

// ReadRecipients reads whom to encrypt for: age recipients, or files of them.
func ReadRecipients(given []string) (all []age.Recipient, err error) {
	for _, one := range given {
		var text io.Reader = strings.NewReader(one)
		if !strings.HasPrefix(one, "age1") {
			file, err := os.Open(one)
			if err != nil {
				return nil, fmt.Errorf("%q is neither an age recipient (age1…) nor a file of them: %w", one, fileowner.Explain(one, err))
			}
			defer file.Close()
			text = file
		}
		found, err := age.ParseRecipients(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// ReadIdentities reads files of age identities.
func ReadIdentities(files []string) (all []age.Identity, err error) {
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			return nil, fileowner.Explain(path, err)
		}
		found, err := age.ParseIdentities(file)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, found...)
	}
	return all, nil
}
