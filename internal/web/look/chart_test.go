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
		"<title>1 Nov: ₹349.00</title>", "<title>3 Nov: two renewals</title>", `<th scope="row">2 Nov</th><td class="num">₹0.00</td>`,
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
	for _, want := range []string{`chart-good" x="4.4" y="25" width="1.2" height="75"`, `chart-bad" x="4.4" y="0" width="1.2" height="25"`, "<title>Failed, Mon: 2</title>"} {
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
	rupees := []string{"rupees"}
	for _, tt := range []struct {
		highest int64
		unit    []string
		top     int64
		short   string
	}{
		{0, nil, 2, "2"}, {1, nil, 2, "2"}, {7, nil, 8, "8"}, {11, nil, 20, "20"}, {999, nil, 1000, "1k"}, {1_50_000, nil, 2_00_000, "2L"},
		{349_00, rupees, 400_00, "₹400"}, {3_50_000_00, rupees, 4_00_000_00, "₹4L"}, {1_20_00_000_00, rupees, 2_00_00_000_00, "₹2Cr"},
	} {
		if got := roundTop(tt.highest, tt.unit); got != tt.top || short(got, tt.unit) != tt.short {
			t.Errorf("above %d an axis ends at %d, %s; want %d, %s", tt.highest, got, short(got, tt.unit), tt.top, tt.short)
		}
	}
}
