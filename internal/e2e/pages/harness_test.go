package pages

import (
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

func TestFindInlineCode(t *testing.T) {
	for _, body := range []string{
		"<p><script>go()</script>", "<SCRIPT type=module>\n go()</SCRIPT>", `<script src="a"></script><script> go()</script>`, `<p style="a">`, "<p\nSTYLE='a'>",
		"<style>", `<a onclick="go()">`, "<a\n\tonClick=go()>", `<p>on and on</p><a once onload="go()">`, `<a href="JavaScript:go()">`,
	} {
		if e2e.FindInlineCode(body) == "" {
			t.Errorf("%q: nothing found", body)
		}
	}
	for _, body := range []string{`<script src="/static/a.js" defer></script><p>It goes on = and on.</p>`, "<p>style</p>", `<link rel="stylesheet">`} {
		if found := e2e.FindInlineCode(body); found != "" {
			t.Errorf("%q: found %q; want nothing", body, found)
		}
	}
}
