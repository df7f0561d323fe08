// Package contract embeds the published files of the API, which integrators build
// against, so that the tests, the server and the command line use exactly the
// published text.
//
// It contains no logic and imports no other package of this module.
package contract

import "embed"

// Vectors holds the signing test vectors, vectors/*.json; vectors/README.md
// describes their format. Their expected values come from vectors/check.py, never
// from the Go code that they test.
//
//go:embed vectors/*.json
var Vectors embed.FS
