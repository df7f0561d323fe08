package replica

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

	"github.com/coaxhq/coax/internal/fileowner"
	"github.com/coaxhq/coax/internal/filesync"
)

// folder is a target on this machine: another disk, or a mounted file system.
type folder struct {
	path string

	mu      sync.Mutex
	growing map[string]*os.File // by folder
}

func (f *folder) keepsParts() bool { return false }

func (f *folder) name(name string) string { return filepath.Join(f.path, filepath.FromSlash(name)) }

func (f *folder) check(_ context.Context, create bool) error {
	info, err := os.Stat(f.path)
	if create && errors.Is(err, fs.ErrNotExist) {
		// Only the last folder is made: above it may be a disk that is not mounted.
		if err = os.Mkdir(f.path, 0o700); err != nil {
			return fmt.Errorf("make the folder: %w", fileowner.Explain(f.path, err))
		}
		if err := filesync.Folder(filepath.Dir(f.path)); err != nil {
			return err
		}
		info, err = os.Stat(f.path)
	}
	if err != nil {
		return fmt.Errorf("find the folder: %w", fileowner.Explain(f.path, err))
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", f.path)
	}
	probe, err := os.CreateTemp(f.path, ".probe-*")
	if err != nil {
		return fmt.Errorf("write to the folder: %w", fileowner.Explain(f.path, err))
	}
	_, err = probe.Write([]byte("probe"))
	return errors.Join(err, probe.Close(), os.Remove(probe.Name()))
}

func (f *folder) put(_ context.Context, name string, data []byte) error {
	path := f.name(name)
	if err := f.makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return filesync.Folder(filepath.Dir(path))
}

// makeFolder makes a folder below the replica's own, which must be there: if it is gone,
// the disk may not be mounted.
func (f *folder) makeFolder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if _, err := os.Stat(f.path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return filesync.Folder(filepath.Dir(path))
}

func (f *folder) writeAt(_ context.Context, name string, at int64, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := f.name(name)
	file, err := f.grow(path, at)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(data, at); err != nil {
		return f.drop(path, err)
	}
	if err := filesync.Data(file); err != nil {
		return f.drop(path, err)
	}
	// The file or the disk may have been removed meanwhile: what was written to a file
	// without a name is lost.
	ours, err := file.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(path); err == nil && !os.SameFile(ours, there) {
			err = fmt.Errorf("%s was replaced", path)
		}
	}
	if err != nil {
		return f.drop(path, err)
	}
	return nil
}

// grow returns the file to write to.
func (f *folder) grow(path string, at int64) (*os.File, error) {
	key := filepath.Dir(path) + "\x00" + kindOf(path)
	file := f.growing[key]
	if file != nil && file.Name() == path {
		return file, nil
	}
	if file != nil {
		_ = file.Close()
		delete(f.growing, key)
	}
	if at == 0 {
		if err := f.makeFolder(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	flags := os.O_WRONLY
	if at == 0 {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if at == 0 {
		if err := filesync.Folder(filepath.Dir(path)); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	if f.growing == nil {
		f.growing = map[string]*os.File{}
	}
	f.growing[key] = file
	return file, nil
}

// drop closes a file after a failure.
func (f *folder) drop(path string, cause error) error {
	key := filepath.Dir(path) + "\x00" + kindOf(path)
	_ = f.growing[key].Close()
	delete(f.growing, key)
	return cause
}

// kindOf tells segments from snapshots, which grow at the same time.
func kindOf(path string) string {
	kind, _, _ := strings.Cut(filepath.Base(path), "-")
	return kind
}

func (f *folder) seal(context.Context, string, []byte) error { return nil }

func (f *folder) open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(f.name(name))
}

func (f *folder) list(_ context.Context, below string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(f.name(below), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(f.path, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && below != "" {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

func (f *folder) remove(_ context.Context, name string) error {
	if err := os.Remove(f.name(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(f.name(name)); parent != f.path {
		_ = os.Remove(parent) // if it is empty now
	}
	return nil
}

func (f *folder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, file := range f.growing {
		errs = append(errs, file.Close())
	}
	f.growing = nil
	return errors.Join(errs...)
}
