package look

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"time"

	"github.com/coaxhq/coax/internal/money"
)

// functions are the template functions for one language.
func (l *Look) functions(lang string) template.FuncMap {
	say := func(english string, args ...any) string { return l.T(lang, english, args...) }
	charts := charter{say: say}
	return template.FuncMap{
		"t":  say,
		"tn": func(n any, one, many string) (string, error) { return l.plural(lang, n, one, many) },

		"rupees": Rupees,
		"signed": signed,
		// daysLeft says how many calendar days are left.
		"daysLeft": func(n int) (string, error) {
			switch n {
			case 0:
				return say(Text("today")), nil
			case 1:
				return say(Text("tomorrow")), nil
			}
			return l.plural(lang, n, Text("%s day left"), Text("%s days left"))
		},
		"count": func(n any) (string, error) {
			whole, err := wholeNumber(n)
			return Count(whole), err
		},
		"when": func(t time.Time) template.HTML { return l.timeElement(lang, t, l.When(lang, t)) },
		// whenText is when without markup, for use in a sentence.
		"whenText": func(t time.Time) string { return l.When(lang, t) },

		"day": func(t time.Time) template.HTML { return l.timeElement(lang, t, l.Day(lang, t)) },
		"ago": func(now, t time.Time) template.HTML { return l.ago(lang, now, t) },

		"status":  func(state any) template.HTML { return status(say, fmt.Sprint(state)) },
		"icon":    icon,
		"asset":   Asset,
		"bars":    charts.bars,
		"line":    charts.line,
		"stacked": charts.stacked,

		"dict":    dict,
		"choices": choices,
		"attrs":   attrs,
	}
}

// signed shows which way money went: +₹100.00, −₹199.00.
func signed(a money.Amount) string {
	if a.IsPositive() {
		return "+" + Rupees(a)
	}
	return Rupees(a)
}

// Choice is one entry of a select.
type Choice struct{ Value, Text string }

// choices makes a select's entries out of values and texts.
func choices(pairs ...string) ([]Choice, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("choices takes values and texts in pairs")
	}
	list := make([]Choice, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Choice{pairs[i], pairs[i+1]})
	}
	return list, nil
}

var attributeName = regexp.MustCompile(`^(hx-[a-z-]+|data-[a-z-]+|aria-[a-z-]+|command|commandfor|form|formaction|formmethod|formnovalidate|download|target|rel|accept|multiple|tabindex|role|list|class|title|id)$`)

// attrs passes further attributes to a component. It refuses scripts and inline styles,
// which the content security policy forbids.
func attrs(pairs ...any) (template.HTMLAttr, error) {
	if len(pairs)%2 != 0 {
		return "", fmt.Errorf("attrs takes names and values in pairs")
	}
	var out strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		name := fmt.Sprint(pairs[i])
		if !attributeName.MatchString(name) || strings.HasPrefix(name, "hx-on") || name == "hx-vars" {
			return "", fmt.Errorf("attribute %q is not one that a component takes", name)
		}
		fmt.Fprintf(&out, ` %s="%s"`, name, template.HTMLEscapeString(fmt.Sprint(pairs[i+1])))
	}
	return template.HTMLAttr(out.String()), nil
}
