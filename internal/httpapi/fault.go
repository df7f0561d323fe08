package httpapi

import (
	"net/http"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/telemetry"
)

// faultTexts are the messages for net/http's own error responses, by status.
var faultTexts = map[int]string{
	http.StatusRequestHeaderFieldsTooLarge: "The request's headers are too large.",
	http.StatusExpectationFailed:           "The Expect header asks for what this service does not do.",
	http.StatusNotImplemented:              "The Transfer-Encoding is not one this service reads; send a Content-Length.",
	http.StatusHTTPVersionNotSupported:     "Use HTTP/1.1.",
}

// fault makes and records the response to a message that cannot be read as a request.
// HTTPS_REQUIRED comes first, as for every request. Behind a trusted proxy we cannot
// tell whether the client used HTTPS, because that header could not be read; then the
// response says what is wrong with the message.
func (s *Server) fault(c *conn, status int) (response, []byte) {
	resp := response{
		requestID: telemetry.NewRequestID(),
		status:    status,
		code:      fault.BadRequest,
		message:   faultTexts[status],
		close:     true,
	}
	if c.secure {
		resp.hsts = s.hsts
	}
	if resp.message == "" {
		resp.message = "The message could not be read as an HTTP request."
	}
	if !c.secure && !s.proxies.Trusts(c.peer) {
		resp.code, resp.message = errPlainHTTP.Code, errPlainHTTP.Message
		resp.status = StatusOf(resp.code)
	}
	body, _ := resp.encode() // strings always encode
	s.recorder.fault(resp, c.peer)
	return resp, body
}
