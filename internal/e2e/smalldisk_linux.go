package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// smallDiskFolder tells the process inside the namespace where its disk is.
const smallDiskFolder = "COAX_TEST_SMALL_DISK"

// noSmallDisk is the exit code of the process inside the namespace if it may not mount.
const noSmallDisk = 77

// OnSmallDisk runs the rest of a test in another process, with a folder on a disk of its own
// that has this many bytes. It is mounted in a user namespace, which not every machine allows:
// there the test is skipped. Lines with progress in them are logged as they come.
func OnSmallDisk(t *testing.T, size int64, progress string, inside func(folder string)) {
	t.Helper()
	if folder := os.Getenv(smallDiskFolder); folder != "" {
		if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
			fmt.Println("mount:", err)
			os.Exit(noSmallDisk)
		}
		inside(folder)
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=1h")
	command.Env = append(os.Environ(), smallDiskFolder+"="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	output := &LogBuffer{}
	command.Stdout, command.Stderr = io.MultiWriter(output, progressWriter{t, progress}), output
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit), exit != nil && exit.ExitCode() == noSmallDisk:
		t.Skipf("this machine does not allow mounting a small disk (%v)", err)
	case err != nil:
		t.Fatalf("inside: %v\n%s", err, output.String())
	}
}

// progressWriter logs a child's progress.
type progressWriter struct {
	t    testing.TB
	mark string
}

func (w progressWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.mark)) {
		w.t.Logf("%s", bytes.TrimSpace(p))
	}
	return len(p), nil
}
