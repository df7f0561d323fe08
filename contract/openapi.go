package contract

import _ "embed"

// OpenAPI is openapi.yaml: every endpoint, every answer, every code. Package
// contracttest holds recorded responses against it.
//
//go:embed openapi.yaml
var OpenAPI []byte
