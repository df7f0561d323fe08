package sdk

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/coaxhq/coax/client"
)

// Every code and reason of Go's client is in the other SDKs and in the description of
// their behaviour.
func TestCodes_InEverySDK(t *testing.T) {
	var names []string
	for _, code := range client.Codes() {
		names = append(names, string(code))
	}
	for _, reason := range []client.Reason{client.ProviderRejected, client.ProviderUnreachable, client.NotConfirmed, client.RejectedByReview} {
		names = append(names, string(reason))
	}
	names = append(names, client.ComboSecondaryFailed)
	for _, files := range [][]string{
		{"sdk/php/src/Code.php", "sdk/php/src/Reason.php", "sdk/php/src/Warning.php"},
		{"sdk/node/lib/codes.js"},
		{"sdk/node/index.d.ts"},
		{"sdk/python/coax/codes.py"},
		{"sdk/BEHAVIOUR.md"},
	} {
		var text []byte
		for _, file := range files {
			part, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, part...)
		}
		for _, name := range names {
			if name == "OK" && files[0] == "sdk/BEHAVIOUR.md" {
				continue // no error has it
			}
			if !regexp.MustCompile(`\b` + name + `\b`).Match(text) {
				t.Errorf("%s: there is no %s", files, name)
			}
		}
	}
}
