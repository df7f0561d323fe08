package simulator

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The simulator answers the requests of the protocol's page as the page shows.
func TestProtocolPage_MatchesSimulator(t *testing.T) {
	page, err := os.ReadFile("../../../docs/provider-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(page), "```") {
		if block, isHTTP := strings.CutPrefix(part, "http\n"); i%2 == 1 && isHTTP {
			blocks = append(blocks, block)
		}
	}
	if len(blocks) < 20 || len(blocks)%2 != 0 {
		t.Fatalf("the page has %d blocks of HTTP; want pairs of request and response", len(blocks))
	}

	noon := time.Date(2027, 3, 1, 12, 0, 0, 0, time.FixedZone("IST", 5*3600+1800))
	s := newSimulator(t, Config{Now: func() time.Time { return noon }, PageSize: 1})
	for i := 0; i < len(blocks); i += 2 {
		request, body, _ := strings.Cut(blocks[i], "\n")
		method, target, _ := strings.Cut(request, " ")
		got := ask(s, method, target, body)

		head, wanted, _ := strings.Cut(blocks[i+1], "\n")
		var code int
		if _, err := fmt.Sscanf(head, "HTTP/1.1 %d", &code); err != nil {
			t.Fatalf("%q does not begin an answer: %v", head, err)
		}
		if got.code != code || !reflect.DeepEqual(object(t, got.text), object(t, wanted)) {
			t.Errorf("%s%s\nis answered %d %s\nthe page says %d %s", request, body, got.code, got.text, code, wanted)
		}
	}
}

func object(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}
