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
			got, err := p.hunt(t)
			switch {
			case err != nil:
				t.Error(err)
			case !got.caught:
				t.Errorf("%s did not find it", p.detector.name)
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
	var looked []int // how many histories each took that the simulation found
	found, searched, finders := 0, 0, map[string]detector{}
	for _, p := range plants {
		if asked != "all" && !strings.HasPrefix(p.patch, asked) {
			continue
		}
		searched++
		got, err := p.hunt(t)
		switch {
		case err != nil:
			fmt.Printf("TROUBLE  %-36s %v\n", p.patch, err)
			t.Errorf("nobody knows whether %s can be found", p.patch)
		case !got.caught:
			fmt.Printf("MISSED   %-36s by %s, in %.1f s\n", p.patch, p.detector.name, got.took.Seconds())
			t.Errorf("%s was not found", p.patch)
		default:
			fmt.Printf("caught   %-36s by %s, %s\n", p.patch, p.detector.name, got)
			found++
			finders[p.detector.name] = p.detector
			if got.histories > 0 {
				looked = append(looked, got.histories)
			}
		}
	}
	fmt.Printf("%d of %d planted bugs were found", found, searched)
	if len(looked) > 0 {
		slices.Sort(looked)
		fmt.Printf("; the simulation needed %d histories in the median and %d at most", looked[len(looked)/2], looked[len(looked)-1])
	}
	fmt.Println()
	if searched == 0 {
		t.Fatalf("no plant is called %s", asked)
	}

	// Whoever objects to everything finds every plant. So each has to be content
	// with the tree as it is, as far as it looked.
	if len(looked) > 0 {
		finders[simulation.name] = simulationOf(looked[len(looked)-1])
	}
	for _, name := range slices.Sorted(maps.Keys(finders)) {
		d := finders[name]
		got, err := d.search(t.Context(), root(t), t.TempDir(), "")
		if err != nil || got.caught {
			t.Errorf("%s is not content with the tree as it is: %v %s", d.name, err, got.what)
			continue
		}
		fmt.Printf("content  %-36s with the tree as it is, %.1f s\n", d.name, got.took.Seconds())
	}
}

// hunt lets the plant's detector search the tree with the plant.
func (p plant) hunt(t *testing.T) (finding, error) {
	bug, err := readPatch(p.patch)
	if err != nil {
		return finding{}, err
	}
	overlay, err := bug.overlay(root(t), t.TempDir())
	if err != nil {
		return finding{}, err
	}
	return p.detector.search(t.Context(), root(t), t.TempDir(), overlay)
}

func (f finding) String() string {
	looked := ""
	if f.histories > 0 {
		looked = fmt.Sprintf("%d histories, ", f.histories)
	}
	return fmt.Sprintf("%s%.1f s: %s", looked, f.took.Seconds(), f.what)
}
