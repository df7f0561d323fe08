package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coaxhq/coax/internal/fault"
)

func TestPost_BodyAndKey(t *testing.T) {
	b := newBiz(t)
	b.run(t, "the media type is application/json", bizMediaTypes)
	b.run(t, "the body is one JSON object", bizJSONBodies)
	b.run(t, "the key has 8 to 100 allowed characters", bizKeySyntax)
	b.run(t, "the same body is the same JSON value at the same endpoint", bizSameBody)
	b.run(t, "a query is ignored", bizQueryOnAPost)
	b.CheckAudit()
}

// bizRunsFor reports whether to run the n-th row for an endpoint: all rows for the first,
// every fourth for the others, which share the parser.
func bizRunsFor(endpoint string, n int) bool { return endpoint == bizEndpoints[0] || n%4 == 0 }

func bizMediaTypes(t *testing.T, b *bizEnv) {
	rows := []struct {
		values []string
		taken  bool
	}{
		{[]string{"application/json"}, true}, {[]string{"application/json; charset=utf-8"}, true}, {[]string{"application/json;charset=UTF-8"}, true},
		{[]string{`application/json; charset="utf-8"`}, true}, {[]string{"Application/JSON"}, true}, {[]string{"application/json ; Charset=Utf-8"}, true},
		{[]string{"application/json; v=1"}, true}, {[]string{"application/json; charset=utf8"}, true}, {[]string{"application/json; charset=UTF8; v=1"}, true},
		{[]string{"application/json; v=1; charset=latin1"}, false}, {[]string{"application/json; charset*1=latin1"}, false},
		{nil, false}, {[]string{""}, false}, {[]string{"json"}, false}, {[]string{"text/json"}, false}, {[]string{"text/plain"}, false}, {[]string{"*/*"}, false},
		{[]string{"application/jsonx"}, false}, {[]string{"application/problem+json"}, false}, {[]string{"application/x-www-form-urlencoded"}, false},
		{[]string{"multipart/form-data; boundary=x"}, false}, {[]string{"application/json; charset=utf-16"}, false}, {[]string{"application/json; charset=iso-8859-1"}, false},
		{[]string{"application/json; charset="}, false}, {[]string{"application/json, text/plain"}, false}, {[]string{"text/plain; application/json"}, false},
		{[]string{"application/json", "application/json"}, false}, {[]string{"application/json", "text/plain"}, false},
	}
	for _, endpoint := range bizEndpoints {
		for _, row := range rows {
			c := bizCall(b.me, endpoint, b.key(), `{}`)
			c.Header["Content-Type"] = row.values
			want := fault.UnsupportedMediaType
			if row.taken {
				want = fault.ValidationError // {} lacks every field
			}
			b.must(endpoint+" as "+strings.Join(row.values, " and "), b.Send(c), want)
		}
	}
	c := bizCall(b.me, "activate", b.key(), b.good("activate").json())
	c.Header.Set("Content-Type", "application/json; charset=UTF-8")
	b.must("an activation with a charset", b.Send(c), fault.OK)
}

// bizNested returns an object nested this many levels deep, itself included.
func bizNested(levels int, begin, end string) string {
	return `{"x":` + strings.Repeat(begin, levels-1) + `1` + strings.Repeat(end, levels-1) + `}`
}

func bizJSONBodies(t *testing.T, b *bizEnv) {
	refused := []string{
		"", " ", "\n", "null", "true", "1", `"x"`, "[]", "[{}]", "{", "}", "{}x", "{}{}", "{} []", "{},", "{}\x00", "\x00{}", "\ufeff{}", "{}\ufeff", "\f{}", "\u00a0{}", "//x\n{}", "{/**/}", "{}#",
		`{"a":"1","a":"1"}`, `{"plan_id":"A","x":1,"plan_id":"B"}`, `{"a":"1","\u0061":"2"}`, `{"x":{"a":1,"a":2}}`, `{"x":[1,{"a":1,"a":1}]}`, `{"x":{"y":{"z":{"a":[],"a":[]}}}}`, `{"":1,"":1}`,
		"{\"x\":\"\xff\"}", "{\"x\":\"\xc0\xaf\"}", "{\"x\":\"\xed\xa0\x80\"}", "{\"x\":\"\xe0\xa4\"}", "{\"\xff\":1}", "{\"x\":\"\xf5\x80\x80\x80\"}", "{}\xff",
		`{"x":"\ud800"}`, `{"x":"\udc00"}`, `{"x":"\ud800\u0041"}`, `{"x":"\ud800\ud800"}`, `{"x":"\udc00\ud800"}`, `{"x":"\ud83dx"}`, `{"\ud800":1}`, `{"x":["\udfff"]}`,
		"{\"x\":\"a\nb\"}", "{\"x\":\"a\x00b\"}", "{\"x\":\"\t\"}", `{"x":"\x41"}`, `{"x":"\u12"}`, `{"x":"\u+123"}`, `{"x":"\u00g0"}`, `{"x":"\"}`, `{"x":"`, `{'x':1}`, `{x:1}`, `{1:1}`,
		`{"a":1,}`, `{,}`, `{,"a":1}`, `{"a" "b"}`, `{"a"}`, `{"a":}`, `{"a":1 "b":2}`, `{"a":1;"b":2}`, `{"a":[1,]}`, `{"a":[,]}`, `{"a":[1 2]}`, `{"a":[}`, `{"a":[1}`, `{"a":{]}`,
		`{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":-}`, `{"a":0x1}`, `{"a":1_0}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":undefined}`, `{"a":True}`, `{"a":nul}`, `{"a":nulls}`, `{"a":-01}`,
		bizNested(33, "[", "]"), bizNested(33, `{"y":`, "}"), bizNested(2000, "[", "]"), `{"x":` + strings.Repeat("[", 8000) + `}`,
	}
	taken := []string{
		"{}", " \t\r\n{ \t\r\n} \t\r\n", `{"x":"\ud83d\ude00"}`, `{"x":"😀"}`, `{"x":"\u0000\ufffe"}`, `{"":""}`, `{"A":1,"a":1}`, `{"x":{"x":{"x":1}},"y":{"x":1}}`, "{\"\u00e9\":1,\"e\u0301\":1}",
		`{"x":[0,-0,1.5,-1e999,1E+2,123456789012345678901234567890]}`, `{"__proto__":{},"constructor":null}`, `{"x":"\/\b\f\n\r\t\\\""}`,
		bizNested(32, "[", "]"), bizNested(32, `{"y":`, "}"),
	}
	for _, endpoint := range bizEndpoints {
		for i, body := range refused {
			if !bizRunsFor(endpoint, i) {
				continue
			}
			b.must(endpoint+" of "+bizShort(body), b.post(b.me, endpoint, b.key(), body), fault.InvalidJSON)
		}
		for _, body := range taken {
			// Valid, except for the missing fields.
			b.must(endpoint+" of "+bizShort(body), b.post(b.me, endpoint, b.key(), body), fault.ValidationError)
		}
	}
	t.Logf("%d shapes refused, %d taken", len(refused), len(taken))
	// A valid body cut at any byte is refused.
	whole := b.good("activate").json()
	b.checkNoCharge("half a body", func() {
		for i := range len(whole) {
			b.must("a body cut off at "+whole[:i], b.post(b.me, "activate", b.key(), whole[:i]), fault.InvalidJSON)
		}
	})
	deep := strings.Replace(bizNested(32, "[", "]"), "{", whole[:len(whole)-1]+",", 1)
	b.must("an activation with an ignored field 32 deep", b.post(b.me, "activate", b.key(), deep), fault.OK)
	// The limit of 16 KB is exact.
	full := b.good("activate").json()
	full += strings.Repeat(" ", 16_384-len(full))
	b.must("a body of 16,385 bytes", b.post(b.me, "activate", b.key(), full+" "), fault.PayloadTooLarge)
	b.must("a body of 16,384 bytes", b.post(b.me, "activate", b.key(), full), fault.OK)
	escaped := `{"full_\u006eame":"\u0906\u0936\u093e \ud83d\ude00","mobile":"` + b.mobile() + `","plan_id":"BASIC\u002d1"}`
	got := b.must("an activation with escapes", b.post(b.me, "activate", b.key(), escaped), fault.OK)
	b.mustShow("an activation with escapes", got, map[string]string{"customer.name": "आशा 😀", "plan.id": "BASIC-1"})
}

func bizShort(body string) string {
	if len(body) > 60 {
		return body[:60] + "…"
	}
	return body
}

func bizKeySyntax(t *testing.T, b *bizEnv) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"
	hundred := strings.Repeat("k", 100)
	rows := []struct {
		values []string
		want   fault.Code
	}{
		{nil, fault.MissingIdempotencyKey}, {[]string{""}, fault.MissingIdempotencyKey}, {[]string{"   "}, fault.MissingIdempotencyKey},
		{[]string{"1234567"}, fault.InvalidIdempotencyKey}, {[]string{hundred + "k"}, fault.InvalidIdempotencyKey}, {[]string{"k"}, fault.InvalidIdempotencyKey},
		{[]string{strings.Repeat("k", 5000)}, fault.InvalidIdempotencyKey}, {[]string{"ऑर्डर-१२३"}, fault.InvalidIdempotencyKey}, {[]string{"order-é1"}, fault.InvalidIdempotencyKey},
		{[]string{"order-001", "order-001"}, fault.InvalidIdempotencyKey}, {[]string{"order-001", "order-002"}, fault.InvalidIdempotencyKey}, {[]string{"order-001,order-002"}, fault.InvalidIdempotencyKey},
	}
	for c := byte(' '); c < 0x7f; c++ {
		if !strings.ContainsRune(alphabet, rune(c)) {
			rows = append(rows, struct {
				values []string
				want   fault.Code
			}{[]string{"order" + string(rune(c)) + "001"}, fault.InvalidIdempotencyKey})
		}
	}
	for _, endpoint := range bizEndpoints {
		for i, row := range rows {
			if !bizRunsFor(endpoint, i) {
				continue
			}
			c := bizCall(b.me, endpoint, "", `{}`)
			c.Header["Idempotency-Key"] = row.values
			b.must(endpoint+" with key "+bizShort(strings.Join(row.values, " and ")), b.Send(c), row.want)
		}
	}
	keys := []string{"12345678", "--------", "........", hundred, alphabet, " padded-1 "}
	for _, endpoint := range bizEndpoints {
		for i, key := range keys {
			if !bizRunsFor(endpoint, i) {
				continue
			}
			// A key belongs to one endpoint.
			key = strings.Replace(key, key[:1], key[:1]+map[string]string{"activate": "", "renew": "R", "advance-renew": "A"}[endpoint], 1)
			if len(key) > 100 {
				key = key[1:]
			}
			got := b.must(endpoint+" with key "+key, b.post(b.me, endpoint, key, b.good(endpoint).json()), fault.OK)
			b.mustShow(endpoint+" with key "+key, got, map[string]string{"idempotency_key": strings.TrimSpace(key)})
			b.must("look up key "+key, b.get(b.me, "transaction?idempotency_key="+url.QueryEscape(strings.TrimSpace(key))), fault.OK)
		}
	}
}

// Two bodies are the same if they are the same JSON value, ignored fields included.
func bizSameBody(t *testing.T, b *bizEnv) {
	customer := b.customer(b.me, "BASIC-1")
	key := b.key()
	first := `{"subscriber_id":"` + customer.id + `","plan_id":"FAMILY-1","note":{"a":[1,"é"],"b":null}}`
	original := b.must("the first", b.post(b.me, "renew", key, first), fault.OK)
	same := map[string]string{
		"byte for byte":    first,
		"with white space": "\r\n { \"subscriber_id\" : \"" + customer.id + "\" , \"plan_id\":\t\"FAMILY-1\", \"note\" : { \"a\" : [ 1 , \"é\" ] , \"b\" : null } } \n",
		"in another order": `{"note":{"b":null,"a":[1,"é"]},"plan_id":"FAMILY-1","subscriber_id":"` + customer.id + `"}`,
		"with escapes":     `{"subscriber\u005fid":"` + customer.id + `","plan_id":"FAMILY\u002D1","note":{"a":[1,"\u00e9"],"\u0062":null}}`,
	}
	other := map[string]string{
		"another plan":             strings.Replace(first, "FAMILY-1", "BASIC-1", 1),
		"a field more":             strings.Replace(first, "{", `{"price":"1.00",`, 1),
		"a field less":             `{"subscriber_id":"` + customer.id + `","plan_id":"FAMILY-1"}`,
		"an empty field more":      strings.Replace(first, "{", `{"mobile":"",`, 1),
		"an ignored value changed": strings.Replace(first, "null", "false", 1),
		"a list in another order":  strings.Replace(first, `[1,"é"]`, `["é",1]`, 1),
		"a text for a number":      strings.Replace(first, `[1,`, `["1",`, 1),
		"blanks in a value":        strings.Replace(first, `"FAMILY-1"`, `" FAMILY-1"`, 1),
		"é in two characters":      strings.Replace(first, "é", "e\u0301", 1),
		"the mobile for the id":    strings.Replace(first, `"subscriber_id":"`+customer.id+`"`, `"mobile":"`+customer.mobile+`"`, 1),
		"nothing":                  "{}",
	}
	b.checkNoCharge("replays and reuses", func() {
		for what, body := range same {
			got := b.must(what, b.post(b.me, "renew", key, body), fault.OK)
			if got.Header.Get("Idempotent-Replayed") != "true" || got.Text("transaction_id") != original.Text("transaction_id") || got.ID == original.ID {
				t.Errorf("%s is not the original replayed: %v %s", what, got.Header, got.Raw)
			}
		}
		for what, body := range other {
			got := b.must(what, b.post(b.me, "renew", key, body), fault.IdempotencyKeyReused)
			if _, replayed := got.Header["Idempotent-Replayed"]; replayed {
				t.Errorf("%s is called a replay", what)
			}
		}
		for _, endpoint := range []string{"activate", "advance-renew"} {
			b.must("the same body to "+endpoint, b.post(b.me, endpoint, key, first), fault.IdempotencyKeyReused)
		}
	})
	// An idempotency key belongs to the operator: unused for another operator, shared by
	// all API keys of the same one.
	stranger := b.NewFundedOperator("stranger", "1000")
	b.must("another operator's request", b.post(stranger, "activate", key, b.good("activate").json()), fault.OK)
	second := b.NewKey(b.me.OperatorID, 0x7f)
	if got := b.post(second, "renew", key, first); got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("with the operator's other API key: %s", got.Raw)
	}
}

func bizQueryOnAPost(t *testing.T, b *bizEnv) {
	c := bizCall(b.me, "activate", b.key(), `{}`)
	c.Path += "?full_name=Asha&mobile=" + b.mobile() + "&plan_id=BASIC-1"
	// The signature of a POST does not cover its query.
	bare := bizCall(b.me, "activate", "", `{}`)
	signed := b.Request(bare).Header
	c.Timestamp, c.Nonce, c.Signature = signed.Get("X-Timestamp"), signed.Get("X-Nonce"), signed.Get("X-Signature")
	b.mustName("fields in the query", b.Send(c), "full_name", "mobile", "plan_id")
	form := bizCall(b.me, "activate", b.key(), "full_name=Asha&mobile="+b.mobile()+"&plan_id=BASIC-1")
	form.Header = http.Header{"Idempotency-Key": form.Header["Idempotency-Key"], "Content-Type": {"application/x-www-form-urlencoded"}}
	b.must("fields as a form", b.Send(form), fault.UnsupportedMediaType)
}
