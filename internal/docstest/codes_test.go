package docstest

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/coaxhq/coax/contract"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/httpapi"
)

var (
	codeRow    = regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `([A-Z_]+)` \\| \\S.* \\| \\S.* \\|$")
	pinnedCode = regexp.MustCompile(`(?m)^ +code: \{type: string, const: ([A-Z_]+)\}$`)
	// Every field of an answer is required; x-names lists all fields of a request.
	nameLists = regexp.MustCompile(`(?:required|x-names|enum): \[([A-Za-z_,\s]+)\]`)
)

// Authors of clients work through the table of errors, so it must have every code.
func TestIntegrating_ListsEveryCode(t *testing.T) {
	text, err := os.ReadFile("docs/integrating.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[fault.Code]int{}
	for _, row := range codeRow.FindAllStringSubmatch(string(text), -1) {
		code := fault.Code(row[2])
		if _, twice := shown[code]; twice {
			t.Errorf("docs/integrating.md has %s twice", code)
		}
		shown[code], _ = strconv.Atoi(row[1])
	}

	published := map[fault.Code]bool{}
	for _, found := range pinnedCode.FindAllSubmatch(contract.OpenAPI, -1) {
		published[fault.Code(found[1])] = true
	}
	for _, code := range fault.Contract {
		if !published[code] {
			t.Errorf("contract/openapi.yaml has no answer with %s, which internal/fault names", code)
		}
		if status, is := shown[code]; !is {
			t.Errorf("docs/integrating.md has no row for %s", code)
		} else if want := httpapi.StatusOf(code); status != want {
			t.Errorf("docs/integrating.md gives %s the status %d; it travels with %d", code, status, want)
		}
		delete(shown, code)
		delete(published, code)
	}
	// BAD_REQUEST is not in the contract; a sentence below the tables explains it.
	delete(published, fault.BadRequest)
	for code := range published {
		t.Errorf("contract/openapi.yaml answers with %s, which internal/fault does not name", code)
	}
	for code := range shown {
		t.Errorf("docs/integrating.md has a row for %s, which internal/fault does not name", code)
	}
	if !regexp.MustCompile("`" + string(fault.BadRequest) + "`").Match(text) {
		t.Errorf("docs/integrating.md does not mention %s", fault.BadRequest)
	}
}

// Authors of clients must not have to guess a field, a status or a reason.
func TestIntegrating_ListsEveryField(t *testing.T) {
	text, err := os.ReadFile("docs/integrating.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	missing := map[string]bool{}
	for _, list := range nameLists.FindAllSubmatch(contract.OpenAPI, -1) {
		for _, name := range strings.FieldsFunc(string(list[1]), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
			found++
			if name == "GET" || name == "POST" {
				continue // values of the header Allow
			}
			if !bytes.Contains(text, []byte("`"+name+"`")) {
				missing[name] = true
			}
		}
	}
	if found < 200 {
		t.Fatalf("found %d names in the contract: the search looks in the wrong place", found)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("docs/integrating.md does not have `%s`, which contract/openapi.yaml has", name)
	}
}
