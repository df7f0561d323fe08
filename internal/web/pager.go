package web

import (
	"net/url"
	"strconv"
	"strings"
)

// Pager holds the URLs of the previous and next page of a list; empty if there is none.
type Pager struct {
	Prev, Next string
	// First: Prev leads to the list's first page, because the URL of the page before
	// this one is not known.
	First bool
	// From and To are the numbers of the rows on this page of Total; zero where that is not known.
	From, To, Total int
}

// At adds the id of the list on its page to the pager's URLs.
func (p Pager) At(id string) Pager {
	for _, step := range []*string{&p.Prev, &p.Next} {
		if *step != "" {
			*step += "#" + id
		}
	}
	return p
}

// PageRows is how many rows a page of a list has.
const PageRows = 25

const (
	// trailMark separates the cursors of a trail; no cursor contains it.
	trailMark = "~"
	// longestTrail keeps URLs short enough for every proxy.
	longestTrail = 1500
)

// Pager returns the pager of this page of a list, with the page's filters; next is the
// cursor of the next page, or empty. A cursor only leads forward, so the URL carries the
// cursors of the latest pages before this one (the trail).
func (v *Visit) Pager(next string) Pager { return v.PagerOf(v.R.URL.Path, next) }

// PagerOf is Pager for the page at a path, which a refused form shows as well.
func (v *Visit) PagerOf(path, next string) Pager {
	after, trail := v.Query("after"), v.Query("trail")
	if len(trail) > longestTrail {
		trail = ""
	}
	step := func(after, trail string) string {
		return v.FilterURL(path, "after", after, "trail", trail)
	}
	var pager Pager
	if next != "" {
		behind := trail + trailMark + after
		for len(behind) > longestTrail { // drop the oldest cursor
			_, behind, _ = strings.Cut(behind[len(trailMark):], trailMark)
			behind = trailMark + behind
		}
		pager.Next = step(next, behind)
	}
	switch last := strings.LastIndex(trail, trailMark); {
	case after == "":
	case last < 0:
		pager.Prev, pager.First = step("", ""), true
	default:
		pager.Prev = step(trail[last+len(trailMark):], trail[:last])
	}
	return pager
}

// PageOf returns a page of a list that was read as a whole, with its pager. The cursor is the number of
// rows before the page. The row with the index must is on the page; none has to be if it is below zero.
func PageOf[T any](v *Visit, path string, all []T, must int) ([]T, Pager) {
	from, _ := strconv.Atoi(v.Query("after"))
	if must >= 0 {
		from = must / PageRows * PageRows
	}
	if from < 0 || from >= len(all) {
		from = 0
	}
	to, next := min(from+PageRows, len(all)), ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	pager := v.PagerOf(path, next)
	pager.From, pager.To, pager.Total = from+1, to, len(all)
	return all[from:to], pager
}

// FilterURL returns a URL with this page's filters, some of them replaced: names and
// values in pairs, an empty value removing a filter. The position in the list is left
// out.
func (v *Visit) FilterURL(path string, otherwise ...string) string {
	query := url.Values{}
	for name, values := range v.R.URL.Query() {
		if values[0] != "" && name != "after" && name != "trail" {
			query.Set(name, values[0])
		}
	}
	for i := 0; i+1 < len(otherwise); i += 2 {
		query.Del(otherwise[i])
		if otherwise[i+1] != "" {
			query.Set(otherwise[i], otherwise[i+1])
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}
