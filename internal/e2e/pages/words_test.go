package pages

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
)

// Every page of the access matrix in Hindi: what is left in Latin letters is data, or a
// word that the glossary allows. Any other text is missing in the message files.
func TestPages_AllTextIsTranslated(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	m := newAccessMatrix(t)
	allowed := glossaryLatin(t)
	pages := 0
	for _, name := range []string{"anonymous", "owner", "counter", "finance", "administrator", "finance+code", "administrator+totp", "owner+pass"} {
		visitor := m.visitor(name)
		token := ""
		if visitor.stage != "" {
			person, err := m.Node.Store.LoginNamed(t.Context(), visitor.username)
			m.must(err)
			m.must(m.Node.Store.SetLanguage(t.Context(), person.ID, "hi"))
			token = m.open(visitor, false)
		}
		for _, try := range m.attempts {
			if try.route.Method != http.MethodGet || strings.HasPrefix(try.path, "/docs") || try.route.Path == "/sign-out" {
				continue
			}
			status, body := m.inHindi(token, try.path)
			if !strings.Contains(body, "<html") {
				continue // a redirect, or a file
			}
			pages++
			for _, text := range untranslated(body, allowed) {
				t.Errorf("%s as %s (%d): %q is not in the message files", try.path, name, status, text)
			}
		}
	}
	if pages < 60 {
		t.Errorf("looked at %d pages: the search looks in the wrong place", pages)
	}
}

func TestUntranslated_FindsEachKind(t *testing.T) {
	for body, want := range map[string]string{
		`<html><body><p>Unsaid</p>`:                                          "Unsaid",
		`<html><body><a title="Unsaid">हाँ</a>`:                              "Unsaid",
		`<html><body><p>Demo Operator Unsaid</p>`:                            "Demo Operator Unsaid",
		`<html><body><p>Demo Operator · ₹1.00 API <code>Unsaid</code></p>`:   "",
		`<html><head><title>वॉलेट · Coax</title></head><script>x()</script>`: "",
	} {
		if got := strings.Join(untranslated(body, []string{"API", "Coax"}), " "); got != want {
			t.Errorf("%s: %q; want %q", body, got, want)
		}
	}
}

// inHindi reads a page in Hindi.
func (m *accessMatrix) inHindi(token, path string) (status int, body string) {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.URL(path), nil)
	m.must(err)
	request.Header.Set("Accept-Language", "hi")
	if token != "" {
		request.AddCookie(&http.Cookie{Name: "__Host-coax", Value: token})
	}
	response, err := m.client.Do(request)
	m.must(err)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	m.must(err)
	return response.StatusCode, string(read)
}

func glossaryLatin(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../web/look/testdata/glossary.json")
	if err != nil {
		t.Fatal(err)
	}
	var glossary struct {
		Latin []string `json:"latin"`
	}
	if err := json.Unmarshal(text, &glossary); err != nil {
		t.Fatal(err)
	}
	return glossary.Latin
}

var (
	// notText are elements whose content is no text, a key of the keyboard, or data in the font of data.
	notText = regexp.MustCompile(`(?s)<(script|style|svg|code|kbd|pre|option|textarea)\b.*?</(script|style|svg|code|kbd|pre|option|textarea)>|<label class="check">.*?</label>|<[a-z]+ [^>]*class="[^"]*\bmono\b[^"]*"[^>]*>[^<]*`)
	spoken  = regexp.MustCompile(`\s(?:title|aria-label|alt|placeholder)="([^"]*)"`)
	element = regexp.MustCompile(`(?s)<[^>]*>`)
	latin   = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_.'-]*`)
	// data are names, ids, stored English texts and times that the installation of the test has.
	data = regexp.MustCompile(strings.Join([]string{
		`\bmatrix\.csv\b`, `^CASH$`, `Demo Bank, Pune`, `\bCXP[2-9A-HJKMNP-Z]{6}\b`, `\bR\d\d-\d\d/\d{6}\b`, `^payment announcement `, `^bank statement \d+$`,
		`Demo (Administrator|Operator|Cable|Finance|Support|Viewer)`, `Name of [a-z+-]+`, `\ba-[a-z+-]+`, `\bAsha\b`, `\bSagar( Cable)?\b`, `\bClerk\b`, `\bColleague\b`,
		`\b(maker|checker|clerk|sagar|colleague|admin|finance|operator|demo|matrix|test|simulator|sqlite|dev)\b`, `For the matrix\.`,
		`(Basic|Family|Family and streaming|Sports), \d+ months?`, `(Basic|Family) television`, `Streaming pack`, `OTT \+ Live TV`, `\d+ channels`,
		`\b(TV|BASIC|FAMILY|COMBO|SPORTS)[A-Z0-9-]*`, `\bR-1\b`, `\bCX[0-9A-Z]{26}`, `\bcxk_[0-9a-f]+`, `\b[0-9a-f]{32,64}\b`, `\bgo1\.[0-9.]+`, `\bv1\b`, `\b[a-z-]+-\d+-[0-9a-f]{8}\b`,
		`\d IST\b`, `panel\.example\.com`, `\bPhone\b`, `invalid IP`, `\[API\]`, `opening balance`, `INVALID_SIGNATURE`, `\d ms\b`, `api:key \d+`, `req_…`, `^English$`, `^Expired$`,
		`^(whitelist of )?(lco|key|login|proposal|plan) [A-Z0-9-]+`, `\bplan [A-Z]+-\d`, `totp set`, `plan_id`, `cxs_`,
		`the connection ended before the provider's whole answer`,
		`coax audit`, `\b(GET|POST)\b`, `/api/v1/[a-z]+`, `\b\d{3} [A-Z_]+`, `^New$`,
		`Activate, Renew, Advance Renew`, `Advance Renew`, `Check (Balance|Subscription|Transaction)`, `Get Plans`,
	}, "|"))
)

// untranslated returns the texts of a page that have words in Latin letters beside data.
func untranslated(body string, allowed []string) (found []string) {
	var texts []string
	body = notText.ReplaceAllString(body, "")
	for _, attribute := range spoken.FindAllStringSubmatch(body, -1) {
		texts = append(texts, attribute[1])
	}
	texts = append(texts, element.Split(body, -1)...)
	for _, text := range texts {
		text = strings.TrimSpace(html.UnescapeString(text))
		for _, word := range latin.FindAllString(data.ReplaceAllString(text, ""), -1) {
			if word = strings.Trim(word, ".-'"); !slices.Contains(allowed, word) && !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	return found
}
