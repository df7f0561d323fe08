package web

import (
	"fmt"
	"html/template"
	"strings"

	"rsc.io/qr"
)

// quiet is the white margin, in modules, that scanners need.
const quiet = 4

// DrawQR draws a text as a QR code, dark on white in either theme because many scanners
// accept nothing else. It uses presentation attributes only: the content security policy
// forbids inline styles.
func DrawQR(text, title string) (template.HTML, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", fmt.Errorf("draw a QR code: %w", err)
	}
	var dots strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; {
			run := 0
			for x+run < code.Size && code.Black(x+run, y) {
				run++
			}
			if run > 0 {
				fmt.Fprintf(&dots, "M%d %dh%dv1h-%dz", x+quiet, y+quiet, run, run)
			}
			x += max(run, 1)
		}
	}
	size := code.Size + 2*quiet
	return template.HTML(fmt.Sprintf(
		`<svg class="qr" role="img" aria-label="%s" viewBox="0 0 %d %d" width="220" height="220" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h%dv%dH0z"/><path fill="#000" d="%s"/></svg>`,
		template.HTMLEscapeString(title), size, size, size, size, dots.String())), nil
}
