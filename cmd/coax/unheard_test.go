package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// unheard sends once more what a service hung up on without a word, after so long. The
// service gives a connection five seconds to say what it wants, and a machine may stand
// still for longer than that. It is for what may come twice: reads, and signed requests,
// by which nothing is hidden, because one that was read has burned its nonce and is
// refused when it comes again.
type unheard struct {
	*http.Transport
	after time.Duration
}

func (u unheard) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := u.Transport.RoundTrip(request)
	harmless := request.Method == http.MethodGet || request.Header.Get("X-Nonce") != "" && request.GetBody != nil
	if err == nil || !harmless || time.Since(began) < u.after || !hungUp(err) {
		return answer, err
	}
	again := request.Clone(request.Context())
	if request.GetBody != nil {
		if again.Body, err = request.GetBody(); err != nil {
			return nil, err
		}
	}
	return u.Transport.RoundTrip(again)
}

// hungUp reports whether the other end closed the connection before it said anything;
// of one that was idle, net/http says so in words alone.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || strings.Contains(err.Error(), "server closed idle connection")
}

func TestWhatWasHungUpOnUnheardIsSentOnceMore(t *testing.T) {
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
			answer, err := unheard{after: test.after, Transport: &http.Transport{}}.RoundTrip(request)
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
