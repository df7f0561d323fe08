package look

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// Pairs of foreground and background. Text needs the contrast of WCAG AA in both themes
// and both areas; shapes need less.
func TestColours_Contrast(t *testing.T) {
	text, err := assetFiles.ReadFile("style/1-tokens.css")
	if err != nil {
		t.Fatal(err)
	}
	areas := splitAreas(string(text))
	for area, tokens := range areas {
		for theme := range 2 {
			for _, pair := range [][3]any{
				{"ink", "page", 4.5}, {"ink", "surface", 4.5}, {"ink", "sunken", 4.5}, {"ink", "hover", 4.5},
				{"ink-soft", "page", 4.5}, {"ink-soft", "surface", 4.5}, {"ink-soft", "sunken", 4.5}, {"ink-soft", "hover", 4.5},
				{"ink-faint", "page", 4.5}, {"ink-faint", "surface", 4.5}, {"ink-faint", "sunken", 4.5},
				{"accent", "page", 4.5}, {"accent", "surface", 4.5}, {"accent-deep", "accent-wash", 4.5}, {"on-accent", "accent", 4.5}, {"on-accent", "accent-deep", 4.5},
				{"good", "good-wash", 4.5}, {"warn", "warn-wash", 4.5}, {"bad", "bad-wash", 4.5}, {"info", "info-wash", 4.5},
				{"good", "surface", 4.5}, {"warn", "surface", 4.5}, {"bad", "surface", 4.5}, {"info", "surface", 4.5}, {"on-bad", "bad", 4.5},
				{"ink", "good-wash", 4.5}, {"ink", "warn-wash", 4.5}, {"ink", "bad-wash", 4.5}, {"ink", "info-wash", 4.5},
				{"line-strong", "surface", 3.0}, {"line-strong", "page", 3.0},
				{"draw-good", "surface", 3.0}, {"draw-warn", "surface", 3.0}, {"draw-bad", "surface", 3.0}, {"draw-info", "surface", 3.0},
			} {
				over, under := tokens[pair[0].(string)][theme], tokens[pair[1].(string)][theme]
				if got := contrast(t, over, under); got < pair[2].(float64) {
					t.Errorf("%s, theme %d: %v on %v is %.2f to 1; want %v", area, theme, pair[0], pair[1], got, pair[2])
				}
			}
		}
	}
}

var colourToken = regexp.MustCompile(`--([a-z-]+):\s*light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);`)

// splitAreas reads the tokens, and those that the console overrides.
func splitAreas(css string) map[string]map[string][2]string {
	areas := map[string]map[string][2]string{"panel": {}, "console": {}}
	at := regexp.MustCompile(`\[data-area="console"\]`).FindStringIndex(css)
	for _, found := range colourToken.FindAllStringSubmatchIndex(css, -1) {
		name := css[found[2]:found[3]]
		colours := [2]string{css[found[4]:found[5]], css[found[6]:found[7]]}
		if found[0] < at[0] {
			areas["panel"][name] = colours
		}
		areas["console"][name] = colours
	}
	return areas
}

// contrast is the ratio that WCAG defines, from 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) != 7 {
		t.Fatalf("%q is no colour: a token is missing", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
