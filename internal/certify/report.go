package certify

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// maxRequests is how many requests of a story a report has.
const maxRequests = 40

// maxSame is how often a report of a story names the same fault: others need the place.
const maxSame = 3

// result makes a report of a story.
func (p *session) result(found []finding, exchanges []exchange, began time.Time, took time.Duration) Result {
	s := p.story
	r := Result{
		Name: s.Name, Passed: len(found) == 0, About: s.About, Costs: s.Costs, Guide: s.Guide, Page: s.Page(),
		Expected: p.expected(), Happened: p.happened(), Requests: []Request{}, Seconds: float64(took.Milliseconds()) / 1000,
	}
	named := map[string]int{}
	for i, f := range found {
		named[f.fault]++
		if i == 0 {
			r.Fault, r.Explanation = f.fault, f.text
		} else if len(r.More) < 5 && named[f.fault] <= maxSame {
			r.More = append(r.More, p.mask(f.fault+": "+f.text))
		}
	}
	r.Explanation = p.mask(r.Explanation)
	if r.Passed {
		r.Explanation = "As expected."
		r.Unchecked = p.unchecked()
	}
	for _, e := range exchanges {
		if len(r.Requests) == maxRequests {
			break
		}
		text, escaped := escape(p.mask(string(e.raw)))
		r.Requests = append(r.Requests, Request{
			At: float64(e.came.Sub(began).Milliseconds()) / 1000, Text: text, Escaped: escaped, Answer: p.answered(e),
		})
	}
	return r
}

// expected says which outcomes were right.
func (p *session) expected() string {
	var parts []string
	for i, o := range p.story.Orders {
		text := strings.Join(o.Want, " or ")
		if len(p.story.Orders) > 1 {
			text = fmt.Sprintf("order %d: %s", i+1, text)
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, "; ")
	if p.story.OpenAfter > 0 {
		text += fmt.Sprintf("; or no outcome within %v s", p.story.OpenAfter)
	}
	return text
}

// happened says what the program answered, in a line for each order.
func (p *session) happened() []string {
	var lines []string
	for _, o := range p.orders {
		text := o.id + ": "
		switch {
		case len(o.given) == 0:
			text += "not given"
		case o.outcome == nil:
			text += "no outcome"
		default:
			text += fmt.Sprintf("%s after %.1f s", o.outcome.Outcome, o.answered.Sub(o.given[0].at).Seconds())
			if o.outcome.Code != "" {
				text += ", " + p.shown(o.outcome.Code)
			}
		}
		if len(o.given) > 1 {
			text += fmt.Sprintf(" (given %d times)", len(o.given))
		}
		lines = append(lines, p.mask(text))
		if len(lines) == 10 && len(p.orders) > 12 {
			return append(lines, fmt.Sprintf("and %d more", len(p.orders)-10))
		}
	}
	return lines
}

// answered describes what the program was sent.
func (p *session) answered(e exchange) string {
	if e.answer.Status == 0 {
		return "no answer (" + e.did + ")"
	}
	text := fmt.Sprintf("%d %s", e.answer.Status, http.StatusText(e.answer.Status))
	if wait := e.answer.Header.Get("Retry-After"); wait != "" {
		text += ", Retry-After: " + wait
	}
	return text + "\n" + p.shown(string(e.answer.Body))
}

var hidden = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(x-signature["']? *[:=] *["']?[0-9a-f]{8})[0-9a-f]+`),
	regexp.MustCompile(`(?i)(x-api-key: *.{8})[^\r\n]+`),
	regexp.MustCompile(`(?i)(cxk_[0-9a-f]{4})[0-9a-f]+`),
	regexp.MustCompile(`(?is)("password"\s*:\s*")(?:[^"\\]|\\.)+`),
	regexp.MustCompile(`(?i)(\\"password\\"\s*:\s*\\")[^"\\]+`), // JSON within a JSON string
}

// mask hides secrets, signatures, keys and passwords.
func (p *session) mask(text string) string {
	for _, secret := range p.account.secrets() {
		for _, form := range formsOf(secret) {
			text = strings.ReplaceAll(text, string(form), "(the API secret)")
		}
	}
	for _, one := range hidden {
		text = one.ReplaceAllString(text, "${1}…")
	}
	return text
}

// shown makes text that a program sent fit to be shown: masked first, so that no part of a
// secret is left where it is cut.
func (p *session) shown(text string) string {
	text, _ = escape(p.mask(text))
	return clip(text)
}

// escape writes bytes that are not text as \xNN, and then a backslash twice, so that one can
// tell which bytes they were. It returns whether there were any.
func escape(text string) (string, bool) {
	isText := func(r rune) bool { return r >= ' ' && r != 0x7f || r == '\r' || r == '\n' || r == '\t' }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !isText(r) }) {
		return text, false
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && size == 1 || !isText(r):
			fmt.Fprintf(&b, `\x%02x`, text[0])
		default:
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String(), true
}

// Report is the result of a run.
type Report struct {
	Stories []Result `json:"stories"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Version string   `json:"version"`
	Date    string   `json:"date"`
	Command string   `json:"command"`
	// Digest is the SHA-256 of the report as JSON without this field, as a page contains it.
	Digest string `json:"digest,omitempty"`
}

// NewReport sums the results up.
func NewReport(results []Result, version string, at time.Time, command []string) (Report, error) {
	r := Report{Stories: results, Version: version, Date: at.UTC().Format(time.RFC3339), Command: strings.Join(command, " ")}
	for _, one := range results {
		if one.Passed {
			r.Passed++
		} else {
			r.Failed++
		}
	}
	data, err := json.Marshal(r)
	r.Digest = digestOf(data)
	return r, err
}

func digestOf(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// HTML returns a page that needs no other file. It contains the report as JSON, and the
// digest of that.
func (r Report) HTML() ([]byte, error) {
	r.Digest = ""
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	_, text, err := render(data)
	return text, err
}

// render makes the page of a report from nothing but its data.
func render(data []byte) (Report, []byte, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return r, nil, err
	}
	r.Digest = digestOf(data)
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, struct {
		Report
		JSON template.JS
	}{r, template.JS(data)}) //nolint:gosec // encoding/json escapes < and >
	return r, out.Bytes(), err
}

// What Verify finds wrong with a page.
var (
	ErrNoReport = errors.New("the file is not a report of coax certify")
	ErrDigest   = errors.New("the digest on the page is not that of its data")
	ErrShown    = errors.New("the page shows something else than its data")
)

// Verify returns the report in a page's data, with an error if the page's digest or the rest
// of what it shows is not that of the data. Pages of other versions look different: of those
// only the digest is compared, and compared is false.
//
// It finds a page that was changed, not one that was invented: anybody can compute a digest.
func Verify(text []byte, version string) (r Report, compared bool, err error) {
	_, rest, _ := bytes.Cut(text, []byte(`<script type="application/json" id="report">`))
	data, _, found := bytes.Cut(rest, []byte("</script>"))
	if !found {
		return r, false, ErrNoReport
	}
	r, again, err := render(data)
	if err != nil {
		return r, false, ErrNoReport
	}
	if !bytes.Contains(text, []byte("<dd><code>"+r.Digest+"</code>")) {
		return r, false, ErrDigest
	}
	if r.Version != version {
		return r, false, nil
	}
	if !bytes.Equal(text, again) {
		return r, true, ErrShown
	}
	return r, true, nil
}
