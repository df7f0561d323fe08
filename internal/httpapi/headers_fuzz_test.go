package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coaxhq/coax/internal/fault"
	"github.com/coaxhq/coax/internal/operation"
	"github.com/coaxhq/coax/internal/telemetry"
)

// keyBook is an Operations that records the idempotency key of a request.
type keyBook struct {
	Operations
	keys []string
}

func (b *keyBook) Process(_ context.Context, request operation.Request) (operation.Result, error) {
	b.keys = append(b.keys, request.IdempotencyKey)
	return operation.Result{}, fault.New(fault.InvalidPlan, "There is no such plan.")
}

// FuzzHeaders sends the raw header of a POST. The authorizer must get the four
// authentication headers exactly as sent; the media type and the idempotency key are
// compared with the contract's rules.
func FuzzHeaders(f *testing.F) {
	const four = "X-API-Key: cxk_0123456789abcdef0123456789abcdef\nX-Timestamp: 1800000000\nX-Nonce: 0123456789abcdef\nX-Signature: 00ff\n"
	for _, rest := range []string{
		"Content-Type: application/json\nIdempotency-Key: order-0001", "content-type:application/json;charset=UTF-8\nIDEMPOTENCY-KEY:\torder:0001. ",
		"Content-Type: text/plain\nIdempotency-Key: order-0001", "Content-Type: application/json\nContent-Type: application/json", "Content-Type: application/json",
		`Content-Type: application/json; charset="utf-8"` + "\nIdempotency-Key: a\nIdempotency-Key: b", "Content-Type: application/json\nIdempotency-Key: 1234567",
		"X-API-Key: another\nX_Nonce: x\nX-Nonce : y\nX-Signature:", "Content-Type: application/json\nIdempotency-Key: ключ-ключ-ключ", "Content-Type: application/json\nIdempotency-Key:",
		"Content-Type: application/json; charset=latin1\nIdempotency-Key: order-0001", "Content-Type: application/json; charset*=utf-8''utf-8\nIdempotency-Key: order-0001",
		"Content-Type: application/json; v=1; charset=utf8\nIdempotency-Key: order-0001", "Content-Type: application/json; v=1; charset=latin1\nIdempotency-Key: order-0001",
		"Content-Type: application/json\nIdempotency-Key: " + strings.Repeat("k", 101), "Content-Type: application/json\nIdempotency-Key: " + strings.Repeat("k", 100),
	} {
		f.Add(four + rest)
	}
	f.Add(four + four + "Content-Type: application/json\nIdempotency-Key: order-0001")
	f.Add(four + strings.ToLower(four) + strings.ReplaceAll(four, "-", "_") + strings.ReplaceAll(four, ":", " :"))
	authorizer, book := &fakeAuthorizer{}, &keyBook{}
	api := New(Config{
		Now: func() time.Time { return noon }, Authorizer: authorizer, Operations: book,
		Log: telemetry.NewLogger(io.Discard, slog.LevelInfo, "json"), Metrics: telemetry.NewMetrics(),
	})
	secure := context.WithValue(context.Background(), connKey{}, &conn{secure: true})

	f.Fuzz(func(t *testing.T, head string) {
		lines := strings.Split(head, "\n")
		if slices.ContainsFunc(lines, func(line string) bool {
			return line == "" || strings.ContainsAny(line[:1], " \t") || strings.Contains(line, "\r")
		}) {
			return // folded, or not a header: Server handles that
		}
		text := "POST /api/v1/renew HTTP/1.1\r\nHost: coax\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return // net/http refuses it by itself
		}
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
		authorizer.requests()
		book.keys = nil
		recorder := httptest.NewRecorder()
		api.ServeHTTP(recorder, request.WithContext(secure))

		asked := authorizer.requests()
		if len(asked) != 1 {
			t.Fatalf("%q: the authorizer was called %d times", head, len(asked))
		}
		for name, got := range map[string][]string{
			"x-api-key": asked[0].Key, "x-timestamp": asked[0].Timestamp, "x-nonce": asked[0].Nonce, "x-signature": asked[0].Signature,
		} {
			if want := valuesOf(lines, name); !slices.Equal(got, want) {
				t.Errorf("%q: the authorizer was called with %s %q; want %q", head, name, got, want)
			}
		}
		code := envelopeCode(t, recorder)
		media, keys := valuesOf(lines, "content-type"), valuesOf(lines, "idempotency-key")
		switch {
		case code == fault.UnsupportedMediaType:
			if len(media) == 1 && surelyJSON.MatchString(media[0]) {
				t.Errorf("%q: Content-Type %q was refused", head, media)
			}
		case len(media) != 1 || !perhapsJSON.MatchString(media[0]) || namesOtherCharset(media[0]):
			t.Errorf("%q: Content-Type %q was taken", head, media)
		default:
			want, taken := fault.InvalidIdempotencyKey, []string(nil)
			if len(keys) == 0 || len(keys) == 1 && keys[0] == "" {
				want = fault.MissingIdempotencyKey
			} else if len(keys) == 1 && keyForm.MatchString(keys[0]) {
				want, taken = fault.InvalidPlan, keys
			}
			if code != want || !slices.Equal(book.keys, taken) {
				t.Errorf("%q: Idempotency-Key %q was answered %s and used as %q; want %s and %q", head, keys, code, book.keys, want, taken)
			}
		}
	})
}

// Go's (?i) folds all of Unicode (K also matches the Kelvin sign), so capitals are
// spelled out.
var (
	surelyJSON  = regexp.MustCompile(`^[Aa][Pp][Pp][Ll][Ii][Cc][Aa][Tt][Ii][Oo][Nn]/[Jj][Ss][Oo][Nn]([ \t]*;[ \t]*v=[0-9a-z]+)?([ \t]*;[ \t]*[Cc][Hh][Aa][Rr][Ss][Ee][Tt]=("[Uu][Tt][Ff]-?8"|[Uu][Tt][Ff]-?8))?$`)
	perhapsJSON = regexp.MustCompile(`^[Aa][Pp][Pp][Ll][Ii][Cc][Aa][Tt][Ii][Oo][Nn]/[Jj][Ss][Oo][Nn][ \t]*(;.*)?$`)
	parameter   = regexp.MustCompile(`;[ \t]*([^=; \t]+)[ \t]*=[ \t]*("(?:\\.|[^"\\])*"|[^; \t]*)`)
	utf8Name    = regexp.MustCompile(`^("[Uu][Tt][Ff]-?8"|[Uu][Tt][Ff]-?8)$`)
	keyForm     = regexp.MustCompile(`^[A-Za-z0-9_.:-]{8,100}$`)
)

// namesOtherCharset reports whether a charset parameter, whole or in RFC 2231 pieces, is
// not UTF-8.
func namesOtherCharset(media string) bool {
	return slices.ContainsFunc(parameter.FindAllStringSubmatch(media, -1), func(found []string) bool {
		name, value := strings.ToLower(found[1]), found[2]
		return strings.HasPrefix(name, "charset*") || name == "charset" && !utf8Name.MatchString(value)
	})
}

// valuesOf returns the values of a header, named in lower case.
func valuesOf(lines []string, name string) (values []string) {
	for _, line := range lines {
		before, after, _ := strings.Cut(line, ":")
		lower := strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}, before)
		if lower == name {
			values = append(values, strings.Trim(after, " \t"))
		}
	}
	return values
}

// envelopeCode returns the code of a response, which must be an envelope.
func envelopeCode(t *testing.T, recorder *httptest.ResponseRecorder) fault.Code {
	t.Helper()
	var envelope struct {
		Success   *bool          `json:"success"`
		RequestID string         `json:"request_id"`
		Code      fault.Code     `json:"code"`
		Data      map[string]any `json:"data"`
	}
	err := json.Unmarshal(recorder.Body.Bytes(), &envelope)
	if err != nil || envelope.Success == nil || *envelope.Success || envelope.Data == nil ||
		envelope.RequestID == "" || envelope.RequestID != recorder.Header().Get("X-Request-Id") || recorder.Code != StatusOf(envelope.Code) {
		t.Fatalf("answered %d %s, %v; want the envelope", recorder.Code, recorder.Body, err)
	}
	return envelope.Code
}
