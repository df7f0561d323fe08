package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

// envelope is the one shape of every response. The order of the fields is the
// contract's.
type envelope struct {
	Success   bool            `json:"success"`
	RequestID string          `json:"request_id"`
	Code      fault.Code      `json:"code"`
	Message   string          `json:"message"`
	Data      json.RawMessage `json:"data"`
}

// reply is a response ready to be sent, over an http.ResponseWriter or, where
// net/http would not let us, as bytes on the connection.
type reply struct {
	requestID  string
	status     int
	code       fault.Code
	message    string
	data       any // an object, or nil for an empty one
	rate       access.Rate
	retryAfter time.Duration
	allow      string
	replayed   bool
	close      bool // this is the last response on its connection
}

// encode returns the envelope. It fails if data is not an object: the contract
// promises one, and a client must never find a list or a number there.
func (p reply) encode() ([]byte, error) {
	data := json.RawMessage("{}")
	if p.data != nil {
		encoded, err := marshal(p.data)
		if err != nil {
			return nil, fmt.Errorf("encode the data of %s: %w", p.code, err)
		}
		switch {
		case encoded[0] == '{':
			data = encoded
		case string(encoded) != "null": // a nil map or pointer has nothing to say
			return nil, fmt.Errorf("encode the data of %s: %T is no object", p.code, p.data)
		}
	}
	return marshal(envelope{
		Success:   p.status == http.StatusOK,
		RequestID: p.requestID,
		Code:      p.code,
		Message:   p.message,
		Data:      data,
	})
}

// marshal encodes without HTML escaping: a name with an ampersand arrives as it
// was given. The responses are not HTML and say so.
func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// setHeader writes what goes before the body into header. Names are spelled as
// the contract spells them, which is not always how net/http would.
func (p reply) setHeader(header http.Header, bodyLen int) {
	header["Content-Type"] = []string{"application/json; charset=utf-8"}
	header["Content-Length"] = []string{strconv.Itoa(bodyLen)}
	header["Cache-Control"] = []string{"no-store"}
	header["X-Request-Id"] = []string{p.requestID}
	if p.rate.Limit != 0 {
		header["X-RateLimit-Limit"] = []string{strconv.Itoa(p.rate.Limit)}
		header["X-RateLimit-Remaining"] = []string{strconv.Itoa(p.rate.Remaining)}
		header["X-RateLimit-Reset"] = []string{strconv.FormatInt(p.rate.ResetAt.Unix(), 10)}
	}
	if p.status == http.StatusTooManyRequests {
		// Rounded up, so that whoever waits as long as told is not early.
		seconds := max(1, int64((p.retryAfter+time.Second-1)/time.Second))
		header["Retry-After"] = []string{strconv.FormatInt(seconds, 10)}
	}
	if p.replayed {
		header["Idempotent-Replayed"] = []string{"true"}
	}
	if p.allow != "" {
		header["Allow"] = []string{p.allow}
	}
	if p.close {
		header["Connection"] = []string{"close"}
	}
}

// send writes the response with the encoded envelope as its body.
func (p reply) send(w http.ResponseWriter, body []byte) {
	p.setHeader(w.Header(), len(body))
	w.WriteHeader(p.status)
	w.Write(body) // whoever hung up does not want to know
}

// bytes is the whole response as it travels.
func (p reply) bytes(body []byte) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "HTTP/1.1 %d %s\r\n", p.status, http.StatusText(p.status))
	header := http.Header{}
	p.setHeader(header, len(body))
	header.Write(&text)
	text.WriteString("\r\n")
	text.Write(body)
	return text.Bytes()
}
