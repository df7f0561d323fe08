package web

import "strings"

// What browsers and systems put into their names, the more telling first: most
// browsers also call themselves by the names of others.
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

// deviceName is how a person knows a device again, by what its browser calls
// itself; empty if that says nothing.
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
