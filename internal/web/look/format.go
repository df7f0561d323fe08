package look

import (
	"fmt"
	"html/template"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
	"github.com/coaxhq/coax/internal/subscription"
)

// nothing is shown for an unknown value.
const nothing = "–"

// Rupees writes an amount as people in India do: ₹1,23,456.50.
func Rupees(a money.Amount) string {
	text := a.String()
	sign := ""
	if a.IsNegative() {
		sign, text = "−", text[1:]
	}
	whole, paise, _ := strings.Cut(text, ".")
	return sign + "₹" + grouped(whole) + "." + paise
}

// Count writes a whole number with the same groups: 1,23,456.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	if n < 0 {
		return "−" + grouped(digits[1:])
	}
	return grouped(digits)
}

// grouped puts a comma before the last three digits and before every two above.
func grouped(digits string) string {
	if len(digits) <= 3 {
		return digits
	}
	head, tail := digits[:len(digits)-3], digits[len(digits)-3:]
	for len(head) > 2 {
		tail = head[len(head)-2:] + "," + tail
		head = head[:len(head)-2]
	}
	return head + "," + tail
}

var months = [...]string{
	Text("Jan"), Text("Feb"), Text("Mar"), Text("Apr"), Text("May"), Text("Jun"),
	Text("Jul"), Text("Aug"), Text("Sep"), Text("Oct"), Text("Nov"), Text("Dec"),
}

// Day writes the Indian day that a time falls on: 15 Nov 2026.
func (l *Look) Day(lang string, t time.Time) string {
	if t.IsZero() {
		return nothing
	}
	t = t.In(subscription.IST)
	return fmt.Sprintf("%d %s %d", t.Day(), l.T(lang, months[t.Month()-1]), t.Year())
}

// When writes a time as clocks in India show it: 15 Nov 2026, 21:12.
func (l *Look) When(lang string, t time.Time) string {
	if t.IsZero() {
		return nothing
	}
	return l.Day(lang, t) + ", " + t.In(subscription.IST).Format("15:04")
}

// timeElement renders a time element with the exact time and a tooltip to the second.
func (l *Look) timeElement(lang string, t time.Time, text string) template.HTML {
	if t.IsZero() {
		return nothing
	}
	t = t.In(subscription.IST)
	exact := l.Day(lang, t) + t.Format(", 15:04:05 IST")
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `" title="` +
		template.HTMLEscapeString(exact) + `">` + template.HTMLEscapeString(text) + `</time>`)
}

// ago renders a time's distance from now in the largest unit that fits.
func (l *Look) ago(lang string, now, t time.Time) template.HTML {
	if t.IsZero() {
		return nothing
	}
	past := now.Sub(t)
	distance := past.Abs()
	var text string
	switch {
	case distance < time.Minute:
		text = l.T(lang, "just now")
	case past > 0:
		text = l.distance(lang, distance, [...]string{
			Text("%s minute ago"), Text("%s minutes ago"),
			Text("%s hour ago"), Text("%s hours ago"),
			Text("%s day ago"), Text("%s days ago"),
		})
	default:
		text = l.distance(lang, distance, [...]string{
			Text("in %s minute"), Text("in %s minutes"),
			Text("in %s hour"), Text("in %s hours"),
			Text("in %s day"), Text("in %s days"),
		})
	}
	return l.timeElement(lang, t, text)
}

// distance picks from one minute, minutes, one hour, hours, one day, days.
func (l *Look) distance(lang string, d time.Duration, texts [6]string) string {
	const day = 24 * time.Hour
	n, at := int64(d/time.Minute), 0
	switch {
	case d >= day:
		n, at = int64(d/day), 4
	case d >= time.Hour:
		n, at = int64(d/time.Hour), 2
	}
	if n != 1 {
		at++
	}
	return l.T(lang, texts[at], Count(n))
}

// wholeNumber converts any integer type.
func wholeNumber(n any) (int64, error) {
	switch v := reflect.ValueOf(n); {
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint():
		return int64(v.Uint()), nil
	}
	return 0, fmt.Errorf("%v is not a whole number", n)
}

// Change compares a value with an earlier one, in whole percent: 12 is 12% more. It is not
// known if there was nothing before.
func Change(now, before int64) (percent int64, known bool) {
	if before <= 0 {
		return 0, false
	}
	return int64(math.Round(float64(now-before) / float64(before) * 100)), true
}
