package main

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

const packaging = "../../packaging"

// readDockerfile reads a Dockerfile with Docker's own parser, which also lints it.
func readDockerfile(t *testing.T, text []byte) (stages []instructions.Stage, warnings []string) {
	t.Helper()
	ast, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ast.Warnings {
		warnings = append(warnings, w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, description, _, message string, _ []parser.Range) {
		warnings = append(warnings, rule+": "+description+": "+message)
	}})
	stages, _, err = instructions.Parse(ast.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	return stages, warnings
}

// The image has nothing but the program, which is not root, and Docker can ask it whether
// it is ready.
func TestDockerfile_IsMinimal(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(packaging, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages, warnings := readDockerfile(t, text)
	if len(warnings) > 0 {
		t.Errorf("warnings: %s", strings.Join(warnings, "\n"))
	}
	last := stages[len(stages)-1]
	if last.Name != "service" || last.BaseName != "scratch" {
		t.Errorf("the last stage is %s from %s; want service from scratch", last.Name, last.BaseName)
	}
	var user, check, entry string
	for _, command := range last.Commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.HealthCheckCommand:
			check = strings.Join(c.Health.Test, " ")
		case *instructions.EntrypointCommand:
			entry = strings.Join(c.CmdLine, " ")
		case *instructions.CopyCommand:
			if _, found := instructions.HasStage(stages, c.From); !found {
				t.Errorf("COPY --from=%s names no stage", c.From)
			}
		case *instructions.RunCommand:
			t.Errorf("%s: there is no shell to run it", c)
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("the image runs as %q", user)
	}
	if !strings.HasPrefix(check, "CMD /usr/bin/coax doctor --node ") || entry != "/usr/bin/coax" {
		t.Errorf("HEALTHCHECK is %q, ENTRYPOINT %q", check, entry)
	}
	// The linter is no formality.
	if _, warnings := readDockerfile(t, []byte("from scratch as A\nMAINTAINER me\nCMD coax serve\n")); len(warnings) < 2 {
		t.Errorf("the linter finds %q in a bad Dockerfile", warnings)
	}
}

// contextOf copies what docker build would get of the source, which Dockerfile.dockerignore
// decides. What git ignores is left out too.
func contextOf(t *testing.T) string {
	t.Helper()
	file, err := os.Open(filepath.Join(packaging, "Dockerfile.dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(packaging, "..")
	list, err := output(top, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range strings.Split(strings.TrimSuffix(list, "\x00"), "\x00") {
		if skip, err := ignored.MatchesOrParentMatches(name); err != nil || skip {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// The Dockerfile's own go build, in what docker build would get, makes a program that is static
// and knows the commit.
func TestDockerfile_BuildsFromItsContext(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(packaging, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	folder := contextOf(t)
	binary := filepath.Join(t.TempDir(), "coax")
	stages, _ := readDockerfile(t, text)
	built := false
	for _, stage := range stages {
		for _, command := range stage.Commands {
			switch c := command.(type) {
			case *instructions.CopyCommand:
				for _, path := range c.SourcePaths {
					if _, err := os.Stat(filepath.Join(folder, path)); c.From == "" && err != nil {
						t.Errorf("COPY %s: Dockerfile.dockerignore leaves it out: %v", path, err)
					}
				}
			case *instructions.RunCommand:
				first, _, _ := strings.Cut(strings.Join(c.CmdLine, " "), " && ")
				if !strings.Contains(first, "go build ") {
					continue
				}
				built = true
				environ := append(goEnvironment(hostArch), "TARGETARCH="+hostArch, "REVISION=4f1e9c0")
				if _, err := outputWith(folder, environ, "sh", "-c", strings.Replace(first, "/built/usr/bin/coax", binary, 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if !built {
		t.Fatal("the Dockerfile has no go build")
	}
	if version, err := output(folder, binary, "version"); err != nil || !strings.Contains(version, " 4f1e9c0 ") {
		t.Errorf("coax version prints %q (%v); want the revision 4f1e9c0", version, err)
	}
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 || program.Section(".interp") != nil {
		t.Errorf("the program is not static: libraries %v (%v), an interpreter: %v", libraries, err, program.Section(".interp") != nil)
	}
}

func composeProject(t *testing.T, environ ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(packaging, "compose/compose.yml")}, cli.WithEnv(environ))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(context.Background())
}

// The compose file is valid, its files are there, and what is ours runs without rights.
func TestCompose_IsComplete(t *testing.T) {
	if _, err := composeProject(t); err == nil || !strings.Contains(err.Error(), "COAX_DB_PASSWORD") {
		t.Errorf("without a password: %v; want an error that names COAX_DB_PASSWORD", err)
	}
	project, err := composeProject(t, "COAX_DB_PASSWORD=secret")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(packaging, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages, _ := readDockerfile(t, text)
	want := []string{"database", "grafana", "node1", "node2", "node3", "prometheus", "setup", "simulator"}
	if got := project.ServiceNames(); !slices.Equal(got, want) {
		t.Errorf("services are %v; want %v", got, want)
	}
	marks, auditing := map[string]bool{}, 0
	for name, s := range project.Services {
		if s.Build != nil {
			if _, found := instructions.HasStage(stages, s.Build.Target); !found {
				t.Errorf("%s is built from the stage %q, which the Dockerfile does not have", name, s.Build.Target)
			}
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on every address", name, port.Published)
			}
		}
		for _, volume := range s.Volumes {
			if volume.Type == types.VolumeTypeBind {
				if _, err := os.Stat(volume.Source); err != nil {
					t.Errorf("%s mounts what is not there: %v", name, err)
				}
			}
		}
		if !strings.HasPrefix(name, "node") {
			continue
		}
		if !s.ReadOnly || s.User != "65532:65532" || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s has rights that it does not need: %+v", name, s)
		}
		if s.Environment["COAX_AUDIT_EVERY"] != nil {
			auditing++
		}
		for _, volume := range s.Volumes {
			switch volume.Target {
			case "/etc/coax":
				if !volume.ReadOnly {
					t.Errorf("%s can write to its configuration", name)
				}
			case "/var/lib/coax-mark":
				marks[volume.Source] = true
			}
		}
		if s.DependsOn["setup"].Condition != types.ServiceConditionCompletedSuccessfully || s.DependsOn["database"].Condition != types.ServiceConditionHealthy {
			t.Errorf("%s starts after %v", name, s.DependsOn)
		}
	}
	if auditing != 1 {
		t.Errorf("%d nodes audit the books; want one, because each reads all of them", auditing)
	}
	if len(marks) != 3 {
		t.Errorf("three nodes have the marks %v; each needs its own", marks)
	}
}
