package certify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"html"
	"os"
	"strings"
	"testing"
	"time"
)

func TestStories_AreValidAndExplained(t *testing.T) {
	stories, err := Stories()
	if err != nil {
		t.Fatal(err)
	}
	if len(stories) < 40 {
		t.Errorf("there are %d stories; want at least 40", len(stories))
	}
	pages := map[string]string{}
	for _, s := range stories {
		page, anchor, _ := strings.Cut(s.Guide, "#")
		if pages[page] == "" {
			text, err := os.ReadFile("../../" + page)
			if err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			pages[page] = string(text)
		}
		found := false
		for line := range strings.SplitSeq(pages[page], "\n") {
			heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
			found = found || is && strings.HasPrefix(line, "#") && anchorOf(heading) == anchor
		}
		if !found {
			t.Errorf("%s: %s has no section #%s", s.Name, page, anchor)
		}
		if !strings.HasSuffix(s.About, ".") || !strings.HasSuffix(s.Costs, ".") {
			t.Errorf("%s: about and costs are sentences", s.Name)
		}
	}
}

// anchorOf returns a heading's anchor, as GitHub makes it.
func anchorOf(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}

func TestParseStory_RefusesMistakes(t *testing.T) {
	const good = `{"about":"A.","costs":"B.","guide":"c#d","orders":[{"operation":"renew","body":{}}]}`
	if _, err := parseStory([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"unknown field":    strings.Replace(good, `"about"`, `"abuot":"x","about"`, 1),
		"unknown step":     strings.Replace(good, `"orders"`, `"line":[{"do":"loose answer"}],"orders"`, 1),
		"unknown outcome":  strings.Replace(good, `"body":{}`, `"body":{},"want":["done"]`, 1),
		"unknown provider": strings.Replace(good, `"orders"`, `"provider":["sulk"],"orders"`, 1),
		"no orders":        `{"about":"A.","costs":"B.","guide":"c#d"}`,
	} {
		if _, err := parseStory([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSameOrder(t *testing.T) {
	const order = `{"full_name":"A/B","mobile":"9","price":1234567.10}`
	for sent, want := range map[string]bool{
		`{"mobile":"9","full_name":"A\/B","price":1234567.1}`:          true,
		`{"full_name":"A/B","mobile":"9"}`:                             true, // a typed client drops fields that nobody knows
		`{"full_name":"A/B","mobile":"9","price":1234567.1000000001}`:  false,
		`{"full_name":"A/B","mobile":"9","price":"1234567.10"}`:        false,
		`{"full_name":"A/B"}`:                                          false,
		`{"full_name":"A/B ","mobile":"9"}`:                            false,
		`{"full_name":"A/B","mobile":"9","email":"x@y"}`:               false,
		`{"full_name":"A/B","mobile":"9","price":1234567.10} trailing`: false,
		`not JSON`: false,
	} {
		if got := sameOrder([]byte(sent), []byte(order)); got != want {
			t.Errorf("%s: %v, want %v", sent, got, want)
		}
	}
}

func TestReportHTML_ContainsReportAndDigest(t *testing.T) {
	r := NewReport([]Result{
		{Name: "lost-answer", Fault: ChargedTwice, Explanation: `</script><script>alert("x")</script>`, Requests: []Request{{Text: "POST <b>"}}},
		{Name: "plain", Passed: true},
	}, "1.2.3", time.Date(2026, 11, 18, 10, 0, 0, 0, time.UTC), []string{"php", "adapter.php"})
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	_, rest, _ := strings.Cut(text, `<script type="application/json" id="report">`)
	embedded, _, found := strings.Cut(rest, "</script>")
	if !found {
		t.Fatalf("the page has no report:\n%s", text)
	}
	digest := sha256.Sum256([]byte(embedded))
	for _, want := range []string{hex.EncodeToString(digest[:]), "1 of 2 stories failed", "2026-11-18T10:00:00Z", "1.2.3", "php adapter.php", html.EscapeString(`</script><script>alert("x")`)} {
		if !strings.Contains(text, want) && !strings.Contains(html.UnescapeString(text), html.UnescapeString(want)) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(text, `<script>alert`) || strings.Contains(text, "POST <b>") {
		t.Error("the page does not escape what a program sent")
	}
	var again Report
	if err := json.Unmarshal([]byte(embedded), &again); err != nil || again.Failed != 1 || again.Passed != 1 {
		t.Errorf("the embedded report reads %+v, %v", again, err)
	}
	if strings.Contains(text, "http://") || strings.Contains(text, "https://") {
		t.Error("the page refers to another address")
	}
}
