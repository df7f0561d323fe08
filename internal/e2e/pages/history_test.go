package pages

import "testing"

// Speed is BenchmarkPages' subject; this one makes sure that the list of pages it
// times is whole and that each of them answers.
func TestPages_AllAnswerOnDemoHistory(t *testing.T) {
	pages := pacedPages(t, historicWorld(t))
	if len(pages) < 80 {
		t.Errorf("only %d pages were found: the list is not the whole one", len(pages))
	}
	for _, page := range pages {
		page.timed(t)
	}
}
