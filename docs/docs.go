// Package docs embeds the page for integrators, which the service serves beside the API
// reference.
//
// It contains no logic and imports no other package of this module.
package docs

import _ "embed"

// Integrating is integrating.md, in Markdown.
//
//go:embed integrating.md
var Integrating []byte
