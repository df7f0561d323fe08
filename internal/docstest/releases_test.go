package docstest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e/program"
)

// The dated versions of the changelog, newest first, are the recorded releases.
func TestReleases_MatchChangelog(t *testing.T) {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1) {
		if heading[1] == "Unreleased" && len(want) == 0 {
			continue
		}
		version, date, _ := strings.Cut(heading[1], " - ")
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\d$`).MatchString(date) {
			t.Errorf("CHANGELOG.md has the heading %q; want \"Unreleased\" first, or a version and its date", heading[1])
		}
		want = append(want, version)
	}
	slices.Reverse(want)

	releases, err := program.Releases(".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, release := range releases {
		got = append(got, release.Version)
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("docs/releases.txt has %q; want %q, as CHANGELOG.md", got, want)
	}
}
