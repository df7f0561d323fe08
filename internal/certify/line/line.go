// Package line is a bad connection between a client and the service: it loses, cuts, delays
// and replaces answers as a story says.
package line

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// What a line does with a request.
const (
	Forward        = "forward"
	LoseRequest    = "lose request"          // the service never sees it
	LoseAnswer     = "lose answer"           // after the work was done
	CutAnswer      = "cut answer"            // in the middle of the body
	Reset          = "reset"                 // a TCP reset, after the work was done
	NeverAnswer    = "forward, never answer" // until the client gives up
	ForwardTwice   = "forward twice"         // the second has a used nonce, and its answer is sent
	Replace        = "answer"                // instead of the service
	WorkThenAnswer = "forward, then answer"  // the work is done, the answer is another's
)

// Actions lists what a line can do.
var Actions = []string{Forward, LoseRequest, LoseAnswer, CutAnswer, Reset, NeverAnswer, ForwardTwice, Replace, WorkThenAnswer}

// Fault is what happens to one request. The names are those of the story files.
type Fault struct {
	Do string `json:"do"`
	// Of an answer that is not the service's own: its body is Body, an object or a text that
	// is sent as it is; or, if Code is set, the service's envelope with Message and Data. KEY
	// stands for the request's idempotency key.
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Code    string            `json:"code,omitempty"`
	Message string            `json:"message,omitempty"`
	Data    json.RawMessage   `json:"data,omitempty"`
	// Delay is how many seconds the answer is late.
	Delay float64 `json:"delay,omitempty"`
	// Add has members that are added to the service's answer, at the top and in its data.
	Add map[string]any `json:"add,omitempty"`
}

// Request is a request as it arrived.
type Request struct {
	Method, Target, Key string
	Header              http.Header
	Body                []byte
}

// Read reads a request to its end.
func Read(r *http.Request) (Request, error) {
	body, err := io.ReadAll(r.Body)
	return Request{r.Method, r.URL.RequestURI(), r.Header.Get("Idempotency-Key"), r.Header.Clone(), body}, err
}

// OperationKey returns the idempotency key that the request has, or asks for.
func (r Request) OperationKey() string {
	if r.Key != "" {
		return r.Key
	}
	return r.query("idempotency_key")
}

// TransactionID returns the transaction id that the request asks for.
func (r Request) TransactionID() string { return r.query("transaction_id") }

func (r Request) query(name string) string {
	_, text, _ := strings.Cut(r.Target, "?")
	values, err := url.ParseQuery(text)
	if err != nil {
		return ""
	}
	return values.Get(name)
}

// Answer is an answer of the service, or one that replaces it. A status of 0 means that
// nothing was answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Treat does with a request what the fault says. forward takes the request to the service.
// It returns what the client was sent; if that was not an answer in full, the status is 0 and
// the connection is broken, for which ServeHTTP has to panic with http.ErrAbortHandler.
func Treat(w http.ResponseWriter, r *http.Request, got Request, f Fault, forward func() (Answer, error)) (Answer, error) {
	var answer Answer
	var err error
	switch f.Do {
	case LoseRequest:
		return Answer{}, nil
	case Replace:
		answer = f.answer(got.OperationKey())
	case Forward, LoseAnswer, CutAnswer, Reset, NeverAnswer, ForwardTwice, WorkThenAnswer:
		if answer, err = forward(); err != nil {
			return Answer{}, err
		}
		if f.Do == ForwardTwice {
			if answer, err = forward(); err != nil {
				return Answer{}, err
			}
		}
	default:
		return Answer{}, fmt.Errorf("a line cannot %q; it can: %s", f.Do, strings.Join(Actions, "; "))
	}
	if f.Delay > 0 {
		late := time.NewTimer(time.Duration(f.Delay * float64(time.Second)))
		defer late.Stop()
		select {
		case <-late.C:
		case <-r.Context().Done(): // the client gave up
			return Answer{}, nil
		}
	}
	switch f.Do {
	case LoseAnswer:
		return Answer{}, nil
	case Reset:
		return Answer{}, reset(w)
	case NeverAnswer:
		<-r.Context().Done()
		return Answer{}, nil
	case CutAnswer:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer.Body)))
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body[:len(answer.Body)/2])
		return Answer{}, nil
	case WorkThenAnswer:
		answer = f.answer(got.OperationKey())
	}
	if f.Add != nil {
		if answer.Body, err = add(answer.Body, f.Add); err != nil {
			return Answer{}, err
		}
		answer.Header.Del("Content-Length")
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	_, err = w.Write(answer.Body)
	if err != nil {
		return Answer{}, nil //nolint:nilerr // the client has gone
	}
	return answer, nil
}

// answer returns the answer of the story's own.
func (f Fault) answer(key string) Answer {
	answer := Answer{f.Status, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, f.Body}
	if f.Code != "" {
		answer = Envelope(f.Status, f.Code, f.Message, f.Data)
	}
	text := strings.ReplaceAll(string(answer.Body), "KEY", key)
	var page string
	if json.Unmarshal([]byte(text), &page) == nil {
		text = page
		answer.Header.Set("Content-Type", "text/html")
	}
	for name, value := range f.Headers {
		answer.Header.Set(name, value)
	}
	answer.Body = []byte(text)
	return answer
}

// Envelope returns a refusal as the service writes it.
func Envelope(status int, code, message string, data json.RawMessage) Answer {
	if data == nil {
		data = json.RawMessage(`{}`)
	}
	const id = "req_00000000000000000000000000000007"
	body, _ := json.Marshal(map[string]any{"success": false, "request_id": id, "code": code, "message": cmp.Or(message, "It is so."), "data": data})
	return Answer{status, http.Header{"Content-Type": {"application/json; charset=utf-8"}, "X-Request-Id": {id}}, body}
}

// add adds members to an answer's object and to its data.
func add(body []byte, members map[string]any) ([]byte, error) {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("add fields to an answer: %w", err)
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(answer["data"], &data); err != nil {
		return nil, fmt.Errorf("add fields to an answer: %w", err)
	}
	for name, value := range members {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		answer[name], data[name] = text, text
	}
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	answer["data"] = text
	return json.Marshal(answer)
}

// reset closes the connection with a TCP reset.
func reset(w http.ResponseWriter) error {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	for {
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = wrapped.NetConn()
	}
	if plain, ok := conn.(*net.TCPConn); ok {
		_ = plain.SetLinger(0)
	}
	return conn.Close()
}
