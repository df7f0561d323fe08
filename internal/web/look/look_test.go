package look

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// guide is the style guide, a page with every component.
func guide(t *testing.T) *Look {
	t.Helper()
	l, err := Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

type guideSubscriber struct {
	Name, Mobile, Plan, State string
	Expires                   time.Time
	Price                     money.Amount
}

var noon = time.Date(2026, 11, 15, 6, 30, 0, 0, time.UTC)

func guideData() any {
	days, spent, spentBefore := make([]Point, 30), make([]Point, 30), make([]Point, 30)
	outcomes := []Series{{Name: "Success", Kind: "good"}, {Name: "In review", Kind: "warn"}, {Name: "Failed", Kind: "bad"}}
	for i := range days {
		label := noon.AddDate(0, 0, i-29).Format("2 Jan")
		n := int64((i*7)%13 + i/3)
		days[i] = Point{Label: label, Value: n}
		spent[i] = Point{Label: label, Value: n * 34900}
		spentBefore[i] = Point{Label: noon.AddDate(0, 0, i-59).Format("2 Jan"), Value: int64((i*5)%11+i/4) * 34900}
	}
	for i, label := range []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"} {
		for s, n := range []int64{int64(8 + i*3), int64(i % 3), int64(2 - i%2)} {
			outcomes[s].Points = append(outcomes[s].Points, Point{Label: label, Value: n})
		}
	}
	before := make([]Point, 7)
	for i := range before {
		before[i] = Point{Label: outcomes[0].Points[i].Label, Value: int64(24 - i)}
	}
	var states []string
	for state := range badges {
		states = append(states, state)
	}
	return map[string]any{
		"Balance": money.Paise(1_23_456_50), "Held": money.Paise(698_00), "Price": money.Paise(-349_00), "Expiring": 12_345,
		"Days": days, "Money": spent, "MoneyBefore": Earlier{Name: "30 days before", Points: spentBefore, Change: "12% more than in the 30 days before."},
		"OutcomesBefore": Earlier{Name: "Week before", Points: before}, "Outcomes": outcomes, "None": []Point{}, "States": states, "At": noon.Add(-3 * time.Hour),
		"Subscribers": []guideSubscriber{
			{"Asha Devi", "98765 43210", "FAMILY-1", "active", noon.AddDate(0, 0, 20), money.Paise(349_00)},
			{"सुनीता कुमारी", "98765 43211", "COMBO-1", "expiring", noon.AddDate(0, 0, 2), money.Paise(499_00)},
			{"Mohammed Irfan Sheikh", "98765 43212", "FAMILY-3", "needs_review", noon.AddDate(0, 0, 9), money.Paise(999_00)},
			{"R. Lakshmi", "98765 43213", "BASIC-1", "expired", noon.AddDate(0, 0, -4), money.Paise(199_00)},
		},
	}
}

func guideFrame(lang, theme, area string) Frame {
	return Frame{
		Lang: lang, Theme: theme, Area: area, Person: "Ravi Kumar", Operator: "Sunrise Cable Network", Path: "/guide", Here: "/guide", Now: noon,
		Nav: []NavItem{
			{Href: "/panel", Text: "Open", Icon: "house"}, {Href: "/guide", Text: "Active", Icon: "users"},
			{Href: "/bulk", Text: "Running", Icon: "list-checks", Badge: 3}, {Href: "/statement", Text: "Closed", Icon: "receipt-indian-rupee"},
			{Href: "/keys", Text: "Verified", Icon: "key-round"},
		},
		Notice: &Notice{Kind: "good", Text: "Renewed until 15 Dec 2026."},
	}
}

func TestLook_EveryLanguageAndLayout(t *testing.T) {
	l := guide(t)
	for _, lang := range Languages {
		for page, area := range map[string]string{"guide": "panel", "sign-in": "account"} {
			var out strings.Builder
			if err := l.Page(&out, page, guideFrame(lang, "dark", area), guideData()); err != nil {
				t.Fatal(err)
			}
			html := out.String()
			for _, want := range []string{`<html lang="` + lang + `"`, `data-theme="dark"`, `id="main"`, Asset("style.css"), l.T(lang, "Skip to the content"), "₹1,23,456.50"} {
				if area == "account" && strings.HasPrefix(want, "₹") {
					continue
				}
				if !strings.Contains(html, want) {
					t.Errorf("%s in %s does not have %q", page, lang, want)
				}
			}
			if strings.Contains(html, " style=") || strings.Contains(html, "<style") || strings.Contains(html, " onclick=") {
				t.Errorf("%s in %s has a style or a script inline, which the pages' policy forbids", page, lang)
			}
			if strings.Contains(html, "ZgotmplZ") || strings.Contains(html, "<no value>") {
				t.Errorf("%s in %s was not filled as it should be", page, lang)
			}
		}
	}
}

func TestPage_FailureSendsNothing(t *testing.T) {
	l, err := Load(fstest.MapFS{"pages/bad.html": {Data: []byte(`{{define "title"}}x{{end}}{{define "main"}}{{.Data.Missing.Deeper}}{{end}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.Page(&out, "bad", Frame{Area: "account"}, struct{ Other int }{}); err == nil {
		t.Error("a page with a mistake was written without one")
	}
	if out.Len() > 0 {
		t.Errorf("%d bytes of it were sent", out.Len())
	}
}

func TestLoad_RefusesInvalidPages(t *testing.T) {
	page := `{{define "title"}}x{{end}}{{define "main"}}y{{end}}`
	for name, tt := range map[string]struct {
		trees []fs.FS
		want  string
	}{
		"a page without a title": {[]fs.FS{fstest.MapFS{"pages/a.html": {Data: []byte(`{{define "main"}}{{end}}`)}}}, `does not define "title"`},
		"two pages of one name":  {[]fs.FS{fstest.MapFS{"pages/a.html": {Data: []byte(page)}}, fstest.MapFS{"pages/a.html": {Data: []byte(page)}}}, "two pages called a"},
		"two translations":       {[]fs.FS{fstest.MapFS{"pages/a.html": {Data: []byte(page)}, "words/hi.json": {Data: []byte(`{"Close":"अलग"}`)}}}, `"Close" is both`},
		"a verb left out":        {[]fs.FS{fstest.MapFS{"pages/a.html": {Data: []byte(page)}, "words/hi.json": {Data: []byte(`{"%s of %s":"%s"}`)}}}, "has the verbs"},
		"a broken template":      {[]fs.FS{fstest.MapFS{"pages/a.html": {Data: []byte(page + "{{if}}")}}}, "parse pages/a.html"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(tt.trees...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load said %v; want something with %q", err, tt.want)
			}
		})
	}
}

func TestLoad_PartsAreSharedPerTree(t *testing.T) {
	with := fstest.MapFS{
		"pages/bulk/a.html": {Data: []byte(`{{define "title"}}x{{end}}{{define "main"}}{{template "shared" .}}{{end}}`)},
		"parts/shared.html": {Data: []byte(`{{define "shared"}}shared by {{.Lang}}{{end}}`)},
	}
	l, err := Load(with)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.Fragment(&out, "bulk/a", "main", Frame{Lang: "hi"}, nil); err != nil || out.String() != "shared by hi" {
		t.Errorf("got %q, %v; want the part as its page calls it", out.String(), err)
	}
	if err := l.Fragment(io.Discard, "bulk/a", "nowhere", Frame{}, nil); err == nil {
		t.Error("a block that is not there was written")
	}
}

func TestRupees_IndianGroups(t *testing.T) {
	for paise, want := range map[int64]string{
		0: "₹0.00", 5: "₹0.05", 99_900: "₹999.00", 1_000_00: "₹1,000.00", 1_00_000_00: "₹1,00,000.00",
		1_23_456_50: "₹1,23,456.50", 12_34_56_789_01: "₹12,34,56,789.01", -349_00: "−₹349.00",
	} {
		if got := Rupees(money.Paise(paise)); got != want {
			t.Errorf("%d paise are %s; want %s", paise, got, want)
		}
	}
	if got := Count(-1234567); got != "−12,34,567" {
		t.Errorf("−1234567 is counted as %s", got)
	}
}

func TestTimes_AreIndian(t *testing.T) {
	l := guide(t)
	late := time.Date(2026, 11, 15, 18, 40, 9, 0, time.UTC) // after midnight in India
	if got, want := l.When("en", late), "16 Nov 2026, 00:10"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if got, want := l.Day("hi", late), "16 नव॰ 2026"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if got := string(l.ago("en", late, late.Add(-90*time.Minute))); !strings.Contains(got, ">1 hour ago<") || !strings.Contains(got, `datetime="2026-11-15T22:40:09+05:30"`) {
		t.Errorf("an hour and a half ago is %s", got)
	}
	if got := string(l.ago("en", late, late.Add(49*time.Hour))); !strings.Contains(got, ">in 2 days<") {
		t.Errorf("in two days is %s", got)
	}
	if got := l.Day("en", time.Time{}.In(subscription.IST)); got != nothing {
		t.Errorf("no time is shown as %q", got)
	}
}

func TestAttrs_RefusesScriptAndStyle(t *testing.T) {
	for _, name := range []string{"onclick", "style", "hx-on:click", "hx-on", "src", "x y"} {
		if got, err := attrs(name, "1"); err == nil {
			t.Errorf("%s became %s", name, got)
		}
	}
	if got, err := attrs("hx-get", `/a?b="c"`); err != nil || got != ` hx-get="/a?b=&#34;c&#34;"` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestPlural_TakesTheCountOnlyWhereItIsNamed(t *testing.T) {
	l := guide(t)
	for count, want := range map[int]string{1: "The last call failed", 3: "The last 3 calls failed"} {
		got, err := l.plural(English, count, "The last call failed", "The last %s calls failed")
		if err != nil || got != want {
			t.Errorf("plural of %d: %q, %v; want %q", count, got, err, want)
		}
	}
}
