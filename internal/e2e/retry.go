package e2e

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// RetryUnread sends once more what a service hung up on without a word, after so long. The
// service gives a connection five seconds to say what it wants, and a machine may stand
// still for longer than that. It is for what may come twice: reads, and signed requests,
// by which nothing is hidden, because one that was read has burned its nonce and is
// refused when it comes again.
type RetryUnread struct {
	*http.Transport
	after time.Duration
}

func (u RetryUnread) RoundTrip(request *http.Request) (*http.Response, error) {
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
