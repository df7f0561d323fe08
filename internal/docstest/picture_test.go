package docstest

import (
	"bytes"
	"image/png"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/httpapi"
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

// The picture of what to do after each answer has every status of the contract, no other, and
// codes beside their statuses only.
func TestAnswersPicture_HasEveryStatus(t *testing.T) {
	const file = "docs/after-each-answer.svg"
	picture, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	statusOf := map[string]int{}
	missing := map[int]bool{http.StatusOK: true}
	for _, code := range fault.Contract {
		statusOf[string(code)] = httpapi.StatusOf(code)
		missing[httpapi.StatusOf(code)] = true
	}
	shown := map[int]bool{}
	heading := regexp.MustCompile(`<tspan class="status">([0-9, ]+)</tspan>(?:<tspan class="code" dx="7">([^<]+)</tspan>)?`)
	for _, row := range heading.FindAllStringSubmatch(string(picture), -1) {
		for text := range strings.SplitSeq(row[1], ", ") {
			status, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("%s has the status %q", file, text)
			}
			shown[status] = true
			if want, is := statusOf[row[2]]; is && want != status {
				t.Errorf("%s has %s beside %d; it travels with %d", file, row[2], status, want)
			}
		}
	}
	for status := range missing {
		if !shown[status] {
			t.Errorf("%s has no status %d", file, status)
		}
		delete(shown, status)
	}
	for status := range shown {
		t.Errorf("%s has the status %d, which the contract has not", file, status)
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
