package look

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the app's icons")

// appIcons are the app's icons, drawn from the mark of favicon.svg. Those that the system
// cuts into a shape of its own fill the square; the mark is within their safe zone.
var appIcons = map[string]struct {
	size   int
	filled bool
}{
	"icon-192.png": {192, false}, "icon-512.png": {512, false}, "icon-maskable-512.png": {512, true}, "apple-touch-icon.png": {180, true},
}

// TestAppIcons_ShowTheMark compares the committed icons with the mark; -update writes them.
func TestAppIcons_ShowTheMark(t *testing.T) {
	for name, icon := range appIcons {
		want := drawIcon(icon.size, icon.filled)
		file := "static/" + name
		if *update {
			var out bytes.Buffer
			encoder := png.Encoder{CompressionLevel: png.BestCompression}
			if err := encoder.Encode(&out, want); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := png.Decode(bytes.NewReader(text))
		if err != nil || got.Bounds() != want.Bounds() {
			t.Errorf("%s is %v, %v; want %v", name, got.Bounds(), err, want.Bounds())
			continue
		}
		for y := range icon.size {
			for x := range icon.size {
				if c := color.NRGBAModel.Convert(got.At(x, y)); c != want.NRGBAAt(x, y) {
					t.Fatalf("%s has %v at %d, %d; want %v. go test ./internal/web/look -run AppIcons -update writes it", name, c, x, y, want.NRGBAAt(x, y))
				}
			}
		}
	}
}

// drawIcon draws the mark on a square of 32 units, each pixel from 8 by 8 samples.
func drawIcon(size int, filled bool) *image.NRGBA {
	const samples = 8
	drawn := image.NewNRGBA(image.Rect(0, 0, size, size))
	for y := range size {
		for x := range size {
			inside, white := 0, 0
			for i := range samples * samples {
				u := (float64(x) + (float64(i%samples)+0.5)/samples) / float64(size) * 32
				v := (float64(y) + (float64(i/samples)+0.5)/samples) / float64(size) * 32
				if !filled && !inRoundedSquare(u, v) {
					continue
				}
				inside++
				switch r := math.Hypot(u-16, v-16); {
				case math.Abs(r-10) <= 1.25, math.Abs(r-5.2) <= 1.25, r <= 1.8:
					white++
				}
			}
			if inside == 0 {
				continue
			}
			mix := func(background int) uint8 { return uint8(((inside-white)*background + white*255) / inside) }
			drawn.SetNRGBA(x, y, color.NRGBA{mix(0x0f), mix(0x6e), mix(0x66), uint8(inside * 255 / (samples * samples))})
		}
	}
	return drawn
}

// inRoundedSquare reports whether a point is in the square, whose corners have a radius of 7.
func inRoundedSquare(u, v float64) bool {
	du, dv := math.Max(math.Abs(u-16)-9, 0), math.Max(math.Abs(v-16)-9, 0)
	return math.Hypot(du, dv) <= 7
}
