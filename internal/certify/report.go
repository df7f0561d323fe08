package certify

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// maxRequests is how many requests of a story a report has.
const maxRequests = 40

// result makes a report of a story.
func (p *session) result(found []finding, exchanges []exchange, began time.Time, took time.Duration) Result {
	s := p.story
	r := Result{
		Name: s.Name, Passed: len(found) == 0, About: s.About, Costs: s.Costs, Guide: s.Guide,
		Expected: p.expected(), Happened: p.happened(), Requests: []Request{}, Seconds: float64(took.Milliseconds()) / 1000,
	}
	for i, f := range found {
		if i == 0 {
			r.Fault, r.Explanation = f.fault, f.text
		} else if text := f.fault + ": " + f.text; len(r.More) < 5 {
			r.More = append(r.More, p.mask(text))
		}
	}
	r.Explanation = p.mask(r.Explanation)
	if r.Passed {
		r.Explanation = "As expected."
	}
	for _, e := range exchanges {
		if len(r.Requests) == maxRequests {
			break
		}
		r.Requests = append(r.Requests, Request{
			At: float64(e.came.Sub(began).Milliseconds()) / 1000, Text: p.mask(string(e.raw)), Answer: p.mask(e.answered()),
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
				text += ", " + clip(o.outcome.Code)
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
func (e exchange) answered() string {
	if e.answer.Status == 0 {
		return "no answer (" + e.did + ")"
	}
	text := fmt.Sprintf("%d %s", e.answer.Status, http.StatusText(e.answer.Status))
	if wait := e.answer.Header.Get("Retry-After"); wait != "" {
		text += ", Retry-After: " + wait
	}
	return text + "\n" + clip(string(e.answer.Body))
}

var hidden = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(x-signature: *[0-9a-f]{8})[0-9a-f]+`),
	regexp.MustCompile(`(?i)(x-api-key: *.{8})[^\r\n]+`),
	regexp.MustCompile(`("password" *: *")[^"]+`),
}

// mask hides secrets, signatures and passwords.
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

// Report is the result of a run.
type Report struct {
	Stories []Result `json:"stories"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Version string   `json:"version"`
	Date    string   `json:"date"`
	Command string   `json:"command"`
}

// NewReport sums the results up.
func NewReport(results []Result, version string, at time.Time, command []string) Report {
	r := Report{Stories: results, Version: version, Date: at.UTC().Format(time.RFC3339), Command: strings.Join(command, " ")}
	for _, one := range results {
		if one.Passed {
			r.Passed++
		} else {
			r.Failed++
		}
	}
	return r
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// HTML returns a page that needs no other file. It contains the report as JSON, and the
// SHA-256 of that.
func (r Report) HTML() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	var out bytes.Buffer
	err = pageTemplate.Execute(&out, struct {
		Report
		JSON   template.JS
		Digest string
	}{r, template.JS(text), hex.EncodeToString(digest[:])}) //nolint:gosec // encoding/json escapes < and >
	return out.Bytes(), err
}
