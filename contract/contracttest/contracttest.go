// Package contracttest holds responses against the published OpenAPI document:
// status, headers and every byte of the body. It is stricter than a client has to
// be. The document leaves objects open, because clients must ignore fields they do
// not know; here an object with one field too many is a broken promise.
//
// It is for tests and knows nothing but the document: no code of the service is
// asked what it meant to say. It judges responses only, never requests, and no
// message's wording. Describe says what the document has, for those who compare
// it with what the service has.
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
// times as long as a judgement.
var published = sync.OnceValues(func() (*document, error) { return load(contract.OpenAPI) })

// Check fails the test if a response is not what the document promises for the
// request: the method and the path, as they were sent, with or without a query.
// For a message that never became a request, leave both empty.
func Check(t testing.TB, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	if err := Violations(method, path, status, header, body); err != nil {
		t.Errorf("%v\nheader: %v\nbody: %s", err, header, body)
	}
}

// Violations is Check without a test. The error names everything that is wrong
// with the response; it is nil if nothing is.
func Violations(method, path string, status int, header http.Header, body []byte) error {
	doc, err := published()
	if err != nil {
		return fmt.Errorf("read contract/openapi.yaml: %w", err)
	}
	found := doc.judge(response{method: method, path: path, status: status, header: header, body: body})
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s answered %d against the contract:\n- %s", method, path, status, strings.Join(found, "\n- "))
}

// CheckPrinted fails the test if a body that a program printed, without its status
// and its headers, is none that the document promises for the request.
func CheckPrinted(t testing.TB, method, path string, body []byte) {
	t.Helper()
	doc, err := published()
	if err != nil {
		t.Fatalf("read contract/openapi.yaml: %v", err)
	}
	if found := doc.judgePrinted(method, path, body); len(found) > 0 {
		t.Errorf("%s %s is said to be answered against the contract:\n- %s\nbody: %s", method, path, strings.Join(found, "\n- "), body)
	}
}
