package archtest

import (
	"os"
	"regexp"
	"testing"
)

// `go install …@version` refuses a module whose go.mod replaces another.
func TestGoMod_ReplacesNothing(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`(?m)^\s*(replace|exclude)\b.*`).Find(text); found != nil {
		t.Errorf("go.mod has %q; `go install` of a version refuses that", found)
	}
}
