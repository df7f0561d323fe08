package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestRetryUnread_SendsOnceMore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method, nonce string
		after         time.Duration
		hangUps, want int32 // how often the service hangs up, and how often it is asked
	}{
		"a signed request":        {"POST", "once", 0, 1, 2},
		"a read":                  {"GET", "", 0, 1, 2},
		"hung up on again":        {"POST", "once", 0, 2, 2},
		"answered":                {"POST", "once", 0, 0, 1},
		"a form, which may do it": {"POST", "", 0, 1, 1},
		"hung up on at once":      {"POST", "once", time.Hour, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			var heard atomic.Value
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) <= test.hangUps {
					panic(http.ErrAbortHandler)
				}
				body, _ := io.ReadAll(r.Body)
				heard.Store(string(body))
			}))
			defer server.Close()
			var body io.Reader
			sent := ""
			if test.method == "POST" {
				sent = "all of it"
				body = strings.NewReader(sent)
			}
			request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL, body)
			if err != nil {
				t.Fatal(err)
			}
			if test.nonce != "" {
				request.Header.Set("X-Nonce", test.nonce)
			}
			answer, err := RetryUnread{after: test.after, Transport: &http.Transport{}}.RoundTrip(request)
			if err == nil {
				answer.Body.Close()
			}
			if got := asked.Load(); got != test.want || (err == nil) != (test.want > test.hangUps) {
				t.Errorf("asked %d times, and then %v; want %d", got, err, test.want)
			}
			if got := heard.Load(); err == nil && got != sent {
				t.Errorf("heard %q; want %q", got, sent)
			}
		})
	}
}
