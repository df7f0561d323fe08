package fileowner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// nobody is the user that owns the folders which these tests create as root.
const nobody = 65534

// foreign returns a folder of another user if this process is root, else an own one.
func foreign(t *testing.T) (folder string, uid int) {
	t.Helper()
	folder = t.TempDir()
	if os.Geteuid() != 0 {
		return folder, os.Geteuid()
	}
	if err := os.Chown(folder, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return folder, nobody
}

func belongsTo(t *testing.T, path string, uid int) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(info.Sys().(*syscall.Stat_t).Uid); got != uid {
		t.Errorf("%s belongs to %d; want %d", path, got, uid)
	}
}

func TestNewFiles_BelongToTheFoldersOwner(t *testing.T) {
	folder, uid := foreign(t)
	if err := MkdirAll(filepath.Join(folder, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	made, err := OpenFile(filepath.Join(folder, "a", "b", "made"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	made.Close()
	draft, err := CreateTemp(filepath.Join(folder, "a"), "draft-*")
	if err != nil {
		t.Fatal(err)
	}
	draft.Close()
	for _, path := range []string{filepath.Join(folder, "a"), filepath.Join(folder, "a", "b"), made.Name(), draft.Name()} {
		belongsTo(t, path, uid)
	}
}

// The folder's owner could create a link and make root give away a file of root.
func TestOpenFile_KeepsOwnerOfExistingFile(t *testing.T) {
	folder, _ := foreign(t)
	mine := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(mine, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, dangling := filepath.Join(folder, "link"), filepath.Join(folder, "dangling")
	if err := errors.Join(os.Symlink(mine, link), os.Symlink(mine+".none", dangling)); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(link, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	belongsTo(t, mine, os.Geteuid())
	if file, err := OpenFile(dangling, 0o600); err == nil {
		file.Close()
		t.Error("a file was created through a link")
	}
	if _, err := os.Stat(mine + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target of the link: %v; want none", err)
	}
}

func TestExplain_LeavesOtherErrorsAlone(t *testing.T) {
	_, missing := os.Open(filepath.Join(t.TempDir(), "none"))
	if got := Explain("none", missing); got != missing {
		t.Errorf("%v became %v", missing, got)
	}
	if got := Explain("none", nil); got != nil {
		t.Errorf("no error became %v", got)
	}
	denied := &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}
	once := Explain(t.TempDir(), denied)
	if twice := Explain("elsewhere", once); twice != once || !errors.Is(once, fs.ErrPermission) {
		t.Errorf("explained twice: %v", twice)
	}
}
