package pages

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web"
	"github.com/coaxhq/coax/internal/web/look"
)

// Every page and form of the access matrix, and the pages that filled-in forms lead to, in the pseudo-language.
func TestPages_AllTextIsFromMessageFiles(t *testing.T) {
	e2e.StoreIndependent(t)
	t.Parallel()
	m := newAccessMatrix(t)
	read := 0
	check := func(where string, page e2e.Page) {
		if read++; !checkPseudo(t, where, page) {
			read--
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, name := range []string{"anonymous", "counter", "owner", "finance", "administrator", "finance+code", "administrator+totp", "owner+pass"} {
			b := m.inPseudo(name)
			session, err := m.Node.Logins.Resume(t.Context(), m.open(m.visitor(name), false))
			for _, try := range m.attempts {
				switch {
				case try.route.Method != method, try.route.Area == web.Docs, try.route.Path == "/sign-out", try.route.Path == "/account/language":
					continue
				case err == nil && name != "counter" && !try.route.Allow.Allows(&session):
					continue // the same refusal everywhere
				}
				if method == http.MethodPost {
					b = m.inPseudo(name) // a form may end the session
				}
				path := strings.Replace(try.path, ownPasskey, fmt.Sprint(m.visitor(name).passkey), 1)
				if method == http.MethodPost {
					check(try.name()+" as "+name, b.Post(path, try.form))
				} else {
					check(try.name()+" as "+name, b.Get(path))
				}
			}
		}
	}
	m.readStories(check)
	if read < 200 {
		t.Errorf("read %d pages: the search looks in the wrong place", read)
	}
}

// readStories checks the pages that filled-in forms lead to: questions before something is posted, results, receipts
// and refusals.
func (m *accessMatrix) readStories(check func(where string, page e2e.Page)) {
	m.t.Helper()
	const shown, wrong, done = http.StatusOK, http.StatusUnprocessableEntity, http.StatusSeeOther
	browsers := map[string]*e2e.Browser{}
	for _, name := range []string{"owner", "finance", "administrator"} {
		browsers[name] = m.inPseudo(name)
	}
	answered := func(by, path string, status int, page e2e.Page) e2e.Page {
		m.t.Helper()
		if page.Status != status {
			m.t.Errorf("%s as %s: %d to %q; want %d\n%s", path, by, page.Status, page.Location, status, page.Body)
		}
		check("the answer to "+path+" as "+by, page)
		if page.Status == done {
			check(page.Location+" after "+path+" as "+by, browsers[by].Get(page.Location))
		}
		return page
	}
	get := func(by, path string) e2e.Page {
		m.t.Helper()
		return answered(by, path, shown, browsers[by].Get(path))
	}
	send := func(by string, status int, path string, form url.Values) e2e.Page {
		m.t.Helper()
		return answered(by, path, status, browsers[by].Post(path, form))
	}
	with := func(form url.Values, pairs ...string) url.Values {
		for i := 0; i < len(pairs); i += 2 {
			form.Add(pairs[i], pairs[i+1])
		}
		return form
	}
	post := func(by string, status int, path string, pairs ...string) e2e.Page {
		m.t.Helper()
		return send(by, status, path, with(url.Values{}, pairs...))
	}
	// agree sends the hidden fields of a page, which asks before it does something.
	agree := func(by string, status int, path string, page e2e.Page, pairs ...string) e2e.Page {
		m.t.Helper()
		form := page.HiddenFields()
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return send(by, status, path, form)
	}

	// The panel: orders, receipts, a bulk renewal, people, money in.
	for _, try := range m.attempts {
		if try.note != "" || try.route.Method != http.MethodGet || !strings.HasPrefix(try.path, "/panel/subscribers/") {
			continue
		}
		switch base, action, _ := strings.Cut(strings.TrimPrefix(try.path, "/panel/subscribers/"), "/"); action {
		case "renew", "advance-renew":
			path := "/panel/subscribers/" + base + "/" + action
			quoted := get("owner", path+"?plan_id="+map[string]string{"renew": "FAMILY-1", "advance-renew": "FAMILY-3"}[action])
			agree("owner", done, path, quoted)
			agree("owner", done, path, quoted) // sent twice
			agree("owner", wrong, path, quoted, "plan_id", "COMBO-1")
		}
	}
	activation := []string{"step", "preview", "full_name", "Asha", "mobile", "9812340009", "plan_id", "BASIC-1"}
	asked := send("owner", shown, "/panel/activate", with(get("owner", "/panel/activate").HiddenFields(), activation...))
	sold := regexp.MustCompile(`CX[0-9A-Z]{26}`).FindString(agree("owner", shown, "/panel/activate", asked, "step", "confirm").Body)
	send("owner", wrong, "/panel/activate", with(get("owner", "/panel/activate").HiddenFields(), activation...))
	list := answered("owner", "/panel/bulk", done, browsers["owner"].Upload("/panel/bulk", "file", "matrix.csv", "subscriber_id,extra\n4711,x\n")).Location
	post("owner", done, list+"/cancel")
	answered("owner", "/panel/bulk", wrong, browsers["owner"].Upload("/panel/bulk", "file", "matrix.csv", "nonsense\n"))
	once := get("owner", "/panel/people")
	agree("owner", shown, "/panel/people", once, "name", "Asha", "username", "asha", "role", "counter")
	send("owner", done, "/panel/add-money", announcementForm(m.Env, "5000", "upi", "631245678902"))
	send("owner", wrong, "/panel/add-money", announcementForm(m.Env, "6000", "upi", "631245678902"))
	post("owner", wrong, "/panel/add-money", "amount", "x", "method", "upi", "reference", "1", "paid_on", "x")

	// The console: money, with and without a second person.
	operator := fmt.Sprintf("/console/operators/%d", m.subject)
	topUp := []string{"form", "top-up", "amount", "12", "reference", "R-2"}
	agree("finance", done, operator+"/wallet/top-up", post("finance", shown, operator+"/wallet/top-up", topUp...), "step", "confirm")
	post("finance", shown, operator+"/wallet/top-up", topUp...)
	post("finance", wrong, operator+"/wallet/top-up", "form", "top-up", "amount", "13", "reference", "R-2", "step", "confirm")
	post("finance", done, operator+"/wallet/top-up", "form", "top-up", "amount", "70000", "reference", "R-3", "step", "confirm")
	post("administrator", wrong, operator+"/wallet/top-up", "form", "top-up", "amount", "71000", "reference", "R-3", "step", "confirm")
	get("finance", "/console/approvals")
	get("administrator", "/console/approvals")
	adjust := get("finance", operator+"/wallet")
	agree("finance", shown, operator+"/wallet/adjust", adjust, "form", "adjust", "direction", "take", "amount", "1", "reason", "For the matrix.")

	// A bank statement, a reversal, and what is made in the console.
	columns := sbiColumns(statementOf(m.Env, [2]string{"UPI/CR/631245678902/RAVI KUMAR/HDFC/ravicable", "5,000.00"}))
	statement := send("finance", done, "/console/payments/columns", columns).Location
	line := regexp.MustCompile(`name="line" value="([^"]+)"`).FindStringSubmatch(get("finance", statement).Body)
	if line == nil {
		m.t.Fatal("the statement has no line to credit")
	}
	credit := post("finance", shown, statement+"/credit", "form", "credit", "kind", "exact", "line", line[1])
	agree("finance", done, statement+"/credit", credit, "step", "confirm")
	agree("finance", wrong, statement+"/credit", credit, "step", "confirm")
	post("finance", shown, "/console/review/operations/"+sold+"/reverse", "reverse_reason", "For the matrix.")
	const basic = "/console/catalogue/plans/BASIC-1"
	cheap := []string{"name", "Basic, 1 month", "description", "120 channels", "price", "0.01", "months", "24", "type", "standard", "main", "TV-BASIC"}
	edit := get("administrator", basic+"/edit")
	agree("administrator", shown, basic+"/preview", edit, cheap...)
	agree("administrator", done, basic+"/edit", edit, cheap...)
	agree("administrator", done, "/console/new-operator", get("administrator", "/console/new-operator"),
		"form", "create", "name", "Sagar Digital Cable", "commission", "2.5", "rate_limit", "60", "low_balance", "500")
	agree("administrator", shown, operator+"/keys", get("administrator", operator+"/keys"), "form", "issue", "permission", "Renew")
	agree("administrator", shown, operator+"/logins", get("administrator", operator+"/logins"), "form", "create", "username", "a-clerk", "name", "Clerk", "role", "owner")
	post("administrator", wrong, operator+"/delete", "form", "delete", "operator", fmt.Sprint(m.subject))
}

func TestNotPseudo_FindsEachKind(t *testing.T) {
	for body, want := range map[string]string{
		`<p>Unsaid</p>`:                                      "Unsaid",
		`<p>⟦ŵáļļéţ⟧ unsaid</p>`:                             "⟦ŵáļļéţ⟧ unsaid",
		`<a title="Unsaid">⟦ýéš⟧</a>`:                        "Unsaid",
		`<td data-label="Unsaid">5</td>`:                     "Unsaid",
		`<option value="1">Unsaid</option>`:                  "Unsaid",
		`<label class="check">Unsaid</label>`:                "Unsaid",
		`<p>₹6k</p>`:                                         "₹6k",
		`<p>⟦þŕóþóšáļ 3 óƒ web:fina⟧</p>`:                    "⟦þŕóþóšáļ 3 óƒ web:fina⟧",
		`<p>⟦úñţíļ &lt;time datetime=""&gt;⟧</p>`:            `⟦úñţíļ <time datetime="">⟧`,
		`<p>Demo Operator · Asha Bose <code>Unsaid</code>`:   "",
		`<title>⟦Ŵáļļéţ⟧ · Coax</title><script>x()</script>`: "",
	} {
		if got := strings.Join(notPseudo(body, []string{"Asha Bose", ""}), " "); got != want {
			t.Errorf("%s: %q; want %q", body, got, want)
		}
	}
}

// inPseudo returns a visitor's browser, in the pseudo-language.
func (m *accessMatrix) inPseudo(name string) *e2e.Browser {
	m.t.Helper()
	b, visitor := m.Browser(m.t), m.visitor(name)
	address, err := url.Parse(m.URL("/"))
	m.must(err)
	cookies := []*http.Cookie{{Name: "__Host-coax-language", Value: look.Pseudo, Path: "/", Secure: true}}
	if visitor.stage != "" {
		person, err := m.Node.Store.LoginNamed(m.t.Context(), visitor.username)
		m.must(err)
		m.must(m.Node.Store.SetLanguage(m.t.Context(), person.ID, look.Pseudo))
		cookies = append(cookies, &http.Cookie{Name: "__Host-coax", Value: m.open(visitor, false), Path: "/", Secure: true})
	}
	b.HTTP.Jar.SetCookies(address, cookies)
	return b
}

var (
	// inDataFont are elements whose content is no text: data in the font of data, keys of the keyboard, scripts.
	inDataFont = regexp.MustCompile(`(?s)<(script|style|svg|code|kbd|pre)\b.*?</(script|style|svg|code|kbd|pre)>|<[a-z]+ [^>]*class="[^"]*\bmono\b[^"]*"[^>]*>[^<]*`)
	shownText  = regexp.MustCompile(`\s(?:title|aria-label|alt|placeholder|data-label|data-copied)="([^"]*)"`)
	element    = regexp.MustCompile(`(?s)<[^>]*>`)
	unaccented = regexp.MustCompile(`[A-Za-z]+`)
	// data are names, ids, codes, times, and texts that the installation of a test has stored.
	data = regexp.MustCompile(strings.Join([]string{
		// the same in every language
		`\bCoax\b`, `\bIST\b`, `^English$`, `^(CSV|XLSX)$`, `\b\d+(\.\d+)?m?s\b`,
		// of the contract and its calls
		`\b[A-Z]+(_[A-Z]+)+\b`, `\bOK\b`, `\b(Activate|Renew|Advance Renew|Check (Balance|Subscription|Transaction)|Get Plans)(, |$)`,
		`\b(GET|POST)\b`, `/api/v1/[a-z-]+`, `\b(subscriber_id|mobile|plan_id)\b`, `req_…`, `\bcx[ks]_[0-9a-f]*`,
		`\b(matrix|november|list)\.csv\b`, `\bpayment \d+ to \d+\b`, `^(centre|ward 7)$`,
		// people, operators, plans
		`\bDemo (Administrator|Operator|Cable|Finance|Support|Viewer|Bank, Pune)\b`, `\bName of a-[a-z-]+`, `\ba-[a-z-]+`, `\b(Asha( Rao)?|Sagar( Cable| Digital Cable)?|Hill View Networks|Clerk|Colleague|New|Phone)\b`,
		`\b(maker|checker|clerk|sagar|colleague|asha|admin|finance|operator|counter|arjun|meera|demo|history|test|matrix)\b`,
		`(Basic|Family|Family and streaming|Sports), \d+ months?`, `(Basic|Family) television`, `Streaming pack`, `OTT \+ Live TV`, `\d+ channels`, `\b(TV|OTT)-[A-Z]+`, `\b(BASIC|FAMILY|COMBO|SPORTS)-\d`,
		`^\d+, [A-Z][a-z]+ ([A-Z][a-z]+ )?(Road|Street|Nagar|Chowk|Colony|Lane)$`,
		// ids and references
		`\bCX[0-9A-Z]{26}\b`, `\bCXP[2-9A-HJKMNP-Z]{6}\b`, `\bR\d\d-\d\d/\d{6}\b`, `\b[0-9a-f]{32,64}\b`, `\b[a-z0-9-]+-\d+-[0-9a-f]{8}\b`, `\bR-\d\b`, `\bNEFT DEMO \d+`, `\bextra\b`,
		`\bUPI/CR/\d+/RAVI KUMAR/HDFC/ravicable( · TRANSFER FROM \d+)?`, `^CASH$`, `\bSIM-\d+`, `\bpanel\.example\.com\b`, `^Go-http-client/1\.1$`, `^0\.[0-9]+\.[0-9]+-dev go[0-9.]+$`, `\b(sqlite|postgres)\b`, `\bsimulator\b`, `\binvalid IP\b`,
		// stored texts: in a ledger line, a list's title, what was searched for, what the provider answered
		`\[API\]`, `\bopening balance\b`, `^(Expired|Expiring within 7 days)$`, `⟦Šéáŕçĥ: [^⟧]*⟧`, `For the matrix\.`, `totp set`,
		`^the connection ended before the provider's whole answer$`, `HTTP 200, but it is about another reference: .*`, `^refunded as .*; the provider says that it was carried out as `, `^Asked the provider: a fault in their gateway.*`,
	}, "|"))
)

// checkPseudo fails the test on texts of a page that are neither data nor in the pseudo-language. Customers are
// names that are data, too. It reports whether there was text to check.
func checkPseudo(t *testing.T, where string, page e2e.Page, customers ...string) bool {
	t.Helper()
	if !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		return false // a redirect, or a file
	}
	if strings.Contains(page.Body, "<html") && !strings.Contains(page.Body, `<html lang="`+look.Pseudo+`"`) {
		t.Errorf("%s (%d): the page is in another language", where, page.Status)
	}
	for _, text := range notPseudo(page.Body, customers) {
		t.Errorf("%s (%d): %q is not in the message files", where, page.Status, text)
	}
	return true
}

// notPseudo returns the texts of a page that have letters without accents beside data.
func notPseudo(body string, customers []string) (found []string) {
	var texts []string
	known := strings.NewReplacer(customers...)
	body = inDataFont.ReplaceAllString(body, "")
	for _, attribute := range shownText.FindAllStringSubmatch(body, -1) {
		texts = append(texts, attribute[1])
	}
	for _, text := range append(texts, element.Split(body, -1)...) {
		text = strings.TrimSpace(html.UnescapeString(text))
		if unaccented.MatchString(data.ReplaceAllString(known.Replace(text), "")) && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}
