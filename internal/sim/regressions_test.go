package sim

import "testing"

// onceFailed are seeds of histories in which a violation was found, with what was
// wrong. The scenarios and tests beside each fix show the same without chance.
var onceFailed = []uint64{
	2000062, // the failure of a commit that was never made struck the next batch, whose callers were not excused
	2000442, // GET /subscription named the plan of an open renewal (TestAnOpenOperationNamesThePlanOnlyOfAnActivation)
}

func TestHistoriesThatOnceFailedHold(t *testing.T) {
	skipUnlessWhole(t)
	for _, seed := range onceFailed {
		if got := live(t, seed, wholeProgram(), false); len(got.Violations) > 0 {
			t.Errorf("seed %d: %s", seed, got.Violations)
		}
	}
}

// A batch whose only reservation is refused after it has written is rolled back and
// makes no commit. A failure meant for that commit must not strike the next one,
// whose callers were not excused.
func TestAFailedCommitStrikesItsOwnBatchAlone(t *testing.T) {
	w := &world{happened: map[string]int{}, writing: map[string]bool{}}
	w.faults = &faults{w: w, plan: &planned{faults: []*plannedFault{{kind: "commit fails before", n: 0}, {kind: "commit fails after", n: 2}}}}
	w.faults.on.Store(true)
	commit := &stop{who: "writer", where: "commit"}
	w.faults.meet(commit) // this batch is rolled back: nobody commits
	w.faults.meet(commit)
	if got := w.faults.commit(); got != "" || w.happened[neverMade] != 1 {
		t.Errorf("the commit of the second batch fails %q it took hold; it was the first batch's that was to fail", got)
	}
	w.faults.meet(commit)
	if got := w.faults.commit(); got != "after" {
		t.Errorf("the commit of the third batch fails %q; want after", got)
	}
}
