// Package sdk embeds the description of the SDKs, which the service serves beside the API
// reference. Go's SDK is package client.
//
// It contains no logic and imports no other package of this module.
package sdk

import _ "embed"

// Behaviour is BEHAVIOUR.md, in Markdown.
//
//go:embed BEHAVIOUR.md
var Behaviour []byte
