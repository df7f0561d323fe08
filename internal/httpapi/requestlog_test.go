package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/access"
	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/requestlog"
	"github.com/coaxhq/coax/internal/store/sqlitetest"
	"github.com/coaxhq/coax/signing"
)

// callsOf waits until operator 7 has this many requests in the log: a request is recorded
// after its response was sent.
func callsOf(t *testing.T, log *requestlog.Log, many int) []requestlog.Entry {
	t.Helper()
	var found []requestlog.Entry
	if !eventually(func() bool {
		page, err := log.Search(t.Context(), 7, requestlog.Query{})
		if err != nil {
			t.Fatal(err)
		}
		found = page.Entries
		return len(found) >= many
	}) {
		t.Fatalf("%d calls did not come; there are %+v", many, found)
	}
	return found
}

func keepingRequests(t *testing.T, keep time.Duration) (*requestlog.Log, option) {
	t.Helper()
	db := sqlitetest.New(t)
	log := requestlog.New(db, requestlog.Config{Keep: keep})
	return log, func(api *Config, _ *ServerConfig) { api.Requests = log }
}

func TestRequestLog_RecordsOperatorsRequests(t *testing.T) {
	log, withLog := keepingRequests(t, time.Hour)
	h := newTestEnv(t, withLog)
	h.authorizer.caller.CredentialID = 3
	w := h.dialTLS()
	w.send("GET /api/v1/balance?mobile=9876543210 HTTP/1.1\r\nHost: coax\r\nIdempotency-Key: order-77\r\n\r\n")
	w.expect(200, fault.OK)
	body := `{"password":"hunter2"}`
	w.send("POST /api/v1/activate HTTP/1.1\r\nHost: coax\r\nIdempotency-Key: cxs_0123456789abcdef\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	w.expect(415, fault.UnsupportedMediaType)
	w.send("GET /api/v1/nothing HTTP/1.1\r\nHost: coax\r\n\r\n") // not recorded: no key was read
	w.expect(404, fault.NotFound)

	lines := h.waitForLines(3)
	calls := callsOf(t, log, 2)
	if len(calls) != 2 {
		t.Fatalf("%d calls; want 2", len(calls))
	}
	for i, want := range []string{
		"POST /api/v1/activate 415 UNSUPPORTED_MEDIA_TYPE cxs_[redacted]",
		"GET /api/v1/balance 200 OK order-77",
	} {
		c := calls[i]
		got := strings.Join([]string{c.Method, c.Path, map[int]string{200: "200", 415: "415"}[c.Status], string(c.Code), c.IdempotencyKey}, " ")
		if got != want {
			t.Errorf("call %d = %s; want %s", i, got, want)
		}
		if c.CredentialID != 3 || c.KeyHint != "cxk_1a2b3c4d" || c.Address.String() != "127.0.0.1" || !c.At.Equal(noon) || c.Signature != nil {
			t.Errorf("call %d = %+v", i, c)
		}
		if line := lines[1-i]; c.RequestID != line["request_id"] || c.Took <= 0 {
			t.Errorf("call %d has request id %s and took %s; the log line says %v", i, c.RequestID, c.Took, line)
		}
	}
}

func TestRequestLog_SignatureDetailsOfRefusal(t *testing.T) {
	body := []byte(`{"mobile":"9876543210","password":"hunter2"}`)
	const signature = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tt := range []struct {
		code   fault.Code
		logged bool
	}{
		{fault.InvalidSignature, true}, {fault.TimestampExpired, true}, {fault.InvalidNonce, true}, {fault.ReplayDetected, true},
		{fault.RateLimited, false}, {fault.CredentialRevoked, false},
	} {
		t.Run(string(tt.code), func(t *testing.T) {
			log, withLog := keepingRequests(t, time.Hour)
			h := newTestEnv(t, withLog)
			refusal := fault.New(tt.code, "No.")
			if tt.code == fault.TimestampExpired {
				refusal = refusal.With("server_time", noon.Unix())
			}
			h.authorizer.refusal = refusal
			if tt.code != fault.RateLimited { // refused after authentication
				h.authorizer.caller.Rate = access.Rate{}
			}
			w := h.dialTLS()
			w.send("POST /api/v1/activate?x=1 HTTP/1.1\r\nHost: coax\r\nX-API-Key: k\r\nX-Timestamp: 1800000000\r\nX-Nonce: nonce-of-the-caller\r\n"+
				"X-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", signature, len(body), body)
			w.expect(StatusOf(tt.code), tt.code)
			call := callsOf(t, log, 1)[0]
			if !tt.logged {
				if call.Signature != nil {
					t.Errorf("evidence = %+v; want none", call.Signature)
				}
				return
			}
			want := signing.Request{Method: "POST", Path: "/api/v1/activate", Timestamp: "1800000000", Nonce: "nonce-of-the-caller", Body: body}.StringToSign()
			if call.Signature == nil || call.Signature.StringToSign != want {
				t.Fatalf("evidence = %+v; want %q", call.Signature, want)
			}
			if call.Signature.SignatureStart != signature[:8] || call.Signature.SignatureForm != requestlog.SixtyFourHex {
				t.Errorf("of the signature %+v is kept; want its first 8 characters", call.Signature)
			}
		})
	}
}

func TestRequestLog_OffRecordsNothing(t *testing.T) {
	log, withLog := keepingRequests(t, 0)
	h := newTestEnv(t, withLog)
	w := h.dialTLS()
	w.send(balanceRequest)
	w.expect(200, fault.OK)
	h.waitForLines(1)
	page, err := log.Search(t.Context(), 7, requestlog.Query{})
	if err != nil || len(page.Entries) != 0 {
		t.Errorf("found %+v, %v; want nothing", page.Entries, err)
	}
}
