package look

import (
	"embed"
	"fmt"
	"html/template"
	"path"
	"strings"
	"sync"
)

//go:embed icons/*.svg
var iconFiles embed.FS

var icons = sync.OnceValue(loadIcons)

// loadIcons reads the shapes of each icon, without size and colour, which the stylesheet
// sets.
func loadIcons() map[string]template.HTML {
	files, err := iconFiles.ReadDir("icons")
	if err != nil {
		panic(err) // embedded files cannot be missing
	}
	all := map[string]template.HTML{}
	for _, f := range files {
		text, err := iconFiles.ReadFile(path.Join("icons", f.Name()))
		if err != nil {
			panic(err)
		}
		_, rest, _ := strings.Cut(string(text), "<svg")
		_, rest, _ = strings.Cut(rest, ">")
		drawing, _, _ := strings.Cut(rest, "</svg>")
		drawing = strings.Join(strings.Fields(drawing), " ")
		all[strings.TrimSuffix(f.Name(), ".svg")] = template.HTML(
			`<svg class="icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2"` +
				` stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">` + drawing + `</svg>`)
	}
	return all
}

// icon renders an icon, hidden from screen readers because a text stands beside it.
func icon(name string) (template.HTML, error) {
	drawn, ok := icons()[name]
	if !ok {
		return "", fmt.Errorf("there is no icon %q: add its file to internal/web/look/icons", name)
	}
	return drawn, nil
}

func mustIcon(name string) template.HTML {
	drawn, err := icon(name)
	if err != nil {
		panic(err)
	}
	return drawn
}
