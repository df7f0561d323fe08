package reference

import (
	"regexp"
	"strings"
	"testing"
)

func TestGuide_LinksLeadSomewhere(t *testing.T) {
	page, err := guidePage()
	if err != nil {
		t.Fatal(err)
	}
	body := string(page.Body)
	if page.Title != "Integrating with Coax" || strings.Count(body, "<h1") != 1 {
		t.Errorf("title %q, %d first-level headings", page.Title, strings.Count(body, "<h1"))
	}
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(body, -1)
	if len(links) < 10 {
		t.Errorf("found %d links; want at least 10", len(links))
	}
	for _, link := range links {
		section, within := strings.CutPrefix(link[1], "#")
		switch {
		case within && !strings.Contains(body, `id="`+section+`"`):
			t.Errorf("there is no section %s", section)
		case !within && link[1] != "/openapi.yaml" && !strings.HasPrefix(link[1], "https://"):
			t.Errorf("%s is not served", link[1])
		}
	}
	for _, want := range []string{
		"Their page (<code>contract/vectors/README.md</code> in the source)", `<pre tabindex="0"><code class="language-python">`,
		`<div class="docs-scroll" tabindex="0"><table>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the guide lacks %s", want)
		}
	}
}

func TestRenderGuide_Safe(t *testing.T) {
	page, err := renderGuide([]byte("# A\n\n<script>go()</script>\n\n[a](javascript:go())\n\n| a | b |\n|:-:|--:|\n| `<table>` | 2 |\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "href=\"javascript", "style="} {
		if strings.Contains(string(page.Body), bad) {
			t.Errorf("the page has %q:\n%s", bad, page.Body)
		}
	}
	if _, err := renderGuide([]byte("no heading")); err == nil {
		t.Error("a page without a heading was rendered")
	}
}
