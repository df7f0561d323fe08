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

// detector is a test of the tree that searches at random, breaks things or races,
// and knows of no plant.
type detector struct {
	name string
	pkg  string // below the module's root
	// runs are the arguments of one run after the other, until one of them sees a
	// promise broken.
	runs     [][]string
	settings []string
	// short: it has the tests of `make test` alone.
	short bool
	// limit is how long it may search in all.
	limit time.Duration
	// watch returns a reader of what it prints, line by line, which says when and
	// how a promise was seen broken. A failure without that is the detector's own
	// trouble.
	watch func() func(line string) (seen sighting, is bool)
}

// sighting is a broken promise, and how far somebody had to look for it.
type sighting struct {
	what      string
	histories int // of a simulation; 0 for what has none
}

// finding is what a detector made of a tree.
type finding struct {
	sighting
	caught bool
	took   time.Duration // searching, without the time to compile
}

// search runs the detector on the tree that an overlay makes of this one; empty
// for the tree as it is. An error means that nothing was found out.
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
		// What it leaves behind to be looked at goes with the folder.
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
			return got, fmt.Errorf("%s was not through in %s", d.name, d.limit)
		case err != nil:
			return got, fmt.Errorf("%s ended without naming a broken promise: %w\n%s", d.name, err, excerpt(out))
		}
	}
	return got, nil
}

// excerpt is how something began and how it ended, which mostly says why.
func excerpt(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > 20 {
		lines = slices.Concat(lines[:10], []string{"…"}, lines[len(lines)-10:])
	}
	return strings.Join(lines, "\n")
}

// goCommand is a go command in a group of its own, so that what it started ends
// with it. The overlay holds for every go command below it as well: some detectors
// build the program that they torture.
func goCommand(ctx context.Context, folder, overlay string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	// Without the binaries that make built: they do not have the bug.
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "COAX_TEST_BIN=")
	if overlay != "" {
		command.Env = append(command.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	return command
}
