// Command release builds what a release consists of, for Linux on amd64 and arm64: the
// Debian package, an archive for other systems, an SBOM, the licences of everything that
// is linked, and checksums. It builds from a commit, in a clone of its own, and the same
// commit gives the same bytes.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.root, "root", ".", "the checkout to take the commit from")
	flag.StringVar(&o.commit, "commit", "HEAD", "the commit to build")
	flag.StringVar(&o.out, "out", "dist", "the folder to write to; what an earlier run left there is deleted")
	arches := flag.String("arch", "amd64,arm64", "the architectures to build for")
	flag.StringVar(&o.version, "version", "", "the package's version instead of the source's, for tests of upgrades")
	flag.StringVar(&o.binary, "binary", "", "package this binary instead of building one, and write nothing else; for tests of upgrades")
	flag.Parse()
	o.arches = strings.Split(*arches, ",")
	if flag.NArg() > 0 {
		log.Fatalf("release: unexpected argument %q", flag.Arg(0))
	}
	if o.binary != "" && (o.version == "" || len(o.arches) != 1) {
		log.Fatal("release: -binary needs -version and one -arch")
	}
	if err := run(o); err != nil {
		log.Fatalf("release: %v", err)
	}
}

type options struct {
	root, commit, out, version, binary string
	arches                             []string
}

func run(o options) error {
	work, err := os.MkdirTemp("", "coax-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b, err := checkout(o, work)
	if err != nil {
		return err
	}
	if err := b.generate(); err != nil {
		return err
	}
	if err := clear(o.out); err != nil {
		return err
	}
	if o.binary != "" {
		return b.debian(o.arches[0], o.binary, o.out)
	}
	linked := newInventory(b)
	for _, arch := range o.arches {
		binary, err := b.program(arch)
		if err != nil {
			return err
		}
		modules, err := linked.add(arch, binary)
		if err != nil {
			return err
		}
		if err := b.sbom(arch, modules, o.out); err != nil {
			return err
		}
	}
	if err := linked.write(o.out); err != nil {
		return err
	}
	for _, arch := range o.arches {
		if err := b.debian(arch, b.binary(arch), o.out); err != nil {
			return err
		}
		if err := b.archive(arch, o.out); err != nil {
			return err
		}
	}
	return checksums(o.out)
}

// build is the source of one commit and what was made of it so far.
type build struct {
	source, work string
	commit       string
	time         time.Time
	version      string // as in the source: 0.2.0, or 0.2.0-dev between releases
	debVersion   string
}

// checkout clones the commit, so that changes that are not committed and files that are
// ignored have no part in the release. In a clone, Go stamps the commit into the binary.
func checkout(o options, work string) (*build, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return nil, err
	}
	commit, err := output(root, "git", "rev-parse", "--verify", o.commit+"^{commit}")
	if err != nil {
		return nil, err
	}
	b := &build{source: filepath.Join(work, "source"), work: work, commit: commit}
	if _, err := output(root, "git", "clone", "--quiet", "--shared", "--no-checkout", root, b.source); err != nil {
		return nil, err
	}
	if _, err := output(b.source, "git", "checkout", "--quiet", "--detach", commit); err != nil {
		return nil, err
	}
	seconds, err := output(b.source, "git", "show", "--no-patch", "--format=%ct", commit)
	if err != nil {
		return nil, err
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, err
	}
	b.time = time.Unix(at, 0).UTC()
	host, err := b.program(hostArch)
	if err != nil {
		return nil, err
	}
	text, err := output(work, host, "version")
	if err != nil {
		return nil, err
	}
	words := strings.Fields(text)
	if len(words) < 3 || words[2] != commit {
		return nil, fmt.Errorf("the binary says that it is %q; want the commit %s in it", text, commit)
	}
	b.version = words[1]
	if o.version != "" {
		b.version = o.version
	}
	// Between releases: before the release that is to come, and later ones after earlier ones.
	b.debVersion = b.version
	if before, found := strings.CutSuffix(b.version, "-dev"); found {
		b.debVersion = fmt.Sprintf("%s~dev.%s.%s", before, b.time.Format("20060102150405"), commit[:8])
	}
	log.Printf("coax %s (%s) of %s", b.version, commit, b.time.Format(time.RFC3339))
	return b, nil
}

func (b *build) path(name string) string { return filepath.Join(b.work, name) }

func (b *build) binary(arch string) string { return b.path(filepath.Join("linux-"+arch, "coax")) }

// program builds the product.
func (b *build) program(arch string) (string, error) {
	return b.binary(arch), b.compile(arch, b.binary(arch))
}

func (b *build) compile(arch, to string, flags ...string) error {
	// Without symbols for debuggers; stack traces do not need them.
	args := append([]string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", to}, flags...)
	command := exec.Command("go", append(args, "./cmd/coax")...)
	command.Dir, command.Env = b.source, goEnvironment(arch)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w\n%s", command.Args, err, text)
	}
	return nil
}

// goEnvironment is the caller's, without what would change the binary.
func goEnvironment(arch string) []string {
	var clean []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "GOFLAGS", "GOEXPERIMENT", "GOFIPS140", "GOAMD64", "GOARM64", "GOOS", "GOARCH", "CGO_ENABLED", "GOWORK":
		default:
			clean = append(clean, entry)
		}
	}
	return append(clean, "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOWORK=off")
}

// output runs a command and returns what it prints, without the last newline.
func output(folder, name string, args ...string) (string, error) {
	return outputWith(folder, nil, name, args...)
}

func outputWith(folder string, environ []string, name string, args ...string) (string, error) {
	var problem strings.Builder
	command := exec.Command(name, args...)
	command.Dir, command.Env, command.Stderr = folder, environ, &problem
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%q: %w\n%s", command.Args, err, problem.String())
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

// clear makes the folder, and deletes what an earlier run wrote.
func clear(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(out, "coax_*"))
	if err != nil {
		return err
	}
	for _, path := range append(old, filepath.Join(out, sums)) {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

const sums = "SHA256SUMS"

func checksums(out string) error {
	files, err := filepath.Glob(filepath.Join(out, "coax_*"))
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), filepath.Base(path))
	}
	fmt.Print(text.String())
	return os.WriteFile(filepath.Join(out, sums), []byte(text.String()), 0o644)
}
