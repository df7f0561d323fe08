package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"golang.org/x/sys/unix"
)

// The audit writes its result to a full pipe and blocks there, so that all its threads can
// be inspected.
func TestAudit_EveryThreadHasLowPriority(t *testing.T) {
	t.Parallel()
	h := e2e.NewInstall(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	size, err := unix.FcntlInt(writer.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(e2e.Binary(t), e2e.WithDemoStore(t, []string{"audit", "--config", h.Config, "--progress"})...)
	command.Env = e2e.Environ()
	said := e2e.NewOutput()
	command.Stdout, command.Stderr = writer, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	defer func() {
		_ = command.Process.Kill()
		<-ended
	}()
	if !said.WaitFor("rows read", ended) {
		t.Fatalf("it did not begin:\n%s", said)
	}
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(command.Process.Pid) + "/task/*")
	if err != nil || len(tasks) < 2 {
		t.Fatalf("its threads are %q (%v); want several", tasks, err)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			t.Fatal(err)
		}
		attributes, err := unix.SchedGetAttr(id, 0)
		if err != nil || attributes.Policy != unix.SCHED_IDLE {
			t.Errorf("thread %d has %+v (%v); want it to run when nothing else does", id, attributes, err)
		}
		const ofProcess, idleClass = 1, 3
		if class, _, failed := unix.Syscall(unix.SYS_IOPRIO_GET, ofProcess, uintptr(id), 0); failed != 0 || class>>13 != idleClass {
			t.Errorf("thread %d reads in class %d (%v); want %d", id, class>>13, failed, idleClass)
		}
	}
	printed := make([]byte, size+1<<20)
	n := 0
	for {
		got, err := reader.Read(printed[n:])
		if n += got; err != nil {
			break
		}
	}
	<-ended
	if code := command.ProcessState.ExitCode(); code != e2e.ExitDone || !strings.HasSuffix(string(printed[:n]), "Everything agrees.\n") {
		t.Errorf("it ended with %d and %q; want 0, and that everything agrees", code, printed[size:n])
	}
}
