package certify

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/certify/line"
)

func TestChecker_ChangedRequestIsFound(t *testing.T) {
	const body = `{"subscriber_id":"100001","plan_id":"FAMILY-1"}`
	for name, test := range map[string]struct{ target, body, want string }{
		"as ordered":        {"/api/v1/renew", body, ""},
		"another operation": {"/api/v1/advance-renew", body, "the program called /api/v1/advance-renew"},
		"a query":           {"/api/v1/renew?x=1", body, "the program called /api/v1/renew?x=1"},
		"another plan":      {"/api/v1/renew", strings.Replace(body, "FAMILY-1", "FAMILY-3", 1), "is not the order's"},
		"one more field":    {"/api/v1/renew", strings.Replace(body, "{", `{"email":"x@example.in",`, 1), "is not the order's"},
		"bytes, not JSON":   {"/api/v1/renew", "\xff\xfe", `is not the order's: \xff\xfe instead of`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestSession(t, Story{Name: "plain"})
			key, _ := p.account.key()
			e := exchange{Request: line.Request{Method: "POST", Target: test.target, Key: p.orders[0].key, Body: []byte(test.body), Header: map[string][]string{"X-Api-Key": {key}}}, verified: true}
			c := &checker{session: p, exchanges: []exchange{e}}
			c.requests(0)
			switch {
			case test.want == "" && len(c.found) > 0:
				t.Errorf("found %+v", c.found)
			case test.want != "" && (len(c.found) != 1 || c.found[0].fault != ChangedRequest || !strings.Contains(c.found[0].text, test.want)):
				t.Errorf("found %+v; want %q: %s", c.found, ChangedRequest, test.want)
			}
		})
	}
}

func TestSession_UnreportedAmountsAreNamed(t *testing.T) {
	p := newTestSession(t, Story{Name: "amounts", Amounts: true})
	for charged, want := range map[string]string{`"349.00"`: "", `349`: "", ``: "1 of 1 outcomes", `null`: "1 of 1 outcomes", `""`: "1 of 1 outcomes"} {
		p.orders[0].outcome = &wireOutcome{Outcome: "success", Charged: json.RawMessage(charged)}
		if got := p.unchecked(); got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("charged %s: %q; want %q", charged, got, want)
		}
	}
	p.story.Amounts = false
	if got := p.unchecked(); got != "" {
		t.Errorf("a story that is not about amounts says %q", got)
	}
}
