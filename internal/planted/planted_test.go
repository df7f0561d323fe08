// Package planted tests the tests. Each file in testdata is a bug that a good
// engineer could write: small, and harmless as long as nothing goes wrong. The
// simulation, the exhaustive faults, the races or the torture have to find it,
// without a test that was written for it.
//
// Plain go test makes sure that each plant still fits the code, and has a few of
// them found. `make planted` has all of them found.
package planted

import (
	"fmt"
	"maps"
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

// needsGit: patches are applied by git, which whoever cloned this has.
func needsGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestEveryPatchIsInTheTableAndSaysWhatItIs(t *testing.T) {
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
			t.Errorf("%s says too little about itself: %q", p.patch, bug.words)
		}
	}
	if !slices.Equal(there, listed) {
		t.Errorf("testdata has %v; the table has %v", there, listed)
	}
}

func TestEveryPlantFitsTheCodeAsItIsNow(t *testing.T) {
	needsGit(t)
	for _, p := range plants {
		t.Run(p.patch, func(t *testing.T) {
			bug, err := readPatch(p.patch)
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := bug.overlay(root(t), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			build := goCommand(t.Context(), root(t), overlay, append([]string{"build"}, bug.packages()...)...)
			if out, err := build.CombinedOutput(); err != nil {
				t.Errorf("it is stale, it does not compile: %v\n%s", err, out)
			}
		})
	}
}

// A few of them, by whoever is quick.
func TestSomePlantsAreFoundEachTime(t *testing.T) {
	needsGit(t)
	for _, p := range plants {
		if !p.daily {
			continue
		}
		t.Run(p.patch, func(t *testing.T) {
			got, err := p.hunt(t, p.by[0])
			switch {
			case err != nil:
				t.Error(err)
			case !got.caught:
				t.Errorf("%s did not find it", p.by[0].name)
			default:
				t.Log(got.what)
			}
		})
	}
}

func TestEveryPlantIsFound(t *testing.T) {
	asked := os.Getenv("COAX_TEST_PLANTED")
	if asked == "" {
		t.Skip("`make planted` has every plant found, which takes a while")
	}
	needsGit(t)
	var histories []int // that each plant took which the simulation found
	finders := map[string]detector{}
	found, searched := 0, 0
	for _, p := range plants {
		if asked != "all" && !strings.HasPrefix(p.patch, asked) {
			continue
		}
		searched++
		missed := false
		for _, d := range p.by {
			got, err := p.hunt(t, d)
			switch {
			case err != nil:
				fmt.Printf("TROUBLE  %-36s with %s: %v\n", p.patch, d.name, err)
			case !got.caught:
				fmt.Printf("MISSED   %-36s by %s, in %.1f s\n", p.patch, d.name, got.took.Seconds())
			default:
				fmt.Printf("caught   %-36s by %s, %s\n", p.patch, d.name, got)
				finders[d.name] = d
				if got.histories > 0 {
					histories = append(histories, got.histories)
				}
				continue
			}
			missed = true
		}
		if missed {
			t.Errorf("%s was not found by all who should", p.patch)
			continue
		}
		found++
	}
	if searched == 0 {
		t.Fatalf("no plant is called %s", asked)
	}
	fmt.Printf("%d of %d planted bugs were found", found, searched)
	if len(histories) > 0 {
		slices.Sort(histories)
		most := histories[len(histories)-1]
		fmt.Printf("; the simulation needed %d histories in the median and %d at most", histories[len(histories)/2], most)
		finders[simulation.name] = simulationOf(most)
	}
	fmt.Println()

	// Whoever objects to everything finds every plant. So each has to be content
	// with the tree as it is, as far as it looked.
	for _, name := range slices.Sorted(maps.Keys(finders)) {
		got, err := finders[name].search(t.Context(), root(t), t.TempDir(), "")
		if err != nil || got.caught {
			t.Errorf("%s is not content with the tree as it is: %v %s", name, err, got.what)
			continue
		}
		fmt.Printf("content  %-36s with the tree as it is, %.1f s\n", name, got.took.Seconds())
	}
}

// hunt lets a detector search the tree with the plant.
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
