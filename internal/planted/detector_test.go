package planted

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// detector is a test that has to find planted bugs without knowing of them.
type detector struct {
	name string
	pkg  string // below the module's root
	// runs are the arguments of the runs, in order, until one finds a violation.
	runs     [][]string
	settings []string
	// short: only the tests of `make test` are built.
	short bool
	// limit is the timeout of all runs together.
	limit time.Duration
	// watch returns a parser of the output, line by line, that reports a violation.
	// A failure without one is an error of the detector itself.
	watch func() func(line string) (seen sighting, is bool)
}

// sighting is a violation, and how many histories it took to find it.
type sighting struct {
	what      string
	histories int // of a simulation; 0 for other detectors
}

// finding is the result of a detector on a tree.
type finding struct {
	sighting
	caught bool
	took   time.Duration // searching, without the time to compile
}

// search runs the detector on the tree with an overlay, which is empty for the
// unpatched tree. An error means that there is no result.
func (d detector) search(ctx context.Context, root, folder, overlay string) (finding, error) {
	binary := filepath.Join(folder, filepath.Base(d.pkg)+".test")
	tags := "long"
	if d.short {
		tags = ""
	}
	build := goCommand(ctx, root, overlay, "test", "-c", "-tags", tags, "-vet=off", "-o", binary, "./"+d.pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return finding{}, fmt.Errorf("%s cannot be built: %w\n%s", d.name, err, out)
	}
	defer os.Remove(binary)

	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	var got finding
	began, watch := time.Now(), d.watch()
	for _, args := range d.runs {
		run := goCommand(ctx, filepath.Join(root, d.pkg), overlay)
		run.Path, run.Args = binary, append([]string{binary}, args...)
		// Files that it leaves behind are removed with the folder.
		run.Env = append(run.Env, append(d.settings, "TMPDIR="+folder)...)
		out, err := run.CombinedOutput()
		got.took = time.Since(began)
		for line := range strings.Lines(string(out)) {
			if got.sighting, got.caught = watch(strings.TrimSuffix(line, "\n")); got.caught {
				return got, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return got, fmt.Errorf("%s did not end within %s", d.name, d.limit)
		case err != nil:
			return got, fmt.Errorf("%s failed without naming a violation: %w\n%s", d.name, err, excerpt(out))
		}
	}
	return got, nil
}

// excerpt returns the first and the last lines of an output.
func excerpt(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > 20 {
		lines = slices.Concat(lines[:10], []string{"…"}, lines[len(lines)-10:])
	}
	return strings.Join(lines, "\n")
}

// goCommand returns a go command with its own process group, so that its child
// processes end with it. The overlay is set in the environment, because some
// detectors build the program that they test.
func goCommand(ctx context.Context, folder, overlay string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	// Not the binaries that make has built: they do not have the bug.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "COAX_TEST_BIN=")
	if overlay != "" {
		command.Env = append(command.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	return command
}
