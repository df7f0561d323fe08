package look

import (
	"fmt"
	"strings"
	"testing"
)

var plain = charter{say: func(english string, args ...any) string { return fmt.Sprintf(english, args...) }}

func TestChart_HasLabelAndTable(t *testing.T) {
	html, err := plain.bars("Spent & <held>", []Point{{"1 Nov", 349_00, ""}, {"2 Nov", 0, ""}, {"3 Nov", 698_00, "two renewals"}}, "rupees")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`role="img" aria-label="Spent &amp; &lt;held&gt;. From 1 Nov to 3 Nov; the highest is ₹698."`,
		`tabindex="0" aria-label="1 Nov: ₹349.00"`, `tabindex="-1" aria-label="3 Nov: two renewals"`, `<th scope="row">2 Nov</th><td class="num">₹0.00</td>`,
		`y="12.75" width="3.6" height="87.25"`, // 698 of 800
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the chart does not have %q:\n%s", want, html)
		}
	}
	if n := strings.Count(string(html), "<rect"); n != 2 {
		t.Errorf("there are %d bars; want 2: what is nothing is not drawn", n)
	}
}

// A page may have two charts of one title; equal ids would lead screen readers to the
// wrong one.
func TestChart_HasNoID(t *testing.T) {
	points := []Point{{"1 Nov", 1, ""}}
	bars, err := plain.bars("Renewals", points)
	if err != nil {
		t.Fatal(err)
	}
	line, err := plain.line("Renewals", points)
	if err != nil {
		t.Fatal(err)
	}
	for _, html := range []string{string(bars), string(line)} {
		if strings.Contains(html, ` id=`) || strings.Contains(html, "labelledby") {
			t.Errorf("the chart has an id:\n%s", html)
		}
	}
}

func TestStackedChart_Bars(t *testing.T) {
	html, err := plain.stacked("Outcomes", []Series{
		{Name: "Success", Kind: "good", Points: []Point{{"Mon", 6, ""}}},
		{Name: "Failed", Kind: "bad", Points: []Point{{"Mon", 2, ""}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`chart-good" x="4.4" y="25" width="1.2" height="75"`, `chart-bad" x="4.4" y="0" width="1.2" height="25"`, `aria-label="Mon: Success 6, Failed 2"`} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the chart does not have %q:\n%s", want, html)
		}
	}
	if _, err := plain.stacked("Uneven", []Series{{Points: []Point{{}}}, {}}); err == nil {
		t.Error("series of different lengths were drawn")
	}
}

func TestLineChart_Points(t *testing.T) {
	html, err := plain.line("Balance", []Point{{"a", 0, ""}, {"b", 10, ""}, {"c", -4, ""}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `d="M5 100L15 0L25 100"`; !strings.Contains(string(html), want) {
		t.Errorf("the line is not %s:\n%s", want, html)
	}
	empty, err := plain.line("Balance", nil)
	if err != nil || !strings.Contains(string(empty), "Nothing to show yet") || strings.Contains(string(empty), "<svg") {
		t.Errorf("no points are drawn as %s, %v", empty, err)
	}
}

func TestChart_AxesEndOnRoundNumbers(t *testing.T) {
	for _, tt := range []struct {
		highest int64
		rupees  bool
		top     int64
		short   string
	}{
		{0, false, 2, "2"}, {1, false, 2, "2"}, {7, false, 8, "8"}, {11, false, 20, "20"}, {999, false, 1000, "1k"}, {1_50_000, false, 2_00_000, "2L"},
		{349_00, true, 400_00, "₹400"}, {3_50_000_00, true, 4_00_000_00, "₹4L"}, {1_20_00_000_00, true, 2_00_00_000_00, "₹2Cr"},
	} {
		if got := roundTop(tt.highest, tt.rupees); got != tt.top || plain.short(got, tt.rupees) != tt.short {
			t.Errorf("above %d an axis ends at %d, %s; want %d, %s", tt.highest, got, plain.short(got, tt.rupees), tt.top, tt.short)
		}
	}
}

func TestChart_PeriodBefore(t *testing.T) {
	now := []Point{{"1 Nov", 100_00, ""}, {"2 Nov", 200_00, ""}}
	earlier := Earlier{Name: "2 days before", Points: []Point{{"30 Oct", 400_00, ""}, {"2 Nov", 0, ""}}, Change: "25% less"}
	line, err := plain.line("Spent", now, "rupees", earlier)
	if err != nil {
		t.Fatal(err)
	}
	bars, err := plain.bars("Spent", now, earlier, "rupees")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`aria-label="1 Nov: ₹100.00, 30 Oct ₹400.00"`, `aria-label="2 Nov: ₹200.00, 2 days before ₹0.00"`, `<p class="chart-change">25% less</p>`,
		`<th scope="col" class="num">2 days before</th>`, `<td class="num">₹100.00</td><td class="num">₹400.00</td>`, `<span class="swatch chart-before"></span>2 days before`,
	} {
		for name, html := range map[string]string{"line": string(line), "bars": string(bars)} {
			if !strings.Contains(html, want) {
				t.Errorf("the %s does not have %q:\n%s", name, want, html)
			}
		}
	}
	if want := `class="chart-line-before" d="M5 0L15 100"`; !strings.Contains(string(line), want) {
		t.Errorf("the line before is not %s:\n%s", want, line)
	}
	if want := `class="chart-bar chart-before" x="3.38" y="0" width="3.24" height="100"`; !strings.Contains(string(bars), want) {
		t.Errorf("the bar before is not %s:\n%s", want, bars)
	}
	without, err := plain.line("Spent", now, Earlier{})
	if err != nil || strings.Contains(string(without), "before") {
		t.Errorf("without a period before: %s, %v", without, err)
	}
	for what, options := range map[string][]any{"fewer points": {Earlier{Points: now[:1]}}, "a unit": {"dollars"}, "a number": {7}} {
		if _, err := plain.line("Spent", now, options...); err == nil {
			t.Errorf("a chart was drawn with %s", what)
		}
	}
}

func TestChange(t *testing.T) {
	for _, tt := range []struct {
		now, before, percent int64
		known                bool
	}{
		{112, 100, 12, true}, {88, 100, -12, true}, {100, 100, 0, true}, {0, 100, -100, true}, {5, 0, 0, false}, {0, 0, 0, false},
		{1005, 1000, 1, true}, {1004, 1000, 0, true}, {995, 1000, -1, true}, {31, 3, 933, true}, {9_00_00_00_000_00, 1, 89999999999900, true},
	} {
		if percent, known := Change(tt.now, tt.before); percent != tt.percent || known != tt.known {
			t.Errorf("from %d to %d it changed by %d%%, %v; want %d%%, %v", tt.before, tt.now, percent, known, tt.percent, tt.known)
		}
	}
}
