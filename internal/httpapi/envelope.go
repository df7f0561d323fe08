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
	// hsts is the value of Strict-Transport-Security; nil where the front door sets it,
	// or none is sent.
	hsts []string
}

// encode returns the envelope, whose fields stand in the contract's order. It
// fails if data is not an object: the contract promises one, and a client must
// never find a list or a number there.
func (p reply) encode() ([]byte, error) {
	o := openObject((*bodies.Get().(*[]byte))[:0])
	o.flag("success", p.status == http.StatusOK)
	o.text("request_id", p.requestID)
	o.text("code", string(p.code))
	o.text("message", p.message)
	o.name("data")
	switch data := p.data.(type) {
	case nil:
		o.out = append(o.out, "{}"...)
	case balanceData, operationData, transactionData:
		o.out = data.(jsonObject).appendJSON(o.out)
	default:
		encoded, err := marshal(data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("encode the data of %s: %w", p.code, err)
		case encoded[0] == '{':
			o.out = append(o.out, encoded...)
		case string(encoded) == "null": // a nil map or pointer has nothing to say
			o.out = append(o.out, "{}"...)
		default:
			return nil, fmt.Errorf("encode the data of %s: %T is no object", p.code, p.data)
		}
	}
	return o.close(), nil
}

// bodies are those of responses that were sent. Whoever has sent one may give it
// back; what a rare long one took is left to the collector.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

const keptBody = 8 << 10

func giveBack(body []byte) {
	if cap(body) <= keptBody {
		bodies.Put(&body)
	}
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

// What is the same in every response. Nobody changes a header's values in place.
var (
	contentTypeJSON = []string{"application/json; charset=utf-8"}
	noStore         = []string{"no-store"}
	yes             = []string{"true"}
	closeIt         = []string{"close"}
)

// setHeader writes what goes before the body into header. Names are spelled as
// the contract spells them, which is not always how net/http would.
func (p reply) setHeader(header http.Header, bodyLen int) {
	values := headerValues{header: header}
	header["Content-Type"] = contentTypeJSON
	values.number("Content-Length", int64(bodyLen))
	header["Cache-Control"] = noStore
	values.text("X-Request-Id", p.requestID)
	if p.rate.Limit != 0 {
		values.number("X-RateLimit-Limit", int64(p.rate.Limit))
		values.number("X-RateLimit-Remaining", int64(p.rate.Remaining))
		values.number("X-RateLimit-Reset", p.rate.ResetAt.Unix())
	}
	if p.status == http.StatusTooManyRequests {
		// Rounded up, so that whoever waits as long as told is not early.
		values.number("Retry-After", max(1, int64((p.retryAfter+time.Second-1)/time.Second)))
	}
	if p.replayed {
		header["Idempotent-Replayed"] = yes
	}
	if p.allow != "" {
		values.text("Allow", p.allow)
	}
	if p.close {
		header["Connection"] = closeIt
	}
	if p.hsts != nil {
		header[hstsHeader] = p.hsts
	}
}

// headerValues puts values into a header, all of them in one piece of memory.
type headerValues struct {
	header http.Header
	room   []string
}

func (v *headerValues) text(name, value string) {
	if cap(v.room) == len(v.room) {
		v.room = make([]string, 0, 6)
	}
	v.room = append(v.room, value)
	last := len(v.room)
	v.header[name] = v.room[last-1 : last : last]
}

func (v *headerValues) number(name string, value int64) { v.text(name, strconv.FormatInt(value, 10)) }

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
