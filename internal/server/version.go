package server

import (
	"runtime/debug"
)

// release is the version of this source; CHANGELOG.md has its entries.
const release = "0.2.0-dev"

// Version returns the release, the commit that it was built from if that is known, and
// the version of Go.
func Version() string {
	text := release
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return text
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			text += " " + s.Value
		}
		if s.Key == "vcs.modified" && s.Value == "true" {
			text += "+changes"
		}
	}
	return text + " " + info.GoVersion
}
