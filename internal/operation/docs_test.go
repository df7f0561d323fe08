package operation

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of states in docs/architecture.md has exactly the transitions of the code.
func TestArchitecturePage_StateMachine(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## The states of an operation\n")
	if !found {
		t.Fatal("docs/architecture.md has no section on the states of an operation")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, difference := range compareArrows(section, next) {
		t.Error(difference)
	}

	if t.Failed() {
		return
	}
	// Test the comparison itself.
	grown := map[State][]State{Processing: next[Processing], NeedsReview: next[NeedsReview], Failed: {Success}}
	if got := compareArrows(section, grown); len(got) != 1 {
		t.Errorf("with an arrow more in the code: %q; want one difference", got)
	}
	shrunk := map[State][]State{Processing: next[Processing], NeedsReview: next[NeedsReview][:1]}
	if got := compareArrows(section, shrunk); len(got) != 1 {
		t.Errorf("with an arrow less in the code: %q; want one difference", got)
	}
	row := "| `needs_review` | `failed` |"
	for what, page := range map[string]string{
		"an arrow more on the page":  section + "| `success` | `failed` | x | x |\n",
		"an arrow less on the page":  strings.Replace(section, row, "", 1),
		"an arrow twice on the page": section + row + " x | x |\n",
	} {
		if got := compareArrows(page, next); len(got) != 1 {
			t.Errorf("with %s: %q; want one difference", what, got)
		}
	}
}

// compareArrows lists the differences between a page's table and a state machine. The first row,
// which creates an operation, has a dash as its state and is skipped.
func compareArrows(page string, machine map[State][]State) (differences []string) {
	var shown, real []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `([a-z_]+)` \\|").FindAllStringSubmatch(page, -1) {
		shown = append(shown, match[1]+" → "+match[2])
	}
	for from, all := range machine {
		for _, to := range all {
			real = append(real, fmt.Sprintf("%s → %s", from, to))
		}
	}
	slices.Sort(shown)
	slices.Sort(real)
	for i, arrow := range shown {
		switch {
		case i > 0 && shown[i-1] == arrow:
			differences = append(differences, "the page has the arrow "+arrow+" twice")
		case !slices.Contains(real, arrow):
			differences = append(differences, "the page has the arrow "+arrow+", the code has not")
		}
	}
	for _, arrow := range real {
		if !slices.Contains(shown, arrow) {
			differences = append(differences, "the code has the arrow "+arrow+", the page has not")
		}
	}
	return differences
}
