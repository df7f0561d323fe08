// Package docs embeds the pages for integrators, which the service serves beside the API
// reference.
//
// It contains no logic and imports no other package of this module.
package docs

import _ "embed"

// Integrating and WhatHappensWhen are pages in Markdown, AfterEachAnswer the picture that
// the latter shows, as SVG.
var (
	//go:embed integrating.md
	Integrating []byte
	//go:embed what-happens-when.md
	WhatHappensWhen []byte
	//go:embed after-each-answer.svg
	AfterEachAnswer []byte
)
