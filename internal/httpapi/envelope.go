package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
)

// response is a response of the API, sent over an http.ResponseWriter or, in place of an
// error response of net/http's own, as bytes on the connection.
type response struct {
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
	// hsts is the value of Strict-Transport-Security; nil if Server sets it or none is
	// sent.
	hsts []string
}

// encode returns the envelope with its fields in the contract's order. It fails if data
// is not a JSON object, which the contract promises.
func (r response) encode() ([]byte, error) {
	o := openObject((*bodyPool.Get().(*[]byte))[:0])
	o.flag("success", r.status == http.StatusOK)
	o.text("request_id", r.requestID)
	o.text("code", string(r.code))
	o.text("message", r.message)
	o.name("data")
	switch data := r.data.(type) {
	case nil:
		o.out = append(o.out, "{}"...)
	case balanceData, operationData, transactionData, subscriptionData, plansData:
		o.out = data.(jsonObject).appendJSON(o.out)
	default:
		encoded, err := marshal(data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("encode the data of %s: %w", r.code, err)
		case encoded[0] == '{':
			o.out = append(o.out, encoded...)
		case string(encoded) == "null": // a nil map or pointer
			o.out = append(o.out, "{}"...)
		default:
			return nil, fmt.Errorf("encode the data of %s: %T is not a JSON object", r.code, r.data)
		}
	}
	return o.close(), nil
}

// bodyPool reuses the bodyPool of responses that were sent, except long ones.
var bodyPool = sync.Pool{New: func() any { return new([]byte) }}

const maxPooledBody = 8 << 10

func releaseBody(body []byte) {
	if cap(body) <= maxPooledBody {
		bodyPool.Put(&body)
	}
}

// marshal encodes without HTML escaping, so that a name with an ampersand arrives
// unchanged. Responses are JSON by Content-Type.
func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// Header values that are shared by responses. They must not be changed in place.
var (
	contentTypeJSON = []string{"application/json; charset=utf-8"}
	noStore         = []string{"no-store"}
	headerTrue      = []string{"true"}
	headerClose     = []string{"close"}
)

// setHeader sets the response's headers. Names are spelled as in the contract, which is
// not always net/http's canonical form.
func (r response) setHeader(header http.Header, bodyLen int) {
	values := headerValues{header: header}
	header["Content-Type"] = contentTypeJSON
	values.number("Content-Length", int64(bodyLen))
	header["Cache-Control"] = noStore
	values.text("X-Request-Id", r.requestID)
	if r.rate.Limit != 0 {
		values.number("X-RateLimit-Limit", int64(r.rate.Limit))
		values.number("X-RateLimit-Remaining", int64(r.rate.Remaining))
		values.number("X-RateLimit-Reset", r.rate.ResetAt.Unix())
	}
	if r.status == http.StatusTooManyRequests {
		// Rounded up, so that a client that waits this long is not early.
		values.number("Retry-After", max(1, int64((r.retryAfter+time.Second-1)/time.Second)))
	}
	if r.replayed {
		header["Idempotent-Replayed"] = headerTrue
	}
	if r.allow != "" {
		values.text("Allow", r.allow)
	}
	if r.close {
		header["Connection"] = headerClose
	}
	if r.hsts != nil {
		header[hstsHeader] = r.hsts
	}
}

// headerValues sets header values out of one allocation.
type headerValues struct {
	header http.Header
	values []string
}

func (v *headerValues) text(name, value string) {
	if cap(v.values) == len(v.values) {
		v.values = make([]string, 0, 6)
	}
	v.values = append(v.values, value)
	last := len(v.values)
	v.header[name] = v.values[last-1 : last : last]
}

func (v *headerValues) number(name string, value int64) { v.text(name, strconv.FormatInt(value, 10)) }

// send writes the response with the encoded envelope as its body.
func (r response) send(w http.ResponseWriter, body []byte) {
	r.setHeader(w.Header(), len(body))
	w.WriteHeader(r.status)
	w.Write(body) // an error means that the client hung up
}

// bytes returns the whole response as it is sent.
func (r response) bytes(body []byte) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "HTTP/1.1 %d %s\r\n", r.status, http.StatusText(r.status))
	header := http.Header{}
	r.setHeader(header, len(body))
	header.Write(&text)
	text.WriteString("\r\n")
	text.Write(body)
	return text.Bytes()
}
