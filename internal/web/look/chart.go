package look

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"slices"
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

// Earlier is the period before a chart's, drawn paler behind it. It has as many points as
// the chart; without points there is none.
type Earlier struct {
	Name   string // for the legend and the table
	Points []Point
	Change string // how the sums differ, in words; may be empty
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
	Change         string
	Width          int // of the drawing; its height is always 100
	Bars           []bar
	Path, Area     string // of a line
	Before         string // the line of the period before
	Spots          []spot
	Ticks          []string // from the top
	Labels         []string
	Sparse         bool // the labels are a few of many
	Legend         []Series
	Head           []string // of the table
	Rows           [][]string
}

type bar struct{ X, Y, Width, Height, Kind string }

// spot is the area over one label, which shows its values when it is pointed at or has the
// focus. Only the first can be reached with the tab key; arrow keys lead to the others.
type spot struct {
	Label, Spoken string
	First         bool
	// Edge is "start" or "end" where a tooltip in the middle would be cut off.
	Edge   string
	Values []spotValue
}

type spotValue struct{ Name, Kind, Text string }

// chartOptions are the optional arguments of a chart: the unit "rupees" and an Earlier.
type chartOptions struct {
	rupees  bool
	earlier Earlier
}

func readChartOptions(title string, given []any) (o chartOptions, err error) {
	for _, g := range given {
		switch g := g.(type) {
		case Earlier:
			o.earlier = g
		case string:
			if g != "rupees" {
				return o, fmt.Errorf("chart %q: %q is not a unit", title, g)
			}
			o.rupees = true
		default:
			return o, fmt.Errorf("chart %q takes no %T", title, g)
		}
	}
	return o, nil
}

const (
	slotWidth = 10
	// A bar's width as a part of its slot, and its maximum as a part of the chart, so that
	// a single bar does not fill it.
	barOfSlot  = 0.7
	barOfChart = 0.12
	// The bar of the period before is so much wider.
	barBefore  = 1.35
	chartDepth = 100
)

// The kind of what belongs to the period before.
const before = "before"

// bars draws one bar per point.
func (c charter) bars(title string, points []Point, options ...any) (template.HTML, error) {
	return c.stacked(title, []Series{{Points: points}}, options...)
}

// stacked draws one bar per label, with a part per series.
func (c charter) stacked(title string, series []Series, options ...any) (template.HTML, error) {
	o, err := readChartOptions(title, options)
	if err != nil {
		return "", err
	}
	drawn, top, err := c.begin(title, series, o)
	if err != nil {
		return "", err
	}
	width := slotWidth * min(barOfSlot, barOfChart*float64(len(drawn.Labels)))
	draw := func(i int, value int64, base, width float64, kind string) (height float64) {
		if height = float64(max(value, 0)) / float64(top) * chartDepth; height > 0 {
			drawn.Bars = append(drawn.Bars, bar{
				X: decimal((float64(i)+0.5)*slotWidth - width/2), Width: decimal(width),
				Y: decimal(chartDepth - base - height), Height: decimal(height), Kind: kind,
			})
		}
		return height
	}
	for i := range drawn.Labels {
		if len(o.earlier.Points) > 0 {
			draw(i, o.earlier.Points[i].Value, 0, width*barBefore, before)
		}
		base := 0.0
		for _, s := range series {
			base += draw(i, s.Points[i].Value, base, width, s.Kind)
		}
	}
	return c.finish(drawn)
}

// line draws one line through the points.
func (c charter) line(title string, points []Point, options ...any) (template.HTML, error) {
	o, err := readChartOptions(title, options)
	if err != nil {
		return "", err
	}
	drawn, top, err := c.begin(title, []Series{{Points: points}}, o)
	if err != nil {
		return "", err
	}
	drawn.Path, drawn.Before = linePath(points, top), linePath(o.earlier.Points, top)
	if len(points) > 0 {
		last := decimal((float64(len(points)) - 0.5) * slotWidth)
		drawn.Area = fmt.Sprintf("%sL%s %d L%s %dZ", drawn.Path, last, chartDepth, decimal(slotWidth/2), chartDepth)
	}
	return c.finish(drawn)
}

// linePath is a line through points below the top of the axis.
func linePath(points []Point, top int64) string {
	var out strings.Builder
	step := "M"
	for i, p := range points {
		y := chartDepth - float64(max(p.Value, 0))/float64(top)*chartDepth
		fmt.Fprintf(&out, "%s%s %s", step, decimal((float64(i)+0.5)*slotWidth), decimal(y))
		step = "L"
	}
	return out.String()
}

// begin fills in what every chart has, and returns the top of the axis.
func (c charter) begin(title string, series []Series, o chartOptions) (chart, int64, error) {
	if len(series) == 0 {
		return chart{}, 0, fmt.Errorf("chart %q has no series", title)
	}
	labels, earlier := series[0].Points, o.earlier
	drawn := chart{Title: title, Change: earlier.Change, Width: max(len(labels), 1) * slotWidth, Head: []string{""}}
	for _, s := range series {
		if len(s.Points) != len(labels) {
			return chart{}, 0, fmt.Errorf("chart %q: its series have %d and %d points", title, len(labels), len(s.Points))
		}
		drawn.Head = append(drawn.Head, cmp.Or(s.Name, c.say("Value")))
	}
	if n := len(earlier.Points); n > 0 {
		if n != len(labels) {
			return chart{}, 0, fmt.Errorf("chart %q has %d points, and %d before them", title, len(labels), n)
		}
		drawn.Head = append(drawn.Head, earlier.Name)
	}
	if len(series) > 1 {
		drawn.Legend = series
	}
	if len(earlier.Points) > 0 {
		drawn.Legend = append(slices.Clone(drawn.Legend), Series{Name: earlier.Name, Kind: before})
	}
	highest := int64(0)
	for i, p := range labels {
		row, sum := []string{p.Label}, int64(0)
		spot := spot{Label: p.Label, First: i == 0}
		for _, s := range series {
			sum += max(s.Points[i].Value, 0)
			text := shown(s.Points[i], o.rupees)
			row = append(row, text)
			spot.Values = append(spot.Values, spotValue{s.Name, s.Kind, text})
		}
		highest = max(highest, sum)
		if len(earlier.Points) > 0 {
			was := earlier.Points[i]
			highest = max(highest, was.Value)
			text := shown(was, o.rupees)
			name := was.Label
			if name == p.Label {
				name = earlier.Name
			}
			row = append(row, text)
			spot.Values = append(spot.Values, spotValue{name, before, text})
		}
		switch {
		case i < len(labels)/3:
			spot.Edge = "start"
		case i >= len(labels)-len(labels)/3:
			spot.Edge = "end"
		}
		spot.Spoken = spoken(spot)
		drawn.Labels = append(drawn.Labels, p.Label)
		drawn.Rows = append(drawn.Rows, row)
		drawn.Spots = append(drawn.Spots, spot)
	}
	top := roundTop(highest, o.rupees)
	drawn.Ticks = []string{c.short(top, o.rupees), c.short(top/2, o.rupees), c.short(0, o.rupees)}
	if n := len(labels); n > 0 {
		drawn.Summary = c.say("From %s to %s; the highest is %s.", labels[0].Label, labels[n-1].Label, c.short(highest, o.rupees))
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
		AsTable, Nothing, Values string
	}{drawn, c.say("Show as a table"), c.say("Nothing to show yet"), c.say("%s: values", drawn.Title)})
	return template.HTML(out.String()), err
}

var chartTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(own, "charts/chart.html"))
})

// roundTop returns the smallest round even number that is not below the highest value.
func roundTop(highest int64, rupees bool) int64 {
	one := int64(1)
	if rupees {
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
func (c charter) short(value int64, rupees bool) string {
	sign, whole := "", value
	if rupees {
		sign, whole = "₹", value/100
	}
	for _, size := range []struct {
		unit int64
		form string
	}{{1_00_00_000, Text("%sCr")}, {1_00_000, Text("%sL")}, {1_000, Text("%sk")}} {
		if whole >= size.unit {
			text := fmt.Sprintf("%.1f", float64(whole)/float64(size.unit))
			return sign + c.say(size.form, strings.TrimSuffix(text, ".0"))
		}
	}
	return sign + Count(whole)
}

func shown(p Point, rupees bool) string {
	switch {
	case p.Note != "":
		return p.Note
	case rupees:
		return Rupees(money.Paise(p.Value))
	}
	return Count(p.Value)
}

// spoken is what a screen reader says of a spot.
func spoken(s spot) string {
	text := s.Label + ": "
	for i, v := range s.Values {
		if i > 0 {
			text += ", "
		}
		if v.Name != "" {
			text += v.Name + " "
		}
		text += v.Text
	}
	return text
}

// decimal formats a coordinate with few digits.
func decimal(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}
