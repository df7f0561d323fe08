// Package contract holds the promise made to strangers: the files that somebody
// who never sees this code builds against. They are embedded so that the tests,
// the server and the command line all carry the very text that is published.
//
// It contains no logic and imports nothing of ours. Whoever wants to know whether
// the service keeps the promise reads the files here and asks the service.
package contract

import "embed"

// Vectors holds the signing test vectors, vectors/*.json; vectors/README.md
// describes their format. Their expected values come from vectors/check.py and
// never from the Go code they are held against.
//
//go:embed vectors/*.json
var Vectors embed.FS
