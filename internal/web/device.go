package web

import "strings"

// Markers of browsers and systems in User-Agent, the most specific first: most browsers
// also contain the names of others.
var (
	browserMarks = [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	systemMarks = [][2]string{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"},
		{"Mac OS X", "macOS"}, {"Linux", "Linux"},
	}
)

// deviceName makes a readable name out of a User-Agent; empty if that is empty.
func deviceName(agent string) string {
	var words []string
	for _, marks := range [][][2]string{browserMarks, systemMarks} {
		for _, mark := range marks {
			if strings.Contains(agent, mark[0]) {
				words = append(words, mark[1])
				break
			}
		}
	}
	if len(words) == 0 {
		first, _, _ := strings.Cut(agent, " ")
		return first
	}
	return strings.Join(words, ", ")
}
