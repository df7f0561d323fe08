package server

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestSecurityFile_FIFOWithoutReaderFailsInsteadOfBlocking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "security")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := appendTo(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("an event\n"); err != nil {
		t.Errorf("with a reader: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("an event\n"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("without a reader: %v; want %v", err, syscall.EPIPE)
	}
}
