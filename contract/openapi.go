package contract

import _ "embed"

// OpenAPI is openapi.yaml: every endpoint, response and code. Package contracttest
// checks responses against it.
//
//go:embed openapi.yaml
var OpenAPI []byte
