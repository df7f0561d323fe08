package sim

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// shrinkTime bounds how long a failing history is made smaller.
const shrinkTime = 45 * time.Second

// shrink looks for fewer actions and fewer kinds of faults with which a history still
// violates the same invariant: it tries to leave out halves, then quarters and so on.
func shrink(got outcome) (program, string) {
	deadline := time.Now().Add(shrinkTime)
	want := invariantOf(got.Violations[0])
	best, violations := wholeProgram(), ""
	try := func(p program) bool {
		if time.Now().After(deadline) {
			return false
		}
		said := trial(got.Seed, p)
		if !strings.Contains(said, want) {
			return false
		}
		best, violations = p, said
		return true
	}
	if !try(best) {
		return best, ""
	}
	for _, kind := range faultKinds {
		without := maps.Clone(best.without)
		without[kind.name] = true
		try(program{actions: best.actions, without: without})
	}
	for size := len(best.actions) / 2; size >= 1; size /= 2 {
		for from := 0; from < len(best.actions); {
			rest := slices.Delete(slices.Clone(best.actions), from, min(from+size, len(best.actions)))
			if len(rest) == 0 || !try(program{actions: rest, without: best.without}) {
				from += size
			}
		}
	}
	return best, violations
}

// invariantOf returns the invariant that a violation names.
func invariantOf(violation string) string {
	name, _, _ := strings.Cut(violation, " ")
	return name + " "
}

// trial runs a program in a separate process, and returns its failure output; empty if
// it passes.
func trial(seed uint64, p program) string {
	_, arguments, _ := strings.Cut(replayCommand(seed, p), " -args ")
	list := []string{"-test.run=^TestReplay$"}
	for _, argument := range strings.Split(arguments, " -") {
		argument = strings.ReplaceAll(argument, "'", "")
		list = append(list, "-"+strings.TrimPrefix(argument, "-"))
	}
	said, err := exec.Command(os.Args[0], list...).CombinedOutput()
	if err == nil {
		return ""
	}
	if at := strings.Index(string(said), "trace "); at >= 0 {
		said = said[at:]
	}
	return string(said)
}
