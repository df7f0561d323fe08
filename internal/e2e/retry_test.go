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
		closes, want  int32 // connections the server closes, requests it should receive
	}{
		"signed request":   {"POST", "once", 0, 1, 2},
		"read":             {"GET", "", 0, 1, 2},
		"closed twice":     {"POST", "once", 0, 2, 2},
		"answered":         {"POST", "once", 0, 0, 1},
		"unsigned form":    {"POST", "", 0, 1, 1},
		"closed too early": {"POST", "once", time.Hour, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			var received atomic.Value
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) <= test.closes {
					panic(http.ErrAbortHandler)
				}
				body, _ := io.ReadAll(r.Body)
				received.Store(string(body))
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
			if got := requests.Load(); got != test.want || (err == nil) != (test.want > test.closes) {
				t.Errorf("%d requests, then %v; want %d", got, err, test.want)
			}
			if got := received.Load(); err == nil && got != sent {
				t.Errorf("received %q; want %q", got, sent)
			}
		})
	}
}
