//go:build picture

package pages

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/web/look/looktest"
)

// TestPanelPicture writes the picture of the panel that README.md shows. Only `make
// readme-picture` builds it; internal/docstest checks the result.
func TestPanelPicture(t *testing.T) {
	file := os.Getenv("COAX_PANEL_PICTURE")
	if file == "" {
		t.Fatal("COAX_PANEL_PICTURE is not set: run make readme-picture")
	}
	_, line := e2e.StartDemo(t, t.TempDir(), "--history")
	tab := looktest.New(t)
	tab.As(looktest.Desk, looktest.Light)
	tab.Open(line.PanelURL)
	tab.Fill("Username", line.Operator.Username)
	tab.Fill("Password", line.Operator.Password)
	tab.Press("Sign in")
	tab.Sees("Expiring next")
	tab.WaitFor("figure svg") // the charts are loaded after the page
	taken, err := png.Decode(bytes.NewReader(tab.Picture(looktest.Desk)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, paletted(taken)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// paletted reduces an image to its 256 most frequent colours.
func paletted(from image.Image) *image.Paletted {
	counts := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	colours := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int { return counts[b] - counts[a] })
	palette := make(color.Palette, 0, 256)
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			to.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return to
}
