package docstest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
)

func TestPages_LinksWork(t *testing.T) {
	anchors := map[string][]string{}
	all := pages(t)
	for _, p := range all {
		anchors[p.name] = anchorsOf(p)
	}
	links := 0
	for _, p := range all {
		for n, line := range p.prose() {
			for _, match := range linkPattern.FindAllStringSubmatch(line, -1) {
				if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
					continue
				}
				links++
				file, anchor, anchored := strings.Cut(match[1], "#")
				target := p.name
				if file != "" {
					target = path.Join(path.Dir(p.name), file)
				}
				if _, err := os.Stat(filepath.FromSlash(target)); err != nil {
					t.Errorf("%s:%d: the link to %s is broken", p.name, n, match[1])
				} else if anchored && !slices.Contains(anchors[target], anchor) {
					t.Errorf("%s:%d: %s has no heading #%s; it has %v", p.name, n, target, anchor, anchors[target])
				}
			}
		}
	}
	if links == 0 {
		t.Error("found no links: the search looks in the wrong place")
	}
}

// prose returns the lines outside of blocks, by number.
func (p *page) prose() map[int]string {
	lines := map[int]string{}
	for i, line := range p.lines {
		lines[i+1] = line
	}
	for _, b := range p.blocks {
		for n := b.line; n <= b.line+len(b.text)+1; n++ {
			delete(lines, n)
		}
	}
	return lines
}

// anchorsOf returns the anchors that GitHub makes of a page's headings.
func anchorsOf(p *page) []string {
	var all []string
	prose := p.prose()
	for n := 1; n <= len(p.lines); n++ {
		match := headingPattern.FindStringSubmatch(prose[n])
		if match == nil {
			continue
		}
		text := strings.ToLower(linkPattern.ReplaceAllString(match[1], "]"))
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127 && !strings.ContainsRune("…“”‘’→·", r):
				return r
			}
			return -1
		}, text)
		unique := anchor
		for i := 1; slices.Contains(all, unique); i++ {
			unique = fmt.Sprintf("%s-%d", anchor, i)
		}
		all = append(all, unique)
	}
	return all
}
