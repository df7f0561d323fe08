package certify

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/admin"
)

// newTestSession returns a session with one order and no service: what a program prints and
// sends can be checked without one.
func newTestSession(t *testing.T, story Story) *session {
	t.Helper()
	var issued admin.IssuedKey
	issued.Key, issued.Secret = access.NewKey()
	a := &account{given: map[string]string{}}
	a.replaceKey(issued)
	p := &session{
		story: story, service: &service{folder: t.TempDir()}, account: a, environ: os.Environ(),
		trap: &trap{}, kills: make(chan chan struct{}), ended: make(chan struct{}), transactions: map[string]int{}, grace: time.Minute,
		orders: []*order{{
			storyOrder: storyOrder{Operation: "renew", Want: []string{"success"}}, id: "plain/1", key: "certify:plain.1_order-1-0",
			body: []byte(`{"subscriber_id":"100001","plan_id":"FAMILY-1"}`), mobile: "8000100000", subscriber: "100001",
		}},
	}
	p.proxy = &proxy{session: p, server: &http.Server{}, url: "https://127.0.0.1:1", next: map[[2]int]int{}, nonces: map[string]bool{}}
	return p
}

// playScript plays the session with a program in sh, which has the order in $order and the
// secret in $secret.
func playScript(t *testing.T, p *session, script string) {
	t.Helper()
	const read = `read -r order; secret=${order#*api_secret\":\"}; secret=${secret%%\"*}; `
	p.command = []string{"sh", "-c", read + script}
	if err := p.play(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const answer = `echo '{"id":"plain/1","outcome":"failed"}'; `

func TestSession_BrokenProtocolIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		grace  time.Duration
		want   string
	}{
		"two answers":     {answer + answer, time.Minute, "answered order plain/1 twice"},
		"an unknown id":   {`echo '{"id":"plain/7","outcome":"failed"}'; ` + answer, time.Minute, `answered order "plain/7", which it was not given`},
		"another word":    {`echo '{"id":"plain/1","outcome":"done"}'; ` + answer, time.Minute, `with the outcome "done"`},
		"a line of a log": {"echo started; " + answer, time.Minute, "a line that is no outcome: started"},
		"not ending":      {answer + "exec sleep 600", time.Millisecond, "did not end within 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTestSession(t, Story{Name: "plain", Limit: 60})
			p.grace = test.grace
			playScript(t, p, test.script)
			if len(p.problems) != 1 || !strings.Contains(p.problems[0], test.want) {
				t.Errorf("found %q; want %q", p.problems, test.want)
			}
			if got := p.orders[0].outcome; got == nil || got.Outcome != "failed" {
				t.Errorf("the outcome is %+v", got)
			}
		})
	}
}

func TestSession_NoOutcomeIsFound(t *testing.T) {
	t.Parallel()
	p := newTestSession(t, Story{Name: "plain", Limit: 0.05})
	playScript(t, p, "exec sleep 600")
	c := &checker{session: p}
	c.outcome(0, nil)
	if len(c.found) != 1 || c.found[0].fault != NoOutcome {
		t.Errorf("found %+v; want %q", c.found, NoOutcome)
	}
}

func TestSession_PrintedSecretIsFound(t *testing.T) {
	const chatter = `head -c 3000000 /dev/zero | tr '\0' 'x' >&2; `
	for name, test := range map[string]struct{ script, want string }{
		"on standard output":              {`echo "$order"; ` + answer, "on its standard output."},
		"on standard error":               {`echo "$secret" >&2; ` + answer, "on its standard error."},
		"on both":                         {`echo "$order"; echo "$order" >&2; ` + answer, "on its standard "},
		"before three megabytes":          {`echo "$secret" >&2; ` + chatter + answer, "on its standard error."},
		"in base64 with the key":          {`printf 'cxk:%s:x' "$secret" | base64 -w 0 >&2; ` + answer, "on its standard error."},
		"in capitals":                     {`echo "$secret" | tr a-z A-Z >&2; ` + answer, "on its standard error."},
		"at the end of a very long line":  {`head -c 300000 /dev/zero | tr '\0' 'x'; echo "$secret"; ` + answer, "on its standard output."},
		"after its answer":                {answer + `echo "$secret" >&2`, "on its standard error."},
		"never":                           {`echo "no secret here" >&2; ` + answer, ""},
		"never, but the first half of it": {`printf %.40s "$secret" >&2; ` + answer, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTestSession(t, Story{Name: "plain", Limit: 60})
			playScript(t, p, test.script)
			c := &checker{session: p}
			c.secrets()
			switch {
			case test.want == "" && len(c.found) > 0:
				t.Errorf("found %+v", c.found)
			case test.want != "" && (len(c.found) != 1 || c.found[0].fault != LeakedSecret || !strings.Contains(c.found[0].text, test.want)):
				t.Errorf("found %+v; want the secret %s", c.found, test.want)
			}
		})
	}
}

func TestWatch_FindsEveryFormAcrossWrites(t *testing.T) {
	_, issued := access.NewKey()
	secret := issued.Reveal()
	digits := strings.TrimPrefix(secret, "cxs_")
	forms := []string{secret, digits, strings.ToUpper(digits)}
	for before := range 3 {
		for _, text := range []string{secret, digits, strings.ToUpper(digits)} {
			forms = append(forms, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(":", before)+text+"\n")))
		}
	}
	for _, form := range forms {
		for _, size := range []int{1, 7, len(form)} {
			var w watch
			w.add(secret)
			s := w.stream("standard error")
			fmt.Fprint(s, strings.Repeat("chatter ", 1000))
			for piece := range slices.Chunk([]byte(form), size) {
				if _, err := s.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Fprint(s, strings.Repeat("chatter ", 1000))
			if len(w.leaked()) != 1 {
				t.Errorf("%s in pieces of %d bytes is not found", form, size)
			}
		}
	}
	var w watch
	w.add(secret)
	fmt.Fprint(w.stream("standard output"), digits[:30])
	fmt.Fprint(w.stream("standard error"), digits[30:])
	if got := w.leaked(); len(got) != 0 {
		t.Errorf("two halves on two streams count as a leak on %q", got)
	}
}
