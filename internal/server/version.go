package server

import (
	"runtime/debug"
)

// release is the version of this source; CHANGELOG.md has its entries.
const release = "0.2.0-dev"

// revision is the commit of a build without .git, such as the image's; -ldflags=-X sets it.
var revision string

// build returns what the binary was built from; the commit is empty if it is not known.
func build() (version, commit, goVersion string) {
	version, commit = release, revision
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit, goVersion
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.modified" && s.Value == "true" {
			commit += "+changes"
		}
	}
	return version, commit, info.GoVersion
}

// Version returns the release, the commit that it was built from if that is known, and
// the version of Go.
func Version() string {
	text, commit, goVersion := build()
	for _, part := range []string{commit, goVersion} {
		if part != "" {
			text += " " + part
		}
	}
	return text
}
