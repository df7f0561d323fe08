package reference

import (
	"regexp"
	"strings"
	"testing"
)

func TestGuides_LinksLeadSomewhere(t *testing.T) {
	titles := map[string]string{
		"/docs/guide": "Integrating with Coax", "/docs/what-happens-when": "What happens when", "/docs/sdk-behaviour": "How every SDK behaves",
	}
	bodies := map[string]string{"/openapi.yaml": "", "/docs/after-each-answer.svg": ""}
	linked := map[string]bool{"/docs/guide": true}
	for _, g := range guides {
		page, err := g.render()
		if err != nil {
			t.Fatal(err)
		}
		at, body := served[g.file], string(page.Body)
		if page.Title != titles[at] || strings.Count(body, "<h1") != 1 {
			t.Errorf("%s: title %q, %d first-level headings", at, page.Title, strings.Count(body, "<h1"))
		}
		bodies[at] = body
	}
	for at := range titles {
		for _, link := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(bodies[at], -1) {
			to, section, within := strings.Cut(link[1], "#")
			if strings.HasPrefix(to, "https://") {
				continue
			}
			linked[to] = true
			if to == "" {
				to = at
			}
			if body, is := bodies[to]; !is {
				t.Errorf("%s: %s is not served", at, link[1])
			} else if within && !strings.Contains(body, `id="`+section+`"`) {
				t.Errorf("%s: there is no section %s", at, link[1])
			}
		}
	}
	for to := range bodies {
		if !linked[to] {
			t.Errorf("no page links to %s", to)
		}
	}
	for _, want := range []string{
		"Their page (<code>contract/vectors/README.md</code> in the source)", `<pre tabindex="0"><code class="language-python">`,
		`<div class="docs-scroll" tabindex="0"><table>`, `href="/docs/what-happens-when#an-address-that-operators-share"`,
	} {
		if !strings.Contains(bodies["/docs/guide"], want) {
			t.Errorf("the guide lacks %s", want)
		}
	}
	if want := "PHP (<code>sdk/php/README.md</code> in the source)"; !strings.Contains(bodies["/docs/sdk-behaviour"], want) {
		t.Errorf("the page about the SDKs lacks %s", want)
	}
}

func TestRenderGuide_Safe(t *testing.T) {
	page, err := renderGuide("docs/a.md", []byte("# A\n\n<script>go()</script>\n\n[a](javascript:go())\n\n| a | b |\n|:-:|--:|\n| `<table>` | 2 |\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "href=\"javascript", "style="} {
		if strings.Contains(string(page.Body), bad) {
			t.Errorf("the page has %q:\n%s", bad, page.Body)
		}
	}
	if _, err := renderGuide("docs/a.md", []byte("no heading")); err == nil {
		t.Error("a page without a heading was rendered")
	}
	if _, err := renderGuide("docs/a.md", []byte("# A\n\n![a](panel.png)\n")); err == nil {
		t.Error("a page with a picture that is not served was rendered")
	}
}
