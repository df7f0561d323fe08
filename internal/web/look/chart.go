package look

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
	"sync"

	"github.com/coaxhq/coax/internal/money"
)

// Point is one value of a chart. Note describes it in the tooltip and in the table; without
// one, the value is shown.
type Point struct {
	Label string
	Value int64 // paise if the chart's unit is "rupees"; below zero is drawn as zero
	Note  string
}

// Series is one colour of a stacked chart. Kind is good, warn, bad, info or
// empty; all series have the same labels.
type Series struct {
	Name, Kind string
	Points     []Point
}

// charter draws charts in one language. The SVG has only shapes and is stretched to the
// available width; labels are HTML beside it, of the same size on a phone as on a desktop.
// Colours come from classes and lengths are attributes, because the content security
// policy forbids inline styles. The title is an aria-label, not an id that two charts could
// share.
type charter struct {
	say func(english string, args ...any) string
}

type chart struct {
	Title, Summary string
	Width          int // of the drawing; its height is always 100
	Bars           []bar
	Path, Area     string // of a line
	Slots          []slot
	Ticks          []string // from the top
	Labels         []string
	Sparse         bool // the labels are a few of many
	Legend         []Series
	Head           []string // of the table
	Rows           [][]string
}

type bar struct {
	X, Y, Width, Height string
	Kind, Text          string
}

// slot is the hover area of one point of a line.
type slot struct {
	X    int
	Text string
}

const (
	slotWidth = 10
	// A bar's width as a part of its slot, and its maximum as a part of the chart, so that
	// a single bar does not fill it.
	barOfSlot  = 0.7
	barOfChart = 0.12
	chartDepth = 100
)

// bars draws one bar per point. The unit may be "rupees".
func (c charter) bars(title string, points []Point, unit ...string) (template.HTML, error) {
	return c.stacked(title, []Series{{Points: points}}, unit...)
}

// stacked draws one bar per label, with a part per series.
func (c charter) stacked(title string, series []Series, unit ...string) (template.HTML, error) {
	drawn, top, err := c.begin(title, series, unit)
	if err != nil {
		return "", err
	}
	width := slotWidth * min(barOfSlot, barOfChart*float64(len(drawn.Labels)))
	for i := range drawn.Labels {
		base := 0.0
		for _, s := range series {
			p := s.Points[i]
			height := float64(max(p.Value, 0)) / float64(top) * chartDepth
			if height == 0 {
				continue
			}
			base += height
			drawn.Bars = append(drawn.Bars, bar{
				X:      decimal((float64(i)+0.5)*slotWidth - width/2),
				Width:  decimal(width),
				Y:      decimal(chartDepth - base),
				Height: decimal(height),
				Kind:   s.Kind,
				Text:   spoken(s.Name, p, unit),
			})
		}
	}
	return c.finish(drawn)
}

// line draws one line through the points. The unit may be "rupees".
func (c charter) line(title string, points []Point, unit ...string) (template.HTML, error) {
	drawn, top, err := c.begin(title, []Series{{Points: points}}, unit)
	if err != nil {
		return "", err
	}
	var path strings.Builder
	for i, p := range points {
		step := "L"
		if i == 0 {
			step = "M"
		}
		y := chartDepth - float64(max(p.Value, 0))/float64(top)*chartDepth
		fmt.Fprintf(&path, "%s%s %s", step, decimal((float64(i)+0.5)*slotWidth), decimal(y))
		drawn.Slots = append(drawn.Slots, slot{X: i * slotWidth, Text: spoken("", p, unit)})
	}
	if len(points) > 0 {
		drawn.Path = path.String()
		last := decimal((float64(len(points)) - 0.5) * slotWidth)
		drawn.Area = fmt.Sprintf("%sL%s %d L%s %dZ", drawn.Path, last, chartDepth, decimal(slotWidth/2), chartDepth)
	}
	return c.finish(drawn)
}

// begin fills in what every chart has, and returns the top of the axis.
func (c charter) begin(title string, series []Series, unit []string) (chart, int64, error) {
	if len(series) == 0 {
		return chart{}, 0, fmt.Errorf("chart %q has no series", title)
	}
	labels := series[0].Points
	drawn := chart{Title: title, Width: max(len(labels), 1) * slotWidth, Head: []string{""}}
	if len(series) > 1 {
		drawn.Legend = series
	}
	highest := int64(0)
	for _, s := range series {
		if len(s.Points) != len(labels) {
			return chart{}, 0, fmt.Errorf("chart %q: its series have %d and %d points", title, len(labels), len(s.Points))
		}
		name := s.Name
		if name == "" {
			name = c.say("Value")
		}
		drawn.Head = append(drawn.Head, name)
	}
	for i, p := range labels {
		row, sum := []string{p.Label}, int64(0)
		for _, s := range series {
			sum += max(s.Points[i].Value, 0)
			row = append(row, shown(s.Points[i], unit))
		}
		highest = max(highest, sum)
		drawn.Labels = append(drawn.Labels, p.Label)
		drawn.Rows = append(drawn.Rows, row)
	}
	top := roundTop(highest, unit)
	drawn.Ticks = []string{short(top, unit), short(top/2, unit), short(0, unit)}
	if n := len(labels); n > 0 {
		drawn.Summary = c.say("From %s to %s; the highest is %s.", labels[0].Label, labels[n-1].Label, short(highest, unit))
	}
	return drawn, top, nil
}

// most is the number of labels that fit beneath a chart on a phone.
const most = 7

func (c charter) finish(drawn chart) (template.HTML, error) {
	if n := len(drawn.Labels); n > most {
		drawn.Sparse = true
		drawn.Labels = []string{drawn.Labels[0], drawn.Labels[n/2], drawn.Labels[n-1]}
	}
	var out bytes.Buffer
	err := chartTemplate().Execute(&out, struct {
		chart
		AsTable, Nothing string
	}{drawn, c.say("Show as a table"), c.say("Nothing to show yet")})
	return template.HTML(out.String()), err
}

var chartTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(own, "charts/chart.html"))
})

// roundTop returns the smallest round even number that is not below the highest value.
func roundTop(highest int64, unit []string) int64 {
	one := int64(1)
	if inRupees(unit) {
		one = 100
	}
	for scale := one; ; scale *= 10 {
		for _, step := range []int64{2, 4, 6, 8, 10} {
			if step*scale >= highest {
				return step * scale
			}
		}
	}
}

// short writes a value for an axis: 4, 1.2k, ₹3.5L, as people in India count.
func short(value int64, unit []string) string {
	sign, whole := "", value
	if inRupees(unit) {
		sign, whole = "₹", value/100
	}
	for _, size := range []struct {
		unit int64
		name string
	}{{1_00_00_000, "Cr"}, {1_00_000, "L"}, {1_000, "k"}} {
		if whole >= size.unit {
			text := fmt.Sprintf("%.1f", float64(whole)/float64(size.unit))
			return sign + strings.TrimSuffix(text, ".0") + size.name
		}
	}
	return sign + Count(whole)
}

func shown(p Point, unit []string) string {
	switch {
	case p.Note != "":
		return p.Note
	case inRupees(unit):
		return Rupees(money.Paise(p.Value))
	}
	return Count(p.Value)
}

func spoken(series string, p Point, unit []string) string {
	text := p.Label + ": " + shown(p, unit)
	if series != "" {
		return series + ", " + text
	}
	return text
}

func inRupees(unit []string) bool { return len(unit) > 0 && unit[0] == "rupees" }

// decimal formats a coordinate with few digits.
func decimal(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}
