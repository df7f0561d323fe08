// Package contracttest checks responses against the published OpenAPI document:
// status, headers and body. It is stricter than a client has to be. The document
// leaves objects open, because clients must ignore fields they do not know; here
// an undocumented field is a violation.
//
// It is for tests and uses the document alone, no code of the service. It checks
// responses, not requests, and not the wording of messages. Describe returns the
// document's contents, for tests that compare them with the service.
package contracttest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coaxhq/coax/contract"
)

// published is the document, read and compiled once: that takes about a thousand
// times as long as a check.
var published = sync.OnceValues(func() (*document, error) { return load(contract.OpenAPI) })

// Check fails the test if a response does not match the document. The method and
// the path are those of the request, with or without a query; both are empty for
// a message that could not be parsed as a request.
func Check(t testing.TB, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	if err := Violations(method, path, status, header, body); err != nil {
		t.Errorf("%v\nheader: %v\nbody: %s", err, header, body)
	}
}

// Violations is Check without a test. The error lists all violations; it is nil if
// there are none.
func Violations(method, path string, status int, header http.Header, body []byte) error {
	doc, err := published()
	if err != nil {
		return fmt.Errorf("read contract/openapi.yaml: %w", err)
	}
	found := doc.check(response{method: method, path: path, status: status, header: header, body: body})
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s: the response with status %d violates the contract:\n- %s", method, path, status, strings.Join(found, "\n- "))
}

// CheckPrinted fails the test if a body that a program printed, without status and
// headers, matches no documented response to the request.
func CheckPrinted(t testing.TB, method, path string, body []byte) {
	t.Helper()
	doc, err := published()
	if err != nil {
		t.Fatalf("read contract/openapi.yaml: %v", err)
	}
	if found := doc.checkPrinted(method, path, body); len(found) > 0 {
		t.Errorf("%s %s: the printed body violates the contract:\n- %s\nbody: %s", method, path, strings.Join(found, "\n- "), body)
	}
}
