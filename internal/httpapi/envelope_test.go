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

func TestEnvelope_FieldOrderAndNoHTMLEscapes(t *testing.T) {
	got, err := response{
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

func TestEnvelope_DataIsAnObject(t *testing.T) {
	tests := []struct {
		name string
		data any
		want string // empty: refused
	}{
		{"nil", nil, `{}`},
		{"a nil map", map[string]any(nil), `{}`},
		{"a nil pointer", (*balanceData)(nil), `{}`},
		{"an empty object", struct{}{}, `{}`},
		{"details", map[string]any{"ip": "192.0.2.1"}, `{"ip":"192.0.2.1"}`},
		{"a list is refused", []string{"a"}, ""},
		{"a text is refused", "a", ""},
		{"an unencodable value is refused", map[string]any{"f": func() {}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := response{code: fault.OK, data: tt.data}.encode()
			if (err != nil) != (tt.want == "") {
				t.Fatalf("encode: %v; want refused: %v", err, tt.want == "")
			}
			if err == nil && !strings.HasSuffix(string(got), `"data":`+tt.want+`}`) {
				t.Errorf("envelope = %s; want data %s", got, tt.want)
			}
		})
	}
}

func TestEnvelope_SuccessOnlyWith200(t *testing.T) {
	for status := range promised {
		body, err := response{status: status}.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.HasPrefix(string(body), `{"success":true,`); got != (status == 200) {
			t.Errorf("status %d: success = %v", status, got)
		}
	}
}

func TestResponse_Headers(t *testing.T) {
	always := map[string]string{
		"Content-Type":   "application/json; charset=utf-8",
		"Content-Length": "2",
		"Cache-Control":  "no-store",
		"X-Request-Id":   "req_00",
	}
	reset := time.Unix(1_800_000_060, 0)
	tests := []struct {
		name     string
		response response
		more     map[string]string
	}{
		{"before the rate was checked", response{status: 401}, nil},
		{
			"after it, spelled as in the contract",
			response{status: 403, rate: access.Rate{Limit: 60, Remaining: 0, ResetAt: reset}},
			map[string]string{"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000060"},
		},
		{"Retry-After is rounded up", response{status: 429, retryAfter: 1001 * time.Millisecond}, map[string]string{"Retry-After": "2"}},
		{"a whole second stays one second", response{status: 429, retryAfter: time.Second}, map[string]string{"Retry-After": "1"}},
		{"Retry-After is at least 1", response{status: 429}, map[string]string{"Retry-After": "1"}},
		{"Retry-After is for 429 only", response{status: 503, retryAfter: time.Second}, nil},
		{"Allow", response{status: 405, allow: "GET"}, map[string]string{"Allow": "GET"}},
		{"the last response", response{status: 413, close: true}, map[string]string{"Connection": "close"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.response.requestID = "req_00"
			w := httptest.NewRecorder()
			tt.response.send(w, []byte("{}"))
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
				t.Errorf("unexpected headers: %v", got)
			}
		})
	}
}

func TestResponse_BytesMatchSend(t *testing.T) {
	p := response{requestID: "req_00", status: http.StatusRequestHeaderFieldsTooLarge, code: fault.BadRequest, close: true}
	got := string(p.bytes([]byte("{}")))
	want := "HTTP/1.1 431 Request Header Fields Too Large\r\n" +
		"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 2\r\n" +
		"Content-Type: application/json; charset=utf-8\r\nX-Request-Id: req_00\r\n\r\n{}"
	if got != want {
		t.Errorf("bytes = %q\nwant    %q", got, want)
	}
}
