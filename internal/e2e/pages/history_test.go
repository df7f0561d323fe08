package pages

import "testing"

// The list of pages that BenchmarkPages times is complete, and each of them answers.
func TestPages_AllAnswerOnDemoHistory(t *testing.T) {
	pages := timedPages(t, newHistoryEnv(t))
	if len(pages) < 80 {
		t.Errorf("only %d pages were found; want at least 80", len(pages))
	}
	for _, page := range pages {
		page.load(t)
	}
}
