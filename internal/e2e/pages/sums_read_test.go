package pages

import (
	"cmp"
	"encoding/csv"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/e2e"
	"github.com/coaxhq/coax/internal/sheet"
)

// What pages show is read by its structure, not by its words: those are translated.

// stat is one figure of a page with its note.
type stat struct{ value, note string }

var (
	statPattern  = regexp.MustCompile(`(?s)<p class="stat-value">(?:<a[^>]*>)?([^<]*).*?</div>`)
	notePattern  = regexp.MustCompile(`<p class="stat-note">([^<]*)</p>`)
	tablePattern = regexp.MustCompile(`(?s)<table class="table[^"]*">.*?</table>`)
	rowPattern   = regexp.MustCompile(`(?s)<tr[ >].*?</tr>`)
	cellPattern  = regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
	tagPattern   = regexp.MustCompile(`<[^>]*>`)
	rupeePattern = regexp.MustCompile(`([−+]?)₹([0-9,]+)(\.[0-9]{2})?`)
	countPattern = regexp.MustCompile(`[0-9][0-9,]*`)
	chipPattern  = regexp.MustCompile(`(?s)<ul class="chips">.*?</ul>`)
	nextPattern  = regexp.MustCompile(`href="([^"]*)" rel="next"`)
	pickPattern  = regexp.MustCompile(`data-paise="([0-9]+)"`)
)

// stats returns the figures of a page in their order, of which there must be so many.
func stats(t *testing.T, page e2e.Page, want int) (found []stat) {
	t.Helper()
	for _, m := range statPattern.FindAllStringSubmatch(page.Body, -1) {
		one := stat{value: plainText(m[1])}
		if note := notePattern.FindStringSubmatch(m[0]); note != nil {
			one.note = plainText(note[1])
		}
		found = append(found, one)
	}
	if len(found) != want {
		t.Fatalf("the page has %d figures, %q; want %d", len(found), found, want)
	}
	return found
}

func plainText(markup string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tagPattern.ReplaceAllString(markup, " "))), " ")
}

// paise returns the first amount in a text; the test fails if there is none.
func paise(t *testing.T, text string) int64 {
	t.Helper()
	m := rupeePattern.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%q has no amount", text)
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(m[2], ",", "")+strings.TrimPrefix(cmp.Or(m[3], ".00"), "."), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if m[1] == "−" {
		return -n
	}
	return n
}

// number returns the first whole number in a text; the test fails if there is none.
func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(countPattern.FindString(text), ",", ""))
	if err != nil {
		t.Fatalf("%q has no number", text)
	}
	return n
}

// table returns the rows of a page's nth table, without those of its head.
func table(t *testing.T, page e2e.Page, n int) (rows [][]string) {
	t.Helper()
	all := tablePattern.FindAllString(page.Body, -1)
	if n >= len(all) {
		return nil
	}
	_, body, _ := strings.Cut(all[n], "</thead>")
	for _, row := range rowPattern.FindAllString(body, -1) {
		var cells []string
		for _, cell := range cellPattern.FindAllStringSubmatch(row, -1) {
			cells = append(cells, plainText(cell[1]))
		}
		rows = append(rows, cells)
	}
	return rows
}

// chips returns the texts of a page's first row of chips.
func chips(page e2e.Page) (texts []string) {
	for _, chip := range strings.Split(chipPattern.FindString(page.Body), "</li>") {
		if text := plainText(chip); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// walk reads a list from page to page, and returns the rows of its first table.
func walk(t *testing.T, b *e2e.Browser, path string) (rows [][]string) {
	t.Helper()
	for path != "" {
		page := b.Get(path).Shows(t, http.StatusOK)
		rows = append(rows, table(t, page, 0)...)
		path = ""
		if next := nextPattern.FindStringSubmatch(page.Body); next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	return rows
}

// file reads an exported CSV without its head.
func file(t *testing.T, b *e2e.Browser, path string) [][]string {
	t.Helper()
	got := b.Get(path).Shows(t, http.StatusOK)
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(got.Body, "\ufeff"))).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	return rows[1:]
}

// cells reads an exported file of either format without its head. Every row has as many cells.
func cells(t *testing.T, b *e2e.Browser, path string) (found [][]string) {
	t.Helper()
	got := b.Get(path) // not Shows: a workbook may have any bytes
	rows, err := sheet.Read(strings.NewReader(got.Body), sheet.Limits{Bytes: 1 << 24, Rows: 100_000})
	if err != nil || got.Status != http.StatusOK || len(rows) == 0 {
		t.Fatalf("%s: status %d, %d rows, %v", path, got.Status, len(rows), err)
	}
	width := len(rows[0].Cells)
	for _, row := range rows[1:] {
		found = append(found, append(row.Cells, make([]string, width)...)[:width])
	}
	return found
}

// plain reads an amount of a file: 1234.50, or 1234.5 of a workbook; empty is none.
func plain(t *testing.T, text string) int64 {
	t.Helper()
	if text == "" {
		return 0
	}
	rupees, part, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(rupees+(part + "00")[:2], 10, 64)
	if err != nil || len(part) > 2 {
		t.Fatalf("%q is no amount", text)
	}
	return n
}
