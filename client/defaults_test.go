package client

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"
)

// The defaults are those of the table in BEHAVIOUR.md. The tests of the other SDKs read it, too.
func TestConfig_DefaultsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../sdk/BEHAVIOUR.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]+) \\| [^|]+ \\|$").FindAllStringSubmatch(string(page), -1) {
		want[row[1]] = row[2]
	}
	c, err := New(Config{BaseURL: "https://coax.example/api/v1", Key: "cxk_1", Secret: "cxs_1"})
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%v s", d.Seconds()) }
	got := map[string]string{
		"connect_timeout":    seconds(c.http.Transport.(*http.Transport).TLSHandshakeTimeout),
		"timeout":            seconds(c.http.Timeout),
		"total_timeout":      seconds(c.retry.Total),
		"attempts":           fmt.Sprint(c.retry.Attempts),
		"pause":              seconds(c.retry.Pause),
		"max_pause":          seconds(c.retry.MaxPause),
		"max_retry_after":    seconds(c.retry.MaxRetryAfter),
		"wait_until_settled": map[bool]string{false: "yes", true: "no"}[c.returnPending],
		"on_attempt":         map[bool]string{true: "none", false: "a function"}[c.onAttempt == nil],
		"clock":              "the system's",
	}
	if !maps.Equal(got, want) {
		t.Errorf("the defaults are %v; BEHAVIOUR.md has %v", got, want)
	}
}
