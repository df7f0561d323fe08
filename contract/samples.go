package contract

import "embed"

// Samples holds a program for every endpoint in every language of an SDK, and in shell:
// samples/renew.php, samples/renew/main.go, and so on. The reference shows them, and
// internal/e2e/sdk runs them.
//
//go:embed samples
var Samples embed.FS
