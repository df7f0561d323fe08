package docstest

import (
	"bytes"
	"image/png"
	"os"
	"strings"
	"testing"
)

// docs/panel.png is made by `make readme-picture` and committed.
func TestPanelPicture_IsShownAndSmall(t *testing.T) {
	const file, limit = "docs/panel.png", 150 << 10
	picture, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(picture) > limit {
		t.Errorf("%s has %d bytes; want at most %d", file, len(picture), limit)
	}
	if config, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil || config.Width < 1000 {
		t.Errorf("%s is %+v, %v; want a PNG as wide as a desktop page", file, config, err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "]("+file+")") {
		t.Errorf("README.md does not show %s", file)
	}
}

// tenMinutes is the size of a page that takes about ten minutes to read.
const tenMinutes = 16500

func TestPages_SizeLimits(t *testing.T) {
	limits := map[string]int64{"README.md": 6 << 10, "CONTRIBUTING.md": 7 << 10, "docs/settings.md": tenMinutes, "docs/staff.md": tenMinutes}
	for _, page := range operatingPages {
		limits[page] = tenMinutes
	}
	for file, limit := range limits {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > limit {
			t.Errorf("%s has %d bytes; want at most %d", file, info.Size(), limit)
		}
	}
}
