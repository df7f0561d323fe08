package httpapi

import (
	"net/http"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/telemetry"
)

// faultTexts say what net/http found wrong, by the status it wants to answer with.
var faultTexts = map[int]string{
	http.StatusRequestHeaderFieldsTooLarge: "The request's headers are too large.",
	http.StatusExpectationFailed:           "The Expect header asks for what this service does not do.",
	http.StatusNotImplemented:              "The Transfer-Encoding is not one this service reads; send a Content-Length.",
	http.StatusHTTPVersionNotSupported:     "Use HTTP/1.1.",
}

// fault makes the answer to a message that cannot be read as a request, and
// records it. Plain HTTP comes first, as it does everywhere. A trusted proxy may
// have taken the TLS off, and its word on that is in the message nobody could
// read: so its callers are told what is wrong with the message.
func (f *Server) fault(c *conn, status int) (reply, []byte) {
	answer := reply{
		requestID: telemetry.NewRequestID(),
		status:    status,
		code:      fault.BadRequest,
		message:   faultTexts[status],
		close:     true,
	}
	if c.secure {
		answer.hsts = f.hsts
	}
	if answer.message == "" {
		answer.message = "The message could not be read as an HTTP request."
	}
	if !c.secure && !f.proxies.Trusts(c.peer) {
		answer.code, answer.message = errPlainHTTP.Code, errPlainHTTP.Message
		answer.status = StatusOf(answer.code)
	}
	body, _ := answer.encode() // it has texts only, and texts encode
	f.record.fault(answer, c.peer)
	return answer, body
}
