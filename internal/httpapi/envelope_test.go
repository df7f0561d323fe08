package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/money"
)

func TestEnvelopeIsWrittenInTheContractsOrderAndWithoutEscapes(t *testing.T) {
	got, err := reply{
		requestID: "req_00",
		status:    200,
		code:      fault.OK,
		message:   `Rao & Sons <"TV">`,
		data:      map[string]any{"name": "A<B>&C", "price": money.Paise(19900)},
	}.encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"success":true,"request_id":"req_00","code":"OK","message":"Rao & Sons <\"TV\">",` +
		`"data":{"name":"A<B>&C","price":199.00}}`
	if string(got) != want {
		t.Errorf("envelope = %s\nwant       %s", got, want)
	}
}

func TestEnvelopeDataIsAlwaysAnObject(t *testing.T) {
	tests := []struct {
		name string
		data any
		want string // empty: refused
	}{
		{"nothing to say", nil, `{}`},
		{"a refusal without details", map[string]any(nil), `{}`},
		{"a pointer to nothing", (*balanceData)(nil), `{}`},
		{"an empty object", struct{}{}, `{}`},
		{"details", map[string]any{"ip": "192.0.2.1"}, `{"ip":"192.0.2.1"}`},
		{"a list is refused", []string{"a"}, ""},
		{"a text is refused", "a", ""},
		{"what does not encode is refused", map[string]any{"f": func() {}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := reply{code: fault.OK, data: tt.data}.encode()
			if (err != nil) != (tt.want == "") {
				t.Fatalf("encode: %v; want refused: %v", err, tt.want == "")
			}
			if err == nil && !strings.HasSuffix(string(got), `"data":`+tt.want+`}`) {
				t.Errorf("envelope = %s; want data %s", got, tt.want)
			}
		})
	}
}

func TestEnvelopeSucceedsWith200Only(t *testing.T) {
	for status := range promised {
		body, err := reply{status: status}.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.HasPrefix(string(body), `{"success":true,`); got != (status == 200) {
			t.Errorf("status %d: success = %v", status, got)
		}
	}
}

func TestHeadersOfAReply(t *testing.T) {
	always := map[string]string{
		"Content-Type":   "application/json; charset=utf-8",
		"Content-Length": "2",
		"Cache-Control":  "no-store",
		"X-Request-Id":   "req_00",
	}
	reset := time.Unix(1_800_000_060, 0)
	tests := []struct {
		name  string
		reply reply
		more  map[string]string
	}{
		{"an answer before the rate was reached", reply{status: 401}, nil},
		{
			"an answer after it, spelled as in the contract",
			reply{status: 403, rate: access.Rate{Limit: 60, Remaining: 0, ResetAt: reset}},
			map[string]string{"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000060"},
		},
		{"waiting is rounded up", reply{status: 429, retryAfter: 1001 * time.Millisecond}, map[string]string{"Retry-After": "2"}},
		{"a whole second stays one", reply{status: 429, retryAfter: time.Second}, map[string]string{"Retry-After": "1"}},
		{"nobody waits for no time", reply{status: 429}, map[string]string{"Retry-After": "1"}},
		{"waiting is for 429 only", reply{status: 503, retryAfter: time.Second}, nil},
		{"the right method", reply{status: 405, allow: "GET"}, map[string]string{"Allow": "GET"}},
		{"the last answer", reply{status: 413, close: true}, map[string]string{"Connection": "close"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.reply.requestID = "req_00"
			w := httptest.NewRecorder()
			tt.reply.send(w, []byte("{}"))
			got := map[string]string{}
			for name, values := range w.Header() {
				got[name] = strings.Join(values, " and ")
			}
			for name, want := range always {
				if got[name] != want {
					t.Errorf("%s = %q; want %q", name, got[name], want)
				}
				delete(got, name)
			}
			for name, want := range tt.more {
				if got[name] != want {
					t.Errorf("%s = %q; want %q", name, got[name], want)
				}
				delete(got, name)
			}
			if len(got) > 0 {
				t.Errorf("headers nobody asked for: %v", got)
			}
		})
	}
}

func TestAReplyOnTheBareConnectionIsTheSame(t *testing.T) {
	p := reply{requestID: "req_00", status: http.StatusRequestHeaderFieldsTooLarge, code: fault.BadRequest, close: true}
	got := string(p.bytes([]byte("{}")))
	want := "HTTP/1.1 431 Request Header Fields Too Large\r\n" +
		"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 2\r\n" +
		"Content-Type: application/json; charset=utf-8\r\nX-Request-Id: req_00\r\n\r\n{}"
	if got != want {
		t.Errorf("bytes = %q\nwant    %q", got, want)
	}
}
