package certify

import (
	"os"
	"strings"
	"testing"
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
	const good = `{"about":"A.","costs":"B.","guide":"docs/integrating.md#retries","orders":[{"operation":"renew","body":{}}]}`
	if _, err := parseStory([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"unknown field":    strings.Replace(good, `"about"`, `"abuot":"x","about"`, 1),
		"unknown step":     strings.Replace(good, `"orders"`, `"line":[{"do":"loose answer"}],"orders"`, 1),
		"unknown outcome":  strings.Replace(good, `"body":{}`, `"body":{},"want":["done"]`, 1),
		"unknown provider": strings.Replace(good, `"orders"`, `"provider":["sulk"],"orders"`, 1),
		"unserved guide":   strings.Replace(good, "docs/integrating.md", "docs/architecture.md", 1),
		"no orders":        `{"about":"A.","costs":"B.","guide":"docs/integrating.md#retries"}`,
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
