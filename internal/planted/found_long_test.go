//go:build long

package planted

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestPlants_Compile(t *testing.T) {
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
				t.Errorf("the patch is stale, it does not compile: %v\n%s", err, out)
			}
		})
	}
}

func TestPlants_AreFound(t *testing.T) {
	selected := cmp.Or(os.Getenv("COAX_TEST_PLANTED"), "all")
	needsGit(t)
	var histories []int // that the simulation needed for each plant it found
	finders := map[string]detector{}
	found, searched := 0, 0
	for _, p := range plants {
		if selected != "all" && !strings.HasPrefix(p.patch, selected) {
			continue
		}
		searched++
		missed := false
		detectors := p.by
		if d, is := p.inTest(); is {
			detectors = append([]detector{d}, detectors...)
		}
		for _, d := range detectors {
			got, err := p.hunt(t, d)
			switch {
			case err != nil:
				fmt.Printf("ERROR    %-36s with %s: %v\n", p.patch, d.name, err)
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
			t.Errorf("%s was not found by all its detectors", p.patch)
			continue
		}
		found++
	}
	if searched == 0 {
		t.Fatalf("there is no plant %s", selected)
	}
	fmt.Printf("%d of %d planted bugs were found", found, searched)
	if len(histories) > 0 {
		slices.Sort(histories)
		most := histories[len(histories)-1]
		fmt.Printf("; the simulation needed %d histories in the median and %d at most", histories[len(histories)/2], most)
		finders[simulation.name] = simulationOf(most)
	}
	fmt.Println()

	// A detector that always fails would find every plant. So each has to pass on
	// the unpatched tree, with as many histories as it needed.
	for _, name := range slices.Sorted(maps.Keys(finders)) {
		got, err := finders[name].search(t.Context(), root(t), t.TempDir(), "")
		if err != nil || got.caught {
			t.Errorf("%s fails on the unpatched tree: %v %s", name, err, got.what)
			continue
		}
		fmt.Printf("passed   %-36s on the unpatched tree, %.1f s\n", name, got.took.Seconds())
	}
}
