// Package planted tests the tests. Each file in testdata is a bug that a good engineer could write.
// The tests listed in README.md have to find it without knowing of it.
//
// `make test` checks that each patch applies. `make planted` runs the tests that have to find them.
package planted

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// needsGit skips the test without git, which applies the patches.
func needsGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestPlants_TableMatchesFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.patch")
	if err != nil {
		t.Fatal(err)
	}
	var there, listed []string
	for _, file := range files {
		there = append(there, strings.TrimSuffix(filepath.Base(file), ".patch"))
	}
	for _, p := range plants {
		listed = append(listed, p.patch)
		bug, err := readPatch(p.patch)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(strings.Fields(bug.words)) < 20 {
			t.Errorf("%s is described too briefly: %q", p.patch, bug.words)
		}
	}
	if !slices.Equal(there, listed) {
		t.Errorf("testdata has %v; the table has %v", there, listed)
	}
}

func TestPlants_ApplyToTheCode(t *testing.T) {
	needsGit(t)
	for _, p := range plants {
		bug, err := readPatch(p.patch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bug.overlay(root(t), t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

// The README has the table of plants.
func TestReadme_HasTheTableOfPlants(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	fmt.Fprintln(&want, "| bug | `make test` | `make test-long` |\n|---|---|---|")
	inTest := 0
	for _, p := range plants {
		found, long := "", []string{}
		if p.test != "" {
			found = "`" + p.test + "`"
			inTest++
		}
		for _, d := range p.by {
			long = append(long, d.name)
		}
		fmt.Fprintf(&want, "| %s | %s | %s |\n", p.patch, found, strings.Join(long, ", "))
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("README.md has another table; the one to paste is\n%s", want.String())
	}
	if inTest < 12 {
		t.Errorf("make test finds %d planted bugs; want 12 at least", inTest)
	}
}

// hunt runs a detector on the patched tree.
func (p plant) hunt(t *testing.T, d detector) (finding, error) {
	bug, err := readPatch(p.patch)
	if err != nil {
		return finding{}, err
	}
	overlay, err := bug.overlay(root(t), t.TempDir())
	if err != nil {
		return finding{}, err
	}
	return d.search(t.Context(), root(t), t.TempDir(), overlay)
}

func (f finding) String() string {
	looked := ""
	if f.histories > 0 {
		looked = fmt.Sprintf("%d histories, ", f.histories)
	}
	return fmt.Sprintf("%s%.1f s: %s", looked, f.took.Seconds(), f.what)
}
