package e2e

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// RetryUnread retries a request once if the service closed the connection without an answer
// and that took at least `after`. The service gives a connection five seconds to send its
// request, and a busy test machine may stall for longer. Only reads and signed requests are
// retried; this hides no double processing, because a signed request that was read has used
// its nonce and is refused the second time.
type RetryUnread struct {
	*http.Transport
	after time.Duration
}

func (u RetryUnread) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := u.Transport.RoundTrip(request)
	retryable := request.Method == http.MethodGet || request.Header.Get("X-Nonce") != "" && request.GetBody != nil
	if err == nil || !retryable || time.Since(began) < u.after || !closedByServer(err) {
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

// closedByServer reports whether the server closed the connection before answering. For an
// idle connection net/http has no error value, only the text.
func closedByServer(err error) bool {
	return errors.Is(err, io.EOF) || strings.Contains(err.Error(), "server closed idle connection")
}
