package web

import (
	"net/url"
	"strings"
)

// Steps are the ways on and back from a page of a list; empty where there is none.
type Steps struct {
	Back, On string
	// First: Back leads to the list's first page, since nobody remembers the one
	// before this.
	First bool
}

const (
	// trailMark stands before each place of a trail; no place has it.
	trailMark = "~"
	// longestTrail keeps addresses short enough for every proxy.
	longestTrail = 1500
)

// Steps are the ways on and back from this page of a list, narrowed down as the
// visitor has it; next is the place behind which the list goes on, or empty. A list
// goes on behind a place and cannot go back from one, so the address remembers the
// places that led here, the latest of them.
func (v *Visit) Steps(next string) Steps {
	after, trail := v.Query("after"), v.Query("trail")
	if len(trail) > longestTrail {
		trail = ""
	}
	step := func(after, trail string) string {
		return v.Narrowed(v.R.URL.Path, "after", after, "trail", trail)
	}
	var steps Steps
	if next != "" {
		behind := trail + trailMark + after
		for len(behind) > longestTrail { // the oldest place is forgotten
			_, behind, _ = strings.Cut(behind[len(trailMark):], trailMark)
			behind = trailMark + behind
		}
		steps.On = step(next, behind)
	}
	switch last := strings.LastIndex(trail, trailMark); {
	case after == "":
	case last < 0:
		steps.Back, steps.First = step("", ""), true
	default:
		steps.Back = step(trail[last+len(trailMark):], trail[:last])
	}
	return steps
}

// Narrowed is an address with what the visitor narrowed this page down by, and with
// some of that said otherwise: names and values in pairs, an empty value leaving a
// name out. Where a list goes on is not narrowing down.
func (v *Visit) Narrowed(path string, otherwise ...string) string {
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
